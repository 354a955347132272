"""What the simulator asks of a relay core, and what it looks at inside.

:class:`RelayCore` is the part of ``NetworkRelay`` that a shell drives. :class:`Tables` is what
invariants are checked on; :mod:`laps_relay.sim.tables` reads it from a ``NetworkRelay``. Both are
protocols, so the machinery can be tested with a core that does one thing only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple, Protocol

from laps_relay.core.interfaces import Egress, OutStream
from laps_relay.core.network.interfaces import Dial, Policy
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import AnnounceKind, Load, RelayType, SubscribeData
from laps_wire.peering.session import Role, Transmit

__all__ = ["Flow", "RelayCore", "SetOut", "Tables"]


class RelayCore(Protocol):
    """``NetworkRelay``, as shells see it."""

    def connection_opened(
        self,
        now: float,
        session: int,
        egress: Egress,
        *,
        role: Role,
        alpn: str,
        spki_hash: bytes,
        dial: Dial | None,
    ) -> None:
        """A connection was made."""

    def control_data(
        self, now: float, session: int, stream_id: int, data: bytes, fin: bool
    ) -> None:
        """Bytes of a bidirectional stream."""

    def control_reset(self, now: float, session: int, stream_id: int, code: int) -> None:
        """It was abandoned."""

    def control_stopped(self, now: float, session: int, stream_id: int, code: int) -> None:
        """The peer does not read it any more."""

    def data_stream(self, now: float, session: int, stream_id: int, data: bytes, fin: bool) -> None:
        """Bytes of a unidirectional stream."""

    def data_reset(self, now: float, session: int, stream_id: int, code: int) -> None:
        """It was abandoned."""

    def datagram(self, now: float, session: int, data: bytes) -> None:
        """A datagram."""

    def out_stream_gone(
        self, now: float, session: int, stream: OutStream, lost: int, *, stopped: bool
    ) -> None:
        """An outgoing stream was dropped, or stopped by the peer."""

    def connection_closed(self, now: float, session: int, code: int, reason: str) -> None:
        """It is over."""

    def measured(
        self, now: float, session: int, srtt_us: int, loss: float = 0.0, congested: bool = False
    ) -> None:
        """What the transport measured."""

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

    def poll_dirty(self) -> Sequence[int]:
        """Sessions with something to transmit."""

    def poll_transmit(self, session: int) -> Sequence[Transmit]:
        """What to transmit."""

    def poll_dials(self, now: float) -> Sequence[Dial]:
        """Whom to dial."""

    def dial_failed(self, now: float, number: int, reason: str) -> None:
        """Nobody is there."""

    def poll_timeout(self) -> float | None:
        """When to call ``handle_timeout``."""

    def handle_timeout(self, now: float) -> None:
        """It is time."""

    def poll_events(self) -> Sequence[object]:
        """What happened."""

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
