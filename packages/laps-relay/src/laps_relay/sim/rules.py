"""The policy of simulated networks: small, the same at every relay, and easy to check from outside.

A track's class of service is the first field of its namespace if the policy knows that word. For
each class (and for everything, ``""``) some relays are no transit, and subscribers in some regions
get nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from laps_relay.core.network.interfaces import ClassLimits, NodeLookup, Refusal
from laps_relay.core.policy.facts import country_label
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import AnnounceInfo, NodeInfo, NodeSelf, SubscribeInfo

__all__ = ["SimPolicy"]


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
    max_loss: float | None = None
    """What links of a way may lose, for every class."""

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
    ) -> SimPolicy:
        """The same with one more rule for a class; ``nodes`` are all that it is about."""

        def add(before: Mapping[str, frozenset[Any]], new: frozenset[Any]) -> dict[str, Any]:
            after = dict(before)
            if new:
                after[scope] = after.get(scope, frozenset()) | new
            return after

        return SimPolicy(
            no_transit=add(self.no_transit, nodes),
            denied=add(self.denied, named),
            regions=add(self.regions, frozenset({region} - {""})),
            excluded=add(self.excluded, frozenset({excluded} - {""})),
            max_loss=self.max_loss,
        )

    # Policy

    def peer(self, node: NodeSelf) -> Refusal | None:  # noqa: ARG002
        """Everybody may peer."""
        return None

    def import_node(
        self,
        info: NodeInfo,
        peer: NodeSelf,  # noqa: ARG002
        nodes: NodeLookup,  # noqa: ARG002
    ) -> Refusal | None:
        """No way through what is no transit for anything."""
        denied = self.no_transit.get("", frozenset())
        for item in info.path:
            if item.node_id in denied:
                return Refusal("no_transit", f"{item.node_id} is no transit")
        return None

    def export_node(self, info: NodeInfo, peer: NodeSelf) -> Refusal | None:  # noqa: ARG002
        """Everything may be told."""
        return None

    def import_announce(self, entry: AnnounceInfo, peer: NodeSelf) -> Refusal | None:  # noqa: ARG002
        """Everything may come in."""
        return None

    def export_announce(self, entry: AnnounceInfo, peer: NodeSelf) -> Refusal | None:  # noqa: ARG002
        """Everything may go out."""
        return None

    def import_subscribe(self, entry: SubscribeInfo, peer: NodeSelf) -> Refusal | None:  # noqa: ARG002
        """Everything may come in."""
        return None

    def export_subscribe(self, entry: SubscribeInfo, peer: NodeSelf) -> Refusal | None:  # noqa: ARG002
        """Everything may go out."""
        return None

    def subscribe(
        self,
        name: FullTrackName,
        entry: SubscribeInfo,  # noqa: ARG002
        source: NodeSelf,
        local: NodeSelf,  # noqa: ARG002
    ) -> Refusal | None:
        """Regions may be excluded from a class."""
        scope = self.scope(name)
        if self.serves(scope, source.region):
            return None
        return Refusal("excluded", f"region {source.region} gets nothing of class {scope!r}")

    def want(self, name: FullTrackName, local: NodeSelf) -> Refusal | None:  # noqa: ARG002
        """The o-relay decides."""
        return None

    def scope(self, name: FullTrackName) -> str:
        """The first field of the namespace, if it is a class."""
        fields = name.namespace.fields
        word = fields[0].decode("ascii", "replace") if fields else ""
        return word if word in self.no_transit or word in self.excluded else ""

    def region(self, node: NodeSelf) -> str:
        """Its own word."""
        return node.region

    def country(self, node: NodeSelf) -> str:
        """Its own word."""
        return country_label(node)

    def path(self, scope: str, nodes: Sequence[NodeSelf]) -> Refusal | None:
        """The ends of a way are no transit."""
        for node in nodes[1:-1]:
            if not self.transit(scope, node.node_id):
                return Refusal("no_transit", f"{node.node_id} is no transit for {scope!r}")
        return None

    def limits(self, scope: str) -> ClassLimits:  # noqa: ARG002
        """All classes ask for the same."""
        return ClassLimits(max_loss=self.max_loss)
