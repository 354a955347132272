"""The ground between two relays, and one direction of a connection over it.

::

    sender                 Pipe                                       receiver
    OutStream.write --> [queue, if the bandwidth is limited] --> ~~~ delay, jitter ~~~> in order
    control bytes   -->  by priority, with deadlines              loss: later (streams)  inside
    datagrams       -->                                           or never (datagrams)   a stream

A :class:`Wire` is what lies between two relays, whatever connections they have: delay, jitter,
loss, bandwidth, and whether anything gets through in each direction. While a direction is blocked,
what is sent waits, as QUIC would send it again; whoever hears nothing for the idle time gives the
connection up (:mod:`laps_relay.sim.net`).

Streams are not ordered among each other: each chunk draws its own delay.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf
from typing import Any, Final, NamedTuple, TypeAlias

from laps_relay.sim.clock import Clock

__all__ = ["RETRANSMIT", "Chunk", "Pipe", "SimOutStream", "Wire"]

CONTROL: Final = -1
"""Priority of control streams: before all data."""
QUEUE_BYTES: Final = 256 * 1024
"""What a sender keeps for a slow peer; droppable streams are given up beyond it."""
RETRANSMIT: Final = 3.0
"""A chunk that was lost arrives later by this many one-way delays."""


@dataclass(slots=True, eq=False)
class Wire:
    """What lies between two relays; ``ends`` are their contacts, ascending."""

    ends: tuple[str, str]
    delay: float
    jitter: float = 0.0
    loss: float = 0.0
    bandwidth: float | None = None
    blocked: dict[str, bool] = field(default_factory=dict)
    """By the contact of the sender."""
    slow: dict[str, float] = field(default_factory=dict)
    """Receivers that take only so many bytes a second, by contact of the *sender*."""

    @property
    def srtt_us(self) -> int:
        """What a transport would measure."""
        return round(2e6 * self.delay)

    def rate(self, sender: str) -> float | None:
        """Bytes a second in one direction; None: no limit."""
        return self.slow.get(sender, self.bandwidth)


class Chunk(NamedTuple):
    """Something that is under way: ``kind`` says what ``value`` is."""

    kind: str
    """``data``, ``reset``, ``stop``, ``datagram``."""
    stream_id: int
    data: bytes = b""
    fin: bool = False
    code: int = 0


Arrive: TypeAlias = "Callable[[Chunk], None]"


class SimOutStream:
    """The sending half of a stream (``OutStream``)."""

    __slots__ = (
        "_pipe",
        "closed",
        "deadline",
        "drop_code",
        "droppable",
        "opened",
        "priority",
        "queued",
        "seen",
        "stream_id",
    )

    def __init__(
        self,
        pipe: Pipe,
        stream_id: int,
        priority: int,
        droppable: bool,
        drop_code: int,
        deadline: float | None,
    ) -> None:
        self._pipe = pipe
        self.stream_id = stream_id
        self.priority = priority
        self.droppable = droppable
        self.drop_code = drop_code
        self.deadline = deadline
        self.closed = False
        self.queued = 0
        self.opened = pipe.clock.now
        self.seen: Any = None
        """What whoever watches the pipe keeps for this stream."""

    def write(self, data: bytes, fin: bool = False) -> None:
        """Send bytes, in order."""
        if self.closed:
            return
        if fin:
            self.closed = True
        if data or fin:
            self._pipe.send(self, Chunk("data", self.stream_id, bytes(data), fin))

    def reset(self, code: int) -> None:
        """Abandon it: what is queued is not sent."""
        if not self.closed or self.queued:
            self.closed = True
            self._pipe.abandon(self, code)

    def set_priority(self, priority: int) -> None:
        """Lower is more urgent."""
        self.priority = priority

    def set_deadline(self, deadline: float | None) -> None:
        """What has not been sent by then is given up."""
        self.deadline = deadline


class Pipe:
    """One direction of one connection."""

    __slots__ = (
        "_arrive",
        "_busy",
        "_dice",
        "_gone",
        "_last",
        "_overtaken",
        "_queue",
        "_serial",
        "_stalled",
        "_waiting",
        "_watch",
        "clock",
        "closed",
        "queued",
        "sender",
        "wire",
    )

    def __init__(
        self,
        clock: Clock,
        dice: random.Random,
        wire: Wire,
        sender: str,
        arrive: Arrive,
        gone: Callable[[SimOutStream, int], None],
        watch: Callable[[SimOutStream | None, Chunk], None],
    ) -> None:
        self.clock = clock
        self.wire = wire
        self.sender = sender
        self.closed = False
        self.queued = 0
        self._dice = dice
        self._arrive = arrive
        self._gone = gone
        self._watch = watch
        self._last: dict[int, float] = {}
        """When the last chunk of each stream arrives."""
        self._overtaken: dict[int, float] = {}
        """Streams whose data is under way when their reset arrives, and when that is."""
        self._stalled: list[tuple[SimOutStream | None, Chunk]] = []
        self._queue: list[tuple[int, int, SimOutStream | None, Chunk]] = []
        self._waiting: dict[int, SimOutStream] = {}
        """Streams with something in the queue."""
        self._serial = 0
        self._busy = False

    # Sending

    def send(self, stream: SimOutStream | None, chunk: Chunk) -> None:
        """Queue a chunk of a stream, or of the control stream, or a datagram."""
        if self.closed:
            return
        if self.wire.rate(self.sender) is None and not self._queue and not self._busy:
            self._fly(stream, chunk)
            return
        self._serial += 1
        priority = CONTROL if stream is None else stream.priority
        heappush(self._queue, (priority, self._serial, stream, chunk))
        size = len(chunk.data)
        self.queued += size
        if stream is not None:
            stream.queued += size
            self._waiting[stream.stream_id] = stream
            if self.queued > QUEUE_BYTES:
                self._shed()
        if not self._busy:
            self._next()

    def abandon(self, stream: SimOutStream, code: int) -> None:
        """Reset a stream: drop what is queued of it."""
        self._forget(stream)
        if not self.closed:
            self._fly(stream, Chunk("reset", stream.stream_id, code=code))

    def _forget(self, stream: SimOutStream) -> None:
        if stream.queued:
            # Its entries stay in the heap, without a stream that counts them.
            self.queued -= stream.queued
            stream.queued = 0
        self._waiting.pop(stream.stream_id, None)

    def _shed(self) -> None:
        """The peer is too slow: give up the least urgent stream that may be."""
        worst: SimOutStream | None = None
        for stream in self._waiting.values():
            if stream.droppable and (worst is None or stream.priority >= worst.priority):
                worst = stream
        if worst is not None:
            self._drop(worst)

    def _drop(self, stream: SimOutStream) -> None:
        lost = stream.queued
        stream.closed = True
        self.abandon(stream, stream.drop_code)
        self._gone(stream, lost)

    def _next(self) -> None:
        """Put the most urgent chunk on the wire."""
        while self._queue:
            _, _, stream, chunk = heappop(self._queue)
            size = len(chunk.data)
            if stream is not None:
                if stream.stream_id not in self._waiting:
                    continue  # it was reset meanwhile
                if stream.deadline is not None and stream.deadline <= self.clock.now:
                    self._drop(stream)
                    continue
                stream.queued -= size
                if not stream.queued:
                    del self._waiting[stream.stream_id]
            self.queued -= size
            rate = self.wire.rate(self.sender)
            self._fly(stream, chunk)
            if rate is not None:
                self._busy = True
                self.clock.after((size + 40) / rate, self._sent)
                return

    def _sent(self) -> None:
        self._busy = False
        if not self.closed:
            self._next()

    # Under way

    def _fly(self, stream: SimOutStream | None, chunk: Chunk) -> None:
        wire, kind = self.wire, chunk.kind
        if wire.blocked and wire.blocked.get(self.sender):
            if kind != "datagram":
                self._stalled.append((stream, chunk))
            return
        self._watch(stream, chunk)
        dice = self._dice
        when = self.clock.now + wire.delay
        if wire.jitter:
            when += dice.random() * wire.jitter
        if wire.loss and dice.random() < wire.loss:
            if kind == "datagram":
                return
            when += wire.delay * RETRANSMIT
        if kind == "data":
            stream_id = chunk.stream_id
            last = self._last.get(stream_id, 0.0)
            if when < last:  # noqa: PLR1730 - for every chunk
                when = last
            if chunk.fin:
                self._last.pop(stream_id, None)
            else:
                self._last[stream_id] = when
        self.clock.at(when, self._arrived, chunk)
        if kind == "reset" and (last := self._last.pop(chunk.stream_id, 0.0)) > when:
            self._overtaken[chunk.stream_id] = when
            self.clock.at(last, self._overtaken.pop, chunk.stream_id, None)

    def _arrived(self, chunk: Chunk) -> None:
        if self.closed:
            return
        if (
            self._overtaken
            and chunk.kind == "data"
            and self._overtaken.get(chunk.stream_id, inf) <= self.clock.now
        ):
            return  # a QUIC stack gives nobody what comes behind the reset of its stream
        self._arrive(chunk)

    def unblocked(self) -> None:
        """The wire works again: what waited is sent now."""
        stalled, self._stalled = self._stalled, []
        expired: dict[int, None] = {}
        for stream, chunk in stalled:
            if stream is not None and chunk.kind == "data":
                if stream.stream_id in expired:
                    continue
                if stream.deadline is not None and stream.deadline <= self.clock.now:
                    expired[stream.stream_id] = None
                    self._drop(stream)
                    continue
            self._fly(stream, chunk)
