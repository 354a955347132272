"""One client's session at an Edge: sorts what its connection brings between the two planes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, cast

from laps_sdk.forwarding.interfaces import ForwardingPlane, OutStream
from laps_sdk.quic.events import Closed, Event, StopSending, StreamDropped
from laps_sdk.quic.moqt import MoqtPeer
from laps_wire.moqt.codepoints import SessionCode
from laps_wire.moqt.data.types import StreamKind
from laps_wire.moqt.session import Event as SessionEvent
from laps_wire.moqt.session import SetupReceived

if TYPE_CHECKING:
    from laps_sdk.edge.relay import EdgeRelay

__all__ = ["EdgePort", "PortOwner"]


class PortOwner(Protocol):
    """What a port needs from its server."""

    relay: EdgeRelay
    plane: ForwardingPlane

    def settle(self) -> None:
        """Carry on what a turn began."""

    def forget(self, number: int) -> None:
        """A session's connection is over."""


class EdgePort:
    """The ``Handler`` of a connection and the ``MoqtApplication`` of its session."""

    __slots__ = ("_owner", "_plane", "_relay", "number", "peer", "setup_timer")

    peer: MoqtPeer

    def __init__(self, owner: PortOwner, number: int) -> None:
        self.number = number
        self.setup_timer: asyncio.TimerHandle | None = None
        self._owner = owner
        self._relay = owner.relay
        self._plane = owner.plane

    # The connection's handler

    def handle_events(self, events: Sequence[Event]) -> None:
        """A turn: everything in order, then what it brought up elsewhere."""
        try:
            self.peer.handle_events(events)
        finally:
            self._owner.settle()

    # The session's application

    def session_event(self, peer: MoqtPeer, event: SessionEvent) -> None:
        """The control plane decides."""
        if isinstance(event, SetupReceived):
            self.cancel_timer()
        self._relay.handle_session_event(peer.connection.now, self.number, event)

    def stream_opened(
        self, peer: MoqtPeer, stream_id: int, kind: StreamKind, data: bytes, fin: bool
    ) -> None:
        """The forwarding plane carries it."""
        self._plane.stream_opened(peer.connection.now, self.number, stream_id, kind, data, fin)

    def stream_data(self, peer: MoqtPeer, stream_id: int, data: bytes, fin: bool) -> None:
        """The forwarding plane carries it."""
        self._plane.stream_data(peer.connection.now, self.number, stream_id, data, fin)

    def stream_reset(self, peer: MoqtPeer, stream_id: int, code: int) -> None:
        """The forwarding plane mirrors it."""
        self._plane.stream_reset(peer.connection.now, self.number, stream_id, code)

    def datagram(self, peer: MoqtPeer, data: bytes) -> None:
        """The forwarding plane carries it."""
        self._plane.datagram(peer.connection.now, self.number, data)

    def out_stream_stopped(self, peer: MoqtPeer, event: StopSending) -> None:
        """The receiver wants no more of one stream."""
        if event.stream is not None:
            stream = cast("OutStream", event.stream)
            self._plane.out_stream_gone(peer.connection.now, self.number, stream, 0, stopped=True)

    def out_stream_dropped(self, peer: MoqtPeer, event: StreamDropped) -> None:
        """The receiver is too slow, or the data too old."""
        stream = cast("OutStream", event.stream)
        self._plane.out_stream_gone(
            peer.connection.now, self.number, stream, event.lost, stopped=False
        )

    def writable(self, peer: MoqtPeer) -> None:
        """Nothing waits here: what did not fit was dropped and counted."""

    def closed(self, peer: MoqtPeer, event: Closed) -> None:  # noqa: ARG002 - the interface
        """The connection is over."""
        self._owner.forget(self.number)

    # SETUP

    def setup_late(self) -> None:
        """The client connected and said nothing (moq-transport-16, 3.3)."""
        self.setup_timer = None
        self.peer.session.close(SessionCode.CONTROL_MESSAGE_TIMEOUT, "no SETUP arrived in time")
        self.peer.settle()
        self._owner.settle()

    def cancel_timer(self) -> None:
        """SETUP came, or the connection went."""
        if self.setup_timer is not None:
            self.setup_timer.cancel()
            self.setup_timer = None
