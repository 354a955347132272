"""One connection to another relay: sorts its events, and carries out the output of its session.

::

    bidirectional streams     control   both ways, through the relay's sessions
    unidirectional streams    data      straight to the forwarding plane
    datagrams                 data

All streams that a dialler opens are control streams, so the n-th one has the id that the session
already uses for it. The C++ relay reads one message from each chunk. So messages
for it leave one by one: the next is written when the last one is in a packet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol, cast

from laps_sdk.errors import StreamLimitError
from laps_sdk.forwarding.interfaces import OutStream as PlaneStream
from laps_sdk.forwarding.interfaces import PeerEgress
from laps_sdk.peering.events import Dial
from laps_sdk.quic.base import Connection, ConnectionStats, OutStream
from laps_sdk.quic.events import (
    Closed,
    Connected,
    DatagramReceived,
    Event,
    StopSending,
    StreamData,
    StreamDropped,
    StreamReset,
    StreamsAvailable,
)
from laps_wire.errors import RemoteError
from laps_wire.peering.errors import CloseCode, UnknownKindError
from laps_wire.peering.session import ConnectionClose, Ending, Role, StreamEnd, Transmit
from laps_wire.peering.session import StreamData as ControlData

__all__ = ["PeerPort", "PeerRelay"]

ALONE_RETRY: Final = 0.005
"""Seconds until the port checks again whether a message for the C++ relay was sent."""

MAX_ALONE_BYTES: Final = 64 * 1024 * 1024
"""The most bytes that wait to be sent one by one; above it, the connection is closed."""

MAX_REASON: Final = 200
"""Characters of a reason that are sent to the peer."""
MAX_OLD_STREAMS: Final = 16
"""The most control streams that are kept; an old one may still have to be reset."""
LASTING: Final = 3
"""Measurements in a row, one a second, that change whether the connection is congested."""
LITTLE: Final = 64 * 1024
"""Queued bytes that never count as congestion."""


class PeerRelay(Protocol):
    """The relay as the peer port calls it: ``NetworkRelay`` or ``StubRelay``."""

    # Events of connections

    def connection_opened(
        self,
        now: float,
        session: int,
        egress: PeerEgress,
        *,
        role: Role,
        alpn: str,
        spki_hash: bytes,
        dial: Dial | None,
    ) -> None:
        """Begin the session of a new connection."""

    def control_data(
        self, now: float, session: int, stream_id: int, data: bytes, fin: bool
    ) -> None:
        """Process bytes of a bidirectional stream."""

    def control_reset(self, now: float, session: int, stream_id: int, code: int) -> None:
        """Process the peer's reset of a bidirectional stream."""

    def control_stopped(self, now: float, session: int, stream_id: int, code: int) -> None:
        """Process the peer's STOP_SENDING on a bidirectional stream."""

    def data_stream(self, now: float, session: int, stream_id: int, data: bytes, fin: bool) -> None:
        """Process bytes of a unidirectional stream."""

    def data_reset(self, now: float, session: int, stream_id: int, code: int) -> None:
        """Process the peer's reset of a unidirectional stream."""

    def datagram(self, now: float, session: int, data: bytes) -> None:
        """Process a datagram."""

    def out_stream_gone(
        self, now: float, session: int, stream: PlaneStream, lost: int, *, stopped: bool
    ) -> None:
        """Process the loss of an outgoing data stream: dropped, or stopped by the peer."""

    def connection_closed(self, now: float, session: int, code: int, reason: str) -> None:
        """Process the end of a connection."""

    def measured(
        self, now: float, session: int, srtt_us: int, loss: float, congested: bool
    ) -> None:
        """Process a measurement of a connection.

        ``loss`` is the share of packets lost since the last one. ``congested`` means that for some
        time more was queued than the connection carries.
        """

    # Polls

    def poll_dirty(self) -> Sequence[int]:
        """Return sessions that may have output."""

    def poll_transmit(self, session: int) -> Sequence[Transmit]:
        """Return the output of a session."""

    def poll_dials(self, now: float) -> Sequence[Dial]:
        """Return the relays to dial now."""

    def dial_failed(self, now: float, number: int, reason: str) -> None:
        """Process the failure of a dial."""

    def poll_timeout(self) -> float | None:
        """Return when to call ``handle_timeout``; None for never."""

    def handle_timeout(self, now: float) -> None:
        """Handle the timers that are due."""


class PeerPort:
    """The ``Handler`` of a connection to another relay."""

    __slots__ = (
        "_alone",
        "_alone_bytes",
        "_blocked",
        "_call_later",
        "_congested",
        "_control",
        "_looks",
        "_on_closed",
        "_relay",
        "_seen",
        "_settle",
        "_waiting",
        "connection",
        "dial",
        "number",
    )

    def __init__(
        self,
        relay: PeerRelay,
        number: int,
        connection: Connection,
        dial: Dial | None,
        *,
        settle: Callable[[], None],
        on_closed: Callable[[int], None],
        call_later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        """Make the port of session ``number``.

        The port calls ``settle`` after the events of a turn, and ``on_closed`` with its number when
        the connection has ended. ``call_later`` is like that method of an event loop.
        """
        self.number = number
        self.connection = connection
        self.dial = dial
        self._relay = relay
        self._settle = settle
        self._on_closed = on_closed
        self._call_later = call_later
        self._control: dict[int, OutStream] = {}
        self._blocked: list[Transmit] = []
        self._alone: deque[tuple[OutStream, bytes]] = deque()
        self._alone_bytes = 0
        self._waiting = False
        self._seen: ConnectionStats | None = None
        """The statistics at the last measurement."""
        self._congested = False
        self._looks = 0
        """Measurements in a row that contradict ``_congested``."""

    def open(self) -> None:
        """Report the connection to the relay; a dialler then sends its first message."""
        connection = self.connection
        self._relay.connection_opened(
            connection.now,
            self.number,
            connection,
            role=Role.DIALLER if connection.is_client else Role.LISTENER,
            alpn=connection.alpn,
            # Without certificates (in memory) there is nothing to bind a proof to.
            spki_hash=connection.server_key_hash or bytes(32),
            dial=self.dial,
        )
        self.measure()

    # From the connection

    def handle_events(self, events: Sequence[Event]) -> None:
        """Handle the events of a turn in order, then settle the relay."""
        try:
            for event in events:
                self._handle(event)
        except RemoteError as error:
            # The relay closes sessions for faults that it handles; others are raised.
            self.connection.close(error.code, str(error)[:MAX_REASON])
        finally:
            self._settle()

    def _handle(self, event: Event) -> None:
        relay, number, now = self._relay, self.number, self.connection.now
        match event:
            case StreamData(stream_id, data, fin):
                if stream_id & 2:
                    try:
                        relay.data_stream(now, number, stream_id, data, fin)
                    except UnknownKindError as error:
                        self.connection.stop_sending(stream_id, error.code)
                else:
                    relay.control_data(now, number, stream_id, data, fin)
            case DatagramReceived(data):
                with suppress(UnknownKindError):  # a later version may have more of them
                    relay.datagram(now, number, data)
            case StreamReset(stream_id, code):
                if stream_id & 2:
                    relay.data_reset(now, number, stream_id, code)
                else:
                    relay.control_reset(now, number, stream_id, code)
            case StopSending(stream_id, code, stream):
                if not stream_id & 2:
                    relay.control_stopped(now, number, stream_id, code)
                elif stream is not None:
                    gone = cast("PlaneStream", stream)
                    relay.out_stream_gone(now, number, gone, 0, stopped=True)
            case StreamDropped(stream, _, lost):
                gone = cast("PlaneStream", stream)
                relay.out_stream_gone(now, number, gone, lost, stopped=False)
            case StreamsAvailable():
                blocked, self._blocked = self._blocked, []
                self.carry_out(blocked)
            case Connected():
                self.measure()
            case Closed():
                self._drop_alone()
                code = event.code
                if not event.application:
                    # Codes of QUIC are not ours; an idle timeout counts as a regular end.
                    code = CloseCode.INTERNAL_ERROR if event.code else CloseCode.NO_ERROR
                relay.connection_closed(now, number, code, event.reason)
                self._on_closed(number)

    # To the connection

    def carry_out(self, items: Sequence[Transmit]) -> None:
        """Carry out the output of the session, in order."""
        for item in items:
            if isinstance(item, ConnectionClose):
                self._blocked.clear()
                self.connection.close(item.code, item.reason)
            elif self._blocked:
                self._blocked.append(item)
            else:
                try:
                    self._act(item)
                except StreamLimitError:
                    self._blocked.append(item)

    def _act(self, item: ControlData | StreamEnd) -> None:
        stream_id = item.stream_id
        if isinstance(item, StreamEnd) and item.ending is Ending.STOP:
            self.connection.stop_sending(stream_id, item.code)
            return
        stream = self._stream(stream_id)
        if isinstance(item, ControlData):
            if item.alone:
                self._queue_alone(stream, item.data)
            else:
                stream.write(item.data)
        elif item.ending is Ending.FINISH:
            stream.write(b"", fin=True)
        else:
            stream.reset(item.code)

    def _queue_alone(self, stream: OutStream, data: bytes) -> None:
        if self.connection.closed:
            return
        self._alone.append((stream, data))
        self._alone_bytes += len(data)
        if self._alone_bytes > MAX_ALONE_BYTES:
            self._drop_alone()
            reason = f"more than {MAX_ALONE_BYTES} bytes of control messages wait for the peer"
            self.connection.close(CloseCode.OVERLOADED, reason)
        elif not self._waiting:
            self.send_alone()

    def _drop_alone(self) -> None:
        self._alone.clear()
        self._alone_bytes = 0

    def send_alone(self) -> None:
        """Write the next message for the C++ relay once the last one is in a packet.

        A message is written in one turn of the loop and checked in a later one, because packets are
        built between two turns.
        """
        self._waiting = False
        if not self._alone or self.connection.closed:
            self._drop_alone()
            return
        stream, data = self._alone[0]
        delay = ALONE_RETRY
        if not stream.unsent:
            self._alone.popleft()
            self._alone_bytes -= len(data)
            stream.write(data)
            delay = 0.0
        self._waiting = True
        self._call_later(delay, self.send_alone)

    def _stream(self, stream_id: int) -> OutStream:
        connection = self.connection
        if stream_id & 1 == connection.is_client:
            return connection.reply_stream(stream_id)
        stream = self._control.get(stream_id)
        if stream is None:
            stream = self._control[stream_id] = connection.open_bidirectional()
            if len(self._control) > MAX_OLD_STREAMS:
                del self._control[min(self._control)]
        return stream

    # Measurements

    def measure(self) -> None:
        """Report round-trip time, loss and congestion of the connection to the relay."""
        stats = self.connection.stats()
        if stats.rtt is None:
            return
        seen, self._seen = self._seen or _NOTHING, stats
        fresh = stats.packets_sent - seen.packets_sent
        lost = (stats.packets_lost or 0) - (seen.packets_lost or 0)
        share = min(1.0, max(0.0, lost / fresh)) if fresh > 0 else 0.0
        if self._is_strained(seen, stats) is self._congested:
            self._looks = 0
        else:
            self._looks += 1
            if self._looks >= LASTING:
                self._congested, self._looks = not self._congested, 0
        srtt_us = round(stats.rtt * 1_000_000)
        self._relay.measured(self.connection.now, self.number, srtt_us, share, self._congested)

    def _is_strained(self, seen: ConnectionStats, stats: ConnectionStats) -> bool:
        """Return whether more is queued than was sent since the last time, or data was dropped.

        Data that is dropped at its deadline never makes a long queue, so drops count as well.
        """
        if self.connection.congested or _dropped(stats) > _dropped(seen):
            return True
        return stats.queued_bytes > max(LITTLE, stats.bytes_sent - seen.bytes_sent)


_NOTHING: Final = ConnectionStats(0, 0, 0, 0, None, None, None, None, None, 0, 0, 0, 0)


def _dropped(stats: ConnectionStats) -> int:
    return stats.dropped_streams + stats.dropped_datagrams
