"""What the parts of the plane share: sessions, FIB entries, the sets that data goes to.

::

    Session 3                          Entry                             Session 5
      entries  {sns 7: Entry} ------->   targets (Target, Target) ---->    targets  {sns 2: Target}
      streams  {stream id: Incoming}     sink, if our own clients          legs     {OutStream: Leg}
      held     what waits for its set    want it                           finished {OutStream: ...}

An entry is what a stream copies when it begins; a change of the entry does not touch it any more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from laps_relay.peer_forwarding.forwarding import (
    EgressSet,
    HoldData,
    Ingress,
    Outdated,
    PeerPlaneCounters,
    SetCounters,
    SetIdle,
)
from laps_relay.peer_forwarding.traffic import Traffic
from laps_sdk.forwarding.interfaces import OutStream, PeerEgress
from laps_sdk.forwarding.samples import Samples
from laps_sdk.timers import Timers
from laps_sdk.upstream.interfaces import DataSink

if TYPE_CHECKING:
    from laps_relay.peer_forwarding.arrival import HeldDatagram, HeldStream
    from laps_relay.peer_forwarding.feed import PlaneFeed
    from laps_relay.peer_forwarding.flow import Leg

__all__ = ["Entry", "Finished", "Incoming", "Session", "State", "Target"]

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
        """More of it."""

    def finish(self, now: float) -> None:
        """Its end was handed on."""

    def reset(self, now: float, code: int) -> None:
        """It was abandoned; it is not among its session's streams any more."""


class Finished(NamedTuple):
    """An outgoing stream whose end was written, while bytes of it waited."""

    sns_id: int
    key: int
    """Of the track."""
    source: int
    """The session that it came from."""


class Session:
    """One connection with a peer: what comes from it, what goes to it."""

    __slots__ = (
        "egress",
        "entries",
        "finished",
        "held",
        "hold",
        "legs",
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
        """Streams that were given up here while their peer may still send."""
        self.held: dict[HeldStream | HeldDatagram, None] = {}
        self.targets: dict[int, Target] = {}
        """Our own sets on this session."""
        self.legs: dict[OutStream, Leg] = {}
        """Outgoing streams that are not finished."""
        self.finished: dict[OutStream, Finished] = {}
        """Finished ones of which bytes waited then."""

    def stop(self, stream_id: int, code: int) -> None:
        """Take nothing more of an incoming stream that has not ended."""
        self.ignore(stream_id)
        self.egress.stop_sending(stream_id, code)

    def ignore(self, stream_id: int) -> None:
        """What still comes of this stream is not the beginning of another one."""
        self.streams.pop(stream_id, None)
        self.stopped[stream_id] = None
        if len(self.stopped) > _STOPPED:
            # Its end was not told: a transport reports nothing of a stream that was stopped.
            del self.stopped[next(iter(self.stopped))]

    def unsent(self) -> int:
        """How many outgoing streams have not ended, or have bytes that wait."""
        return len(self.legs) + sum(stream.queued > 0 for stream in self.finished)

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
        """As a header has it."""
        self.entries: dict[Entry, None] = {}
        """That send to it."""
        self.open = 0
        """Streams to it that are not finished."""
        self.retired: float | None = None
        """Since when it is to be reported once it is idle."""
        self.lingers = False
        """Whether its timer was set when its last stream had ended."""
        self.flying: frozenset[int] | None = None
        """Streams that had ended and not arrived when all of its bytes were handed on; some may be
        of other sets."""

    @property
    def egress_set(self) -> EgressSet:
        """How the control plane calls it."""
        return EgressSet(self.session.number, self.sns_id)

    def busy(self) -> bool:
        """Whether bytes for it have not arrived: a withdrawal must not overtake them.

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
        """Those of ``egress`` whose session is there."""
        self.sink: DataSink | None = None
        self.open = 0
        """Streams that are under way."""
        self.streams = 0
        self.datagrams = 0
        self.bytes_in = 0
        self.bytes_out = 0

    def counters(self) -> SetCounters:
        """Without the streams that are under way."""
        return SetCounters(self.streams, self.datagrams, self.bytes_in, self.bytes_out)


class State:
    """What there is once in a plane."""

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
        self.outdated: Timers[PlaneFeed] = Timers()
        self.notices: list[SetIdle | Outdated] = []
        self.traffic: Traffic | None = None
        """Who counts by track and way, if anybody."""
        self.samples: Samples | None = None
        """Who times objects, if anybody."""
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
        """Of the next stream that goes to our own clients."""
        self._numbers += 1
        return self._numbers

    def counters(self) -> PeerPlaneCounters:
        """Without the bytes of streams that are under way."""
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
        """A stream to a set ended; who writes into a feed does not say when."""
        target.open -= 1
        if not target.open:
            self.rest(now, target)

    def rest(self, now: float | None, target: Target) -> None:
        """A set has no open stream: let it linger if it was retired, or forget it."""
        target.flying = None
        if target.retired is not None:
            target.lingers = now is not None
            when = target.retired if now is None else now + self.linger
            self.timers.set(target, when)
        elif not target.entries and not target.open:
            target.session.targets.pop(target.sns_id, None)

    def handle_timeout(self, now: float) -> None:
        """Report the sets that lingered long enough, and feeds whose streams should go on anew."""
        while (feed := self.outdated.pop(now)) is not None:
            feed.report(now)
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
