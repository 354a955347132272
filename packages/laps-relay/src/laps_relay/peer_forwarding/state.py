"""What the parts of the plane share: sessions, FIB entries, the sets and streams that data goes to.

::

    Session 3                        Entry                          Session 5
      entries  {sns 7: Entry} ---->    targets (Target, Target) -->   targets  {sns 2: Target}
      streams  {stream id: Incoming}   sink, if our own clients       branches {OutStream: Branch}
      held     waits for its set       receive it                     finished {OutStream: ...}

A stream copies its entry when it begins; later changes of the entry do not affect the stream.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, Protocol

from laps_relay.peer_forwarding.forwarding import (
    LOCAL,
    EgressSet,
    HoldData,
    Ingress,
    Outdated,
    PeerPlaneCounters,
    Rerouted,
    SetCounters,
    SetIdle,
)
from laps_relay.peer_forwarding.probe import FirstObject, Probe
from laps_relay.peer_forwarding.traffic import Traffic
from laps_sdk.forwarding.interfaces import OutStream, PeerEgress
from laps_sdk.forwarding.priority import PRIORITIES
from laps_sdk.forwarding.samples import Sample, Samples
from laps_sdk.timers import Timers
from laps_sdk.upstream.interfaces import DataSink
from laps_wire.peering.errors import StreamCode

__all__ = [
    "JOINED",
    "Branch",
    "Entry",
    "Fanout",
    "Finished",
    "Held",
    "Incoming",
    "Session",
    "State",
    "Target",
    "sample_of",
]

JOINED: Final = 1500
"""Up to how many bytes are worth a copy behind a header, to be one write: about a packet."""
_EXPIRED: Final = int(StreamCode.EXPIRED)
_OVERLOADED: Final = int(StreamCode.OVERLOADED)

_STOPPED: Final = 8192
"""Stopped streams of a session that are remembered: more than a connection keeps events for."""
_FINISHED: Final = 2048
"""Finished streams of a session whose bytes may wait: more than an egress lets wait."""
_LOOK: Final = 0.05
"""How soon at the earliest a set is looked at again whose last bytes have not arrived."""


class Incoming(Protocol):
    """A stream of a peer in one of its states."""

    direct: Callable[[bytes, bool], None] | None
    """The only thing to call for a chunk, besides counting it in ``size``; None: ``data``."""
    size: int

    def data(self, now: float, data: bytes, fin: bool) -> None:
        """Handle a chunk."""

    def finish(self, now: float) -> None:
        """Close the stream: its end was written."""

    def reset(self, now: float, code: int) -> None:
        """Handle a reset; the stream is removed from its session already."""


class Held(Protocol):
    """Data that waits for its set: a stream or a datagram."""

    def reset(self, now: float, code: int) -> None:
        """Drop it: the peer abandoned it, or its session ended."""


class Finished(NamedTuple):
    """An outgoing stream whose end was written, while bytes of it waited."""

    sns_id: int
    key: int
    """The key of the track."""
    source: int
    """The session of the ingress."""


class Session:
    """One connection with a peer: what comes from it, and what goes to it."""

    __slots__ = (
        "branches",
        "egress",
        "entries",
        "finished",
        "held",
        "hold",
        "number",
        "stopped",
        "streams",
        "stub",
        "targets",
    )

    def __init__(self, number: int, egress: PeerEgress, hold: HoldData) -> None:
        self.number = number
        self.egress = egress
        self.hold = hold
        self.entries: dict[int, Entry] = {}
        """The FIB for what comes from here, by SNS id."""
        self.streams: dict[int, Incoming] = {}
        self.stopped: dict[int, None] = {}
        """Streams that were given up here while the peer may still send them."""
        self.held: dict[Held, None] = {}
        self.targets: dict[int, Target] = {}
        """Our own sets on this session."""
        self.branches: dict[OutStream, Branch] = {}
        """Outgoing streams that are not finished."""
        self.finished: dict[OutStream, Finished] = {}
        """Finished outgoing streams whose bytes waited at that time."""

    def stop(self, stream_id: int, code: int) -> None:
        """Stop an incoming stream that has not ended."""
        self.ignore(stream_id)
        self.egress.stop_sending(stream_id, code)

    def ignore(self, stream_id: int) -> None:
        """Remember that later chunks of a stream do not begin a new one."""
        self.streams.pop(stream_id, None)
        self.stopped[stream_id] = None
        if len(self.stopped) > _STOPPED:
            # A transport does not report the end of a stopped stream.
            del self.stopped[next(iter(self.stopped))]

    def unsent(self) -> int:
        """Return how many outgoing streams have not ended, or have bytes that wait."""
        return len(self.branches) + sum(stream.queued > 0 for stream in self.finished)

    def finish(self, stream: OutStream, sns_id: int, key: int = 0, source: int = 0) -> None:
        """Remember a finished outgoing stream until its bytes are sent."""
        finished = self.finished
        while finished and not (oldest := next(iter(finished))).queued:
            del finished[oldest]
        if len(finished) >= _FINISHED:
            del finished[oldest]
        finished[stream] = Finished(sns_id, key, source)


class Target:
    """One of our sets on a session."""

    __slots__ = ("entries", "flying", "id_bytes", "lingers", "open", "retired", "session", "sns_id")

    def __init__(self, session: Session, sns_id: int) -> None:
        self.session = session
        self.sns_id = sns_id
        self.id_bytes = sns_id.to_bytes(4, "big")
        """The SNS id as in a header."""
        self.entries: dict[Entry, None] = {}
        """The entries that send to the set."""
        self.open = 0
        """Streams to it that are not finished."""
        self.retired: float | None = None
        """Since when the set is retired: it is reported once it is idle."""
        self.lingers = False
        """Whether its timer was set when its last stream had ended."""
        self.flying: frozenset[int] | None = None
        """Streams that had ended and not arrived when all of its bytes were handed on; some may be
        of other sets."""

    @property
    def egress_set(self) -> EgressSet:
        """The name of the set in the control plane."""
        return EgressSet(self.session.number, self.sns_id)

    def busy(self) -> bool:
        """Return whether bytes for the set have not arrived: a withdrawal must not overtake them.

        They wait here, or were sent and may be lost: then they are sent again, however long that
        takes (laps-2, 6.1).
        """
        session = self.session
        if self.open or any(
            each.sns_id == self.sns_id and out.queued > 0 for out, each in session.finished.items()
        ):
            return True
        flying = session.egress.unacknowledged()
        self.flying = flying if self.flying is None else self.flying & flying
        return bool(self.flying)


class Entry:
    """Where data of one ingress goes."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "datagrams",
        "egress",
        "ingress",
        "open",
        "sink",
        "streams",
        "targets",
    )

    def __init__(self, ingress: Ingress) -> None:
        self.ingress = ingress
        self.egress: tuple[EgressSet, ...] = ()
        self.targets: tuple[Target, ...] = ()
        """The targets of ``egress`` whose session exists."""
        self.sink: DataSink | None = None
        self.open = 0
        """Streams that are under way."""
        self.streams = 0
        self.datagrams = 0
        self.bytes_in = 0
        self.bytes_out = 0

    def only(self, session: int, sns_id: int) -> Entry:
        """Return an entry with one of the targets; with none if it is not there any more."""
        entry = Entry(self.ingress)
        entry.targets = tuple(
            each
            for each in self.targets
            if each.session.number == session and each.sns_id == sns_id
        )
        return entry

    def counters(self) -> SetCounters:
        """Return the counters, without streams under way."""
        return SetCounters(self.streams, self.datagrams, self.bytes_in, self.bytes_out)


class State:
    """What exists once in a plane: timers, notices and counters."""

    __slots__ = (
        "_numbers",
        "bytes_in",
        "bytes_out",
        "datagrams_in",
        "datagrams_out",
        "dropped_bytes",
        "dropped_datagrams",
        "dropped_streams",
        "held_bytes",
        "linger",
        "notices",
        "outdated",
        "patience",
        "samples",
        "streams_in",
        "streams_out",
        "timers",
        "traffic",
        "unknown_datagrams",
        "unknown_kinds",
        "unknown_streams",
        "unsent_streams",
    )

    def __init__(self, linger: float, patience: float = 0.5) -> None:
        self.linger = linger
        self.patience = patience
        """How long a stream may take to end by itself before the rest of it goes on anew."""
        self.timers: Timers[Target] = Timers()
        self.outdated: Timers[int] = Timers()
        """By feed number: when its streams that go to the wrong sets are reported."""
        self.notices: list[SetIdle | Outdated | Rerouted] = []
        self.traffic: Traffic | None = None
        """Counts by track and session; None if counting is off."""
        self.samples: Samples | None = None
        """Times objects; None if sampling is off."""
        self._numbers = 0
        self.streams_in = 0
        self.streams_out = 0
        self.datagrams_in = 0
        self.datagrams_out = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.held_bytes = 0
        self.unknown_streams = 0
        self.unknown_datagrams = 0
        self.unknown_kinds = 0
        self.dropped_streams = 0
        self.dropped_bytes = 0
        self.dropped_datagrams = 0
        self.unsent_streams = 0

    def number(self) -> int:
        """Return the number of the next stream to our own clients."""
        self._numbers += 1
        return self._numbers

    def counters(self) -> PeerPlaneCounters:
        """Return the counters, without the bytes of streams under way."""
        return PeerPlaneCounters(
            self.streams_in,
            self.streams_out,
            self.datagrams_in,
            self.datagrams_out,
            self.bytes_in,
            self.bytes_out,
            self.held_bytes,
            self.unknown_streams,
            self.unknown_datagrams,
            self.dropped_streams,
            self.dropped_bytes,
            self.dropped_datagrams,
            self.unknown_kinds,
            self.unsent_streams,
        )

    # Sets that come to rest

    def stream_ended(self, now: float | None, target: Target) -> None:
        """Count a stream to a set as ended; ``now`` is None where the writer gives no time."""
        target.open -= 1
        if not target.open:
            self.rest(now, target)

    def rest(self, now: float | None, target: Target) -> None:
        """Let a retired set without open streams linger; forget a set without entries."""
        target.flying = None
        if target.retired is not None:
            target.lingers = now is not None
            when = target.retired if now is None else now + self.linger
            self.timers.set(target, when)
        elif not target.entries and not target.open:
            target.session.targets.pop(target.sns_id, None)

    def handle_timeout(self, now: float) -> None:
        """Report the sets that lingered long enough."""
        while (target := self.timers.pop(now)) is not None:
            if not target.lingers:
                target.lingers = True
                self.timers.set(target, now + self.linger)
            elif target.busy():
                if not target.open:  # else its last stream sets the timer
                    self.timers.set(target, now + max(self.linger, _LOOK))
            else:
                target.retired = None
                self.notices.append(SetIdle(target.egress_set))
                self.rest(now, target)


class Branch:
    """One outgoing stream of a fan-out."""

    __slots__ = ("fanout", "gone", "mark", "since", "stream", "target")

    def __init__(self, fanout: Fanout, stream: OutStream, target: Target) -> None:
        self.fanout = fanout
        self.stream = stream
        self.target = target
        self.gone = False
        """Whether it was given up, and not all that was written is sent."""
        self.mark = 0
        """A byte of the stream ..."""
        self.since = 0.0
        """... and when it was written."""


class Fanout:
    """The outgoing streams that get the same bytes."""

    __slots__ = (
        "branches",
        "counted",
        "direct",
        "entry",
        "key",
        "overloaded",
        "probe",
        "size",
        "state",
        "ttl",
        "writes",
    )

    def __init__(self, state: State, entry: Entry, head: bytes, ttl: float) -> None:
        self.state = state
        self.entry = entry
        self.key = int.from_bytes(head[8:16], "big")
        """The key of the track."""
        self.ttl = ttl
        """Seconds that a byte may wait in an egress; 0: any time."""
        self.direct: Callable[[bytes, bool], None] | None = None
        self.size = 0
        """Bytes so far, the header too."""
        self.counted = 0
        """How many of them were counted by track and session."""
        self.branches: list[Branch] = []
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
        branches, writes = self.branches, self.writes
        for target in self.entry.targets:
            session = target.session
            stream = session.egress.open_unidirectional(
                priority=urgency, droppable=True, drop_code=code, deadline=deadline
            )
            branch = Branch(self, stream, target)
            branch.since = now
            session.branches[stream] = branch
            target.open += 1
            branches.append(branch)
            writes.append(stream.write)
        state.streams_out += len(branches)

    def begin(self, head: bytes, body: bytes, fin: bool) -> None:
        """Write the header, another one for each target, and the first bytes behind it."""
        self.size += len(head) + len(body)
        front, back = head[:4], head[8:]
        joined = len(body) < JOINED
        if joined:
            back += body
        for branch in tuple(self.branches):
            write = branch.stream.write
            if joined:
                write(front + branch.target.id_bytes + back, fin)
            else:
                write(front + branch.target.id_bytes + back, False)
                write(body, fin)

    # Samples

    def look(self, now: float, data: bytes) -> None:
        """Search for the first object of a sampled stream, and time it."""
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
            for branch in self.branches:
                samples.watch(
                    now,
                    sample._replace(target=branch.target.session.number),
                    partial(_was_sent, self, branch, first.end),
                )
        self.aim()

    # End

    def settle(self, now: float | None, branches: list[Branch]) -> None:
        """Count what these branches got; they get no more."""
        state = self.state
        size = self.size * len(branches)
        self.entry.bytes_out += size
        state.bytes_out += size
        traffic, size = state.traffic, self.size - self.counted
        for branch in branches:
            target = branch.target
            if traffic is not None:
                source = self.entry.ingress.session
                traffic.sent(self.key, source, target.session.number, size, 1)
            target.session.branches.pop(branch.stream, None)
            state.stream_ended(now, target)

    def close(self, now: float | None) -> None:
        """Close the fan-out: its end was written, or all branches were reset."""
        self.direct = None
        self.writes = []
        self.entry.open -= 1
        self.entry.bytes_in += self.size
        self.state.bytes_in += self.size
        source = self.entry.ingress.session
        for branch in self.branches:
            if branch.stream.queued:
                branch.target.session.finish(branch.stream, branch.target.sns_id, self.key, source)
        if self.state.traffic is not None:
            self.state.traffic.came(self.key, source, self.size - self.counted, 1)
        self.settle(now, self.branches)

    def report_traffic(self, traffic: Traffic) -> None:
        """Count what came and went so far, of a stream under way."""
        size, self.counted = self.size - self.counted, self.size
        source = self.entry.ingress.session
        traffic.came(self.key, source, size)
        for branch in self.branches:
            traffic.sent(self.key, source, branch.target.session.number, size)

    def leave(self, now: float, branch: Branch) -> None:
        """Remove one branch. The lists are made anew: a caller may iterate over them."""
        branch.gone = True
        self.branches = [each for each in self.branches if each is not branch]
        self.writes = [each.stream.write for each in self.branches]
        self.settle(now, [branch])
        self.aim()

    def lost(self, now: float, branch: Branch, lost: int) -> None:
        """Remove a branch that was given up because its peer is too slow."""
        state = self.state
        state.dropped_streams += 1
        state.dropped_bytes += lost
        if state.traffic is not None:
            source, target = self.entry.ingress.session, branch.target.session.number
            state.traffic.sent(self.key, source, target, -lost, dropped=1)
        self.overloaded = True
        self.leave(now, branch)

    def missed(self, now: float) -> None:  # noqa: ARG002 - FeedStream uses it
        """Report that a receiver lost its branch: the sender can continue in a new stream."""
        if self.branches:
            self.state.notices.append(Outdated(self.entry.ingress))

    def aim(self) -> None:
        """Set ``direct`` if one call is enough for each chunk."""
        simple = len(self.writes) == 1 and not self.ttl and self.probe is None
        self.direct = self.writes[0] if simple else None


def _was_sent(fanout: Fanout, branch: Branch, end: int) -> bool | None:
    """Return whether a byte of a stream has left; None if it never will."""
    if branch.gone:
        return None
    if fanout.size < end:
        return None if branch.stream.closed else False
    return fanout.size - branch.stream.queued >= end


def sample_of(probe: Probe, first: FirstObject, source: int) -> Sample:
    """Return the sample of an object at its arrival."""
    return Sample(
        probe.key,
        first.group_id,
        first.object_id,
        first.size,
        probe.came,
        source=None if source == LOCAL else source,
    )
