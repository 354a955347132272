"""What waits where the bandwidth is limited, and who has the next turn.

::

    Pipe ---.                     Lane: one direction of a wire
    Backlog  >-- in turn, packet --> [ busy for size / rate ] --> under way
    Pipe ---'    by packet

A wire has one bandwidth in each direction, however many connections use it: their pipes have their
turns one after the other. Inside a pipe it is as in the egress of a real connection
(``laps_sdk.quic.egress``): control first; then the most urgent stream, and of equals the one
that waits longest; datagrams have no urgency, and take turns with streams, byte for byte. Over the
limit the least urgent stream that may be dropped is given up.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from laps_relay.sim.net.clock import Clock

if TYPE_CHECKING:
    from laps_relay.sim.net.wires import Chunk, SimOutStream

__all__ = ["MAX_DATAGRAMS", "PACKET", "QUEUE_BYTES", "Backlog", "Lane", "Waiting"]

QUEUE_BYTES: Final = 256 * 1024
"""What a sender keeps for a slow peer; droppable streams are given up beyond it."""
MAX_DATAGRAMS: Final = 512
"""Datagrams that wait; the oldest goes first."""
PACKET: Final = 1200
"""Bytes that go at a time; who is more urgent waits for one of them at most."""
OVERHEAD: Final = 40
"""Bytes of a packet that are not ours."""


class Turn(Protocol):
    """Who wants to use a lane: a pipe."""

    def send_next(self) -> int | None:
        """Put the most urgent packet on the wire; its size, or None if nothing waits."""

    @property
    def rate(self) -> float | None:
        """Bytes a second that the lane takes now; None: no limit."""


class Lane:
    """One direction of a wire."""

    __slots__ = ("_clock", "_turns", "busy", "quickened", "rate")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turns: deque[Turn] = deque()
        self.busy = False
        """Whether a packet is being sent."""
        self.rate: float | None = None
        """At which the last packet was sent."""
        self.quickened = -math.inf
        """Since when packets go at a higher rate than before."""

    def want(self, pipe: Turn) -> None:
        """Something waits in a pipe."""
        if pipe not in self._turns:
            self._turns.append(pipe)
        if not self.busy:
            self._next()

    def lags(self, rate: float | None) -> bool:
        """Whether the packet that is being sent goes at a lower rate than this: from before."""
        return self.busy and self.rate is not None and (rate is None or self.rate < rate)

    def held_back(self, since: float) -> bool:
        """Whether what was sent then may have had to wait here until now."""
        return self.rate is not None or self.quickened >= since

    def _next(self) -> None:
        self.busy = True
        while self._turns:
            pipe = self._turns.popleft()
            size = pipe.send_next()
            if size is None:
                continue
            self._turns.append(pipe)
            before, self.rate = self.rate, pipe.rate
            if before is not None and (self.rate is None or self.rate > before):
                self.quickened = self._clock.now
            if self.rate is not None:
                self._clock.after((size + OVERHEAD) / self.rate, self._next)
                return
        self.busy = False


class Waiting(NamedTuple):
    """A chunk in a queue."""

    chunk: Chunk
    since: float
    """When it was written."""
    deadline: float | None = None
    """Of a datagram; a stream has one for all that waits."""


class Backlog:
    """What waits in one pipe."""

    __slots__ = ("_lead", "_tick", "control", "datagrams", "droppable", "limit", "streams")

    def __init__(self, limit: int = QUEUE_BYTES) -> None:
        self.limit = limit
        self.control: deque[Waiting] = deque()
        self.datagrams: deque[Waiting] = deque()
        self.streams: dict[int, SimOutStream] = {}
        """Those with something that waits."""
        self.droppable = 0
        """Bytes of streams that may be given up."""
        self._tick = 0
        self._lead = 0
        """Bytes that datagrams are ahead of streams while both wait."""

    def __bool__(self) -> bool:
        return bool(self.control or self.streams or self.datagrams)

    def put(self, stream: SimOutStream, chunk: Chunk, now: float) -> None:
        """Let a chunk of a data stream wait."""
        if stream.stream_id not in self.streams:
            self._stand(stream)
        stream.waiting.append(Waiting(chunk, now))
        self._count(stream, len(chunk.data))

    def put_datagram(self, chunk: Chunk, now: float, deadline: float | None) -> Waiting | None:
        """Let a datagram wait; the one that makes room for it, if any."""
        self.datagrams.append(Waiting(chunk, now, deadline))
        return self.datagrams.popleft() if len(self.datagrams) > MAX_DATAGRAMS else None

    def take(self) -> tuple[SimOutStream | None, Waiting] | None:
        """The next packet: a chunk, or a part of one; None if nothing waits."""
        if self.control:
            return None, self.control.popleft()
        stream = self.urgent()
        if self.datagrams and (stream is None or self._lead <= 0):
            item = self.datagrams.popleft()
            self._lead = 0 if stream is None else self._lead + len(item.chunk.data)
            return None, item
        if stream is None:
            return None
        item = self._piece(stream)
        if self.datagrams:
            self._lead -= len(item.chunk.data)
        return stream, item

    def urgent(self) -> SimOutStream | None:
        """The stream whose turn it is."""
        return min(
            self.streams.values(), key=lambda each: (each.priority, each.stands), default=None
        )

    def worst(self) -> SimOutStream | None:
        """The least urgent stream that may be given up, if too much waits."""
        if self.droppable <= self.limit:
            return None
        return max(
            (each for each in self.streams.values() if each.droppable),
            key=lambda each: (each.priority, -each.stands),
        )

    def forget(self, stream: SimOutStream) -> None:
        """Drop what waits of a stream."""
        if self.streams.pop(stream.stream_id, None) is not None:
            self._count(stream, -stream.queued)
            stream.waiting.clear()

    def clear(self) -> None:
        """Nothing of it will be sent."""
        for stream in list(self.streams.values()):
            self.forget(stream)
        self.control.clear()
        self.datagrams.clear()

    def _piece(self, stream: SimOutStream) -> Waiting:
        item = stream.waiting.popleft()
        data = item.chunk.data
        if len(data) > PACKET:
            rest = item.chunk._replace(data=data[PACKET:])
            stream.waiting.appendleft(item._replace(chunk=rest))
            item = item._replace(chunk=item.chunk._replace(data=data[:PACKET], fin=False))
        self._count(stream, -len(item.chunk.data))
        if stream.waiting:
            self._stand(stream)
        else:
            del self.streams[stream.stream_id]
        return item

    def _stand(self, stream: SimOutStream) -> None:
        """Behind all that are as urgent."""
        self._tick += 1
        stream.stands = self._tick
        self.streams[stream.stream_id] = stream

    def _count(self, stream: SimOutStream, size: int) -> None:
        stream.queued += size
        if stream.droppable:
            self.droppable += size
