"""What the simulator asks of a relay core, and what it looks at inside.

:class:`RelayCore` is the part of ``NetworkRelay`` that is driven from outside. :class:`Tables` is
what invariants are checked on; :mod:`laps_relay.sim.world.tables` reads it from a
``NetworkRelay``. Both are protocols, so the machinery can be tested with a core that does one
thing only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple, Protocol

from laps_relay.policy.interface import Policy
from laps_sdk.peering.shell import PeerRelay
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import AnnounceKind, Load, RelayType, SubscribeData

__all__ = ["Flow", "RelayCore", "SetOut", "Tables"]


class RelayCore(PeerRelay, Protocol):
    """``NetworkRelay``: as shells see it, and what clients and operators do."""

    def announce(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """A client publishes."""

    def withdraw(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """It stops."""

    def want(self, now: float, name: FullTrackName, data: SubscribeData) -> None:
        """A client subscribes."""

    def unwant(self, now: float, name: FullTrackName) -> None:
        """It stops."""

    def pulled(self, now: float, key: int, data: SubscribeData) -> None:
        """The publisher agreed."""

    def pull_ended(self, now: float, key: int, reason: str) -> None:
        """The publisher ended it."""

    def poll_events(self) -> Sequence[object]:
        """What happened."""

    def poll_known_keys(self) -> dict[NodeId, bytes] | None:
        """Which keys hold node ids, if that has changed."""

    def drain(self, now: float, seconds: float) -> None:
        """Go away, and say so."""

    def stay(self, now: float) -> None:
        """Take that back."""

    @property
    def in_transit(self) -> bool:
        """Whether data goes through it, or waits to be sent."""

    @property
    def flight(self) -> float:
        """How long something is under way to a peer."""

    def close_all(self, now: float) -> None:
        """End all sessions."""

    def set_load(self, now: float, load: Load) -> None:
        """How busy it is."""

    def set_policy(self, now: float, policy: Policy) -> None:
        """Another policy holds."""


class SetOut(NamedTuple):
    """One egress set of a flow."""

    peer: NodeId
    connection: int
    sns_id: int
    targets: frozenset[NodeId]


class Flow(NamedTuple):
    """One FIB entry, with the sets behind it."""

    peer: NodeId | None
    """Who sends; None: a feed of the relay's own clients."""
    connection: int
    """Of the sender; 0 for a feed."""
    set_id: int
    key: int | None
    """The track of a feed."""
    targets: frozenset[NodeId]
    """Of the ingress set, or those that the o-relay serves."""
    egress: tuple[SetOut, ...]
    local: bool


class Tables(Protocol):
    """The inside of a relay."""

    def nodes(self) -> Sequence[NodeId]:
        """All nodes that it knows, itself left out."""

    def next_hop(self, node: NodeId) -> NodeId | None:
        """Where data for a node goes."""

    def metric(self, node: NodeId) -> tuple[int, int] | None:
        """Hops and cost of the best way."""

    def ways(self, node: NodeId) -> Sequence[tuple[NodeId, Sequence[NodeId]]]:
        """What peers tell of a node, the best first: (peer, relays that data passes, the node)."""

    def told(self) -> Sequence[tuple[NodeId, NodeId, Sequence[NodeId]]]:
        """What peers were told: (peer, node, relays on the way)."""

    def mentioned(self) -> AbstractSet[NodeId]:
        """All nodes that any peer was told of, and the relays on the ways there."""

    def peers(self) -> Sequence[NodeId]:
        """Nodes with a control session."""

    def sessions(self, node: NodeId) -> Sequence[int]:
        """Established sessions with a node."""

    def types(self) -> Sequence[tuple[NodeId, RelayType]]:
        """All nodes that it knows, itself left out, and what they are."""

    def controlled(self) -> bool:
        """Whether every peer with a session has one for control."""

    def flows(self) -> Sequence[Flow]:
        """The FIB."""

    def targets(self, connection: int, sns_id: int) -> frozenset[NodeId] | None:
        """Whom a set on a connection is for; None if it is not known any more."""

    def sizes(self) -> Mapping[str, int]:
        """Entries of all tables that must be empty when nobody publishes or subscribes."""

    def subscribe_sources(self) -> Sequence[tuple[NodeId, int]]:
        """(source, key) of all usable subscribes."""

    def announce_sources(self) -> Sequence[tuple[NodeId, int]]:
        """(source, key) of all usable announces."""
