"""The policies of simulated networks, and which of them a run sees.

A :class:`SimPolicy` is small, the same at every relay, and easy to check from outside. A track's
class of service is the first field of its namespace if the policy knows that word. For each class
(and for everything, ``""``) some relays are no transit, and subscribers in some regions get
nothing. Data of a class does not go over links that pass a country which is denied to it, and
filters keep announces and subscribes of a class from going on.

The policy of a run denies transit through relays or through a region, to everything or to one
class, or leaves the subscribers of a region out of a class; it denies countries that links pass to
a class, and has filters of announces and subscribes. It may be loaded at any time, also between
faults.

In every second seed with a policy relays ask ``RulePolicy`` (:mod:`laps_relay.policy`), built from
rules as an operator's file is, while invariants ask ``SimPolicy``: two readings of one text that
share no code.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final, NamedTuple

from laps_relay.policy.facts import NodePattern, country_label
from laps_relay.policy.interface import ClassLimits, NodeInfoLookup
from laps_relay.policy.rule_policy import RulePolicy
from laps_relay.policy.rules import Fence, Filter, FilterRule, Link, Rules, ServiceClass, TrackRule
from laps_relay.sim.clients.clients import HASHER
from laps_relay.sim.net.clock import Rng
from laps_relay.sim.scenarios.model import Action, Scenario
from laps_relay.sim.scenarios.topology import RelaySpec
from laps_sdk.peering.events import Refusal
from laps_wire.names import FullTrackName, Namespace
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import AnnounceInfo, NodeInfo, NodeSelf, RelayType, SubscribeInfo

__all__ = ["Border", "SimPolicy", "rule_policy", "with_borders", "with_policies"]


class Border(NamedTuple):
    """One rule of a filter: what does not come in, or does not go out, at any relay."""

    side: str
    """``import`` or ``export``."""
    what: str
    """``announce`` or ``subscribe``."""
    scope: str
    """The class: the first field of a namespace."""
    whose: str
    """``peer``: entries to or from peers in the region; ``source``: entries that nodes there
    originate.
    """
    region: str
    nodes: frozenset[NodeId]
    """All that are in the region."""

    def stops(self, side: str, what: str, scope: str, source: NodeId, peer: NodeId) -> bool:
        """Whether an entry of a source does not come from, or go to, a peer."""
        return (side, what, scope) == self[:3] and (
            (peer if self.whose == "peer" else source) in self.nodes
        )


def _elsewhere(name: FullTrackName) -> bool:  # noqa: ARG001 - as those who know
    """Whatever is published is published elsewhere."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class SimPolicy:
    """Denied transit and excluded regions (``Policy``)."""

    no_transit: Mapping[str, frozenset[NodeId]] = field(default_factory=dict)
    """By class: relays through which its data must not go; "" holds for everything."""
    denied: Mapping[str, frozenset[NodeId]] = field(default_factory=dict)
    """Those of them that were named ..."""
    regions: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """... and the regions of the others: how an operator has written it."""
    excluded: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By class: regions whose subscribers get nothing."""
    links: Mapping[str, frozenset[frozenset[NodeId]]] = field(default_factory=dict)
    """By class: links over whose countries its data must not go; by their two ends."""
    borders: tuple[Border, ...] = ()
    """What filters keep out, or in."""
    max_loss: float | None = None
    """The highest loss that is allowed for links of a path, for every class."""
    home: Callable[[FullTrackName], bool] = _elsewhere
    """Whether a track is published at the relay that asks."""

    @property
    def narrowed(self) -> list[str]:
        """Classes with fewer paths than others; "" for all."""
        return sorted({*self.no_transit, *self.links})

    def crosses(self, scope: str, one: NodeId, other: NodeId) -> bool:
        """Whether data of a class may go over a link."""
        return frozenset((one, other)) not in self.links.get(scope, ())

    def permits(self, scope: str, way: Sequence[NodeId]) -> bool:
        """Whether data of a class may go along these relays; the ends are no transit."""
        return all(self.transit(scope, node) for node in way[1:-1]) and all(
            self.crosses(scope, one, other) for one, other in pairwise(way)
        )

    def stops(self, side: str, what: str, scope: str, source: NodeId, peer: NodeId) -> bool:
        """Whether a filter keeps an entry of a source from a relay whose peer that is."""
        return any(border.stops(side, what, scope, source, peer) for border in self.borders)

    def transit(self, scope: str, node: NodeId) -> bool:
        """Whether data of a class may pass through a relay."""
        return node not in self.no_transit.get("", ()) and node not in self.no_transit.get(
            scope, ()
        )

    def serves(self, scope: str, region: str) -> bool:
        """Whether subscribers in a region may have data of a class."""
        return region not in self.excluded.get(scope, ())

    def more(
        self,
        scope: str,
        *,
        nodes: frozenset[NodeId] = frozenset(),
        named: frozenset[NodeId] = frozenset(),
        region: str = "",
        excluded: str = "",
        link: frozenset[NodeId] = frozenset(),
    ) -> SimPolicy:
        """The same with one more rule for a class; ``nodes`` are all that it is about."""

        def add(before: Mapping[str, frozenset[Any]], new: frozenset[Any]) -> dict[str, Any]:
            after = dict(before)
            if new:
                after[scope] = after.get(scope, frozenset()) | new
            return after

        return replace(
            self,
            no_transit=add(self.no_transit, nodes),
            denied=add(self.denied, named),
            regions=add(self.regions, frozenset({region} - {""})),
            excluded=add(self.excluded, frozenset({excluded} - {""})),
            links=add(self.links, frozenset({link} - {frozenset()})),
        )

    # Policy

    def peer(self, node: NodeSelf) -> Refusal | None:  # noqa: ARG002
        """Every peer is allowed."""
        return None

    def import_node(
        self,
        info: NodeInfo,
        peer: NodeSelf,  # noqa: ARG002
        lookup: NodeInfoLookup,  # noqa: ARG002
    ) -> Refusal | None:
        """No path through a relay that is no transit for anything."""
        denied = self.no_transit.get("", frozenset())
        for item in info.path:
            if item.node_id in denied:
                return Refusal("no_transit", f"{item.node_id} is no transit")
        return None

    def export_node(self, info: NodeInfo, peer: NodeSelf) -> Refusal | None:  # noqa: ARG002
        """Every node may be advertised."""
        return None

    def import_announce(self, entry: AnnounceInfo, peer: NodeSelf) -> Refusal | None:
        """What no filter keeps out may come in."""
        return self._stopped("import", "announce", entry, peer)

    def export_announce(self, entry: AnnounceInfo, peer: NodeSelf) -> Refusal | None:
        """What no filter keeps in may go out."""
        return self._stopped("export", "announce", entry, peer)

    def import_subscribe(self, entry: SubscribeInfo, peer: NodeSelf) -> Refusal | None:
        """What no filter keeps out may come in."""
        return self._stopped("import", "subscribe", entry, peer)

    def export_subscribe(self, entry: SubscribeInfo, peer: NodeSelf) -> Refusal | None:
        """What no filter keeps in may go out."""
        return self._stopped("export", "subscribe", entry, peer)

    def _stopped(
        self, side: str, what: str, entry: AnnounceInfo | SubscribeInfo, peer: NodeSelf
    ) -> Refusal | None:
        for border in self.borders:
            (prefix,) = HASHER.elements((border.scope.encode(),))
            if entry.element_hashes[:1] == (prefix,) and border.stops(
                side, what, border.scope, entry.source, peer.node_id
            ):
                return Refusal(f"{side}.{what}", f"{border.scope} stays out of {border.region}")
        return None

    def subscribe(
        self,
        name: FullTrackName,
        entry: SubscribeInfo,  # noqa: ARG002
        source: NodeSelf,
        local: NodeSelf,  # noqa: ARG002
    ) -> Refusal | None:
        """Regions may be excluded from a class."""
        return self._excludes(name, source)

    def local_subscribe(self, name: FullTrackName, local: NodeSelf) -> Refusal | None:
        """Refuse a track of this very relay outside its class; else the o-relay decides."""
        return self._excludes(name, local) if self.home(name) else None

    def _excludes(self, name: FullTrackName, node: NodeSelf) -> Refusal | None:
        scope = self.scope(name)
        if self.serves(scope, node.region):
            return None
        return Refusal("excluded", f"region {node.region} gets nothing of class {scope!r}")

    def scope(self, name: FullTrackName) -> str:
        """The first field of the namespace, if it is a class."""
        fields = name.namespace.fields
        word = fields[0].decode("ascii", "replace") if fields else ""
        return word if word in (*self.no_transit, *self.excluded, *self.links) else ""

    def region(self, node: NodeSelf) -> str:
        """Its own word."""
        return node.region

    def country(self, node: NodeSelf) -> str:
        """Its own word."""
        return country_label(node)

    def path(self, scope: str, nodes: Sequence[NodeSelf]) -> Refusal | None:
        """The ends of a path are no transit."""
        for node in nodes[1:-1]:
            if not self.transit(scope, node.node_id):
                return Refusal("no_transit", f"{node.node_id} is no transit for {scope!r}")
        for one, other in pairwise(nodes):
            if not self.crosses(scope, one.node_id, other.node_id):
                return Refusal(
                    "country", f"from {one.node_id} to {other.node_id} it passes a country"
                )
        return None

    def limits(self, scope: str) -> ClassLimits:  # noqa: ARG002
        """All classes ask for the same."""
        return ClassLimits(max_loss=self.max_loss)


SHARE: Final = 0.3
"""Share of the seeds in which a policy is loaded besides planned ones."""
COUNTRIES: Final = 0.2
"""Of the seeds, in which a link passes a country that a class must not."""
FILTERS: Final = 0.5
"""Share of the seeds with planned changes in which a filter comes at the end.

A filtered entry reaches fewer relays, so a relay that leaves may take it from others.
"""
_PARTS: Final = ("north", "south", "west")


def with_borders(made: Scenario, rng: Rng, kind: str) -> Scenario:
    """In some seeds links pass a country that a class must not, or a filter comes at the end."""
    draw = rng.of("countries")
    when = draw.uniform(6.0, max(7.0, made.healed))
    if draw.random() < COUNTRIES:
        link, scope = draw.choice(made.topology.links), draw.choice(("t0", "t1", "t2"))
        kinds = {made.topology.relay(name).relay_type for name in (link.a, link.b)}
        if RelayType.CONTROL not in kinds:
            made = _with_regions(made, draw)
            made = _and_policy(
                made, Action(when, "policy", (link.a, link.b), text=f"country {scope}")
            )
    draw = rng.of("filters")
    if any(relay.relay_type is RelayType.CONTROL for relay in made.topology.relays):
        return made  # control servers decide which relays get an entry
    if kind != "faults" and draw.random() < FILTERS:
        made = _with_regions(made, draw)
        region = draw.choice(sorted({relay.region for relay in made.topology.relays}))
        side, what = draw.choice(("import", "export")), draw.choice(("announce", "subscribe"))
        whose, scope = draw.choice(("peer", "source")), draw.choice(("t0", "t1", "t2"))
        if (side, what) == ("import", "subscribe"):
            # If only some peers refuse a subscribe, its source gets both answers in turn.
            whose = "source"
        text = f"filter {scope} {side} {what} {whose}"
        made = _and_policy(made, Action(made.healed + 3.0, "policy", (region,), text=text))
    return made


def _and_policy(made: Scenario, action: Action) -> Scenario:
    return replace(
        made,
        actions=tuple(sorted((*made.actions, action), key=lambda each: each.when)),
        healed=max(made.healed, action.when + 1.0),
        rule_engine=made.seed % 2 == 1,
        policies=True,
    )


def with_policies(made: Scenario, draw: random.Random, start: float, end: float) -> Scenario:
    """Let the planned policies differ, and plan one more in some seeds."""
    planned = [action for action in made.actions if action.verb == "policy"]
    actions = [action for action in made.actions if action.verb != "policy"]
    extra = draw.random() < SHARE
    when = draw.uniform(start, max(start + 1.0, end))
    if not extra and not planned:
        return made
    made = _with_regions(made, draw)
    if extra:
        planned.append(Action(when, "policy"))
    actions += [_vary(made, draw, action) for action in planned]
    return replace(
        made,
        actions=tuple(sorted(actions, key=lambda action: action.when)),
        healed=max(made.healed, *(action.when + 1.0 for action in planned)),
        rule_engine=made.seed % 2 == 1,
        policies=True,
    )


def _with_regions(made: Scenario, draw: random.Random) -> Scenario:
    """Put relays without a region into one."""
    if any(relay.region for relay in made.topology.relays):
        return made

    def placed(relay: RelaySpec) -> RelaySpec:
        return replace(relay, region=draw.choice(_PARTS))

    relays = tuple(map(placed, made.topology.relays))
    spares = tuple(map(placed, made.spares))
    return replace(made, topology=replace(made.topology, relays=relays), spares=spares)


def _vary(made: Scenario, draw: random.Random, action: Action) -> Action:
    relays = made.topology.relays
    vias = [relay.name for relay in relays if relay.relay_type is RelayType.VIA]
    regions = sorted({relay.region for relay in relays if relay.region})
    scope = action.text or draw.choice(("", "t0", "t1", "t2"))
    form = draw.choice(("via", "vias", "region", "exclude", "exclude"))
    if form == "region" and len(regions) > 1:
        return action._replace(who=(draw.choice(regions),), text=f"region {scope}")
    if form == "exclude" and regions:
        return action._replace(who=(draw.choice(regions),), text=f"exclude {scope or 't1'}")
    who = draw.sample(vias, min(len(vias), 2 if form == "vias" else 1))
    return action._replace(who=tuple(who), text=f"relay {scope}")


def _country(scope: str) -> str:
    """Each class has a country that it must not pass: X0 for t0."""
    return f"X{scope[1:]}"


def _filter_rule(border: Border) -> FilterRule:
    """As an operator writes it. Of its source an announce carries the id, and no region."""
    is_peer, is_announce = border.whose == "peer", border.what == "announce"
    region = frozenset({border.region})
    nodes = tuple(NodePattern.parse(str(node)) for node in sorted(border.nodes))
    return FilterRule(
        name=f"{border.scope} {border.region}",
        accept=False,
        peer_regions=region if is_peer else frozenset(),
        sources=nodes if is_announce and not is_peer else (),
        source_regions=frozenset() if is_announce or is_peer else region,
        namespace=Namespace.of(border.scope.encode()),
    )


def rule_policy(policy: SimPolicy, local: NodeId) -> RulePolicy:
    """The same in rules, for one relay."""

    def fence(scope: str) -> Fence:
        return Fence(
            deny_nodes=tuple(
                NodePattern.parse(str(node)) for node in sorted(policy.denied.get(scope, ()))
            ),
            deny_regions=policy.regions.get(scope, frozenset()),
            deny_countries=frozenset({_country(scope)} if scope in policy.links else ()),
        )

    def passing(side: str, what: str) -> Filter:
        return Filter(
            rules=tuple(
                _filter_rule(border)
                for border in policy.borders
                if (border.side, border.what) == (side, what)
            )
        )

    declared = [
        Link(
            name=f"{scope} {number}",
            between=(NodePattern.parse(str(one)), NodePattern.parse(str(other))),
            countries=("DE", _country(scope)),
        )
        for scope, links in sorted(policy.links.items())
        for number, (one, other) in enumerate(sorted(map(sorted, links)))
    ]
    scopes = sorted({*policy.denied, *policy.regions, *policy.excluded, *policy.links} - {""})
    limits = ClassLimits(max_loss=policy.max_loss)
    plain = {} if policy.max_loss is None else {"": ServiceClass(name="", limits=limits)}
    return RulePolicy(
        Rules(
            transit=fence(""),
            classes={
                **plain,
                **{
                    scope: ServiceClass(name=scope, limits=limits, transit=fence(scope))
                    for scope in scopes
                },
            },
            tracks=tuple(
                TrackRule(
                    name=scope,
                    namespace=Namespace.of(scope.encode()),
                    service_class=scope,
                    subscribers=Fence(deny_regions=policy.excluded.get(scope, frozenset())),
                )
                for scope in scopes
            ),
            links=tuple(declared),
            import_announce=passing("import", "announce"),
            import_subscribe=passing("import", "subscribe"),
            export_announce=passing("export", "announce"),
            export_subscribe=passing("export", "subscribe"),
        ),
        HASHER,
        local=local,
    )
