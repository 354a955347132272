"""The interface of administrative policy, and the policy of a relay that has no rules.

:class:`OpenPolicy` allows everything. The policy with rules is
:class:`~laps_relay.policy.rule_policy.RulePolicy`.
"""

# ruff: noqa: ARG002  # OpenPolicy has the methods of a policy, and looks at nothing

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from laps_relay.policy.facts import country_label
from laps_sdk.peering.events import Refusal
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import AnnounceInfo, NodeInfo, NodeSelf, SubscribeInfo

__all__ = ["NO_LIMITS", "OPEN_POLICY", "ClassLimits", "NodeInfoLookup", "OpenPolicy", "Policy"]

NodeInfoLookup: TypeAlias = "Callable[[NodeId], NodeInfo | None]"
"""Returns what a node says of itself; None if the node is unknown."""


class ClassLimits(NamedTuple):
    """The limits that a class of service sets for a path."""

    max_rtt_us: int | None = None
    max_loss: float | None = None
    max_fanout: int | None = None


class Policy(Protocol):
    """Administrative policy. It can only forbid; ``None`` always means: allowed.

    A method that decides returns a ``Refusal`` with the rule and the reason, or None.
    """

    def peer(self, node: NodeSelf) -> Refusal | None:
        """Decide whether a node may peer with this relay at all."""

    def import_node(self, info: NodeInfo, peer: NodeSelf, lookup: NodeInfoLookup) -> Refusal | None:
        """Decide whether this relay may use a path to a node.

        The decision depends on transit nodes, their countries and the declared IP paths of the
        links.
        """

    def export_node(self, info: NodeInfo, peer: NodeSelf) -> Refusal | None:
        """Decide whether a node may be advertised to a peer."""

    def import_announce(self, entry: AnnounceInfo, peer: NodeSelf) -> Refusal | None:
        """Decide whether an announce of a peer is accepted."""

    def export_announce(self, entry: AnnounceInfo, peer: NodeSelf) -> Refusal | None:
        """Decide whether an announce may be sent to a peer."""

    def import_subscribe(self, entry: SubscribeInfo, peer: NodeSelf) -> Refusal | None:
        """Decide whether a subscribe of a peer is accepted."""

    def export_subscribe(self, entry: SubscribeInfo, peer: NodeSelf) -> Refusal | None:
        """Decide whether a subscribe may be sent to a peer."""

    def subscribe(
        self, name: FullTrackName, entry: SubscribeInfo, source: NodeSelf, local: NodeSelf
    ) -> Refusal | None:
        """Decide at the o-relay whether subscribers at ``source`` may have a track."""

    def local_subscribe(self, name: FullTrackName, local: NodeSelf) -> Refusal | None:
        """Decide at the s-relay whether our own clients may have a track."""

    def scope(self, name: FullTrackName) -> str:
        """Return the class of service of a track; "" if the policy has none for it."""

    def region(self, node: NodeSelf) -> str:
        """Return the region of a node; "" if it is in none."""

    def country(self, node: NodeSelf) -> str:
        """Return the country of a node, two letters; "" if it is unknown."""

    def path(self, scope: str, nodes: Sequence[NodeSelf]) -> Refusal | None:
        """Decide whether data of a class may go along these relays.

        The first node is this relay, the last is the target.
        """

    def limits(self, scope: str) -> ClassLimits:
        """Return the limits that a class sets for a path."""


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
