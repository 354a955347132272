"""Where a plan is played: relays, links, and subscribers of tracks.

A stage comes from a file with the relays and links of a topology
(:mod:`laps_relay.sim.scenarios.topology`) and with the demand::

    [[demand]]
    track = "00000000000000ff"   # the hash of its name, as plans have it; or none:
    class = "gold"               # any track of this class
    origin = "nyc1"              # the relay of the publisher
    at = ["lon1", "par1"]        # the relays of the subscribers

    [[link]]
    a = "nyc1"
    b = "lon1"
    delay_ms = 38.5
    countries = ["IE"]           # which the IP path passes, besides those of its ends

Without a file the stage is made from the plan alone. Each region that an entry names gets one relay
more than copies are allowed, with a link to the Via, to the fallback, and to the origin.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from laps_relay.sim.net.clock import Rng
from laps_relay.sim.plans.rules import class_field
from laps_relay.sim.scenarios.topology import (
    LinkSpec,
    RelaySpec,
    Topology,
    TopologyError,
    read_document,
    topology_of,
)
from laps_wire.hashing import KeyedHasher
from laps_wire.names import FullTrackName, Namespace
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import RelayType
from laps_wire.plan import Plan, PlanEntry

__all__ = ["Demand", "PlanHasher", "Stage", "entry_for", "made_up", "read_stage", "sampled"]

_NEAR: Final = 0.004
_FAR: Final = 0.040
"""Seconds one way, within a region and between regions, where nothing was measured."""
_STRANGERS: Final = 0xFF_FFFE_0000_0000
"""Node IDs of relays that are made up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The relays that subscribe to one track, or to one track of a class."""

    origin: str
    scope: str
    track: int | None
    at: tuple[str, ...]

    @property
    def name(self) -> FullTrackName:
        """The name of the track here: its class, and its hash if the plan has the hash."""
        last = b"any" if self.track is None else f"{self.track:016x}".encode()
        return FullTrackName(Namespace.of(class_field(self.scope), self.origin.encode()), last)

    def key(self, hasher: KeyedHasher) -> int:
        """Return the key of the track at relays."""
        return hasher.full_name(self.name.namespace.fields, self.name.name)


class PlanHasher(KeyedHasher):
    """Maps tracks of a stage to their hashes in the plan."""

    def full_name(self, fields: Iterable[bytes], name: bytes) -> int:
        """The number that the name is, if it is one."""
        if len(name) == 16:
            return int(name, 16)
        return KeyedHasher.full_name(self, fields, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Relays, links, demand."""

    topology: Topology
    demands: tuple[Demand, ...]
    passed: Mapping[frozenset[str], frozenset[str]] = field(default_factory=dict)
    """By the names of both ends of a link: countries that its IP path passes."""
    is_real: bool = True
    """Whether places of relays are known; otherwise rules about places do not apply."""


def entry_for(plan: Plan, origin: NodeId, region: str, demand: Demand) -> PlanEntry | None:
    """Return the entry of a plan for a track: its own, or that of its class."""
    found = None
    for entry in plan.entries:
        if entry.origin == origin and entry.region == region:
            if entry.tracks is None:
                found = entry if entry.scope == demand.scope and found is None else found
            elif demand.track in entry.tracks:
                return entry
    return found


def sampled(stage: Stage, groups: int, seed: int) -> Stage:
    """The same with at most so many demands, drawn from a seed."""
    if len(stage.demands) <= groups:
        return stage
    chosen = Rng(seed).of("demands").sample(range(len(stage.demands)), groups)
    return Stage(
        topology=stage.topology,
        demands=tuple(stage.demands[number] for number in sorted(chosen)),
        passed=stage.passed,
        is_real=stage.is_real,
    )


# From a file


def read_stage(file: Path) -> Stage:
    """Read a stage from a TOML or JSON file; raises :class:`TopologyError`."""
    data = read_document(file)
    topology = topology_of(file, data)
    names = {relay.name for relay in topology.relays}
    demands = tuple(_demand(file, row, names) for row in data.get("demand", []))
    if not demands:
        raise TopologyError(f"{file}: no [[demand]]: who publishes what, and who wants it?")
    passed = {
        frozenset((str(row["a"]), str(row["b"]))): frozenset(map(str, row["countries"]))
        for row in data.get("link", [])
        if "countries" in row
    }
    return Stage(topology=topology, demands=demands, passed=passed)


def _demand(file: Path, row: Mapping[str, Any], names: set[str]) -> Demand:
    strange = sorted(set(row) - {"track", "class", "origin", "at"})
    if strange:
        raise TopologyError(f"{file}: demand: unknown key {strange[0]!r}")
    origin, at = row.get("origin"), row.get("at")
    if not isinstance(at, list) or not at or not {origin, *at} <= names:
        raise TopologyError(
            f"{file}: demand: origin and at are names of relays: {origin!r}, {at!r}"
        )
    track = row.get("track")
    try:
        key = None if track is None else int(track, 16)
    except (TypeError, ValueError):
        raise TopologyError(f"{file}: demand: {track!r} is not 16 hexadecimal digits") from None
    return Demand(
        origin=str(origin),
        scope=str(row.get("class", "")),
        track=key,
        at=tuple(str(name) for name in at if name != origin),
    )


# From the plan alone


def made_up(plan: Plan, groups: int, seed: int) -> Stage:
    """A stage for some of a plan's entries, drawn from a seed."""
    chosen = plan.entries
    if len(chosen) > groups:
        numbers = Rng(seed).of("entries").sample(range(len(chosen)), groups)
        chosen = tuple(chosen[number] for number in sorted(numbers))
    if not chosen:
        raise TopologyError("the plan has no entries: there is nothing to play")
    origins = {entry.origin: None for entry in chosen}
    # A relay refuses a plan with a Via that it does not know, also for what is not played.
    vias: dict[NodeId, None] = {}
    for entry in plan.entries:
        if entry.origin in origins:
            vias |= {via: None for via in (entry.via, entry.fallback) if via is not None}
    relays = {
        node: RelaySpec(
            name=str(node),
            node_id=node,
            relay_type=RelayType.EDGE if node in origins else RelayType.VIA,
        )
        for node in (*origins, *vias)
    }
    ends: dict[str, list[RelaySpec]] = {}
    for entry in chosen:
        ends.setdefault(entry.region, [])
    for number, region in enumerate(ends):
        ends[region] = [
            RelaySpec(
                name=f"{region} {which + 1}",
                node_id=NodeId(_STRANGERS + number * 0x1_0000 + which),
                region=region,
            )
            for which in range(plan.constraints.max_fanout + 1)
        ]
    links: dict[frozenset[str], LinkSpec] = {}

    def join(a: RelaySpec, b: RelaySpec, delay: float) -> None:
        if a is not b:
            links.setdefault(frozenset((a.name, b.name)), LinkSpec(a=a.name, b=b.name, delay=delay))

    for entry in plan.entries:
        if entry.origin not in origins:
            continue
        for via in (entry.via, entry.fallback):
            if via is not None:
                join(relays[entry.origin], relays[via], _FAR)
                for end in ends.get(entry.region, ()):
                    join(relays[via], end, _NEAR)
    for entry in chosen:
        for end in ends[entry.region]:
            join(relays[entry.origin], end, _FAR)
    return Stage(
        topology=Topology(
            name=plan.id,
            relays=(*relays.values(), *(end for group in ends.values() for end in group)),
            links=tuple(links.values()),
        ),
        demands=tuple(_wanted(chosen, ends)),
        is_real=False,
    )


def _wanted(entries: Iterable[PlanEntry], ends: Mapping[str, list[RelaySpec]]) -> Iterable[Demand]:
    """One track of each entry; entries for one track are one demand."""
    found: dict[tuple[NodeId, str, int | None], list[str]] = {}
    for entry in entries:
        track = None if entry.tracks is None else entry.tracks[0]
        places = found.setdefault((entry.origin, entry.scope, track), [])
        places += [end.name for end in ends[entry.region]]
    for (origin, scope, track), places in found.items():
        yield Demand(origin=str(origin), scope=scope, track=track, at=tuple(places))
