"""``laps-relay policy``: check a policy file, or explain what it allows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from heapq import heappop, heappush
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import unquote_to_bytes

import typer

from laps_relay.cli.common import ConfigFile, load_or_exit, one_line_errors
from laps_relay.config import ConfigError
from laps_relay.config.policy import load_policy, namespace_of
from laps_relay.policy.facts import COUNTRY, NodePattern, stranger
from laps_relay.policy.rule_policy import Explained, RulePolicy, explain
from laps_relay.policy.rules import Link
from laps_relay.sim.scenarios.topology import read_document, topology_of
from laps_wire.errors import LapsError
from laps_wire.hashing import KeyedHasher
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import Label, NodeSelf

__all__ = ["app"]

_REFUSED: Final = 1
_KEY: Final = bytes(16)
"""A key to hash names with: they are compared within this program only."""

app = typer.Typer(no_args_is_help=True)

PolicyFile = Annotated[
    Path | None,
    typer.Argument(help="Policy file (TOML); default: network.policy of --config.", metavar="FILE"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def check(file: PolicyFile = None, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Check a policy file; print every mistake with its line and a correction."""
    file = _policy_file(file, config)
    with one_line_errors():
        try:
            rules = load_policy(file)
        except ConfigError as error:
            if as_json:
                problems = [asdict(problem) for problem in error.problems]
                typer.echo(json.dumps({"file": str(file), "good": False, "problems": problems}))
            raise
    counts = {
        "regions": len(rules.regions),
        "nodes": len(rules.notes),
        "links": len(rules.links),
        "classes": len(rules.classes),
        "tracks": len(rules.tracks),
        "filter rules": sum(len(wanted.rules) for _, wanted in rules.filters()),
    }
    if as_json:
        typer.echo(json.dumps({"file": str(file), "good": True} | counts))
        return
    parts = ", ".join(f"{name} {count}" for name, count in counts.items())
    typer.echo(f"{file} is good: {parts}")


@app.command("explain")
def explain_(
    *,
    file: PolicyFile = None,
    config: ConfigFile = None,
    source: Annotated[
        str,
        typer.Option("--from", help="Relay of the publisher: node id, or name in the topology."),
    ],
    target: Annotated[str, typer.Option("--to", help="Relay of the subscriber.")],
    track: Annotated[
        str, typer.Option(help="Track such as acme/news--lines, or its namespace alone.")
    ] = "",
    via: Annotated[
        list[str] | None,
        typer.Option(help="Relay on the path. May be repeated, in the order of the path."),
    ] = None,
    topology: Annotated[
        Path | None,
        typer.Option(
            help="Topology file (TOML): names, regions, and the path if no --via is given."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Explain which rules let data, subscribes and announces of a track pass, and why.

    Every relay on the path is assumed to have this policy. The exit code is 1 if something is
    denied.
    """
    with one_line_errors():
        rules = load_policy(_policy_file(file, config))
        known = _Network(topology)
        rules = replace(rules, links=(*rules.links, *known.passed))
        ends = [known.node(source), known.node(target)]
        policy = RulePolicy(rules, KeyedHasher(_KEY), local=ends[0].node_id)
        name = _track(track) if track else None
        scope = "" if name is None else policy.scope(name)
        if topology is not None and not via:
            relays = known.path(policy, scope, ends[0], ends[1])
        else:
            relays = [ends[0], *(known.node(each) for each in via or ()), ends[1]]
    found = explain(policy, relays, name)
    allowed = all(item.finding.allowed for item in found)
    facts = _facts(policy, relays, name, scope)
    if as_json:
        rows = [{"check": item.check, **item.finding._asdict()} for item in found]
        typer.echo(json.dumps({"allowed": allowed, **facts, "findings": rows}, indent=1))
    else:
        _show(facts, found, allowed=allowed)
    if not allowed:
        raise typer.Exit(_REFUSED)


def _policy_file(file: Path | None, config: Path | None) -> Path:
    """Return the named file, or that of the relay's configuration. Exits if there is none."""
    if file is None:
        file = load_or_exit(config).config.network.policy
    with one_line_errors():
        if file is None:
            raise LapsError(
                "no policy file: name one, or give --config of a relay that has network.policy"
            )
    return file


def _track(text: str) -> FullTrackName:
    """Parse a track: fields separated by slashes, two hyphens, the name; escaped as in the file."""
    namespace, _, name = text.partition("--")
    return FullTrackName(namespace_of(namespace), unquote_to_bytes(name))


def _facts(
    policy: RulePolicy, relays: Sequence[NodeSelf], track: FullTrackName | None, scope: str
) -> dict[str, Any]:
    limits = policy.limits(scope)
    return {
        "path": [
            {
                "node": str(node.node_id),
                "region": policy.facts(node).region,
                "country": policy.facts(node).country,
            }
            for node in relays
        ],
        "track": None if track is None else str(track),
        "class": scope,
        "limits": {name: value for name, value in limits._asdict().items() if value is not None},
    }


def _show(facts: Mapping[str, Any], found: Sequence[Explained], *, allowed: bool) -> None:
    for number, relay in enumerate(facts["path"]):
        label = "path" if number == 0 else ""
        place = ", ".join(f"{name} {relay[name]}" for name in ("region", "country") if relay[name])
        typer.echo(f"{label:10} {relay['node']:16} {place}".rstrip())
    if facts["track"] is not None:
        limits = "".join(f", {name} {value}" for name, value in facts["limits"].items())
        typer.echo(f"{'track':10} {facts['track']}")
        typer.echo(f"{'class':10} {facts['class'] or 'none'}{limits}")
    for item in found:
        says = "allows" if item.finding.allowed else "DENIES"
        typer.echo(f"{says:10} {item.finding.rule}: {item.finding.subject}: {item.finding.reason}")
    if not found:
        typer.echo(f"{'':10} no rule has anything to say")
    typer.echo(f"{'verdict':10} {'allowed' if allowed else 'denied'}")


def _is_country(value: object) -> bool:
    return isinstance(value, str) and len(value) == 2 and value.isascii() and value.isalpha()


class _Network:
    """Relays and links of a topology file; empty without one."""

    def __init__(self, file: Path | None) -> None:
        self._nodes: dict[NodeId, NodeSelf] = {}
        self._names: dict[str, NodeId] = {}
        self._links: dict[NodeId, dict[NodeId, float]] = {}
        self.passed: list[Link] = []
        """Links of the topology with the countries that they cross."""
        if file is None:
            return
        document = read_document(file)
        topology = topology_of(file, document)
        for relay in topology.relays:
            self._names[relay.name] = relay.node_id
            labels = (Label(COUNTRY, relay.country.upper()),) if relay.country else ()
            node = stranger(relay.node_id, region=relay.region, labels=labels)
            self._nodes[relay.node_id] = node
        self.passed = [
            self._passed(file, row) for row in document.get("link", ()) if "countries" in row
        ]
        for link in topology.links:
            a, b = self._names[link.a], self._names[link.b]
            self._links.setdefault(a, {})[b] = link.delay
            self._links.setdefault(b, {})[a] = link.delay

    def _passed(self, file: Path, row: Mapping[str, Any]) -> Link:
        ends = [NodePattern.parse(str(self._names[row[end]])) for end in ("a", "b")]
        name = f"{row['a']} - {row['b']} of {file.name}"
        countries = row["countries"]
        if not isinstance(countries, list) or not all(map(_is_country, countries)):
            raise LapsError(f"{file}: {name}: countries is a list of two letters each")
        return Link(
            name=name,
            between=(ends[0], ends[1]),
            countries=tuple(country.upper() for country in countries),
        )

    def node(self, text: str) -> NodeSelf:
        """Return a relay by its node id or name."""
        node_id = self._names.get(text)
        if node_id is None:
            node_id = NodeId.parse(text)
        return self._nodes.get(node_id) or stranger(node_id)

    def path(
        self, policy: RulePolicy, scope: str, source: NodeSelf, target: NodeSelf
    ) -> list[NodeSelf]:
        """Return the best path that policy allows; the best of all if it allows none."""
        found = self._search(policy, scope, source, target) or self._search(
            None, scope, source, target
        )
        if found is None:
            raise LapsError(
                f"no path from {source.node_id} to {target.node_id} in the topology; give --via"
            )
        return found

    def _search(
        self, policy: RulePolicy | None, scope: str, source: NodeSelf, target: NodeSelf
    ) -> list[NodeSelf] | None:
        """Return the best path by hops, delay and node ids, which is the order of relays."""
        heap: list[tuple[int, float, tuple[NodeId, ...]]] = [(0, 0.0, (source.node_id,))]
        done: set[NodeId] = set()
        while heap:
            hops, delay, path = heappop(heap)
            if path[-1] in done:
                continue
            done.add(path[-1])
            relays = [self.node(str(node)) for node in path]
            if path[-1] == target.node_id:
                return relays
            for other, cost in self._links.get(path[-1], {}).items():
                longer = [*relays, self.node(str(other))]
                # Rules are about single relays and links: what is denied here is denied further on.
                if policy is None or policy.path(scope, longer) is None:
                    heappush(heap, (hops + 1, delay + cost, (*path, other)))
        return None
