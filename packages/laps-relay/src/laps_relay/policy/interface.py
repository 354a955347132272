"""The interface of administrative policy: :class:`Policy`, with OpenPolicy and RulePolicy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from laps_sdk.peering.events import Refusal
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import AnnounceInfo, NodeInfo, NodeSelf, SubscribeInfo

__all__ = ["ClassLimits", "NodeInfoLookup", "Policy"]

NodeInfoLookup: TypeAlias = "Callable[[NodeId], NodeInfo | None]"
"""Returns what a node says of itself; None if the node is unknown."""


class ClassLimits(NamedTuple):
    """What a class of service asks of a way."""

    max_rtt_us: int | None = None
    max_loss: float | None = None
    max_fanout: int | None = None


class Policy(Protocol):
    """Administrative policy: it can only narrow (``laps_relay.policy``).

    ``None`` always means: allowed.
    """

    def peer(self, node: NodeSelf) -> Refusal | None:
        """Whether this node may peer with us at all."""

    def import_node(self, info: NodeInfo, peer: NodeSelf, lookup: NodeInfoLookup) -> Refusal | None:
        """Whether we may use this way to a node.

        It depends on transit nodes, their countries and the declared IP paths of the links.
        """

    def export_node(self, info: NodeInfo, peer: NodeSelf) -> Refusal | None:
        """Whether the peer may hear of this node from us."""

    def import_announce(self, entry: AnnounceInfo, peer: NodeSelf) -> Refusal | None:
        """Whether this may come in."""

    def export_announce(self, entry: AnnounceInfo, peer: NodeSelf) -> Refusal | None:
        """Whether this may go to that peer."""

    def import_subscribe(self, entry: SubscribeInfo, peer: NodeSelf) -> Refusal | None:
        """Whether this may come in."""

    def export_subscribe(self, entry: SubscribeInfo, peer: NodeSelf) -> Refusal | None:
        """Whether this may go to that peer."""

    def subscribe(
        self, name: FullTrackName, entry: SubscribeInfo, source: NodeSelf, local: NodeSelf
    ) -> Refusal | None:
        """At the o-relay: whether subscribers at ``source`` may have this track."""

    def local_subscribe(self, name: FullTrackName, local: NodeSelf) -> Refusal | None:
        """At the s-relay: whether our own clients may have this track."""

    def scope(self, name: FullTrackName) -> str:
        """The class of service of a track; "" if the policy knows none for it."""

    def region(self, node: NodeSelf) -> str:
        """The region that a node counts for; "" if it is in none."""

    def country(self, node: NodeSelf) -> str:
        """The country that a node stands in, two letters; "" if nobody says."""

    def path(self, scope: str, nodes: Sequence[NodeSelf]) -> Refusal | None:
        """Whether data of this class may go along these relays.

        We are the first of them, the target is the last.
        """

    def limits(self, scope: str) -> ClassLimits:
        """What the class asks of a way."""
