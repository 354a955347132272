"""The streams of one side of an in-memory connection, and their flow control.

Both sides grant each other a number of streams and of bytes. A side grants more when half of its
grant is used up, or when a stream of the peer has ended.

The module has no clock; see :mod:`laps_sdk.quic.memory.engine`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from laps_sdk.quic.base import ConnectionLimits
from laps_sdk.quic.memory.packets import Frame, MaxData, MaxStreams, Stream

__all__ = ["ReceivingHalf", "SendingHalf", "StreamTable"]


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
        if self._credit_given - self._received_total <= self._limits.max_data // 2:
            self._credit_given = self._received_total + self._limits.max_data
            self._send(MaxData(None, self._credit_given))
        self.grant(stream_id, half)
        if fin:
            self.half_over(stream_id)

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
