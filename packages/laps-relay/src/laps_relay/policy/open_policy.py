"""The policy of a relay that was given none: everything is allowed."""

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
"""What a class asks of a way if nobody said anything."""


class OpenPolicy:
    """Allows everything; implements :class:`~laps_relay.policy.interface.Policy`."""

    __slots__ = ()

    def peer(self, node: NodeSelf) -> Refusal | None:
        """Everybody may peer."""
        return None

    def import_node(self, info: NodeInfo, peer: NodeSelf, lookup: NodeInfoLookup) -> Refusal | None:
        """Every way may be used."""
        return None

    def export_node(self, info: NodeInfo, peer: NodeSelf) -> Refusal | None:
        """Everybody may hear of every node."""
        return None

    def import_announce(self, entry: AnnounceInfo, peer: NodeSelf) -> Refusal | None:
        """All come in."""
        return None

    def export_announce(self, entry: AnnounceInfo, peer: NodeSelf) -> Refusal | None:
        """All go out."""
        return None

    def import_subscribe(self, entry: SubscribeInfo, peer: NodeSelf) -> Refusal | None:
        """All come in."""
        return None

    def export_subscribe(self, entry: SubscribeInfo, peer: NodeSelf) -> Refusal | None:
        """All go out."""
        return None

    def subscribe(
        self, name: FullTrackName, entry: SubscribeInfo, source: NodeSelf, local: NodeSelf
    ) -> Refusal | None:
        """Everybody may have every track."""
        return None

    def local_subscribe(self, name: FullTrackName, local: NodeSelf) -> Refusal | None:
        """Everybody may have every track."""
        return None

    def scope(self, name: FullTrackName) -> str:
        """There are no classes."""
        return ""

    def region(self, node: NodeSelf) -> str:
        """The node's own word."""
        return node.region

    def country(self, node: NodeSelf) -> str:
        """The node's own word."""
        return country_label(node)

    def path(self, scope: str, nodes: Sequence[NodeSelf]) -> Refusal | None:
        """Every way may be used."""
        return None

    def limits(self, scope: str) -> ClassLimits:
        """There are none."""
        return NO_LIMITS


OPEN_POLICY: Final = OpenPolicy()
"""The one instance that is needed."""
