"""The egress queue of one connection: bounded, the most urgent stream first, with deadlines.

The engine (QUIC) gets only about as much as it can put into packets now. The rest waits in the
queue, so that priorities take effect as late as possible::

    applications --write--> [ straight through | queue ] --pump--> engine --flush--> packets
                              budget > 0         budget = 0          send_window, backlog

    EgressStream.write
        |-- fits the budget, nothing waits --> engine.write    the common case: no queue at all
        '-> chunks of the stream; the stream stands in one Line of its Egress:
                waiting   the peer allows no more streams yet
                ready     may be given to the engine, most urgent first
                stalled   the engine holds enough of it already (stream flow control)

Bytes that can be read again later are offered: ``offer`` refuses what would only wait. The stream
then stands in a line with a source. The pump calls the source when the stream's turn comes and
little of it is queued::

    track log --offer--> taken: as a write        refused: pull_from(source)
              <--source(now)-- pump, by priority: the source writes the next bytes

``budget`` is the number of bytes that the engine still accepts in this turn. -1 means that the
engine was flushed since, so that the budget must be measured again. While the budget is positive,
no stream is queued, and a write that fits goes straight to the engine. All other writes go through
``submit`` and leave with the turn's ``pump``.

- :class:`Egress` owns the three lines, the datagram queue, the deadlines and the send window.
- :class:`EgressStream` is the sending half of one stream, the ``OutStream`` of applications.
- :class:`Line` holds streams in order of urgency.
- :class:`Deadlines` finds queued streams whose deadline has passed.
- :class:`DatagramQueue` holds queued datagrams; a full queue drops the oldest.
- :class:`SendWindow` measures how much the engine accepts now.

The module has no clock and no loop: the dispatcher passes ``clock`` and ``wake``.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final

from laps_sdk.errors import StreamLimitError
from laps_sdk.quic.base import URGENT, EgressLimits, OutStream, PullSource
from laps_sdk.quic.engine import EngineConnection
from laps_sdk.quic.events import (
    DropReason,
    Event,
    Pulled,
    StreamDropped,
    StreamsAvailable,
    Writable,
)

__all__ = [
    "ALLOWANCE",
    "ROOM",
    "DatagramQueue",
    "Deadlines",
    "Egress",
    "EgressStream",
    "Line",
    "SendWindow",
]

ALLOWANCE: Final = 32 * 1024
"""Bytes of one stream that the engine may hold unsent before the stream has to wait."""

_PULLED: Final = Pulled()
_FIRST: Final = -(1 << 63)
_QUANTUM: Final = 16 * 1024
"""Bytes that a stream may send before the next stream of the same urgency has its turn."""
ROOM: Final = 64 * 1024
"""Queued bytes of one stream at which an offer is refused."""
_REFILL: Final = 16 * 1024
"""Queued bytes of one stream below which its source is asked for more."""
_PACKET: Final = 1200
"""The least size of a piece that a small window cuts off; smaller pieces cost too much."""
_STUCK_AFTER: Final = 0.1
"""Seconds without progress, despite a window, after which backlog is not counted."""
_STUCK_LIMIT: Final = 256 * 1024
"""The most backlog that is not counted. It bounds what an engine gets that does not report the
connection's flow control.
"""


class Egress:
    """The egress queue of one connection."""

    __slots__ = (
        "_asked_bidi",
        "_congested",
        "_deadlines",
        "_engine",
        "_events",
        "_kept_bytes",
        "_lead",
        "_limits",
        "_offered",
        "_quiet",
        "_spare_bytes",
        "_streams",
        "_ticks",
        "_wake",
        "_window",
        "backlog",
        "budget",
        "clock",
        "datagrams",
        "dirty",
        "dropped_bytes",
        "dropped_streams",
        "give",
        "overrun",
        "ready",
        "shut",
        "stalled",
        "unacknowledged_bytes",
        "waiting",
    )

    def __init__(
        self,
        engine: EngineConnection,
        limits: EgressLimits,
        *,
        clock: Callable[[], float],
        wake: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._limits = limits
        self._offered = limits.max_bytes // 2
        self.clock = clock
        self._wake = wake
        self.give = engine.write
        self.backlog = engine.backlog
        self.unacknowledged_bytes = engine.unacknowledged_bytes
        self.budget = -1
        self.dirty = False
        self.shut = False
        self.overrun = ""
        """Why the connection must be closed; "" as long as it need not be."""
        self.ready, self.stalled, self.waiting = Line(), Line(), Line()
        self._streams: dict[int, EgressStream] = {}
        self.datagrams = DatagramQueue(engine, limits.max_datagrams)
        self._window = SendWindow(engine)
        self._deadlines = Deadlines()
        self._events: list[Event] = []
        self._ticks = 0
        self._kept_bytes = self._spare_bytes = 0
        self._congested = False
        self._asked_bidi = False
        self._quiet = True  # no line, no datagram, no deadline: pump has nothing to do
        self._lead = 0  # bytes that datagrams are ahead of streams while both wait
        self.dropped_streams = self.dropped_bytes = 0

    # A. Getters

    @property
    def queued_bytes(self) -> int:
        """Bytes of streams and datagrams in the queue."""
        return self._kept_bytes + self._spare_bytes + self.datagrams.size

    @property
    def congested(self) -> bool:
        """Whether the queue exceeded its high mark and has not drained to its low mark since."""
        return self._congested

    @property
    def has_events(self) -> bool:
        """Whether :meth:`take_events` returns any."""
        return bool(self._events)

    def take_events(self) -> list[Event]:
        """Return the events since the last call."""
        events = self._events
        if events:
            self._events = []
        return events

    def next_timer(self) -> float | None:
        """Return when to call :meth:`pump` even if nothing else happens."""
        deadline, recheck = self._deadlines.next(), self._window.recheck
        if deadline is None or recheck is None:
            return recheck if deadline is None else deadline
        return min(deadline, recheck)

    def tick(self) -> int:
        """Return a number that grows with each call; it orders streams by arrival."""
        self._ticks += 1
        return self._ticks

    def wake(self) -> None:
        """Request a pump and a flush at the end of the turn."""
        if not self.dirty and not self.shut:
            self.dirty = True
            self._wake()

    # B. Streams

    def open_unidirectional(
        self, *, priority: int, droppable: bool, drop_code: int, deadline: float | None
    ) -> EgressStream:
        """Return a new stream; the stream waits if the peer allows no more yet."""
        stream = EgressStream(
            self,
            None,
            priority=priority,
            droppable=droppable,
            drop_code=drop_code,
            deadline=deadline,
        )
        if self.shut:
            stream.closed = True
        elif not self.waiting and self._engine.streams_left(True) > 0:
            stream.sid = stream_id = self._engine.open_stream(True)
            self._streams[stream_id] = stream
        else:
            self.waiting.add(stream, self.tick())
            self._quiet = False
            self.deadline_changed(stream)
            if len(self.waiting) > self._limits.max_waiting_streams:
                self._drop_waiting()
            self.wake()
        return stream

    def open_bidirectional(self, *, priority: int) -> EgressStream:
        """Return a new stream for both directions.

        Raises ``StreamLimitError`` if the peer allows no more streams.
        """
        if not self.shut and self._engine.streams_left(False) <= 0:
            self._asked_bidi = True
            self._quiet = False
            raise StreamLimitError(
                "the peer allows no more bidirectional streams now; wait for StreamsAvailable"
            )
        if self.shut:
            stream = EgressStream(self, None, priority=priority)
            stream.closed = True
            return stream
        return self.adopt(self._engine.open_stream(False), priority)

    def adopt(self, stream_id: int, priority: int = URGENT) -> EgressStream:
        """Return the sending half of a stream that exists already."""
        stream = EgressStream(self, stream_id, priority=priority)
        stream.closed = self.shut
        self._streams[stream_id] = stream
        return stream

    def stream(self, stream_id: int) -> EgressStream | None:
        """Return the open stream with this id, or None."""
        return self._streams.get(stream_id)

    def submit(self, stream: EgressStream, data: bytes, fin: bool) -> None:
        """Take a write that cannot go straight through: give it in small pieces, or queue it."""
        size = len(data)
        deadline = stream.deadline
        if deadline is not None and deadline <= self.clock():
            self._drop(stream, DropReason.EXPIRED, size)
            return
        if stream.place is None:
            if self.budget < 0:
                self.budget = 0 if self.ready else self._window.measure()
            if size < self.budget:
                stream_id = stream.sid
                if size >= stream.allowance:
                    stream.allowance = ALLOWANCE - self._engine.backlog(stream_id)
                if size < stream.allowance:
                    self.budget -= size
                    stream.allowance -= size
                    self.give(stream_id, data, fin)
                    self.wake()
                    if fin:
                        self.finished(stream)
                    return
            self.ready.add(stream, self.tick())
            self._quiet = False
            self.budget = 0  # from now on all writes are queued
            if deadline is not None:
                self.deadline_changed(stream)
        if stream.chunks is None:
            stream.chunks = deque()
        if size:
            stream.chunks.append(data)
            stream.queued += size
            self._count(stream, size)
        if fin:
            stream.ended = stream.closed = True
        self.wake()

    def refuses(self, stream: EgressStream) -> bool:
        """Return whether bytes offered to a stream would only wait behind enough others."""
        return (
            stream.queued >= ROOM
            or self._spare_bytes >= self._offered
            or (stream.sid < 0 and len(self.waiting) > self._limits.max_waiting_streams // 2)
        )

    def pull(self, stream: EgressStream) -> None:
        """Let a stream that has a source wait for its turn."""
        if stream.place is None and not self.shut:
            self.ready.add(stream, self.tick())
            self._quiet = False
            self.budget = 0  # from now on all writes are queued
            self.wake()

    def finished(self, stream: EgressStream) -> None:
        """Forget a stream after the engine got all of it, FIN included."""
        stream.closed = True
        stream.ended = False
        self._streams.pop(stream.sid, None)

    def abandon(self, stream: EgressStream, code: int) -> None:
        """Reset a stream and forget its queued bytes."""
        if self._forget(stream) and not self.shut:
            self._engine.reset(stream.sid, code)
            self.wake()

    def stopped(self, stream_id: int, code: int) -> None:
        """Answer the peer's STOP_SENDING with a reset, as RFC 9000, 3.5 requires."""
        stream = self._streams.get(stream_id)
        if stream is not None:
            self._forget(stream)
        self._engine.reset(stream_id, code)
        self.wake()

    def deadline_changed(self, stream: EgressStream) -> None:
        """Watch the deadline of a stream that waits in a line."""
        if stream.deadline is None or stream.place is None:
            return
        self._deadlines.watch(stream, len(self.ready) + len(self.stalled) + len(self.waiting))
        self._quiet = False
        self.wake()

    # C. Datagrams

    def send_datagram(self, data: bytes, deadline: float | None) -> bool:
        """Queue a datagram; return False if the peer or the path rejects its length."""
        size = len(data)
        if self.shut or size > self._engine.max_datagram_size:
            return False
        if deadline is not None and deadline <= self.clock():
            self.datagrams.dropped += 1
            return True
        if self.budget < 0:
            self.budget = 0 if self.ready else self._window.measure()
        if size < self.budget and not self.datagrams:
            self.budget -= size
            self._engine.datagram(data)
        else:
            self.datagrams.put(data, deadline)
            self._quiet = False
            self._note_congestion()
        if not self.dirty:
            self.wake()
        return True

    # D. Turns

    def pump(self, now: float) -> None:
        """Give the engine what it can send now; called before every flush."""
        self.dirty = False
        if self._quiet:
            return
        if self._deadlines:
            for late in self._deadlines.passed(now):
                self._drop(late, DropReason.EXPIRED)
        if self.waiting or self._asked_bidi:
            self._open_waiting()
        if self.stalled:
            self._revive()
        ready, datagrams = self.ready, self.datagrams
        if not (ready or datagrams):
            self._note_congestion()  # what was queued may have been dropped or reset
            self._quiet = not (self.waiting or self.stalled or self._deadlines or self._asked_bidi)
            return
        self.budget = window = self._window.measure(now)
        while self.budget > 0:
            stream = ready.urgent()
            if datagrams and (stream is None or (stream.priority != URGENT and self._lead <= 0)):
                size = datagrams.give(now)
                self.budget -= size
                self._lead = 0 if stream is None else self._lead + size
            elif stream is not None:
                if stream.source is not None and stream.queued < _REFILL:
                    self._refill(stream, now)
                    if stream.place is not ready:
                        continue  # the source reset the stream
                if stream.queued or stream.ended:
                    self._give_piece(stream, alone=not datagrams)
                else:
                    ready.remove(stream)  # the source has nothing more yet
            else:
                break
        if ready or datagrams:
            self.budget = 0
            if window > 0:
                self._window.blocked(now)
        self._note_congestion()

    def flushed(self) -> None:
        """Note that the engine was flushed, so that the budget is measured again."""
        self.budget = -1

    def close(self) -> None:
        """Drop everything: the connection has ended."""
        self.shut = True
        for line in (self.ready, self.stalled, self.waiting):
            for stream in line.streams():
                stream.left = stream.queued
                self._forget(stream)
        for stream in self._streams.values():
            stream.closed = True
        self._streams.clear()
        self._deadlines.clear()
        self.datagrams.clear()
        self.budget = 0

    # E. Inside

    def _refill(self, stream: EgressStream, now: float) -> None:
        if self._spare_bytes >= self._offered:
            if not stream.queued:
                self.ready.remove(stream)
                self.stalled.add(stream, self.tick())
            return
        source, stream.source = stream.source, None
        if source is not None:
            source(now)
            if not self._events or self._events[-1] is not _PULLED:
                self._events.append(_PULLED)

    def _give_piece(self, stream: EgressStream, *, alone: bool) -> None:
        line, engine = self.ready, self._engine
        stream_id = stream.sid
        if stream.allowance <= 0:
            backlog = engine.backlog(stream_id)
            stream.allowance = ALLOWANCE - backlog
            if stream.allowance <= 0:
                line.remove(stream)
                self.stalled.add(stream, self.tick())
                self._window.stalled += backlog
                return
        before = stream.queued
        data = stream.take(min(max(self.budget, _PACKET), _QUANTUM, stream.allowance))
        size = before - stream.queued
        self.budget -= size
        stream.allowance -= size
        self._count(stream, -size)
        if not alone:
            self._lead -= size
        line.remove(stream)
        if stream.queued or (stream.source is not None and not stream.ended):
            line.add(stream, self.tick())
            self.give(stream_id, data, False)
        elif stream.ended:
            self.give(stream_id, data, True)
            self.finished(stream)
        else:
            self.give(stream_id, data, False)

    def _open_waiting(self) -> None:
        engine = self._engine
        left = engine.streams_left(True) if self.waiting else 0
        while left > 0 and (stream := self.waiting.urgent()) is not None:
            left -= 1
            self.waiting.remove(stream)
            stream.sid = stream_id = engine.open_stream(True)
            self._streams[stream_id] = stream
            if stream.queued or stream.ended or stream.source is not None:
                self.ready.add(stream, self.tick())
        if self._asked_bidi and engine.streams_left(False) > 0:
            self._asked_bidi = False
            self._events.append(StreamsAvailable())

    def _revive(self) -> None:
        held = 0
        for stream in self.stalled.streams():
            backlog = self._engine.backlog(stream.sid)
            if backlog <= ALLOWANCE // 2:
                self.stalled.remove(stream)
                stream.allowance = ALLOWANCE - backlog
                self.ready.add(stream, self.tick())
            else:
                held += backlog
        self._window.stalled = held

    def _count(self, stream: EgressStream, size: int) -> None:
        limits = self._limits
        if stream.droppable:
            self._spare_bytes += size
            while size > 0 and self._spare_bytes > limits.max_bytes:
                self._drop(self._least_urgent(), DropReason.OVERFLOW)
        else:
            self._kept_bytes += size
            if self._kept_bytes > limits.max_control_bytes and not self.overrun:
                self.overrun = (
                    f"streams that must not be dropped hold {self._kept_bytes} bytes that the "
                    f"peer does not take (limit {limits.max_control_bytes})"
                )
                self.wake()
        if size > 0:
            self._note_congestion()

    def _least_urgent(self) -> EgressStream:
        found = [s for line in (self.ready, self.stalled, self.waiting) if (s := line.expendable())]
        return min(found, key=lambda stream: (stream.key[0], -stream.key[1]))

    def _drop_waiting(self) -> None:
        stream = self.waiting.expendable()
        if stream is not None:
            self._drop(stream, DropReason.BLOCKED)
        elif not self.overrun:
            self.overrun = (
                f"the peer allows no streams and {len(self.waiting)} that must not be dropped wait"
            )

    def _drop(self, stream: EgressStream, reason: DropReason, unqueued: int = 0) -> None:
        lost = stream.queued + unqueued
        self.dropped_streams += 1
        self.dropped_bytes += lost
        self.abandon(stream, stream.drop_code)
        self._events.append(StreamDropped(stream, reason, lost))
        self.wake()

    def _forget(self, stream: EgressStream) -> bool:
        """Remove a stream from all queues; return whether QUIC has opened it."""
        if stream.place is not None:
            stream.place.remove(stream)
        if stream.queued:
            size, stream.queued = stream.queued, 0
            self._count(stream, -size)
        stream.chunks = None
        stream.source = None
        stream.closed = True
        stream.ended = False
        if stream.sid < 0:
            return False
        self._streams.pop(stream.sid, None)
        return True

    def _note_congestion(self) -> None:
        held = self._kept_bytes + self._spare_bytes + self.datagrams.size
        if self._congested:
            if held <= self._limits.low_water:
                self._congested = False
                self._events.append(Writable())
        elif held > self._limits.high_water:
            self._congested = True


class EgressStream(OutStream):
    """The queue of one stream. The attributes belong to the egress, the methods to applications."""

    __slots__ = (
        "allowance",
        "chunks",
        "closed",
        "deadline",
        "drop_code",
        "droppable",
        "egress",
        "ended",
        "key",
        "left",
        "offset",
        "place",
        "priority",
        "queued",
        "sid",
        "source",
    )

    closed: bool
    queued: int

    def __init__(
        self,
        egress: Egress,
        stream_id: int | None,
        *,
        priority: int,
        droppable: bool = False,
        drop_code: int = 0,
        deadline: float | None = None,
    ) -> None:
        self.egress = egress
        self.sid = -1 if stream_id is None else stream_id
        self.priority = priority
        self.droppable = droppable
        self.drop_code = drop_code
        self.deadline = deadline
        self.closed = False
        self.queued = 0
        self.left = 0  # bytes that were queued at the end of the connection
        self.ended = False  # FIN follows the chunks
        self.chunks: deque[bytes] | None = None
        self.offset = 0  # bytes already taken from the first chunk
        self.allowance = ALLOWANCE
        self.place: Line | None = None
        self.source: PullSource | None = None
        self.key: _Key = (0, 0, self)

    @property
    def stream_id(self) -> int | None:
        """See :attr:`OutStream.stream_id`."""
        return None if self.sid < 0 else self.sid

    @property
    def unsent(self) -> int:
        """See :attr:`OutStream.unsent`."""
        return self.queued + (0 if self.sid < 0 else self.egress.backlog(self.sid))

    @property
    def unacknowledged(self) -> int:
        """See :attr:`OutStream.unacknowledged`."""
        held = 0 if self.sid < 0 else self.egress.unacknowledged_bytes(self.sid)
        return self.queued + self.left + held

    def write(self, data: bytes, fin: bool = False) -> None:
        """See :meth:`OutStream.write`."""
        if self.closed:
            return
        egress = self.egress
        size = len(data)
        if (
            size < egress.budget
            and size < self.allowance
            and self.place is None
            and self.deadline is None
        ):
            egress.budget -= size
            self.allowance -= size
            egress.give(self.sid, data, fin)
            if not egress.dirty:
                egress.wake()
            if fin:
                egress.finished(self)
            return
        egress.submit(self, data, fin)

    def offer(self, data: bytes, fin: bool = False) -> bool:
        """See :meth:`OutStream.offer`."""
        if self.closed:
            return True
        egress = self.egress
        size = len(data)
        if (
            size < egress.budget
            and size < self.allowance
            and self.place is None
            and self.deadline is None
        ):
            egress.budget -= size
            self.allowance -= size
            egress.give(self.sid, data, fin)
            if not egress.dirty:
                egress.wake()
            if fin:
                egress.finished(self)
            return True
        if egress.refuses(self):
            return False
        egress.submit(self, data, fin)
        return True

    def pull_from(self, source: PullSource) -> None:
        """See :meth:`OutStream.pull_from`."""
        if not self.closed:
            self.source = source
            self.egress.pull(self)

    def reset(self, code: int) -> None:
        """See :meth:`OutStream.reset`; also cancels a FIN that QUIC has not accepted yet."""
        if not self.closed or self.ended:
            self.egress.abandon(self, code)

    def set_priority(self, priority: int) -> None:
        """See :meth:`OutStream.set_priority`."""
        place = self.place
        if place is None or priority == self.priority:
            self.priority = priority
            return
        place.remove(self)
        self.priority = priority
        place.add(self, self.egress.tick())

    def set_deadline(self, deadline: float | None) -> None:
        """See :meth:`OutStream.set_deadline`."""
        if deadline != self.deadline:
            self.deadline = deadline
            self.egress.deadline_changed(self)

    def take(self, room: int) -> bytes:
        """Return at most ``room`` bytes from the front of the queue; small chunks are joined."""
        chunks = self.chunks
        if not chunks:
            return b""
        first, offset = chunks[0], self.offset
        left = len(first) - offset
        if left > room:  # a slice is copied once; the rest of the chunk stays where it is
            self.offset = offset + room
            self.queued -= room
            return first[offset : offset + room]
        self.offset = 0
        chunks.popleft()
        data = first[offset:] if offset else first
        if chunks and left + len(chunks[0]) <= room:
            pieces = [data]
            while chunks and left + len(chunks[0]) <= room:
                data = chunks.popleft()
                left += len(data)
                pieces.append(data)
            data = b"".join(pieces)
        self.queued -= left
        return data


_Key = tuple[int, int, EgressStream]


class Line:
    """Streams in order of urgency; droppable streams are in a list of their own.

    The lists are sorted, because both ends are needed: the most urgent stream is sent, the least
    urgent is dropped. Moving a few thousand pointers is cheaper than keeping two heaps consistent.
    """

    __slots__ = ("kept", "spare")

    def __init__(self) -> None:
        # (-priority, -tick, stream): the most urgent last; of equals, the one that waits longest.
        self.kept: list[_Key] = []
        self.spare: list[_Key] = []

    def __len__(self) -> int:
        return len(self.kept) + len(self.spare)

    def __bool__(self) -> bool:
        return bool(self.kept or self.spare)

    def add(self, stream: EgressStream, tick: int) -> None:
        """Insert a stream after those that are as urgent."""
        stream.key = key = (-stream.priority, -tick, stream)
        stream.place = self
        insort(self.spare if stream.droppable else self.kept, key)

    def remove(self, stream: EgressStream) -> None:
        """Remove a stream, which must be in this line."""
        side = self.spare if stream.droppable else self.kept
        if side[-1][2] is stream:
            side.pop()
        else:
            del side[bisect_left(side, stream.key)]
        stream.place = None

    def urgent(self) -> EgressStream | None:
        """Return the most urgent stream; None if the line is empty."""
        kept, spare = self.kept, self.spare
        if not kept:
            return spare[-1][2] if spare else None
        if not spare or kept[-1] > spare[-1]:
            return kept[-1][2]
        return spare[-1][2]

    def expendable(self) -> EgressStream | None:
        """Return the least urgent droppable stream; of equals, the one that waits longest."""
        spare = self.spare
        if not spare:
            return None
        rank, _, stream = spare[0]
        return spare[bisect_left(spare, (rank + 1, _FIRST, stream)) - 1][2]

    def streams(self) -> list[EgressStream]:
        """Return all streams, the most urgent first."""
        return [key[2] for key in sorted(self.kept + self.spare, reverse=True)]


class Deadlines:
    """A heap of (deadline, order, stream)."""

    __slots__ = ("_count", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, EgressStream]] = []
        self._count = 0

    def __bool__(self) -> bool:
        return bool(self._heap)

    def __len__(self) -> int:
        return len(self._heap)

    def watch(self, stream: EgressStream, waiting: int) -> None:
        """Add a stream with a deadline; ``waiting`` is how many streams are in lines now."""
        heap = self._heap
        if len(heap) > 2 * waiting + 64:  # most belong to streams that have left
            heap[:] = [entry for entry in heap if _holds(entry)]
            heapify(heap)
        if stream.deadline is not None:
            self._count += 1
            heappush(heap, (stream.deadline, self._count, stream))

    def next(self) -> float | None:
        """Return the earliest deadline of a stream that still waits; None if there is none."""
        heap = self._heap
        while heap and not _holds(heap[0]):
            heappop(heap)
        return heap[0][0] if heap else None

    def passed(self, now: float) -> list[EgressStream]:
        """Return the waiting streams whose deadline has passed, the earliest first."""
        heap = self._heap
        found: dict[EgressStream, None] = {}  # a stream may be in the heap twice
        while heap and heap[0][0] <= now:
            entry = heappop(heap)
            if _holds(entry):
                found[entry[2]] = None
        return list(found)

    def clear(self) -> None:
        """Forget all streams."""
        self._heap.clear()


def _holds(entry: tuple[float, int, EgressStream]) -> bool:
    deadline, _, stream = entry
    return stream.place is not None and stream.deadline == deadline


class DatagramQueue:
    """The queued datagrams of one connection, and the count of dropped ones."""

    __slots__ = ("_engine", "_limit", "_queue", "dropped", "size")

    def __init__(self, engine: EngineConnection, limit: int) -> None:
        self._engine = engine
        self._limit = limit
        self._queue: deque[tuple[bytes, float | None]] = deque()
        self.size = 0
        """Bytes in the queue."""
        self.dropped = 0

    def __bool__(self) -> bool:
        return bool(self._queue)

    def put(self, data: bytes, deadline: float | None) -> None:
        """Add a datagram; a full queue drops its oldest."""
        self._queue.append((data, deadline))
        self.size += len(data)
        if len(self._queue) > self._limit:
            self.size -= len(self._queue.popleft()[0])
            self.dropped += 1

    def give(self, now: float) -> int:
        """Give the oldest datagram to the engine, or drop it if it is late or too long by now.

        Returns the bytes that the engine got.
        """
        data, deadline = self._queue.popleft()
        size = len(data)
        self.size -= size
        if (deadline is not None and deadline <= now) or size > self._engine.max_datagram_size:
            self.dropped += 1
            return 0
        self._engine.datagram(data)
        return size

    def clear(self) -> None:
        """Forget all datagrams."""
        self._queue.clear()
        self.size = 0


class SendWindow:
    """Measures how much an engine accepts, and finds backlog that no flush can move.

    A stream without flow-control credit holds such backlog. It must not delay other streams.
    """

    __slots__ = ("_engine", "_seen", "_since", "_stuck", "recheck", "stalled")

    def __init__(self, engine: EngineConnection) -> None:
        self._engine = engine
        self.stalled = 0
        """Backlog of streams that wait for their own flow-control credit."""
        self.recheck: float | None = None
        """When to measure again although nothing else happens, because backlog may be stuck."""
        self._stuck = self._seen = 0
        self._since = 0.0

    def measure(self, now: float | None = None) -> int:
        """Return the bytes that the engine accepts; with ``now``, also check for stuck backlog."""
        engine = self._engine
        window = engine.send_window()
        backlog = engine.total_backlog() - self.stalled
        self.recheck = None
        if window <= 0 or backlog <= 0:
            self._stuck = self._seen = 0
            return max(0, window)
        self._stuck = min(self._stuck, backlog)
        if now is not None:
            if backlog < self._seen or not self._seen:
                self._since = now
            elif now - self._since >= _STUCK_AFTER:
                self._stuck = min(backlog, _STUCK_LIMIT)
            self._seen = backlog
            if window <= backlog - self._stuck:
                self.recheck = max(self._since, now) + _STUCK_AFTER
        return max(0, window - (backlog - self._stuck))

    def blocked(self, now: float) -> None:
        """Schedule a measurement, because more is queued than the engine accepted.

        The bytes given last may be stuck: then no acknowledgement arrives to trigger a measurement.
        """
        if self.recheck is None:
            self.recheck = now + _STUCK_AFTER
