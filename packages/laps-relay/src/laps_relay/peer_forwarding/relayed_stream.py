"""A stream that is under way: from one incoming stream to any number of outgoing ones.

::

    chunk --> direct(chunk, fin)                  one egress and nothing else to do: its own write
          '-> data:  write  write  write  ...     the same bytes object for all of them
                     sink                         our own clients
                     renew                        if it has a ttl: how long may it wait now?

A stream goes to the sets that its FIB entry had when its header was complete (laps-2, 6.3). A peer
that stops its branch, or is too slow for it, loses only that branch.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from laps_relay.peer_forwarding.probe import Probe, may_be_sampled
from laps_relay.peer_forwarding.state import (
    JOINED,
    Branch,
    Entry,
    Fanout,
    Session,
    State,
    sample_of,
)
from laps_sdk.forwarding.interfaces import OutStream
from laps_sdk.forwarding.priority import PRIORITIES
from laps_sdk.forwarding.samples import Sample
from laps_sdk.upstream.interfaces import DataSink
from laps_wire.peering.errors import StreamCode
from laps_wire.peering.laps2 import decode_data_header

__all__ = ["RelayedStream", "pass_whole"]

_EXPIRED: Final = int(StreamCode.EXPIRED)
_OVERLOADED: Final = int(StreamCode.OVERLOADED)
_NO_SUBSCRIBERS: Final = int(StreamCode.NO_SUBSCRIBERS)


class RelayedStream(Fanout):
    """A stream of a peer that is under way; one of the states of ``state.Incoming``."""

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
        """Send the header and the bytes behind it to all branches."""
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
        """Leave out our own clients, who did not ask for the stream."""
        self.sink = None
        self.aim()
        if not self.branches:
            self.sender.stop(self.stream_id, _NO_SUBSCRIBERS)
            self.close(now)

    def data(self, now: float, data: bytes, fin: bool) -> None:
        """Forward a chunk."""
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
        """Give up the branches that wait too long; the next bytes may wait as long again.

        The deadline of an egress stream is that of its last bytes, so that it never comes too
        early; a mark on one byte at a time tells whether those before them are late.
        """
        ttl, size = self.ttl, self.size
        for branch in self.branches:
            stream = branch.stream
            queued = stream.queued
            if not queued or size - queued > branch.mark:
                branch.mark, branch.since = size, now
            elif branch.since + ttl <= now:
                stream.reset(_EXPIRED)
                self.lost(now, branch, queued)
                continue
            stream.set_deadline(now + ttl)

    def aim(self) -> None:
        """Set ``direct``; our own clients are one more receiver."""
        super().aim()
        if self.sink is not None:
            self.direct = None

    # End

    def finish(self, now: float) -> None:
        """Close the stream: its end was written."""
        if self.sender.streams.pop(self.stream_id, None) is self:
            self.close(now)

    def reset(self, now: float, code: int) -> None:
        """Reset all branches with the code of the peer."""
        for branch in self.branches:
            branch.gone = True
            branch.stream.reset(code)
        if self.sink is not None:
            self.sink.stream_reset(now, self.number, code)
        self.close(now)

    def leave(self, now: float, branch: Branch) -> None:
        """Remove one branch; stop the peer's stream if none is left."""
        super().leave(now, branch)
        streams = self.sender.streams
        if self.branches or self.sink is not None or streams.get(self.stream_id) is not self:
            return
        self.sender.stop(self.stream_id, _OVERLOADED if self.overloaded else _NO_SUBSCRIBERS)
        self.close(now)


def _timed(now: float, state: State, entry: Entry, data: bytes) -> Sample | None:
    """Return the sample of the first object of a complete stream, if it is to be timed."""
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
    """Return whether all of a stream has left, or was given up."""
    return not stream.queued


def pass_whole(now: float, state: State, entry: Entry, data: bytes) -> None:
    """Forward a complete stream: no state of it is kept."""
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
        cut = size if size < data[0] + JOINED else data[0]
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
