"""The policy of a relay that has no rules: everything is allowed."""

# ruff: noqa: ARG002  # it has the methods of a policy, and looks at nothing

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from laps_relay.policy.facts import country_label
from laps_relay.policy.interface import ClassLimits, NodeInfoLookup
from laps_sdk.peering.events import Refusal
from laps_wire.names import FullTrackName
from laps_wire.peering.laps2 import AnnounceInfo, NodeInfo, NodeSelf, SubscribeInfo

__all__ = ["NO_LIMITS", "OPEN_POLICY", "OpenPolicy"]

NO_LIMITS: Final = ClassLimits()
"""The limits of a class without limits."""


class OpenPolicy:
    """Allows everything; implements :class:`~laps_relay.policy.interface.Policy`."""

    __slots__ = ()

    def peer(self, node: NodeSelf) -> Refusal | None:
        """Allow every node."""
        return None

    def import_node(self, info: NodeInfo, peer: NodeSelf, lookup: NodeInfoLookup) -> Refusal | None:
        """Allow every path."""
        return None

    def export_node(self, info: NodeInfo, peer: NodeSelf) -> Refusal | None:
        """Allow every node to every peer."""
        return None

    def import_announce(self, entry: AnnounceInfo, peer: NodeSelf) -> Refusal | None:
        """Accept every announce."""
        return None

    def export_announce(self, entry: AnnounceInfo, peer: NodeSelf) -> Refusal | None:
        """Allow every announce to every peer."""
        return None

    def import_subscribe(self, entry: SubscribeInfo, peer: NodeSelf) -> Refusal | None:
        """Accept every subscribe."""
        return None

    def export_subscribe(self, entry: SubscribeInfo, peer: NodeSelf) -> Refusal | None:
        """Allow every subscribe to every peer."""
        return None

    def subscribe(
        self, name: FullTrackName, entry: SubscribeInfo, source: NodeSelf, local: NodeSelf
    ) -> Refusal | None:
        """Allow every track to every subscriber."""
        return None

    def local_subscribe(self, name: FullTrackName, local: NodeSelf) -> Refusal | None:
        """Allow every track to our own clients."""
        return None

    def scope(self, name: FullTrackName) -> str:
        """Return "": there are no classes."""
        return ""

    def region(self, node: NodeSelf) -> str:
        """Return the region that the node declares."""
        return node.region

    def country(self, node: NodeSelf) -> str:
        """Return the country that the node declares."""
        return country_label(node)

    def path(self, scope: str, nodes: Sequence[NodeSelf]) -> Refusal | None:
        """Allow every path."""
        return None

    def limits(self, scope: str) -> ClassLimits:
        """Return no limits."""
        return NO_LIMITS


OPEN_POLICY: Final = OpenPolicy()
"""The only instance that is needed."""
