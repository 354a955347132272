"""Which bidirectional stream is the control stream: latching, and moving to a new one.

The dialler opens the control stream; the listener latches on to it. The dialler may open another
one at any time, and the listener moves there with the first control message that it receives on it
(seed 000, Sending/Receiving Control Messages). Both ends follow one rule for reading::

              first whole message on a newer stream
      ┌───────────────────────────────────────────────────────┐
      │                                                       v
   read from stream 0          4 is a candidate:         read from stream 4
   (the latched stream)        its bytes wait,           0 is ended: reset and stopped,
                               0 is still read           or finished if the peer had finished it;
                                                         a partial message of 0 is discarded

and differ in when they write: the dialler writes to the new stream as soon as it is open (and
finishes its half of the old one), the listener once it has moved. So no side ever reads messages
from two streams, and what still arrives on an older stream is dropped.

Messages that were under way on the old stream may be lost in a move. ``Moved.clean`` says whether
everything that the peer wrote to the old stream was read; only then is nothing missing.

Stream ids are QUIC's: of the bidirectional ones, those that the dialler opened are divisible by 4.
A newer stream has a higher id, so an old stream that is overtaken by a newer one, which QUIC
allows, is told by its id. Buffers are bounded: one message of the latched stream, one of the
candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, unique
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from laps_wire.errors import IncompleteError, ProtocolViolation, StateError
from laps_wire.peering.errors import LimitExceededError
from laps_wire.peering.session.state import Role

__all__ = [
    "MAX_STALE_STREAMS",
    "Assembler",
    "ControlStreams",
    "Ending",
    "LatchItem",
    "Lost",
    "Moved",
    "Received",
    "StreamEnding",
]

M = TypeVar("M")

MAX_STALE_STREAMS: Final = 64
"""How many abandoned streams that the peer has not ended yet we remember; more ends the session."""


@unique
class Ending(Enum):
    """How one half of a stream is ended."""

    FINISH = "finish"
    """Our half, after everything that was written to it (FIN)."""
    RESET = "reset"
    """Our half, at once (RESET_STREAM)."""
    STOP = "stop"
    """The peer's half: we no longer read it (STOP_SENDING)."""


class Received(NamedTuple, Generic[M]):
    """A control message was received on the latched stream; there is one for every message."""

    message: M


@dataclass(frozen=True, slots=True)
class Moved:
    """The control stream is another one from now on."""

    old: int
    new: int
    clean: bool
    """Whether the old stream was finished by the peer and read to its end, and none was skipped."""
    discarded: int
    """Bytes of a partial message on the old stream that were dropped."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The peer ended the control stream, and no newer one is there yet.

    A dialler opens a new one; a listener waits for it.
    """

    stream_id: int


@dataclass(frozen=True, slots=True)
class StreamEnding:
    """One half of a stream is to be ended."""

    stream_id: int
    ending: Ending


LatchItem: TypeAlias = "Received[M] | Moved | Lost | StreamEnding"


class Assembler(Generic[M]):
    """The unread bytes of one stream: chunks go in, whole messages come out.

    ::

        feed ──> pending (grows)          data (fixed)            next ──> a message
                 "wait for 37 more" ────> [ read │ unread ]  ────>         or None: more is needed
                 joined when that         decoded at ``pos``
                 many are there

    A decoder that runs out of bytes says how many are missing at least. Until they are there
    nothing is decoded again: a message that comes byte by byte costs as much as one that is whole.

    ``decode(data, pos)`` gives ``(message, next pos)`` or raises ``IncompleteError`` or a
    ``RemoteError``. It gets ``bytes`` that never change, so it may hold on to views of them.
    """

    __slots__ = ("_data", "_decode", "_needed", "_pending", "_pos")

    def __init__(self, decode: Callable[[bytes, int], tuple[M, int]]) -> None:
        self._decode = decode
        self._data = b""
        self._pos = 0
        self._pending = bytearray()
        self._needed = 1

    def __len__(self) -> int:
        """How many bytes wait for the rest of their message."""
        return len(self._data) - self._pos + len(self._pending)

    def feed(self, data: bytes) -> None:
        """More bytes came in."""
        if self._needed == 1 and not self._pending and self._pos == len(self._data):
            # Nothing waits, as almost always: what came is read where it is.
            self._data, self._pos, self._needed = bytes(data), 0, 0
        else:
            self._pending += data

    def next(self) -> M | None:
        """The next whole message; ``None`` if more bytes are needed."""
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
        """Forget everything."""
        self._data, self._pos, self._needed = b"", 0, 1
        self._pending.clear()


class ControlStreams(Generic[M]):
    """The control stream of one connection, by stream id.

    ``decode(data, pos)`` gives ``(message, next pos)`` or raises ``IncompleteError`` or a
    ``RemoteError``; it must bound the size of a message by itself. ``admit(message)`` looks at the
    first message on a newer stream and raises a ``RemoteError`` if it may not open one.

    - Command: :meth:`open` (dialler).
    - From the transport: :meth:`receive`, :meth:`reset`, :meth:`stopped`. They are generators: what
      they yield happens in that order, and a fault is raised where it occurs, after what preceded
      it.
    - ``sending`` is the stream to write to, ``reading`` the latched one; ``None`` if there is none.
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
        self._fixed = fixed  # the C++ relay answers on stream 0 whatever happens
        self.reading: int | None = None
        self.sending: int | None = None
        self._newest = -1
        self._waiting = False  # the newest stream is open, but is not latched yet
        self._partial = Assembler(decode)
        self._candidate = Assembler(decode)
        self._ended = False  # the peer ended its half of the latched stream...
        self._finished = False  # ...with FIN, at the end of a message
        self._stale: set[int] = set()
        # Streams other than the one we write to, whose half of ours the transport has reset because
        # the peer stopped it. In order of age, for old ones are forgotten.
        self._stopped: dict[int, None] = {}

    @property
    def buffered(self) -> int:
        """How many bytes wait for the rest of their message."""
        return len(self._partial) + len(self._candidate)

    @property
    def stale(self) -> int:
        """How many abandoned streams the peer has not ended yet."""
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
        # What waits on a stream that was opened in between and never answered is of no use.
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
        """Bytes came in on a bidirectional stream, perhaps its last ones."""
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
        """The peer reset its half of a bidirectional stream."""
        self._check(stream_id)
        if stream_id == self.reading:
            yield from self._end(finished=False)
        elif stream_id < self._newest or stream_id in self._stale or self._is_foreign(stream_id):
            yield from self._abandon(stream_id, ended=True)
        else:
            self._newest = stream_id
            yield from self._ended_unused(stream_id)

    def stopped(self, stream_id: int) -> Iterator[LatchItem[M]]:
        """The peer no longer reads our half of a bidirectional stream (STOP_SENDING).

        The transport answers that with a reset of our half by itself (RFC 9000, 3.5).
        """
        self._check(stream_id)
        if stream_id == self.sending:
            self.sending = None
            yield Lost(stream_id)
        elif stream_id not in self._stale:
            self._stopped[stream_id] = None
            if len(self._stopped) > MAX_STALE_STREAMS:
                del self._stopped[next(iter(self._stopped))]

    # Inside

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
        """Every whole message of the latched stream."""
        while (message := self._partial.next()) is not None:
            yield Received(message)

    def _end(self, *, finished: bool) -> Iterator[LatchItem[M]]:
        """The peer ended its half of the latched stream; its partial message waits for the move."""
        if self._ended:
            return
        self._ended, self._finished = True, finished
        if self.reading is not None and not self._waiting:
            yield Lost(self.reading)

    def _abandon(self, stream_id: int, *, ended: bool) -> Iterator[StreamEnding]:
        """Something arrived on a stream that is not, or no longer, in use: drop it, end it once."""
        known = stream_id in self._stale
        if ended:
            self._stale.discard(stream_id)
        elif not known:
            self._remember(stream_id)
            yield StreamEnding(stream_id, Ending.STOP)
        if not known:
            yield from self._reset_ours(stream_id)

    def _reset_ours(self, stream_id: int) -> Iterator[StreamEnding]:
        """End our half of a stream that we never wrote to, unless the transport has done it."""
        if stream_id in self._stopped:
            del self._stopped[stream_id]
        elif self._role is Role.LISTENER:
            yield StreamEnding(stream_id, Ending.RESET)

    def _remember(self, stream_id: int) -> None:
        if len(self._stale) >= MAX_STALE_STREAMS:
            raise LimitExceededError(f"more than {MAX_STALE_STREAMS} abandoned control streams")
        self._stale.add(stream_id)

    def _consider(self, stream_id: int, data: bytes, *, fin: bool) -> Iterator[LatchItem[M]]:
        """Bytes of a stream that is newer than the latched one."""
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
        """The peer ended a newer stream before its first message: there is nothing to move to."""
        self._candidate.clear()
        self._waiting = False
        yield from self._reset_ours(stream_id)
        if self._role is Role.DIALLER or self._ended:
            yield Lost(stream_id)

    def _move(self, stream_id: int) -> Iterator[LatchItem[M]]:
        """The first message of a newer stream is there."""
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
        # Of a stream that was skipped nobody knows what was on it.
        yield Moved(old, stream_id, clean and stream_id == old + 4, discarded)
