"""A stream that is under way: from one incoming stream to any number of outgoing ones.

::

    chunk --> direct(chunk, fin)                  one egress and nothing else to do: its own write
          '-> data:  write  write  write  ...     the same bytes object for all of them
                     sink                         our own clients
                     renew                        if it has a ttl: how long may it wait now?

A stream goes to where its FIB entry pointed when its header was there (laps-2, 6.3). A peer that
stops its leg, or is too slow for it, leaves alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from laps_relay.core.interfaces import OutStream
from laps_relay.core.network.interfaces import DataSink
from laps_relay.core.peer_plane.state import Entry, Session, State, Target
from laps_relay.core.plane.priority import stream_priority
from laps_wire.moqt.codepoints import GroupOrder
from laps_wire.peering.errors import StreamCode
from laps_wire.peering.laps2 import decode_data_header

__all__ = ["PRIORITIES", "Fan", "Flow", "Leg", "pass_whole"]

PRIORITIES: Final = tuple(
    stream_priority(128, publisher, GroupOrder.ASCENDING, 0, 0) for publisher in range(256)
)
"""The egress priority for each publisher priority, on the scale of the Edge's own plane."""

_JOINED: Final = 1500
"""Up to how many bytes are worth a copy behind a header, to be one write: about a packet."""

_EXPIRED: Final = int(StreamCode.EXPIRED)
_OVERLOADED: Final = int(StreamCode.OVERLOADED)
_NO_SUBSCRIBERS: Final = int(StreamCode.NO_SUBSCRIBERS)


class Leg:
    """One outgoing stream."""

    __slots__ = ("fan", "mark", "since", "stream", "target")

    def __init__(self, fan: Fan, stream: OutStream, target: Target) -> None:
        self.fan = fan
        self.stream = stream
        self.target = target
        self.mark = 0
        """A byte of the stream ..."""
        self.since = 0.0
        """... and when it was written."""


class Fan:
    """The outgoing streams that get the same bytes."""

    __slots__ = ("direct", "entry", "legs", "overloaded", "size", "state", "ttl", "writes")

    def __init__(self, state: State, entry: Entry, ttl: float) -> None:
        self.state = state
        self.entry = entry
        self.ttl = ttl
        """Seconds that a byte may wait in an egress; 0: any time."""
        self.direct: Callable[[bytes, bool], None] | None = None
        self.size = 0
        """Bytes so far, the header too."""
        self.legs: list[Leg] = []
        self.writes: list[Callable[[bytes, bool], None]] = []
        self.overloaded = False
        """Whether a peer was too slow."""
        entry.streams += 1
        state.streams_in += 1

    # Begin

    def open(self, now: float, priority: int, deadline: float | None, *, expires: bool) -> None:
        """Open a stream to every target of the entry."""
        state = self.state
        code = _EXPIRED if expires else _OVERLOADED
        urgency = PRIORITIES[priority]
        legs, writes = self.legs, self.writes
        for target in self.entry.targets:
            session = target.session
            stream = session.egress.open_unidirectional(
                priority=urgency, droppable=True, drop_code=code, deadline=deadline
            )
            leg = Leg(self, stream, target)
            leg.since = now
            session.legs[stream] = leg
            target.open += 1
            legs.append(leg)
            writes.append(stream.write)
        state.streams_out += len(legs)

    def begin(self, head: bytes, body: bytes, fin: bool) -> None:
        """Write the header, another one for each target, and the first bytes behind it."""
        self.size += len(head) + len(body)
        front, back = head[:4], head[8:]
        joined = len(body) < _JOINED
        if joined:
            back += body
        for leg in tuple(self.legs):
            write = leg.stream.write
            if joined:
                write(front + leg.target.id_bytes + back, fin)
            else:
                write(front + leg.target.id_bytes + back, False)
                write(body, fin)

    # End

    def settle(self, now: float | None, legs: list[Leg]) -> None:
        """Count what these legs got; they get no more."""
        state = self.state
        size = self.size * len(legs)
        self.entry.bytes_out += size
        state.bytes_out += size
        for leg in legs:
            target = leg.target
            target.session.legs.pop(leg.stream, None)
            state.stream_ended(now, target)

    def close(self, now: float | None) -> None:
        """Nothing more comes: the end was written, or all legs were reset."""
        self.direct = None
        self.writes = []
        self.entry.bytes_in += self.size
        self.state.bytes_in += self.size
        for leg in self.legs:
            if leg.stream.queued:
                leg.target.session.finish(leg.stream, leg.target.sns_id)
        self.settle(now, self.legs)

    def leave(self, now: float, leg: Leg) -> None:
        """One leg is gone. The lists are made anew: they may be in use just now."""
        self.legs = [each for each in self.legs if each is not leg]
        self.writes = [each.stream.write for each in self.legs]
        self.settle(now, [leg])
        self.aim()

    def lost(self, now: float, leg: Leg, lost: int) -> None:
        """A leg was given up because its peer is too slow."""
        state = self.state
        state.dropped_streams += 1
        state.dropped_bytes += lost
        self.overloaded = True
        self.leave(now, leg)

    def aim(self) -> None:
        """See whether one call is enough for each chunk."""
        self.direct = self.writes[0] if len(self.writes) == 1 and not self.ttl else None


class Flow(Fan):
    """A stream of a peer; see ``state.Incoming``."""

    __slots__ = ("number", "sender", "sink", "stream_id")

    def __init__(
        self, state: State, sender: Session, stream_id: int, entry: Entry, head: bytes
    ) -> None:
        super().__init__(state, entry, int.from_bytes(head[20:24], "big") / 1000)
        self.sender = sender
        self.stream_id = stream_id
        self.sink: DataSink | None = entry.sink
        self.number = 0
        """Of the stream at the sink."""

    def start(self, now: float, data: bytes) -> None:
        """Send a header and what stands behind it to everyone."""
        ttl, size = self.ttl, data[0]
        self.sender.streams[self.stream_id] = self
        self.open(now, data[2], now + ttl if ttl else None, expires=ttl > 0)
        self.aim()
        body = data[size:]
        self.begin(data[:size], body, False)
        if self.sink is not None:
            self.number = self.state.number()
            self.sink.stream_opened(now, self.number, decode_data_header(data), body, False)

    def data(self, now: float, data: bytes, fin: bool) -> None:
        """More of it."""
        if fin:
            self.sender.streams.pop(self.stream_id, None)
        if self.ttl:
            self.renew(now)
        self.size += len(data)
        for write in self.writes:
            write(data, fin)
        if self.sink is not None:
            self.sink.stream_data(now, self.number, data, fin)
        if fin:
            self.close(now)

    def renew(self, now: float) -> None:
        """Give up the legs that wait too long; the next bytes may wait as long again.

        The deadline of an egress stream is that of its last bytes, so that it never comes too
        early; a mark on one byte at a time tells whether those before them are late.
        """
        ttl, size = self.ttl, self.size
        for leg in self.legs:
            stream = leg.stream
            queued = stream.queued
            if not queued or size - queued > leg.mark:
                leg.mark, leg.since = size, now
            elif leg.since + ttl <= now:
                stream.reset(_EXPIRED)
                self.lost(now, leg, queued)
                continue
            stream.set_deadline(now + ttl)

    def aim(self) -> None:
        """Our own clients are one more to call."""
        super().aim()
        if self.sink is not None:
            self.direct = None

    # End

    def finish(self, now: float) -> None:
        """Its end was handed on."""
        if self.sender.streams.pop(self.stream_id, None) is self:
            self.close(now)

    def reset(self, now: float, code: int) -> None:
        """Mirror a reset."""
        for leg in self.legs:
            leg.stream.reset(code)
        if self.sink is not None:
            self.sink.stream_reset(now, self.number, code)
        self.close(now)

    def leave(self, now: float, leg: Leg) -> None:
        """One leg is gone; if nobody is left, the peer need not send the rest."""
        super().leave(now, leg)
        streams = self.sender.streams
        if self.legs or self.sink is not None or streams.get(self.stream_id) is not self:
            return
        self.sender.stop(self.stream_id, _OVERLOADED if self.overloaded else _NO_SUBSCRIBERS)
        self.close(now)


def pass_whole(now: float, state: State, entry: Entry, data: bytes) -> None:
    """Forward a stream that is all here, its end too: nothing of it has to be remembered."""
    size, targets = len(data), entry.targets
    entry.streams += 1
    entry.bytes_in += size
    entry.bytes_out += size * len(targets)
    state.streams_in += 1
    state.bytes_in += size
    state.streams_out += len(targets)
    state.bytes_out += size * len(targets)
    if targets:
        ttl_ms = int.from_bytes(data[20:24], "big")
        deadline = now + ttl_ms / 1000 if ttl_ms else None
        code = _EXPIRED if ttl_ms else _OVERLOADED
        urgency = PRIORITIES[data[2]]
        cut = size if size < data[0] + _JOINED else data[0]
        front, back, rest = data[:4], data[8:cut], data[cut:]
        for target in targets:
            stream = target.session.egress.open_unidirectional(
                priority=urgency, droppable=True, drop_code=code, deadline=deadline
            )
            stream.write(front + target.id_bytes + back, not rest)
            if rest:
                stream.write(rest, True)
            if stream.queued:
                target.session.finish(stream, target.sns_id)
            if target.retired is not None and not target.open:
                state.rest(now, target)
    if entry.sink is not None:
        header = decode_data_header(data)
        entry.sink.stream_opened(now, state.number(), header, data[header.size :], True)
