"""The control stream: which bidirectional stream it is, how it moves, and what is queued for it.

The dialler opens the control stream; the listener latches on to it. The dialler may open another
one at any time. The listener moves to it with the first control message that it receives there
(seed 000, Sending/Receiving Control Messages). Both sides follow one rule for reading::

              first whole message on a newer stream
      ┌───────────────────────────────────────────────────────┐
      │                                                       v
   read from stream 0          4 is a candidate:         read from stream 4
   (the latched stream)        its bytes wait,           0 is ended: reset and stopped,
                               0 is still read           or finished if the peer had finished it;
                                                         a partial message of 0 is discarded

The sides differ in writing. The dialler writes to the new stream as soon as it is open, and
finishes its half of the old one. The listener writes to the new stream after it has moved. So no
side reads messages from two streams, and what still arrives on an older stream is dropped.

Messages in flight on the old stream may be lost in a move. ``Moved.clean`` is true if everything
that the peer wrote to the old stream was read, so that nothing is lost.

Stream IDs are QUIC's: bidirectional streams of the dialler have IDs divisible by 4. A newer stream
has a higher ID, so an old stream that a newer one overtakes is recognised by its ID. Buffers are
bounded: one message of the latched stream, one of the candidate.

:class:`Outbox` queues what goes to the transport. A control message is queued for the stream that
is written to at that moment. If there is none (the peer stopped it, and no new one is open yet),
the message waits. If a stream is reset, its queued messages wait for the next stream.

Messages that the synchronisation after a move repeats do not wait: sets, and the marks around a
synchronisation. A partial synchronisation on a new stream would be a violation, because its
beginning was on the old stream (docs/spec/laps-2.md, 5.4 and 6.1).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from laps_wire.errors import IncompleteError, ProtocolViolation, StateError
from laps_wire.peering.errors import LimitExceededError
from laps_wire.peering.session.events import (
    ConnectionClose,
    Ending,
    StreamData,
    StreamEnd,
    Transmit,
)
from laps_wire.peering.session.state import Role

__all__ = [
    "MAX_JOINED_BYTES",
    "MAX_STALE_STREAMS",
    "Assembler",
    "ControlStreams",
    "LatchItem",
    "Lost",
    "Moved",
    "Outbox",
    "Received",
    "StreamEnding",
]


M = TypeVar("M")

MAX_STALE_STREAMS: Final = 64
"""The most abandoned streams that the peer has not ended; more ends the session."""


class Received(NamedTuple, Generic[M]):
    """A control message on the latched stream."""

    message: M


@dataclass(frozen=True, slots=True)
class Moved:
    """The control stream is another one from now on."""

    old: int
    new: int
    clean: bool
    """Whether the old stream was read to the peer's FIN, and no stream was skipped."""
    discarded: int
    """The number of dropped bytes of a partial message on the old stream."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The peer ended the control stream, and there is no newer one yet.

    A dialler opens a new one; a listener waits for it.
    """

    stream_id: int


@dataclass(frozen=True, slots=True)
class StreamEnding:
    """A request to end one half of a stream."""

    stream_id: int
    ending: Ending


LatchItem: TypeAlias = "Received[M] | Moved | Lost | StreamEnding"


class Assembler(Generic[M]):
    """The unread bytes of one stream, from which whole messages are decoded.

    ::

        feed ──> pending (grows)          data (fixed)            next ──> a message
                 "wait for 37 more" ────> [ read │ unread ]  ────>         or None: more is needed
                 joined when that         decoded at ``pos``
                 many have arrived

    A decoder that runs out of bytes reports the least number of missing bytes. Nothing is decoded
    before they have arrived, so a message in many chunks costs no more than one in a single chunk.

    ``decode(data, pos)`` returns ``(message, next pos)``, or raises ``IncompleteError`` or a
    ``RemoteError``. Its ``bytes`` never change, so it may keep views of them.
    """

    __slots__ = ("_data", "_decode", "_needed", "_pending", "_pos")

    def __init__(self, decode: Callable[[bytes, int], tuple[M, int]]) -> None:
        self._decode = decode
        self._data = b""
        self._pos = 0
        self._pending = bytearray()
        self._needed = 1

    def __len__(self) -> int:
        """Return the number of unread bytes."""
        return len(self._data) - self._pos + len(self._pending)

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        if self._needed == 1 and not self._pending and self._pos == len(self._data):
            # The usual case: no unread bytes, so the chunk is decoded without joining.
            self._data, self._pos, self._needed = bytes(data), 0, 0
        else:
            self._pending += data

    def next(self) -> M | None:
        """Return the next whole message; None if more bytes are needed."""
        while True:
            if self._needed:
                if len(self._pending) < self._needed:
                    return None
                self._data = self._data[self._pos :] + bytes(self._pending)
                self._pos = self._needed = 0
                self._pending.clear()
            data, pos = self._data, self._pos
            if pos == len(data):
                self._needed = 1
                continue
            try:
                message, self._pos = self._decode(data, pos)
            except IncompleteError as error:
                self._needed = error.needed
            else:
                return message

    def clear(self) -> None:
        """Remove all bytes."""
        self._data, self._pos, self._needed = b"", 0, 1
        self._pending.clear()


class ControlStreams(Generic[M]):
    """The control stream of one connection, by stream ID.

    ``decode(data, pos)`` returns ``(message, next pos)``, or raises ``IncompleteError`` or a
    ``RemoteError``; it limits the size of a message itself. ``admit(message)`` checks the first
    message on a newer stream, and raises a ``RemoteError`` if the message may not open one.

    - Command: :meth:`open` (dialler).
    - From the transport: :meth:`receive`, :meth:`reset`, :meth:`stopped`. They are generators that
      yield items in order; a fault is raised after the items that preceded it.
    - ``sending`` is the stream to write to, ``reading`` the latched one; None if there is none.
    """

    __slots__ = (
        "_admit",
        "_candidate",
        "_decode",
        "_ended",
        "_finished",
        "_fixed",
        "_newest",
        "_partial",
        "_role",
        "_stale",
        "_stopped",
        "_waiting",
        "reading",
        "sending",
    )

    def __init__(
        self,
        role: Role,
        decode: Callable[[bytes, int], tuple[M, int]],
        *,
        admit: Callable[[M], None] = lambda _: None,
        fixed: bool = False,
    ) -> None:
        self._role = role
        self._decode = decode
        self._admit = admit
        self._fixed = fixed  # the C++ relay always answers on stream 0
        self.reading: int | None = None
        self.sending: int | None = None
        self._newest = -1
        self._waiting = False  # the newest stream is open, but is not latched yet
        self._partial = Assembler(decode)
        self._candidate = Assembler(decode)
        self._ended = False  # the peer ended its half of the latched stream...
        self._finished = False  # ...with FIN, at the end of a message
        self._stale: set[int] = set()
        # Streams other than `sending` whose sending half the transport has reset, because the peer
        # stopped it. In order of age: the oldest entries are removed.
        self._stopped: dict[int, None] = {}

    @property
    def buffered(self) -> int:
        """The number of unread bytes."""
        return len(self._partial) + len(self._candidate)

    @property
    def stale(self) -> int:
        """The number of abandoned streams that the peer has not ended yet."""
        return len(self._stale)

    # Command

    def open(self, stream_id: int) -> tuple[StreamEnding, ...]:
        """Write to the new bidirectional stream ``stream_id`` from now on (dialler)."""
        if self._role is not Role.DIALLER:
            raise StateError("only the dialler opens control streams")
        if stream_id & 3 or stream_id <= self._newest:
            raise StateError(f"{stream_id} is not a newer bidirectional stream of the dialler")
        if self._fixed and self._newest >= 0:
            raise StateError("this peer knows one control stream only")
        old, self.sending, self._newest = self.sending, stream_id, stream_id
        if self.reading is None:
            self.reading = stream_id
            return ()
        # Bytes of a stream that was opened in between and never answered are discarded.
        self._candidate.clear()
        self._waiting = True
        if old is None:
            return ()  # the peer stopped it already
        endings = [StreamEnding(old, Ending.FINISH)]
        if old != self.reading:
            self._remember(old)
            endings.append(StreamEnding(old, Ending.STOP))
        return tuple(endings)

    # From the transport

    def receive(self, stream_id: int, data: bytes, *, fin: bool = False) -> Iterator[LatchItem[M]]:
        """Handle bytes of a bidirectional stream, with ``fin`` its last ones."""
        self._check(stream_id)
        if stream_id == self.reading:
            # Bytes of the latched stream, as almost always.
            if self._ended:
                return
            partial = self._partial
            partial.feed(data)
            while (message := partial.next()) is not None:
                yield Received(message)
            if fin:
                yield from self._end(finished=not self._partial)
        elif stream_id < self._newest or stream_id in self._stale or self._is_foreign(stream_id):
            yield from self._abandon(stream_id, ended=fin)
        else:
            yield from self._consider(stream_id, data, fin=fin)

    def reset(self, stream_id: int) -> Iterator[LatchItem[M]]:
        """Handle the reset of the peer's half of a bidirectional stream."""
        self._check(stream_id)
        if stream_id == self.reading:
            yield from self._end(finished=False)
        elif stream_id < self._newest or stream_id in self._stale or self._is_foreign(stream_id):
            yield from self._abandon(stream_id, ended=True)
        else:
            self._newest = stream_id
            yield from self._ended_unused(stream_id)

    def stopped(self, stream_id: int) -> Iterator[LatchItem[M]]:
        """Handle STOP_SENDING for a bidirectional stream.

        The transport itself answers with a reset of the sending half (RFC 9000, 3.5).
        """
        self._check(stream_id)
        if stream_id == self.sending:
            self.sending = None
            yield Lost(stream_id)
        elif stream_id not in self._stale:
            self._stopped[stream_id] = None
            if len(self._stopped) > MAX_STALE_STREAMS:
                del self._stopped[next(iter(self._stopped))]

    def _check(self, stream_id: int) -> None:
        if stream_id & 3:
            raise ProtocolViolation(
                f"stream {stream_id} is no control stream: only the dialler opens them"
            )
        if self._role is Role.DIALLER and stream_id > self._newest:
            raise ProtocolViolation(f"stream {stream_id} was never opened")

    def _is_foreign(self, stream_id: int) -> bool:
        return self._fixed and stream_id != 0

    def _messages(self) -> Iterator[Received[M]]:
        """Yield each whole message of the latched stream."""
        while (message := self._partial.next()) is not None:
            yield Received(message)

    def _end(self, *, finished: bool) -> Iterator[LatchItem[M]]:
        """Handle the end of the peer's half of the latched stream; a partial message is kept."""
        if self._ended:
            return
        self._ended, self._finished = True, finished
        if self.reading is not None and not self._waiting:
            yield Lost(self.reading)

    def _abandon(self, stream_id: int, *, ended: bool) -> Iterator[StreamEnding]:
        """Drop what arrived on a stream that is not in use, and end that stream once."""
        known = stream_id in self._stale
        if ended:
            self._stale.discard(stream_id)
        elif not known:
            self._remember(stream_id)
            yield StreamEnding(stream_id, Ending.STOP)
        if not known:
            yield from self._reset_ours(stream_id)

    def _reset_ours(self, stream_id: int) -> Iterator[StreamEnding]:
        """End the sending half of an unused stream, unless the transport has already ended it."""
        if stream_id in self._stopped:
            del self._stopped[stream_id]
        elif self._role is Role.LISTENER:
            yield StreamEnding(stream_id, Ending.RESET)

    def _remember(self, stream_id: int) -> None:
        if len(self._stale) >= MAX_STALE_STREAMS:
            raise LimitExceededError(f"more than {MAX_STALE_STREAMS} abandoned control streams")
        self._stale.add(stream_id)

    def _consider(self, stream_id: int, data: bytes, *, fin: bool) -> Iterator[LatchItem[M]]:
        """Handle bytes of a stream that is newer than the latched one."""
        if stream_id > self._newest:
            former, self._newest = self._newest, stream_id
            if self._candidate:
                self._candidate.clear()
                yield from self._abandon(former, ended=False)
        self._waiting = True
        self._candidate.feed(data)
        message = self._candidate.next()
        if message is None:
            if fin:
                yield from self._ended_unused(stream_id)
            return
        if self.reading is not None:
            self._admit(message)
        yield from self._move(stream_id)
        yield Received(message)
        yield from self._messages()
        if fin:
            yield from self._end(finished=not self._partial)

    def _ended_unused(self, stream_id: int) -> Iterator[LatchItem[M]]:
        """Handle the end of a newer stream before its first message."""
        self._candidate.clear()
        self._waiting = False
        yield from self._reset_ours(stream_id)
        if self._role is Role.DIALLER or self._ended:
            yield Lost(stream_id)

    def _move(self, stream_id: int) -> Iterator[LatchItem[M]]:
        """Move to a newer stream, whose first message has arrived."""
        old, ended, discarded = self.reading, self._ended, len(self._partial)
        clean = self._finished
        self.reading = stream_id
        self._partial, self._candidate = self._candidate, self._partial
        self._candidate.clear()
        self._ended = self._finished = self._waiting = False
        if self._role is Role.LISTENER:
            was_sending, self.sending = self.sending, stream_id
            if stream_id in self._stopped:
                del self._stopped[stream_id]
                self.sending = None
            if was_sending is not None:
                yield StreamEnding(was_sending, Ending.FINISH if ended else Ending.RESET)
        if old is None:
            return
        if not ended:
            self._remember(old)
            yield StreamEnding(old, Ending.STOP)
        # A skipped stream may have carried messages, so the move is not clean.
        yield Moved(old, stream_id, clean and stream_id == old + 4, discarded)


# What is to be sent

MAX_JOINED_BYTES: Final = 65_536
"""The most bytes of control messages in one piece, unless a single message is longer."""


class Outbox:
    """An ordered queue of actions for the transport.

    With ``single``, messages are not joined: the C++ relay handles one for each chunk.
    """

    __slots__ = ("_queue", "_single", "_waiting", "waiting_bytes")

    def __init__(self, *, single: bool = False) -> None:
        self._single = single
        # Messages as (stream, bytes, whether a synchronisation repeats it), and ends of streams.
        self._queue: deque[tuple[int, bytes, bool] | StreamEnd | ConnectionClose] = deque()
        self._waiting: deque[bytes] = deque()
        self.waiting_bytes = 0
        """The number of bytes that wait for a stream."""

    @property
    def is_filled(self) -> bool:
        """Whether :meth:`poll` returns an action."""
        return bool(self._queue)

    def put(self, stream_id: int | None, data: bytes, repeated: bool = False) -> None:
        """Queue a message for a stream; without one it waits, unless it will be repeated."""
        if stream_id is not None:
            self._queue.append((stream_id, data, repeated))
        elif not repeated:
            self._waiting.append(data)
            self.waiting_bytes += len(data)

    def adopt(self, stream_id: int) -> None:
        """Queue the waiting messages for this stream."""
        for data in self._waiting:
            self.put(stream_id, data)
        self._waiting.clear()
        self.waiting_bytes = 0

    def end(self, stream_id: int, ending: Ending, code: int = 0) -> None:
        """End one half of a stream after its queued messages; with a reset, those wait again."""
        if ending is Ending.RESET:
            kept: deque[tuple[int, bytes, bool] | StreamEnd | ConnectionClose] = deque()
            for item in self._queue:
                if isinstance(item, tuple) and item[0] == stream_id:
                    self.put(None, item[1], item[2])
                else:
                    kept.append(item)
            self._queue = kept
        self._queue.append(StreamEnd(stream_id, ending, code))

    def close(self, code: int, reason: str) -> None:
        """Close the connection after the queued actions; waiting messages are discarded."""
        self._waiting.clear()
        self.waiting_bytes = 0
        self._queue.append(ConnectionClose(code, reason))

    def clear(self) -> None:
        """Discard everything, after the connection has ended."""
        self._queue.clear()
        self._waiting.clear()
        self.waiting_bytes = 0

    def poll(self) -> Transmit | None:
        """Return the next action; None if there is none."""
        queue = self._queue
        if not queue:
            return None
        item = queue.popleft()
        if not isinstance(item, tuple):
            return item
        stream_id, data, _ = item
        if not queue or self._single:
            return StreamData(stream_id, data, self._single)
        pieces, size = [data], len(data)
        while queue:
            following = queue[0]
            if not isinstance(following, tuple) or following[0] != stream_id:
                break
            size += len(following[1])
            if size > MAX_JOINED_BYTES:
                break
            pieces.append(following[1])
            queue.popleft()
        return StreamData(stream_id, b"".join(pieces))
