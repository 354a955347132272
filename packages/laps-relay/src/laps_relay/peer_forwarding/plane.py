"""The forwarding plane between relays.

::

    stream_data --> begin --> RelayedStream --> branches to other sessions   (relayed_stream)
                          '-> held until its set comes                       (arrival)
    datagram -----> forward | held                                           (datagrams)
    PlaneFeed ----> FeedStream ---------------> branches                     (feed)
    install, retire, ... --> Fib                                             (fib, state)

This module only finds the object that a call is about. A chunk of a stream that goes to one peer
costs two look-ups and the call of that peer's ``write``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from laps_relay.peer_forwarding.arrival import HeldDatagram, HeldStream, begin, hold_datagram
from laps_relay.peer_forwarding.datagrams import forward
from laps_relay.peer_forwarding.feed import FeedStream, PlaneFeed
from laps_relay.peer_forwarding.fib import Fib
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
from laps_relay.peer_forwarding.relayed_stream import RelayedStream
from laps_relay.peer_forwarding.state import Entry, Fanout, Finished, Session, State
from laps_relay.peer_forwarding.traffic import Arrival, Departure, Traffic
from laps_sdk.forwarding.interfaces import OutStream, PeerEgress
from laps_sdk.forwarding.samples import Samples
from laps_sdk.timers import Timers, earliest
from laps_sdk.upstream.interfaces import DataSink
from laps_wire.peering.errors import StreamCode, UnknownKindError
from laps_wire.peering.laps2 import DataHeader, DataKind, split
from laps_wire.peering.laps2.codepoints import DATA_HEADER_BYTES

__all__ = ["PeerPlane"]

_LOST: Final = int(StreamCode.LOST)
_DATAGRAM: Final = int(DataKind.DATAGRAM)


class PlaneSizes(NamedTuple):
    """How many entries the tables of a :class:`PeerPlane` have."""

    feeds: int
    """Of the relay's own clients."""
    incoming: int
    """Streams that come, or are held."""
    outgoing: int
    """Streams that go."""
    waiting: int
    """Streams that have ended, with bytes that wait."""
    targets: int
    """Targets of all sessions."""


class PeerPlane:
    """The forwarding plane: FIB entries, streams and datagrams of all sessions."""

    __slots__ = ("_feeds", "_fib", "_sessions", "_sink", "_state")

    def __init__(
        self, sink: DataSink | None, *, set_linger: float = 1.0, continue_after: float = 0.5
    ) -> None:
        self._sink = sink
        self._state = State(set_linger, continue_after)
        self._sessions: dict[int, Session] = {}
        self._fib = Fib(self._state, self._sessions)
        self._feeds: dict[int, PlaneFeed] = {}

    def attach(self, sink: DataSink) -> None:
        """Set where data for the relay's own clients goes; before any of it comes."""
        self._sink = sink

    # Sessions

    def add_session(self, session: int, egress: PeerEgress, hold: HoldData) -> None:
        """Accept data from a session, and send data to it.

        ``hold`` keeps data of a set that is not known yet; see ``HoldData``.
        """
        self._sessions[session] = Session(session, egress, hold)

    def remove_session(self, now: float, session: int) -> None:
        """Forget a session: its incoming streams end as if reset, its outgoing ones are dropped."""
        gone = self._sessions.pop(session, None)
        if gone is None:
            return
        streams, gone.streams = gone.streams, {}
        for stream in streams.values():
            # Its sets died with it (laps-2, 6.1); the o-relay can send the rest again (6.6).
            stream.reset(now, _LOST)
        for item in tuple(gone.held):
            item.reset(now, _LOST)
        self._state.unsent_streams += gone.unsent()
        for branch in tuple(gone.branches.values()):
            branch.fanout.leave(now, branch)
            if isinstance(branch.fanout, FeedStream):
                branch.fanout.missed(
                    now
                )  # other streams get a call for targets that lose their path
        self._fib.forget(now, gone)

    # FIB

    def open_feed(
        self, number: int, key: int, context: int, payload_format: int, flags: int = 0
    ) -> PlaneFeed:
        """Return the feed of a local publisher; its ingress is ``Ingress(LOCAL, number)``."""
        header = DataHeader(
            DataKind.STREAM, 0, key, context, payload_format=payload_format, flags=flags
        )
        feed = self._feeds[number] = PlaneFeed(self._state, self._fib.local, number, header)
        return feed

    def close_feed(self, now: float, number: int) -> None:
        """Begin no new streams of a feed; those under way go on to their end."""
        feed = self._feeds.pop(number, None)
        if feed is not None:
            feed.close()
            self._fib.remove(now, feed.ingress)

    def install(
        self, now: float, ingress: Ingress, egress: Sequence[EgressSet], *, local: bool
    ) -> None:
        """Make or replace a FIB entry.

        Streams that begin from now on go to these sets, and to the relay's own clients if
        ``local``. Streams that began before go on to their sets (make before break);
        :meth:`cut` ends those that must not. A feed is never sent back to the own clients.
        """
        own = local and ingress.session != LOCAL
        self._fib.install(now, ingress, egress, self._sink if own else None)

    def remove(self, now: float, ingress: Ingress) -> None:
        """Remove a FIB entry; streams under way go on."""
        self._fib.remove(now, ingress)

    def carries(self, ingress: Ingress) -> bool:
        """Return whether streams with this ingress are under way."""
        entry = self._fib.get(ingress)
        return entry is not None and entry.open > 0

    def bringing(self, key: int) -> list[Ingress]:
        """Return where the streams of a track come from that the own clients receive."""
        found = {
            stream.entry.ingress: None
            for session in self._sessions.values()
            for stream in session.streams.values()
            if isinstance(stream, RelayedStream) and stream.key == key and stream.sink is not None
        }
        return list(found)

    def outdate(self, now: float, ingress: Ingress, *, in_place: bool = False) -> None:
        """Note that a feed has new targets, or other paths to them.

        Open streams go on without that. If they do not end soon, ``Outdated`` is reported; at
        once if one of them has lost a receiver. The same holds for streams that begin soon if a
        target was added to a set ``in_place``, or some are open: they may overtake its update.
        """
        feed = self._feeds.get(ingress.set_id)
        if feed is not None:
            feed.outdate(now, in_place=in_place)
            self._state.notices.append(Rerouted(ingress))

    def cut(self, now: float, egress: EgressSet, code: int) -> None:
        """Reset all open streams to one of our sets; finished ones too if their bytes wait."""
        session = self._sessions.get(egress.session)
        if session is None:
            return
        for stream, branch in tuple(session.branches.items()):
            if branch.target.sns_id == egress.sns_id:
                stream.reset(code)
                branch.fanout.leave(now, branch)
        for stream, finished in tuple(session.finished.items()):
            if finished.sns_id == egress.sns_id:
                stream.reset(code)
                del session.finished[stream]

    def retire(self, now: float, egress: EgressSet) -> None:
        """Report ``SetIdle`` once no stream to this set is open and it has lingered."""
        self._fib.retire(now, egress)

    def release(self, now: float, session: int, items: Iterable[object]) -> None:  # noqa: ARG002
        """Forward what was held, in this order: its set is known now."""
        for item in items:
            if isinstance(item, HeldStream | HeldDatagram):
                item.release(now)

    def discard(self, now: float, session: int, items: Iterable[object]) -> None:  # noqa: ARG002
        """Give up what was held (UNKNOWN_SNS) and count it: its set did not come."""
        for item in items:
            if isinstance(item, HeldStream | HeldDatagram):
                item.give_up()

    # Hot path

    def stream_data(self, now: float, session: int, stream_id: int, data: bytes, fin: bool) -> None:
        """Forward a chunk of a unidirectional stream; the first one begins with the header.

        Raises :class:`~laps_wire.errors.RemoteError` if the peer broke the protocol.
        """
        sender = self._sessions.get(session)
        if sender is None:
            return
        stream = sender.streams.get(stream_id)
        if stream is None:
            if stream_id not in sender.stopped:
                begin(now, self._state, sender, stream_id, data, fin)
            elif fin:
                del sender.stopped[stream_id]
            return
        direct = stream.direct
        if direct is None:
            stream.data(now, data, fin)
            return
        stream.size += len(data)
        direct(data, fin)
        if fin:
            stream.finish(now)

    def stream_reset(self, now: float, session: int, stream_id: int, code: int) -> None:
        """Reset the outgoing streams of an incoming stream that the peer reset."""
        sender = self._sessions.get(session)
        if sender is None:
            return
        stream = sender.streams.pop(stream_id, None)
        if stream is not None:
            stream.reset(now, code)
        else:
            sender.stopped.pop(stream_id, None)

    def datagram(self, now: float, session: int, data: bytes) -> None:
        """Forward a datagram of a peer. Raises like :meth:`stream_data`."""
        sender = self._sessions.get(session)
        if sender is None:
            return
        size = len(data)
        if (
            size < DATA_HEADER_BYTES
            or not DATA_HEADER_BYTES <= data[0] <= size
            or data[1] >> 4 != _DATAGRAM
        ):
            try:
                split(data)  # raises the error of the header
            except UnknownKindError:
                self._state.unknown_kinds += 1
            return
        sns_id = int.from_bytes(data[4:8], "big")
        entry = sender.entries.get(sns_id)
        if entry is not None:
            forward(now, self._state, entry, data)
        else:
            hold_datagram(now, self._state, sender, sns_id, data)

    def out_stream_gone(
        self, now: float, session: int, stream: OutStream, lost: int, *, stopped: bool
    ) -> None:
        """Handle an outgoing stream that the egress dropped or the peer stopped.

        ``lost`` bytes of it were not sent.
        """
        receiver = self._sessions.get(session)
        if receiver is None:
            return
        branch = receiver.branches.get(stream)
        if branch is None:
            finished = receiver.finished.pop(stream, None)
            if not stopped:
                self._unsent(session, finished, lost)
                # Its end was written; perhaps in the very call that was too much for the egress,
                # and then nothing of it waited afterwards that would have been remembered.
                self._state.dropped_streams += 1
                self._state.dropped_bytes += lost
        else:
            if stopped:
                branch.fanout.leave(now, branch)
            else:
                branch.fanout.lost(now, branch, lost)
            branch.fanout.missed(now)

    def _unsent(self, session: int, finished: Finished | None, lost: int) -> None:
        """Take back from the traffic counters what was not sent of a finished stream."""
        traffic = self._state.traffic
        if traffic is not None and finished is not None:
            traffic.sent(finished.key, finished.source, session, -lost, dropped=1)

    # Polls

    @property
    def has_notices(self) -> bool:
        """Whether :meth:`poll_notices` gives any."""
        return bool(self._state.notices)

    def poll_notices(self) -> list[SetIdle | Outdated | Rerouted]:
        """Return what the control plane must know, once."""
        notices = self._state.notices
        if not notices:
            return []
        taken = notices[:]
        notices.clear()
        return taken

    @property
    def clocks(self) -> tuple[Timers[Any], ...]:
        """The timers of sets and feeds, for one common deadline."""
        return (self._state.timers, self._state.outdated)

    @property
    def samples_at(self) -> float | None:
        """When samples of traffic are due; None if none are taken."""
        samples = self._state.samples
        return None if samples is None else samples.poll_timeout()

    def poll_timeout(self) -> float | None:
        """When :meth:`handle_timeout` wants to be called."""
        state = self._state
        return earliest(earliest(state.timers.next(), state.outdated.next()), self.samples_at)

    def handle_timeout(self, now: float) -> None:
        """Let lingering sets go, and report streams that must go on anew."""
        outdated = self._state.outdated
        while (number := outdated.pop(now)) is not None:
            self._feeds[number].report(now)
        self._state.handle_timeout(now)
        if self._state.samples is not None:
            self._state.samples.handle_timeout(now)

    # Figures

    def counters(self) -> PeerPlaneCounters:
        """Return the counters of the plane, with streams under way; feeds count as incoming."""
        settled = self._state.counters()
        bytes_in = bytes_out = 0
        for fanout, branches in self._under_way().items():
            bytes_in += fanout.size
            bytes_out += fanout.size * branches
        return settled._replace(
            bytes_in=settled.bytes_in + bytes_in, bytes_out=settled.bytes_out + bytes_out
        )

    def entries(self) -> Mapping[Ingress, tuple[tuple[EgressSet, ...], bool, SetCounters]]:
        """Return the FIB: egress sets, whether the own clients receive it, counters."""
        more: dict[Entry, tuple[int, int]] = {}
        for fanout, branches in self._under_way().items():
            size_in, size_out = more.get(fanout.entry, (0, 0))
            more[fanout.entry] = size_in + fanout.size, size_out + fanout.size * branches
        found = {}
        for entry in self._fib.entries():
            streams, datagrams, bytes_in, bytes_out = entry.counters()
            size_in, size_out = more.get(entry, (0, 0))
            counters = SetCounters(streams, datagrams, bytes_in + size_in, bytes_out + size_out)
            found[entry.ingress] = (entry.egress, entry.sink is not None, counters)
        return found

    def count_traffic(self) -> None:
        """Count by track and session from now on; take the counts with :meth:`take_traffic`."""
        self._state.traffic = self._state.traffic or Traffic()

    def take_traffic(self) -> tuple[list[Arrival], list[Departure]]:
        """Return what came and went since the last call, streams under way too."""
        traffic = self._state.traffic
        if traffic is None:
            return [], []
        for fanout in self._under_way():
            fanout.report_traffic(traffic)
        return traffic.take()

    def time_objects(self, samples: Samples | None) -> None:
        """Time some of the objects from now on; None: none."""
        self._state.samples = samples

    def unsent(self) -> int:
        """Return how many outgoing streams have not ended, or have bytes that wait."""
        return sum(session.unsent() for session in self._sessions.values())

    def sizes(self) -> PlaneSizes:
        """Return how many feeds, streams and targets there are."""
        sessions = self._sessions.values()
        return PlaneSizes(
            feeds=len(self._feeds),
            incoming=sum(len(each.streams) + len(each.held) for each in sessions),
            outgoing=sum(len(each.branches) for each in sessions),
            waiting=sum(stream.queued > 0 for each in sessions for stream in each.finished),
            targets=sum(len(each.targets) for each in sessions),
        )

    def fib_size(self) -> int:
        """Return how many entries the FIB has."""
        return len(self._fib)

    def _under_way(self) -> dict[Fanout, int]:
        """Everything that has not ended, and how many branches it has."""
        found: dict[Fanout, int] = {}
        for session in self._sessions.values():
            for stream in session.streams.values():
                if isinstance(stream, RelayedStream):
                    found[stream] = len(stream.branches)
            for branch in session.branches.values():
                found[branch.fanout] = len(branch.fanout.branches)
        return found
