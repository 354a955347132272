"""The in-memory backend for tests: QUIC's streams without TLS.

A :class:`MemoryPacket` is the bytes of a QUIC header with its frames as Python objects beside them.
The endpoint therefore routes and admits it like any other packet. The backend has packet numbers,
acknowledgements, loss detection and a fixed congestion window, because its network
(:mod:`laps_sdk.quic.memory.network`) may lose, delay and reorder packets.

::

    client  Initial(hello: alpn, name, limits) -->
                            <-- [Retry(token)]       real bytes, from the admission
                            <-- hello: alpn, limits
            ack, streams ... <-> streams, datagrams, credit, resets, close

A :class:`StreamTable` has the streams of one side and their flow control. Both sides grant each
other a number of streams and of bytes. A side grants more when half of its grant is used up, or
when a stream of the peer has ended.

The backend is deterministic: connection ids are counted, and time is an argument.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from laps_sdk.quic.base import Address, ConnectionLimits
from laps_sdk.quic.engine import Burst, Engine, EngineConnection, EngineOptions, EngineStats
from laps_sdk.quic.events import (
    Closed,
    Connected,
    DatagramReceived,
    Event,
    StopSending,
    StreamData,
    StreamReset,
    StreamsAvailable,
)

__all__ = [
    "WINDOW",
    "Ack",
    "Close",
    "Datagram",
    "Frame",
    "Hello",
    "MaxData",
    "MaxStreams",
    "MemoryConnection",
    "MemoryEngine",
    "MemoryPacket",
    "Ping",
    "ReceivingHalf",
    "Recovery",
    "Reset",
    "SendingHalf",
    "Stop",
    "Stream",
    "StreamTable",
]


class Hello(NamedTuple):
    """The handshake: what TLS and the transport parameters carry in QUIC."""

    alpn: tuple[str, ...]
    server_name: str
    limits: ConnectionLimits
    source: bytes


class Ack(NamedTuple):
    """Acknowledged packet numbers."""

    numbers: tuple[int, ...]


class Stream(NamedTuple):
    """STREAM."""

    stream_id: int
    offset: int
    data: bytes
    fin: bool


class Reset(NamedTuple):
    """RESET_STREAM."""

    stream_id: int
    code: int


class Stop(NamedTuple):
    """STOP_SENDING."""

    stream_id: int
    code: int


class MaxData(NamedTuple):
    """MAX_DATA; with a stream, MAX_STREAM_DATA."""

    stream_id: int | None
    limit: int


class MaxStreams(NamedTuple):
    """MAX_STREAMS."""

    unidirectional: bool
    limit: int


class Datagram(NamedTuple):
    """DATAGRAM."""

    data: bytes


class Ping(NamedTuple):
    """PING, which only asks for an acknowledgement."""


class Close(NamedTuple):
    """CONNECTION_CLOSE."""

    code: int
    reason: str
    application: bool


Frame = Hello | Ack | Stream | Reset | Stop | MaxData | MaxStreams | Datagram | Ping | Close


class MemoryPacket(bytes):
    """A QUIC header, padded to the length of the packet, with its frames."""

    number: int
    frames: tuple[Frame, ...]

    @classmethod
    def make(
        cls, header: bytes, length: int, number: int, frames: tuple[Frame, ...]
    ) -> MemoryPacket:
        """Return a packet of ``length`` bytes."""
        packet = cls(header.ljust(length, b"\0"))
        packet.number = number
        packet.frames = frames
        return packet


class StreamTable:
    """All streams; a stream is forgotten when both of its halves have ended."""

    __slots__ = (
        "_allowed",
        "_credit_given",
        "_is_client",
        "_limits",
        "_opened",
        "_over",
        "_peer_allowed",
        "_received_total",
        "_send",
        "_sent_total",
        "_stream_credit",
        "credit",
        "incoming",
        "outgoing",
        "withheld",
    )

    def __init__(
        self, limits: ConnectionLimits, *, is_client: bool, send: Callable[[Frame], None]
    ) -> None:
        """``limits`` are our own; ``send`` sends a frame to the peer."""
        self._limits = limits
        self._is_client = is_client
        self._send = send
        # Sending
        self.outgoing: dict[int, SendingHalf] = {}
        self.credit = 0
        """The peer's MAX_DATA."""
        self._stream_credit = self._sent_total = 0
        self._opened = {True: 0, False: 0}
        self._allowed = {True: 0, False: 0}
        # Receiving
        self.incoming: dict[int, ReceivingHalf] = {}
        self._received_total = 0
        self._credit_given = limits.max_data
        self.withheld = 0
        """Received bytes that give the peer no credit yet."""
        self._peer_allowed = {True: limits.max_streams_uni, False: limits.max_streams_bidi}
        self._over: set[int] = set()

    # What the peer allows

    def set_peer_limits(self, limits: ConnectionLimits) -> None:
        """Set the peer's limits."""
        self.credit = limits.max_data
        self._stream_credit = limits.max_stream_data
        self._allowed = {True: limits.max_streams_uni, False: limits.max_streams_bidi}

    def allow(self, unidirectional: bool, limit: int) -> bool:
        """Apply the peer's MAX_STREAMS; return whether the limit has grown."""
        if limit <= self._allowed[unidirectional]:
            return False
        self._allowed[unidirectional] = limit
        return True

    def left(self, unidirectional: bool) -> int:
        """Return how many more streams may be opened."""
        return self._allowed[unidirectional] - self._opened[unidirectional]

    @property
    def room(self) -> int:
        """How many more bytes may be sent."""
        return self.credit - self._sent_total

    # Streams

    def open(self, unidirectional: bool) -> int:
        """Open a stream and return its id."""
        number = self._opened[unidirectional]
        self._opened[unidirectional] = number + 1
        stream_id = number << 2 | unidirectional << 1 | (not self._is_client)
        self.sending(stream_id)
        if not unidirectional:
            self.receiving(stream_id)
        return stream_id

    def sending(self, stream_id: int) -> SendingHalf | None:
        """Return the half that is sent; None if the stream has ended."""
        half = self.outgoing.get(stream_id)
        if half is None and stream_id not in self._over:
            half = self.outgoing[stream_id] = SendingHalf(self._stream_credit)
        return half

    def receiving(self, stream_id: int) -> ReceivingHalf | None:
        """Return the half that is received; None if the stream has ended."""
        half = self.incoming.get(stream_id)
        if half is None and stream_id not in self._over:
            half = self.incoming[stream_id] = ReceivingHalf(self._limits.max_stream_data)
            if not stream_id & 2:
                self.sending(stream_id)
        return half

    def frames(self, room: int) -> Iterator[Stream]:
        """Return frames to send now, of at most ``room`` bytes."""
        for stream_id, half in list(self.outgoing.items()):
            if room < 16:
                return
            if half.finished or half.reset or not (half.chunks or half.fin):
                continue
            taken = half.take(min(room - 8, self.room))
            if taken is None:
                continue
            self._sent_total += len(taken[1])
            room -= 8 + len(taken[1])
            yield Stream(stream_id, *taken)
            if taken[2]:
                self.half_over(stream_id)

    def delivered(self, stream_id: int, half: ReceivingHalf, size: int, fin: bool) -> None:
        """Count delivered bytes of a stream and extend the limits of the peer."""
        self._received_total += size
        self.grant_all()
        self.grant(stream_id, half)
        if fin:
            self.half_over(stream_id)

    def grant_all(self) -> None:
        """Extend the peer's limit on the connection, if half of it is used up."""
        window = self._limits.max_data
        if self._credit_given - self._received_total > window // 2:
            return
        credit = self._received_total + window - self.withheld
        if credit - self._credit_given >= window // 4:
            self._credit_given = credit
            self._send(MaxData(None, credit))

    def grant(self, stream_id: int, half: ReceivingHalf) -> None:
        """Extend the peer's limit on a stream, if half of it is used up."""
        limit = half.grant()
        if limit is not None:
            self._send(MaxData(stream_id, limit))

    def half_over(self, stream_id: int) -> None:
        """Record the end of a half; with both ended, forget the stream and allow another."""
        sending, receiving = self.outgoing.get(stream_id), self.incoming.get(stream_id)
        if sending is not None and not (sending.finished or sending.reset):
            return
        if receiving is not None and not receiving.over:
            return
        self.outgoing.pop(stream_id, None)
        self.incoming.pop(stream_id, None)
        if stream_id in self._over:
            return
        self._over.add(stream_id)
        if stream_id & 1 == self._is_client:
            unidirectional = bool(stream_id & 2)
            self._peer_allowed[unidirectional] += 1
            self._send(MaxStreams(unidirectional, self._peer_allowed[unidirectional]))


class SendingHalf:
    """Bytes that are in no packet yet; the packets keep the bytes in flight."""

    __slots__ = ("backlog", "chunks", "credit", "fin", "finished", "reset", "sent")

    def __init__(self, credit: int) -> None:
        self.credit = credit
        """The peer's MAX_STREAM_DATA."""
        self.chunks: deque[bytes] = deque()
        self.backlog = 0
        self.sent = 0
        self.fin = False
        self.finished = False
        """Whether FIN was put into a packet."""
        self.reset = False

    def write(self, data: bytes, fin: bool) -> None:
        """Append bytes."""
        if data:
            self.chunks.append(data)
            self.backlog += len(data)
        self.fin = self.fin or fin

    def take(self, room: int) -> tuple[int, bytes, bool] | None:
        """Return the next frame of at most ``room`` bytes (offset, bytes, FIN), or None."""
        room = min(room, self.credit - self.sent)
        taken: list[bytes] = []
        length = 0
        while self.chunks and length < room:
            chunk = self.chunks.popleft()
            if len(chunk) > room - length:
                self.chunks.appendleft(chunk[room - length :])
                chunk = chunk[: room - length]
            taken.append(chunk)
            length += len(chunk)
        fin = self.fin and not self.chunks and not self.finished
        if not length and not fin:
            return None
        offset = self.sent
        self.sent += length
        self.backlog -= length
        self.finished = self.finished or fin
        return offset, b"".join(taken), fin

    def abandon(self) -> None:
        """Forget the queued bytes."""
        self.chunks.clear()
        self.backlog = 0
        self.reset = True


class ReceivingHalf:
    """Reorders frames, and tracks the limit of the peer."""

    __slots__ = ("credit", "delivered", "final", "over", "parts", "reading", "window")

    def __init__(self, window: int) -> None:
        self.window = window
        self.credit = window
        """The MAX_STREAM_DATA that the peer was granted."""
        self.delivered = 0
        self.parts: dict[int, bytes] = {}
        self.final: int | None = None
        self.over = False
        self.reading = True

    def receive(self, offset: int, data: bytes, fin: bool) -> tuple[bytes, bool] | None:
        """Accept a frame; return bytes and FIN that can be delivered now, or None."""
        if self.over:
            return None
        if fin:
            self.final = offset + len(data)
        if offset + len(data) > self.delivered and len(data) > len(self.parts.get(offset, b"")):
            self.parts[offset] = data
        ready: list[bytes] = []
        while True:
            at = next((o for o in sorted(self.parts) if o <= self.delivered), None)
            if at is None:
                break
            part = self.parts.pop(at)[self.delivered - at :]
            self.delivered += len(part)
            ready.append(part)
        ended = self.delivered == self.final
        self.over = ended
        return (b"".join(ready), ended) if ready or ended else None

    def grant(self) -> int | None:
        """Return a new MAX_STREAM_DATA if half of the window is used up, or None."""
        if self.reading and not self.over and self.credit - self.delivered <= self.window // 2:
            self.credit = self.delivered + self.window
            return self.credit
        return None


_PACKET: Final = 1200
_NO_PROTOCOL: Final = 0x178
"""CRYPTO_ERROR with TLS's no_application_protocol (RFC 9001, 4.8)."""
WINDOW: Final = 64 * 1200
"""The congestion window in bytes, which never changes."""
_PROBE: Final = 0.2
"""Seconds without an answer after which all packets in flight count as lost."""


class MemoryEngine(Engine):
    """The engine of the backend; it counts connection ids."""

    name = "memory"

    def __init__(
        self, options: EngineOptions, *, number: int = 0, needs_retry: bool = False
    ) -> None:
        self.options = options
        self._number = number << 32
        self._needs_retry = needs_retry
        self.reloads = 0

    def _next_id(self) -> bytes:
        self._number += 1
        return self._number.to_bytes(8, "big")

    def dial(
        self, address: Address, *, alpn: Sequence[str], server_name: str | None, now: float
    ) -> EngineConnection:
        """See :meth:`Engine.dial`."""
        hello = Hello(tuple(alpn), server_name or "", self.options.limits, self._next_id())
        return MemoryConnection(
            self.options, address, is_client=True, hello=hello, peer_id=self._next_id(), now=now
        )

    def accept(
        self,
        datagram: bytes,  # noqa: ARG002 - fed like any other afterwards
        address: Address,
        *,
        original_destination: bytes | None,  # noqa: ARG002 - TLS would prove it
        retry_source: bytes | None,  # noqa: ARG002
        now: float,
    ) -> EngineConnection:
        """See :meth:`Engine.accept`."""
        hello = Hello((), "", self.options.limits, self._next_id())
        return MemoryConnection(
            self.options, address, is_client=False, hello=hello, peer_id=b"", now=now
        )

    @property
    def needs_retry(self) -> bool:
        """See :attr:`Engine.needs_retry`."""
        return self._needs_retry

    def reload_certificate(self) -> None:
        """See :meth:`Engine.reload_certificate`; counts the calls, as there is no certificate."""
        self.reloads += 1


def _size(frame: Frame) -> int:
    return 8 + len(frame.data) if isinstance(frame, Stream | Datagram) else 8


class MemoryConnection(EngineConnection):
    """One side of a connection."""

    def __init__(
        self,
        options: EngineOptions,
        address: Address,
        *,
        is_client: bool,
        hello: Hello,
        peer_id: bytes,
        now: float,
    ) -> None:
        self._options = options
        self._limits = options.limits
        self._is_client = is_client
        self._hello = hello
        self._id = hello.source
        self._peer_id = peer_id
        self._address = address
        self._token = b""
        self._alpn = ""
        self._server_name = hello.server_name
        self._peer_limits = ConnectionLimits(
            max_streams_bidi=0, max_streams_uni=0, max_data=0, max_stream_data=0
        )
        self._complete = self._terminated = False
        self._closing: Close | None = None
        self._events: list[Event] = []
        self._table = StreamTable(self._limits, is_client=is_client, send=self._queue_frame)
        # Sending
        self._pending: list[Frame] = [hello] if is_client else []
        self._datagrams: list[Datagram] = []
        self._number = 0
        self._recovery = Recovery(now)
        # Receiving
        self._acks: list[int] = []
        self._ack_now = False
        self._seen: set[int] = set()
        self._last_received = now

    # A. From the endpoint

    def feed(self, datagrams: Sequence[bytes], address: Address, now: float) -> None:
        """See :meth:`EngineConnection.feed`."""
        for packet in datagrams:
            if self._terminated or self._closing is not None:
                return
            if not isinstance(packet, MemoryPacket):
                if self._is_client and not self._complete and packet[0] & 0xF0 == 0xF0:
                    self._retried(packet)
                continue
            self._last_received = now
            if packet.number in self._seen:
                self._ack_now = True
                self._acks.append(packet.number)
                continue
            self._seen.add(packet.number)
            self._address = address
            for frame in packet.frames:
                self._take(frame, now)
            if any(not isinstance(frame, Ack) for frame in packet.frames):
                self._acks.append(packet.number)
                self._ack_now = True

    def events(self) -> list[Event]:
        """See :meth:`EngineConnection.events`."""
        events, self._events = self._events, []
        return events

    def flush(self, now: float) -> list[Burst]:
        """See :meth:`EngineConnection.flush`."""
        packets: list[bytes] = []
        if self._terminated:
            return []
        if self._closing is not None:
            if self._peer_id:
                packets.append(self._packet((self._closing,), now))
            self._terminated = True
        else:
            while frames := self._next_frames():
                packets.append(self._packet(frames, now))
        return [Burst(packets, self._address)] if packets else []

    def next_timer(self) -> float | None:
        """See :meth:`EngineConnection.next_timer`."""
        if self._terminated:
            return None
        idle = self._last_received + self._limits.idle_timeout
        timer = self._recovery.timer
        return idle if timer is None else min(idle, timer)

    def on_timer(self, now: float) -> None:
        """See :meth:`EngineConnection.on_timer`."""
        if self._terminated:
            return
        if now >= self._last_received + self._limits.idle_timeout:
            self._end(Closed(0, "idle timeout", by_peer=False, application=False))
        elif (timer := self._recovery.timer) is not None and now >= timer:
            self._again(self._recovery.probe())
            self._pending.append(Ping())

    @property
    def connection_ids(self) -> Sequence[bytes]:
        """See :attr:`EngineConnection.connection_ids`."""
        return (self._id,)

    @property
    def terminated(self) -> bool:
        """See :attr:`EngineConnection.terminated`."""
        return self._terminated

    # B. Getters

    @property
    def handshake_complete(self) -> bool:
        """See :attr:`EngineConnection.handshake_complete`."""
        return self._complete

    @property
    def alpn(self) -> str:
        """See :attr:`EngineConnection.alpn`."""
        return self._alpn

    @property
    def server_name(self) -> str:
        """See :attr:`EngineConnection.server_name`."""
        return self._server_name

    @property
    def peer_address(self) -> Address:
        """See :attr:`EngineConnection.peer_address`."""
        return self._address

    @property
    def max_datagram_size(self) -> int:
        """See :attr:`EngineConnection.max_datagram_size`."""
        return max(0, min(_PACKET - 40, self._peer_limits.max_datagram_frame - 3))

    def stats(self) -> EngineStats:
        """See :meth:`EngineConnection.stats`."""
        known = self._recovery
        return EngineStats(known.lost, known.rtt, known.rtt, WINDOW, known.in_flight)

    # C. Sending

    def streams_left(self, unidirectional: bool) -> int:
        """See :meth:`EngineConnection.streams_left`."""
        return self._table.left(unidirectional)

    def open_stream(self, unidirectional: bool) -> int:
        """See :meth:`EngineConnection.open_stream`."""
        return self._table.open(unidirectional)

    def write(self, stream_id: int, data: bytes, fin: bool) -> None:
        """See :meth:`EngineConnection.write`."""
        half = self._table.outgoing.get(stream_id)
        if half is not None and not half.fin and not half.reset:
            half.write(data, fin)

    def backlog(self, stream_id: int) -> int:
        """See :meth:`EngineConnection.backlog`."""
        half = self._table.outgoing.get(stream_id)
        return half.backlog if half is not None else 0

    def total_backlog(self) -> int:
        """See :meth:`EngineConnection.total_backlog`."""
        streams = sum(half.backlog for half in self._table.outgoing.values())
        return streams + sum(len(datagram.data) for datagram in self._datagrams)

    def send_window(self) -> int:
        """See :meth:`EngineConnection.send_window`."""
        return max(0, min(self._recovery.room, self._table.room))

    def datagram(self, data: bytes) -> None:
        """See :meth:`EngineConnection.datagram`."""
        self._datagrams.append(Datagram(data))

    def reset(self, stream_id: int, code: int) -> None:
        """See :meth:`EngineConnection.reset`."""
        half = self._table.outgoing.get(stream_id)
        if half is not None and not half.reset:
            half.abandon()
            self._pending.append(Reset(stream_id, code))
            self._table.half_over(stream_id)

    def stop(self, stream_id: int, code: int) -> None:
        """See :meth:`EngineConnection.stop`."""
        half = self._table.incoming.get(stream_id)
        if half is not None and not half.over:
            self._pending.append(Stop(stream_id, code))

    def set_reading(self, stream_id: int, on: bool) -> bool:
        """See :meth:`EngineConnection.set_reading`."""
        half = self._table.incoming.get(stream_id)
        if half is not None:
            half.reading = on
            if on:
                self._table.grant(stream_id, half)
        return True

    def withhold(self, size: int) -> bool:
        """See :meth:`EngineConnection.withhold`."""
        self._table.withheld = size
        self._table.grant_all()
        return True

    def ping(self) -> None:
        """See :meth:`EngineConnection.ping`."""
        if self._complete:
            self._pending.append(Ping())

    def abort(self) -> None:
        """See :meth:`EngineConnection.abort`."""
        self._terminated = True

    def close(self, code: int, reason: str, *, application: bool = True) -> None:
        """See :meth:`EngineConnection.close`."""
        if not self._terminated and self._closing is None:
            self._closing = Close(code, reason, application)
            self._events.append(Closed(code, reason, by_peer=False, application=application))

    # D. Packets

    def _packet(self, frames: tuple[Frame, ...], now: float) -> bytes:
        self._number += 1
        size = 32 + sum(map(_size, frames))
        if any(not isinstance(frame, Ack | Close) for frame in frames):
            self._recovery.sent(self._number, frames, size, now)
        if any(isinstance(frame, Hello) for frame in frames):
            # A long header, as long as an Initial must be (RFC 9000, 14.1; 17.2.2).
            to, source, token = self._peer_id, self._id, self._token
            header = b"\xc0\0\0\0\1" + bytes([len(to)]) + to + bytes([len(source)]) + source
            header += (len(token) | 0x4000).to_bytes(2, "big") + token
            return MemoryPacket.make(header, _PACKET, self._number, frames)
        return MemoryPacket.make(b"\x40" + self._peer_id, size, self._number, frames)

    def _next_frames(self) -> tuple[Frame, ...]:
        """Return the frames of the next packet; none without data or without window."""
        frames: list[Frame] = []
        if self._acks and self._ack_now:
            frames.append(Ack(tuple(self._acks[-256:])))
            self._acks.clear()
            self._ack_now = False
        room = min(_PACKET - 32, self._recovery.room)
        while self._pending and (size := _size(self._pending[0])) <= room:
            room -= size
            frames.append(self._pending.pop(0))
        if self._complete and not self._pending:
            while self._datagrams and (size := _size(self._datagrams[0])) <= room:
                room -= size
                frames.append(self._datagrams.pop(0))
            frames += self._table.frames(room)
        return tuple(frames)

    def _again(self, frames: list[Frame]) -> None:
        """Queue the frames of lost packets again, except those that are obsolete."""
        for frame in frames:
            if isinstance(frame, Stream):
                half = self._table.outgoing.get(frame.stream_id)
                if half is not None and half.reset:
                    continue
            if not isinstance(frame, Ack | Datagram | Ping):
                self._pending.append(frame)

    # E. Frames

    def _take(self, frame: Frame, now: float) -> None:
        match frame:
            case Stream(stream_id, offset, data, fin):
                half = self._table.receiving(stream_id)
                got = half.receive(offset, data, fin) if half is not None else None
                if half is not None and got is not None:
                    data, fin = got
                    self._events.append(StreamData(stream_id, data, fin))
                    self._table.delivered(stream_id, half, len(data), fin)
            case Ack(numbers):
                self._again(self._recovery.acknowledged(numbers, now))
            case Datagram(data):
                self._events.append(DatagramReceived(data))
            case Reset(stream_id, code):
                half = self._table.receiving(stream_id)
                if half is not None and not half.over:
                    half.over = True
                    self._events.append(StreamReset(stream_id, code))
                    self._table.half_over(stream_id)
            case Stop(stream_id, code):
                if self._table.sending(stream_id) is not None:
                    self._events.append(StopSending(stream_id, code))
            case MaxData(None, limit):
                self._table.credit = max(self._table.credit, limit)
            case MaxData(int(stream_id), limit):
                sending = self._table.sending(stream_id)
                if sending is not None:
                    sending.credit = max(sending.credit, limit)
            case MaxStreams(unidirectional, limit):
                if self._table.allow(unidirectional, limit):
                    self._events.append(StreamsAvailable())
            case Hello():
                self._hello_received(frame)
            case Close(code, reason, application):
                self._end(Closed(code, reason, by_peer=True, application=application))
            case Ping():
                pass

    def _hello_received(self, hello: Hello) -> None:
        if self._complete:
            return
        self._peer_id = hello.source
        self._peer_limits = hello.limits
        self._table.set_peer_limits(hello.limits)
        if not self._is_client:
            common = [name for name in self._options.alpn if name in hello.alpn]
            if not common:
                offered = ", ".join(hello.alpn)
                self.close(_NO_PROTOCOL, f"no protocol of {offered}", application=False)
                return
            self._server_name = hello.server_name
            self._hello = self._hello._replace(alpn=(common[0],))
            self._pending.append(self._hello)
            self._alpn = common[0]
        else:
            self._alpn = hello.alpn[0]
        self._complete = True
        self._events.append(Connected(self._alpn))

    def _retried(self, packet: bytes) -> None:
        """Handle a Retry of the admission: start again with its token (RFC 9000, 17.2.5)."""
        if self._token:
            return
        at = 6 + packet[5]
        length = packet[at]
        self._peer_id = packet[at + 1 : at + 1 + length]
        self._token = packet[at + 1 + length : -16]
        self._recovery.forget()
        self._pending = [self._hello]

    def _queue_frame(self, frame: Frame) -> None:
        self._pending.append(frame)

    def _end(self, event: Closed) -> None:
        self._terminated = True
        self._events.append(event)


class _Sent(NamedTuple):
    time: float
    frames: tuple[Frame, ...]
    size: int


class Recovery:
    """Packets in flight, their acknowledgement and loss, and a fixed congestion window."""

    __slots__ = ("_flying", "_last", "_slowest", "in_flight", "lost", "rtt")

    def __init__(self, now: float) -> None:
        self._flying: dict[int, _Sent] = {}
        self._last = now
        self._slowest = 0.0
        self.in_flight = 0
        self.lost = 0
        self.rtt: float | None = None

    @property
    def room(self) -> int:
        """Bytes that may be sent before an acknowledgement arrives."""
        return WINDOW - self.in_flight

    @property
    def timer(self) -> float | None:
        """When to call :meth:`probe`; None if no packet is in flight."""
        return self._last + _PROBE if self._flying else None

    def sent(self, number: int, frames: tuple[Frame, ...], size: int, now: float) -> None:
        """Record a sent packet that must be acknowledged."""
        self._flying[number] = _Sent(now, frames, size)
        self.in_flight += size
        self._last = now

    def acknowledged(self, numbers: tuple[int, ...], now: float) -> list[Frame]:
        """Record acknowledged packets; return the frames of packets now known to be lost."""
        for number in numbers:
            if number in self._flying:
                sent = self._flying.pop(number)
                self.in_flight -= sent.size
                self.rtt = now - sent.time
                self._slowest = max(self._slowest, self.rtt)
                self._last = now
        # Lost: three later packets have arrived, and its time has passed (RFC 9002, 6.1).
        before, late = max(numbers) - 3, now - self._slowest
        return self._lose([n for n, s in self._flying.items() if n <= before and s.time <= late])

    def probe(self) -> list[Frame]:
        """Count all packets in flight as lost and return their frames."""
        return self._lose(list(self._flying))

    def forget(self) -> None:
        """Forget all packets in flight."""
        self._flying.clear()
        self.in_flight = 0

    def _lose(self, numbers: list[int]) -> list[Frame]:
        frames: list[Frame] = []
        for number in numbers:
            sent = self._flying.pop(number)
            self.in_flight -= sent.size
            self.lost += 1
            frames += sent.frames
        return frames
