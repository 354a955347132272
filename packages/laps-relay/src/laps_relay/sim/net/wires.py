"""The wire between two relays, and one direction of a connection over it.

::

    sender                 Pipe                                       receiver
    OutStream.write --> [Backlog, if the bandwidth is limited] --> ~~~ delay, jitter ~~~> in order
    control bytes   -->  by priority, with deadlines                loss: later (streams)  inside
    datagrams       -->                                             or never (datagrams)   a stream

A :class:`Wire` joins two relays, however many connections they have. It has delay, jitter and loss,
and for each direction a bandwidth that all connections share (:class:`Lane`). Each direction can be
blocked. What is sent over a blocked direction waits, because QUIC would send it again. A side that
receives nothing for the idle time gives the connection up (:mod:`laps_relay.sim.net.network`).

Streams are not ordered among each other: each chunk draws its own delay.

A :class:`Backlog` holds what waits where the bandwidth is limited::

    Pipe ---.                     Lane: one direction of a wire
    Backlog  >-- in turn, packet --> [ busy for size / rate ] --> in transit
    Pipe ---'    by packet

The pipes of all connections take turns on a lane. Inside a pipe the order is that of a real
connection's egress (``laps_sdk.quic.egress``): control first, then the most urgent stream, and of
equals the one that has waited longest. Datagrams have no priority and take turns with streams, byte
for byte. Over the limit, the least urgent stream that may be dropped is given up.

A :class:`WireDigest` records what was sent over which link, on which stream, and when. Two runs
with the same digest put the same bytes on the same links at the same virtual times::

    Pipe, one for each direction of a connection --> Channel --.
    dials of a host                              --> Channel ---> WireDigest.hexdigest
    objects for the clients of a relay           --> Channel --'

No name of a class, module, event or enum member is part of it, nor the order of a dict: it changes
only when the relays behave differently. Channels are independent of each other, so it does not
matter which of two links is served first at the same moment.

Messages that the relays of a run hand over as objects (:mod:`laps_relay.sim.net.shortcuts`) are
encoded for the digest.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from hashlib import blake2b
from math import inf
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from laps_relay.sim.net.clock import Clock

__all__ = [
    "MAX_DATAGRAMS",
    "PACKET",
    "QUEUE_BYTES",
    "RETRANSMIT",
    "Backlog",
    "Cause",
    "Channel",
    "Chunk",
    "Lane",
    "Pipe",
    "QueueJudge",
    "SimOutStream",
    "Waiting",
    "Wire",
    "WireDigest",
]

_BYTES: Final = 16
_CODES: Final = {"data": 0, "reset": 1, "stop": 2, "datagram": 3}
_DATAGRAM: Final = _CODES["datagram"]
_FIN, _CLOSE, _DIAL, _DELIVERED = range(4, 8)


class Channel:
    """What was sent in one direction, in its order."""

    __slots__ = ("_digest", "_hash", "_head")

    def __init__(self, digest: WireDigest) -> None:
        self._digest = digest
        self._hash = blake2b(digest_size=_BYTES)
        self._head = b""

    def sent(
        self, now: float, kind: str, stream_id: int, data: bytes, fin: bool, code: int
    ) -> None:
        """Add bytes of a stream, a datagram, or the end of a stream.

        Bytes that follow each other at the same time on the same stream are the same in one piece
        or in several.
        """
        number = _CODES[kind]
        head = b"\n%.6f %d %d %d " % (now, number, stream_id, code)
        if head != self._head or number == _DATAGRAM:
            self._head = head
            self._hash.update(head)
        if data:
            self._hash.update(self._digest.expand(data))
        if fin:
            self._add(now, _FIN, stream_id)

    def closed(self, now: float, code: int) -> None:
        """Add the end of the connection by the sender."""
        self._add(now, _CLOSE, code)

    def dialled(self, now: float, contact: str) -> None:
        """Add an attempt to connect."""
        self._add(now, _DIAL, 0, contact.encode())

    def delivered(self, now: float, track: int, flow: int, group: int, number: int) -> None:
        """Add an object that clients of a relay received."""
        self._add(now, _DELIVERED, track, b"%d %d %d" % (flow, group, number))

    def _add(self, now: float, kind: int, value: int, data: bytes = b"") -> None:
        self._head = b""
        self._hash.update(b"\n%.6f %d %d " % (now, kind, value) + data)

    def digest(self) -> bytes:
        """Return the digest of what was sent so far."""
        return self._hash.digest()


class WireDigest:
    """The digest of all channels of a run."""

    __slots__ = ("_channels", "_numbers", "expand")

    def __init__(self) -> None:
        self._channels: dict[tuple[str, str, int], Channel] = {}
        self._numbers: dict[tuple[str, str], int] = {}
        self.expand: Callable[[bytes], bytes] = bytes
        """Replaces what stands for a message by the bytes of the message."""

    def channel(self, sender: str, receiver: str) -> Channel:
        """Return a new channel between two contacts."""
        number = self._numbers.get((sender, receiver), 0)
        self._numbers[sender, receiver] = number + 1
        made = self._channels[sender, receiver, number] = Channel(self)
        return made

    def shared_channel(self, sender: str, receiver: str) -> Channel:
        """Return the one channel between two names that have no connections."""
        found = self._channels.get((sender, receiver, 0))
        return self.channel(sender, receiver) if found is None else found

    def hexdigest(self) -> str:
        """Return the digest of everything that was sent so far."""
        found = blake2b(digest_size=_BYTES)
        for (sender, receiver, number), channel in sorted(self._channels.items()):
            found.update(b"%s %s %d " % (sender.encode(), receiver.encode(), number))
            found.update(channel.digest())
        return found.hexdigest()


QUEUE_BYTES: Final = 256 * 1024
"""What a sender keeps for a slow peer; droppable streams are given up beyond it."""
MAX_DATAGRAMS: Final = 512
"""Datagrams that wait; the oldest goes first."""
PACKET: Final = 1200
"""Bytes that go at a time; who is more urgent waits for one of them at most."""
OVERHEAD: Final = 40
"""Bytes of a packet that are not ours."""


class Turn(Protocol):
    """A user of a lane: a pipe."""

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


RETRANSMIT: Final = 3.0
"""A lost chunk arrives later by this many one-way delays."""


@dataclass(slots=True, eq=False)
class Wire:
    """What lies between two relays; ``ends`` are their contacts, ascending."""

    ends: tuple[str, str]
    delay: float
    jitter: float = 0.0
    loss: float = 0.0
    bandwidth: dict[str, float] = field(default_factory=dict)
    """Bytes a second, by contact of the sender; who is not there has no limit."""
    blocked: dict[str, bool] = field(default_factory=dict)
    """By the contact of the sender."""
    slow: dict[str, float] = field(default_factory=dict)
    """Receivers that take only so many bytes a second, by contact of the *sender*."""
    lanes: dict[str, Lane] = field(default_factory=dict)
    """The lanes that share the bandwidth, by contact of the sender."""

    @property
    def srtt_us(self) -> int:
        """The round trip that a transport would measure, in microseconds."""
        return round(2e6 * self.delay)

    @property
    def hampered(self) -> bool:
        """Whether a receiver is slow, or was when the packet that is being sent began."""
        return bool(self.slow) or any(
            lane.busy and lane.lags(self.rate(sender)) for sender, lane in self.lanes.items()
        )

    def rate(self, sender: str) -> float | None:
        """Bytes a second in one direction; None: no limit."""
        rates = [each[sender] for each in (self.bandwidth, self.slow) if sender in each]
        return min(rates, default=None)


class Chunk(NamedTuple):
    """Something in transit; ``value`` depends on ``kind``."""

    kind: str
    """``data``, ``reset``, ``stop``, ``datagram``."""
    stream_id: int
    data: bytes = b""
    fin: bool = False
    code: int = 0


Arrive: TypeAlias = "Callable[[Chunk], None]"


class Cause(Enum):
    """Why what waited of a stream is not sent."""

    SHED = "too much waits"
    EXPIRED = "it waited too long"
    RESET = "the relay reset it"
    STOPPED = "the peer wants no more of it"
    CLOSED = "the connection ended"


class QueueJudge(Protocol):
    """Judges what queues send and give up."""

    def sends(self, pipe: Pipe, stream: SimOutStream | None, item: Waiting) -> None:
        """Something that waited is sent now: data of a stream, or a datagram."""

    def drops(self, pipe: Pipe, stream: SimOutStream, cause: Cause, code: int) -> None:
        """What waits of a stream is given up; it still waits."""

    def drops_datagram(self, pipe: Pipe, item: Waiting) -> None:
        """A datagram is given up."""

    def closes(self, pipe: Pipe, begun: Sequence[SimOutStream]) -> None:
        """The connection ends, before what waits is dropped; these streams have not ended."""


class SimOutStream:
    """The sending half of a stream (``OutStream``)."""

    __slots__ = (
        "_pipe",
        "ahead",
        "closed",
        "deadline",
        "drop_code",
        "droppable",
        "opened",
        "priority",
        "queued",
        "seen",
        "stands",
        "stream_id",
        "timer",
        "waiting",
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
        """What observers of the pipe keep for this stream ..."""
        self.ahead: Any = None
        """... and who judges what waits."""
        self.waiting: deque[Waiting] = deque()
        """What is not sent yet."""
        self.stands = 0
        """Its place among those that are as urgent."""
        self.timer = False
        """Whether a timer for its deadline runs."""

    def write(self, data: bytes, fin: bool = False) -> None:
        """Send bytes, in order."""
        if self.closed:
            return
        if fin:
            self.closed = True
        if data or fin:
            self._pipe.send(self, Chunk("data", self.stream_id, bytes(data), fin))

    def offer(self, data: bytes, fin: bool = False) -> bool:
        """Send bytes, in order; none are refused."""
        self.write(data, fin)
        return True

    def pull_from(self, source: Callable[[float], None]) -> None:
        """Call the source at once."""
        source(self._pipe.clock.now)

    def reset(self, code: int) -> None:
        """Abandon it: what is queued is not sent."""
        if not self.closed or self.waiting:
            self.closed = True
            self._pipe.abandon(self, code)

    def set_priority(self, priority: int) -> None:
        """Lower is more urgent."""
        self.priority = priority

    def set_deadline(self, deadline: float | None) -> None:
        """What has not been sent by then is given up."""
        self.deadline = deadline
        if self.waiting:
            self._pipe.look_at(self)


class Pipe:
    """One direction of one connection."""

    __slots__ = (
        "_arrive",
        "_gone",
        "_last",
        "_overtaken",
        "_record",
        "_rng",
        "_stalled",
        "_watch",
        "backlog",
        "clock",
        "closed",
        "connection",
        "judge",
        "lane",
        "sender",
        "wire",
    )

    def __init__(
        self,
        clock: Clock,
        rng: random.Random,
        wire: Wire,
        sender: str,
        arrive: Arrive,
        gone: Callable[[SimOutStream, int], None],
        watch: Callable[[SimOutStream | None, Chunk], None],
        *,
        connection: int = 0,
        record: Channel,
        limit: int = QUEUE_BYTES,
        judge: QueueJudge | None = None,
    ) -> None:
        self.clock = clock
        self.wire = wire
        self.sender = sender
        self.connection = connection
        self.judge = judge
        self.closed = False
        self.backlog = Backlog(limit)
        self._rng = rng
        self._arrive = arrive
        self._gone = gone
        self._watch = watch
        self._record = record
        self._last: dict[int, float] = {}
        """When the last chunk of each stream arrives."""
        self._overtaken: dict[int, float] = {}
        """Streams whose reset overtakes data in transit, and when the reset arrives."""
        self._stalled: list[tuple[SimOutStream | None, Chunk]] = []
        self.lane = wire.lanes.setdefault(sender, Lane(clock))

    @property
    def receiver(self) -> str:
        """The contact at the other end."""
        one, other = self.wire.ends
        return other if self.sender == one else one

    @property
    def rate(self) -> float | None:
        """Bytes a second that the wire takes now."""
        return self.wire.rate(self.sender)

    # Sending

    def send(
        self, stream: SimOutStream | None, chunk: Chunk, deadline: float | None = None
    ) -> None:
        """Send a chunk of a stream, or of the control stream, or a datagram; or let it wait."""
        if self.closed:
            return
        wire, backlog = self.wire, self.backlog
        now = self.clock.now
        if stream is not None:
            deadline = stream.deadline
            if deadline is not None and deadline <= now:
                self._drop(stream, Cause.EXPIRED, len(chunk.data))
                return
        if not (backlog.control or backlog.streams or backlog.datagrams) and (
            not (wire.bandwidth or wire.slow) or self.rate is None
        ):
            self._fly(stream, chunk)
            return
        if stream is not None:
            backlog.put(stream, chunk, now)
            self.look_at(stream)
            while (worst := backlog.worst()) is not None:
                self._drop(worst, Cause.SHED)
        elif chunk.kind == "datagram":
            oldest = backlog.put_datagram(chunk, now, deadline)
            if oldest is not None:
                self._drop_datagram(oldest)
        else:
            backlog.control.append(Waiting(chunk, now))
        self.lane.want(self)

    def abandon(self, stream: SimOutStream, code: int, cause: Cause = Cause.RESET) -> None:
        """Reset a stream: drop what is queued of it."""
        if stream.waiting and self.judge is not None:
            self.judge.drops(self, stream, cause, code)
        self._forget(stream, code)

    def look_at(self, stream: SimOutStream) -> None:
        """Plan to give a waiting stream up at its deadline."""
        if stream.deadline is not None and not stream.timer:
            stream.timer = True
            self.clock.at(stream.deadline, self._due, stream)

    def _due(self, stream: SimOutStream) -> None:
        stream.timer = False
        if self.closed or not stream.waiting or stream.deadline is None:
            return
        if stream.deadline > self.clock.now:
            self.look_at(stream)
        else:
            self._drop(stream, Cause.EXPIRED)

    def _drop(self, stream: SimOutStream, cause: Cause, unqueued: int = 0) -> None:
        if stream.waiting and self.judge is not None:
            self.judge.drops(self, stream, cause, stream.drop_code)
        lost = stream.queued + unqueued
        stream.closed = True
        self._forget(stream, stream.drop_code)
        self._gone(stream, lost)

    def _forget(self, stream: SimOutStream, code: int) -> None:
        self.backlog.forget(stream)
        if not self.closed:
            self._fly(stream, Chunk("reset", stream.stream_id, code=code))

    def _drop_datagram(self, item: Waiting) -> None:
        if self.judge is not None:
            self.judge.drops_datagram(self, item)

    def send_next(self) -> int | None:
        """Put the most urgent packet on the wire; None if nothing waits."""
        while not self.closed and (found := self.backlog.take()) is not None:
            stream, item = found
            is_datagram = item.chunk.kind == "datagram"
            if is_datagram and item.deadline is not None and item.deadline <= self.clock.now:
                self._drop_datagram(item)
                continue
            if self.judge is not None and (stream is not None or is_datagram):
                self.judge.sends(self, stream, item)
            self._fly(stream, item.chunk)
            return len(item.chunk.data)
        return None

    def close(self, begun: Sequence[SimOutStream] = ()) -> None:
        """The connection is over: nothing more is sent, of streams that have begun either."""
        if self.closed:
            return
        if self.judge is not None:
            self.judge.closes(self, begun)
            for stream in self.backlog.streams.values():
                self.judge.drops(self, stream, Cause.CLOSED, 0)
            for item in self.backlog.datagrams:
                self.judge.drops_datagram(self, item)
        self.closed = True
        self.backlog.clear()

    def record_close(self, code: int) -> None:
        """Note for the digest that the sender closes the connection."""
        self._record.closed(self.clock.now, code)

    # Under way

    def _fly(self, stream: SimOutStream | None, chunk: Chunk) -> None:
        wire, kind = self.wire, chunk.kind
        if wire.blocked and wire.blocked.get(self.sender):
            if kind == "datagram":
                self._record.sent(self.clock.now, kind, 0, chunk.data, False, 0)
            else:
                self._stalled.append((stream, chunk))
            return
        self._record.sent(self.clock.now, kind, chunk.stream_id, chunk.data, chunk.fin, chunk.code)
        if stream is not None or kind == "datagram":  # not control
            self._watch(stream, chunk)
        rng = self._rng
        when = self.clock.now + wire.delay
        if wire.jitter:
            when += rng.random() * wire.jitter
        if wire.loss and rng.random() < wire.loss:
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
            return  # a QUIC stack discards data that arrives after the reset of its stream
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
                    self._drop(stream, Cause.EXPIRED)
                    continue
            self._fly(stream, chunk)
