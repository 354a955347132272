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
from functools import partial
from typing import Final

from laps_relay.peer_forwarding.forwarding import LOCAL, Outdated
from laps_relay.peer_forwarding.probe import FirstObject, Probe, may_be_sampled
from laps_relay.peer_forwarding.state import Entry, Session, State, Target
from laps_relay.peer_forwarding.traffic import Traffic
from laps_sdk.forwarding.interfaces import OutStream
from laps_sdk.forwarding.priority import PRIORITIES
from laps_sdk.forwarding.samples import Sample
from laps_sdk.upstream.interfaces import DataSink
from laps_wire.peering.errors import StreamCode
from laps_wire.peering.laps2 import decode_data_header

__all__ = ["Fan", "Flow", "Leg", "pass_whole"]

_JOINED: Final = 1500
"""Up to how many bytes are worth a copy behind a header, to be one write: about a packet."""

_EXPIRED: Final = int(StreamCode.EXPIRED)
_OVERLOADED: Final = int(StreamCode.OVERLOADED)
_NO_SUBSCRIBERS: Final = int(StreamCode.NO_SUBSCRIBERS)


class Leg:
    """One outgoing stream."""

    __slots__ = ("fan", "gone", "mark", "since", "stream", "target")

    def __init__(self, fan: Fan, stream: OutStream, target: Target) -> None:
        self.fan = fan
        self.stream = stream
        self.target = target
        self.gone = False
        """Whether it was given up, and not all that was written is sent."""
        self.mark = 0
        """A byte of the stream ..."""
        self.since = 0.0
        """... and when it was written."""


class Fan:
    """The outgoing streams that get the same bytes."""

    __slots__ = (
        "direct",
        "entry",
        "key",
        "legs",
        "overloaded",
        "probe",
        "size",
        "state",
        "told",
        "ttl",
        "writes",
    )

    def __init__(self, state: State, entry: Entry, head: bytes, ttl: float) -> None:
        self.state = state
        self.entry = entry
        self.key = int.from_bytes(head[8:16], "big")
        """Of the track."""
        self.ttl = ttl
        """Seconds that a byte may wait in an egress; 0: any time."""
        self.direct: Callable[[bytes, bool], None] | None = None
        self.size = 0
        """Bytes so far, the header too."""
        self.told = 0
        """How many of them were counted by track and way."""
        self.legs: list[Leg] = []
        self.writes: list[Callable[[bytes, bool], None]] = []
        self.overloaded = False
        """Whether a peer was too slow."""
        self.probe: Probe | None = None
        """What looks for its first object, if that may have to be timed."""
        entry.streams += 1
        entry.open += 1
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

    # Samples

    def look(self, now: float, data: bytes) -> None:
        """See whether the first object is to be timed, and do so."""
        probe, samples = self.probe, self.state.samples
        if probe is None or samples is None or not probe.look(data):
            return
        self.probe = None
        first = probe.first
        if first is not None:
            source = self.entry.ingress.session
            if self.entry.sink is not None:
                samples.arrived(self.key, first.group_id, source, probe.came)
            sample = sample_of(probe, first, source)
            for leg in self.legs:
                samples.watch(
                    now,
                    sample._replace(target=leg.target.session.number),
                    partial(_was_sent, self, leg, first.end),
                )
        self.aim()

    # End

    def settle(self, now: float | None, legs: list[Leg]) -> None:
        """Count what these legs got; they get no more."""
        state = self.state
        size = self.size * len(legs)
        self.entry.bytes_out += size
        state.bytes_out += size
        traffic, size = state.traffic, self.size - self.told
        for leg in legs:
            target = leg.target
            if traffic is not None:
                source = self.entry.ingress.session
                traffic.sent(self.key, source, target.session.number, size, 1)
            target.session.legs.pop(leg.stream, None)
            state.stream_ended(now, target)

    def close(self, now: float | None) -> None:
        """Nothing more comes: the end was written, or all legs were reset."""
        self.direct = None
        self.writes = []
        self.entry.open -= 1
        self.entry.bytes_in += self.size
        self.state.bytes_in += self.size
        source = self.entry.ingress.session
        for leg in self.legs:
            if leg.stream.queued:
                leg.target.session.finish(leg.stream, leg.target.sns_id, self.key, source)
        if self.state.traffic is not None:
            self.state.traffic.came(self.key, source, self.size - self.told, 1)
        self.settle(now, self.legs)

    def tell(self, traffic: Traffic) -> None:
        """Count what came and went so far, of a stream that is under way."""
        size, self.told = self.size - self.told, self.size
        source = self.entry.ingress.session
        traffic.came(self.key, source, size)
        for leg in self.legs:
            traffic.sent(self.key, source, leg.target.session.number, size)

    def leave(self, now: float, leg: Leg) -> None:
        """One leg is gone. The lists are made anew: they may be in use just now."""
        leg.gone = True
        self.legs = [each for each in self.legs if each is not leg]
        self.writes = [each.stream.write for each in self.legs]
        self.settle(now, [leg])
        self.aim()

    def lost(self, now: float, leg: Leg, lost: int) -> None:
        """A leg was given up because its peer is too slow."""
        state = self.state
        state.dropped_streams += 1
        state.dropped_bytes += lost
        if state.traffic is not None:
            source, target = self.entry.ingress.session, leg.target.session.number
            state.traffic.sent(self.key, source, target, -lost, dropped=1)
        self.overloaded = True
        self.leave(now, leg)

    def missed(self, now: float) -> None:  # noqa: ARG002 - of a stream of our own it is looked at
        """Somebody who should have the rest does not get it: its sender can help that."""
        if self.legs:
            self.state.notices.append(Outdated(self.entry.ingress))

    def aim(self) -> None:
        """See whether one call is enough for each chunk."""
        simple = len(self.writes) == 1 and not self.ttl and self.probe is None
        self.direct = self.writes[0] if simple else None


def _was_sent(fan: Fan, leg: Leg, end: int) -> bool | None:
    """Whether a byte of a stream has left; None if it never will."""
    if leg.gone:
        return None
    if fan.size < end:
        return None if leg.stream.closed else False
    return fan.size - leg.stream.queued >= end


def sample_of(probe: Probe, first: FirstObject, source: int) -> Sample:
    """What is known of an object when it comes."""
    return Sample(
        probe.key,
        first.group_id,
        first.object_id,
        first.size,
        probe.came,
        source=None if source == LOCAL else source,
    )


class Flow(Fan):
    """A stream of a peer; see ``state.Incoming``."""

    __slots__ = ("number", "sender", "sink", "stream_id")

    def __init__(
        self, state: State, sender: Session, stream_id: int, entry: Entry, head: bytes
    ) -> None:
        super().__init__(state, entry, head, int.from_bytes(head[20:24], "big") / 1000)
        self.sender = sender
        self.stream_id = stream_id
        self.sink: DataSink | None = entry.sink
        self.number = 0
        """Of the stream at the sink."""

    def start(self, now: float, data: bytes) -> None:
        """Send a header and what stands behind it to everyone."""
        ttl, size = self.ttl, data[0]
        samples = self.state.samples
        if samples is not None and may_be_sampled(samples, data):
            self.probe = Probe(samples, data, now)
        self.sender.streams[self.stream_id] = self
        self.open(now, data[2], now + ttl if ttl else None, expires=ttl > 0)
        self.aim()
        body = data[size:]
        self.begin(data[:size], body, False)
        if self.probe is not None:
            self.look(now, body)
        if self.sink is not None:
            self.number = self.state.number()
            header = decode_data_header(data)
            if self.sink.stream_opened(now, self.number, header, body, False) is False:
                self._spurn(now)

    def _spurn(self, now: float) -> None:
        """Our own clients did not ask for it."""
        self.sink = None
        self.aim()
        if not self.legs:
            self.sender.stop(self.stream_id, _NO_SUBSCRIBERS)
            self.close(now)

    def data(self, now: float, data: bytes, fin: bool) -> None:
        """More of it."""
        if fin:
            self.sender.streams.pop(self.stream_id, None)
        if self.ttl:
            self.renew(now)
        self.size += len(data)
        for write in self.writes:
            write(data, fin)
        if self.probe is not None:
            self.look(now, data)
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
            leg.gone = True
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


def _timed(now: float, state: State, entry: Entry, data: bytes) -> Sample | None:
    """The first object of a stream that is all here, if it is to be timed."""
    if state.samples is None or not may_be_sampled(state.samples, data):
        return None
    probe, source = Probe(state.samples, data, now), entry.ingress.session
    probe.look(data[data[0] :])
    first = probe.first
    if first is None:
        return None
    if entry.sink is not None:
        state.samples.arrived(probe.key, first.group_id, source, now)
    return sample_of(probe, first, source)


def _is_sent(stream: OutStream) -> bool:
    """Whether all of a stream has left, or was given up."""
    return not stream.queued


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
    key, source = int.from_bytes(data[8:16], "big"), entry.ingress.session
    if state.traffic is not None:
        state.traffic.came(key, source, size, 1)
        for target in targets:
            state.traffic.sent(key, source, target.session.number, size, 1)
    timed = _timed(now, state, entry, data)
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
            if timed is not None and state.samples is not None:
                sample = timed._replace(target=target.session.number)
                state.samples.watch(now, sample, partial(_is_sent, stream))
            if stream.queued:
                target.session.finish(stream, target.sns_id, key, source)
            if target.retired is not None and not target.open:
                state.rest(now, target)
    if entry.sink is not None:
        header = decode_data_header(data)
        entry.sink.stream_opened(now, state.number(), header, data[header.size :], True)
