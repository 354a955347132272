"""The policy of simulated networks: small, the same at every relay, and easy to check from outside.

A track's class of service is the first field of its namespace if the policy knows that word. For
each class (and for everything, ``""``) some relays are no transit, and subscribers in some regions
get nothing. Data of a class does not go over links that pass a country which is denied to it, and
filters keep announces and subscribes of a class from going on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

from laps_relay.policy.facts import country_label
from laps_relay.policy.interface import ClassLimits, NodeInfoLookup
from laps_relay.sim.clients.tracks import HASHER
from laps_sdk.peering.events import Refusal
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import AnnounceInfo, NodeInfo, NodeSelf, SubscribeInfo

__all__ = ["Border", "SimPolicy"]


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
