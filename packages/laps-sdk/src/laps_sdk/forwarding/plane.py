"""The forwarding plane; ``interfaces.ForwardingPlane`` says what each call means.

::

    stream_opened --> Opening --> Writer | Waiting                    (pending, track)
                  '-> FetchRelay                                      (fetches)
    datagram ------> take_datagram                                    (datagrams)
    add_egress ----> Receiver, replay of what is cached               (track, late)
    serve_fetch ---> FetchAnswer                                      (fetches)

This module finds the object that a call is about, turns faults of peers into notices, and counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Final

from laps_sdk.forwarding.cache import CacheTraffic
from laps_sdk.forwarding.coding import CANCELLED, INTERNAL_ERROR, MALFORMED_TRACK
from laps_sdk.forwarding.datagrams import take_datagram
from laps_sdk.forwarding.fetches import Fetches
from laps_sdk.forwarding.interfaces import (
    CacheLimits,
    Egress,
    EgressEntry,
    FetchOutcome,
    FetchRange,
    Notice,
    OutStream,
    PlaneCounters,
    PlaneLimits,
    Point,
    SessionFault,
    Subscription,
    SubscriptionCounters,
    Taker,
    TrackCounters,
    TrackMalformed,
)
from laps_sdk.forwarding.late import replay
from laps_sdk.forwarding.pending import Detached, Opening, Pending, Waiting
from laps_sdk.forwarding.repair import lacking, positions, resume
from laps_sdk.forwarding.samples import Samples
from laps_sdk.forwarding.track import (
    InternalTrack,
    Receiver,
    Session,
    Source,
    State,
    Track,
    Writer,
)
from laps_sdk.forwarding.traffic import ClientTraffic, TrackTraffic
from laps_sdk.timers import earliest
from laps_wire.errors import RemoteError
from laps_wire.moqt.data.types import MalformedTrackError, ObjectTooLargeError, StreamKind
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName

__all__ = ["Plane"]

_CACHE_LIMITS: Final = CacheLimits()
_PLANE_LIMITS: Final = PlaneLimits()
_FEW: Final = 16
"""With more subscriptions than these a session is not asked which track it gets most of."""
_NO_COUNTERS: Final = SubscriptionCounters(0, 0, 0, 0, 0, 0, 0)


class Plane:
    """Everything that happens for each object."""

    __slots__ = ("_fetches", "_pending", "_sessions", "_state")

    def __init__(
        self, cache: CacheLimits = _CACHE_LIMITS, *, limits: PlaneLimits = _PLANE_LIMITS
    ) -> None:
        self._state = State(cache, limits)
        self._sessions: dict[int, Session] = {}
        self._pending: dict[int, Pending] = {}
        """What waits in each session for its alias to become known."""
        self._fetches = Fetches(self._state, self._sessions)

    # Sessions

    def add_session(
        self,
        session: int,
        draft: Draft,
        egress: Egress,
        *,
        peering: bool = False,
        upstream: bool = False,
    ) -> None:
        """Objects may come from and go to this session."""
        self._pending[session] = Pending(self._state)
        self._sessions[session] = Session(
            self._state, session, draft, egress, peering=peering, upstream=upstream
        )

    def remove_session(self, now: float, session: int) -> None:
        """Forget a session with its receivers; another one may bring the rest of its streams.

        Streams of a session with other relays behind it end as if reset.
        """
        gone = self._sessions.pop(session, None)
        if gone is None:
            return
        for receiver in tuple(gone.receivers.values()):
            receiver.close(CANCELLED)
        for alias, source in gone.sources.items():
            source.track.ingress.pop((gone, alias), None)
        for track in gone.malformed:
            track.broken.discard(gone)
        self._fetches.forget(now, session)
        while gone.streams:
            # One by one: another stream of this session may take over, and has to go as well.
            _, handler = gone.streams.popitem()
            if isinstance(handler, Writer) and not gone.peering:
                handler.lost(now)
            else:
                handler.reset(now, CANCELLED)
        self._pending.pop(session).clear()

    # Tracks

    def add_track(self, track: int, name: FullTrackName, *, max_age: float | None = None) -> None:
        """Begin to know a track."""
        state = self._state
        state.tracks[track] = Track(track, name, max_age, state.limits, state.notices)

    def remove_track(self, now: float, track: int) -> None:
        """Forget a track with its cache, its ingress and its receivers."""
        gone = self._state.tracks.pop(track, None)
        if gone is None:
            return
        for receiver in tuple(gone.receivers):
            receiver.close(CANCELLED)
            receiver.session.receivers.pop(receiver.subscription.request_id, None)
        for sub in gone.subgroups():
            for writer in tuple(sub.writers):
                session, stream_id = writer.session, writer.stream_id
                if session.upstream and stream_id in session.streams:
                    session.streams[stream_id] = Detached(writer)
                else:
                    session.stop(stream_id, CANCELLED)
            sub.abandon(now)
        for session, alias in gone.ingress:
            session.sources.pop(alias, None)
        for session in gone.broken:
            session.malformed.discard(gone)
        self._fetches.forget_track(now, gone)
        self._state.cache.purge(gone)
        if self._state.gone is not None:
            self._state.gone.append(gone.take_traffic())

    def largest(self, track: int) -> Location | None:
        """The largest location seen."""
        known = self._state.tracks.get(track)
        return None if known is None else known.largest

    def rank_by(self, track: int, property_type: int | None) -> None:
        """Report ``RankChanged`` for this extension of the track's objects; None: do not."""
        known = self._state.tracks[track]
        known.rank_type = property_type
        known.rank_value = None

    # Ingress

    def add_ingress(
        self,
        now: float,
        session: int,
        alias: int,
        track: int,
        priority: int,
        largest: Location | None = None,
    ) -> None:
        """Objects with this alias belong to the track; what waited for it is forwarded now."""
        sender = self._sessions[session]
        self.remove_ingress(now, session, alias)
        sender.intakes.pop(alias, None)
        sender.sources[alias] = source = Source(self._state.tracks[track], priority)
        if sender.upstream and source.track.largest_group < 0:
            source.track.floor = largest
        source.track.ingress[sender, alias] = None
        self._claim(now, sender, alias, lambda waiting: waiting.replay(now, source))

    def add_intake(
        self, now: float, session: int, alias: int, taker: Taker, object_bytes: int
    ) -> None:
        """Objects with this alias are for ``taker``, if they are not longer than that."""
        sender = self._sessions[session]
        self.remove_ingress(now, session, alias)
        sender.intakes[alias] = intake = InternalTrack(taker, object_bytes)
        self._claim(now, sender, alias, lambda waiting: waiting.hand_over(now, intake))

    def remove_intake(self, session: int, alias: int) -> None:
        """No more objects with this alias."""
        sender = self._sessions.get(session)
        if sender is not None:
            sender.intakes.pop(alias, None)

    def _claim(
        self, now: float, sender: Session, alias: int, begin: Callable[[Waiting], None]
    ) -> None:
        """An alias has become known: let what waited for it begin."""
        streams, datagrams = self._pending[sender.number].claim(alias)
        for waiting in streams:
            stream_id, fin = waiting.arrival.stream_id, waiting.fin
            try:
                begin(waiting)
            except RemoteError as error:
                self._fault(now, sender, stream_id, error)
            if fin:
                sender.streams.pop(stream_id, None)
        for data in datagrams:
            self.datagram(now, sender.number, data)

    def remove_ingress(self, now: float, session: int, alias: int) -> None:  # noqa: ARG002
        """No more objects with this alias; streams under way are still forwarded to their end."""
        sender = self._sessions.get(session)
        source = None if sender is None else sender.sources.pop(alias, None)
        if sender is not None and source is not None:
            source.track.ingress.pop((sender, alias), None)

    def ingress_streams(self, session: int, alias: int) -> tuple[int, int]:
        """How many subgroup streams began with this alias, and how many are not over yet."""
        sender = self._sessions.get(session)
        source = None if sender is None else sender.sources.get(alias)
        if sender is None or source is None:
            return 0, 0
        track = source.track
        return source.streams, sum(each.track is track for each in sender.streams.values())

    # Egress

    def add_egress(self, now: float, subscription: Subscription, entry: EgressEntry) -> None:
        """Send a track to a receiver: what is cached from ``start`` on, then all that comes."""
        session, track = self._sessions[subscription.session], self._state.tracks[entry.track]
        receiver = Receiver(session, track, subscription, entry)
        session.receivers[subscription.request_id] = receiver
        session.service.asked(now)
        track.receivers[receiver] = None
        self._let_into_subgroups(receiver)
        if entry.start is not None and entry.forward:
            replay(now, receiver)
        receiver.check_done()

    def update_egress(self, now: float, subscription: Subscription, entry: EgressEntry) -> None:
        """Change range, priority, forward state or timeout of a receiver."""
        receiver = self._receiver(subscription)
        if receiver is None:
            return
        receiver.program(entry)
        for out in tuple(receiver.outs):
            sub = out.sub
            if sub is None:
                continue
            group_id = sub.group.group_id
            if receiver.wants_group(group_id):
                priority = receiver.priority_of(sub.priority, group_id, sub.subgroup_id)
                out.stream.set_priority(priority)
                if out.tail is not None:
                    out.tail.time(out)
            else:
                out.reset(CANCELLED)
        receiver.reprogrammed(now)
        for sub in receiver.track.subgroups():
            sub.forget(receiver)
        self._let_into_subgroups(receiver)
        receiver.check_done()

    def _let_into_subgroups(self, receiver: Receiver) -> None:
        """Let a receiver into what is under way, with the next object that it wants."""
        taken = receiver.reads()
        for sub in receiver.track.subgroups():
            if sub not in taken and receiver.wants_group(sub.group.group_id):
                sub.admit_receiver(receiver)

    def renew_egress(self, subscription: Subscription, before: float = inf) -> None:
        """Let its open streams end before their next objects, which come on new streams."""
        receiver = self._receiver(subscription)
        if receiver is not None:
            for tail, out in receiver.at_tails():
                if out.began <= before:
                    tail.renew(out)

    def finish_egress(self, subscription: Subscription) -> bool:
        """Begin no further streams; return whether all streams have ended."""
        receiver = self._receiver(subscription)
        return receiver is None or receiver.finish()

    def remove_egress(
        self,
        now: float,  # noqa: ARG002
        subscription: Subscription,
        *,
        reset_code: int | None,
    ) -> SubscriptionCounters:
        """Stop; open streams are reset with the code, or with None left to end by themselves."""
        receiver = self._receiver(subscription)
        if receiver is None:
            return _NO_COUNTERS
        receiver.close(reset_code)
        del receiver.session.receivers[subscription.request_id]
        return receiver.counters()

    # Repair

    def positions(self, track: int, since: float) -> list[Point]:
        """Return the ends of all subgroups that have changed since then."""
        known = self._state.tracks.get(track)
        return [] if known is None else positions(known, since)

    def lacking(
        self, now: float, track: int, points: Sequence[Point], hold: float, *, lost: bool
    ) -> list[Point]:
        """Return where to resume subgroups that another log has, and this one has not."""
        known = self._state.tracks.get(track)
        if known is None:
            return []
        due, given_up = lacking(now, known, points, hold, lost=lost)
        self.give_up(now, track, given_up)
        return due

    def resume_egress(
        self, now: float, subscription: Subscription, points: Sequence[Point]
    ) -> list[Point]:
        """Send subgroups again from these objects on; return the points that are gone."""
        receiver = self._receiver(subscription)
        return list(points) if receiver is None else resume(now, receiver, points)

    def stream_lost(self, now: float, session: int, stream_id: int) -> None:
        """An incoming stream was lost with its path: another one may bring the rest."""
        sender = self._sessions.get(session)
        handler = None if sender is None else sender.streams.pop(stream_id, None)
        if isinstance(handler, Writer):
            handler.lost(now)
        elif handler is not None:
            handler.reset(now, CANCELLED)

    def give_up(self, now: float, track: int, points: Sequence[Point]) -> None:
        """Wait no longer for these subgroups: their objects are gone."""
        known = self._state.tracks.get(track)
        for point in () if known is None else points:
            group = None if known is None else known.groups.get(point.group)
            sub = None if group is None else group.subgroups.get(point.subgroup)
            if sub is not None:
                sub.give_up(now)

    # Fetch

    def serve_fetch(
        self, now: float, subscription: Subscription, wanted: FetchRange, *, partial: bool = False
    ) -> FetchOutcome:
        """Answer from the cache."""
        return self._fetches.serve(now, subscription, wanted, partial=partial)

    def covers(self, now: float, wanted: FetchRange) -> bool:
        """Whether the cache knows every object of the range, or knows that there is none."""
        return self._fetches.covers(now, wanted)

    def relay_fetch(
        self, session: int, request_id: int, subscription: Subscription, wanted: FetchRange
    ) -> None:
        """Pass the stream that answers our own FETCH on to a receiver, and keep its objects."""
        self._fetches.relay(session, request_id, subscription, wanted)

    def cancel_fetch(self, now: float, subscription: Subscription, reset_code: int) -> None:
        """The receiver gave up, or the upstream did."""
        self._fetches.cancel(now, subscription, reset_code)

    # Cache

    def purge(self, track: int | None = None) -> int:
        """Forget cached objects of one or all tracks; how many bytes that were."""
        if track is None:
            return self._state.cache.purge()
        known = self._state.tracks.get(track)
        return 0 if known is None else self._state.cache.purge(known)

    def set_cache_limits(self, now: float, limits: CacheLimits) -> None:
        """Change them; what is over is evicted now."""
        cache = self._state.cache
        cache.set_limits(limits, list(self._state.tracks.values()))
        cache.expire(now)

    # Hot path

    def stream_opened(
        self,
        now: float,
        session: int,
        stream_id: int,
        kind: StreamKind,
        data: bytes,
        fin: bool,
        *,
        continued: bool = False,
    ) -> None:
        """A data stream began."""
        sender = self._sessions.get(session)
        if sender is None:
            return
        if kind is StreamKind.SUBGROUP:
            sender.streams[stream_id] = Opening(
                sender, stream_id, self._pending[session], continued=continued
            )
        elif kind is StreamKind.FETCH:
            sender.streams[stream_id] = self._fetches.opening(sender, stream_id)
        else:
            return  # padding, which is thrown away
        self.stream_data(now, session, stream_id, data, fin)

    def stream_data(self, now: float, session: int, stream_id: int, data: bytes, fin: bool) -> None:
        """More of it."""
        sender = self._sessions.get(session)
        if sender is None:
            return
        handler = sender.streams.get(stream_id)
        if handler is None:
            return  # given up
        try:
            handler.data(now, data, fin)
        except RemoteError as error:
            self._fault(now, sender, stream_id, error)
        if fin:
            sender.streams.pop(stream_id, None)

    def stream_reset(self, now: float, session: int, stream_id: int, code: int) -> None:
        """The peer abandoned it."""
        sender = self._sessions.get(session)
        handler = None if sender is None else sender.streams.pop(stream_id, None)
        if handler is not None:
            handler.reset(now, code)

    def datagram(self, now: float, session: int, data: bytes) -> None:
        """A datagram arrived."""
        sender = self._sessions.get(session)
        if sender is None:
            return
        try:
            unknown = take_datagram(now, sender, data)
            if unknown is not None:
                self._pending[session].add_datagram(now, unknown, data)
        except MalformedTrackError as error:
            alias, _ = sender.draft.integers.decode(data, 1, len(data))
            source = sender.sources.get(alias)
            self._malformed(sender, None if source is None else source.track, str(error))
        except RemoteError as error:
            self._state.notices.append(SessionFault(session, error))

    def out_stream_gone(
        self, now: float, session: int, stream: OutStream, lost: int, *, stopped: bool
    ) -> None:
        """An outgoing stream was dropped by the egress, or stopped by the peer."""
        del stopped  # either way the receiver gets no more of it
        receiver = self._sessions.get(session)
        if receiver is not None:
            receiver.gone(now, stream, lost)

    # Polls

    def poll_notices(self) -> list[Notice]:
        """What the control plane must know; taken once."""
        notices = self._state.notices
        taken = notices[:]
        notices.clear()
        return taken

    def poll_timeout(self) -> float | None:
        """When :meth:`handle_timeout` wants to be called."""
        state = self._state
        timed = None if state.samples is None else state.samples.poll_timeout()
        return earliest(state.timers.next(), state.cache.next_expiry(), timed)

    def handle_timeout(self, now: float) -> None:
        """Evict what is too old, give up what waited too long for its alias."""
        self._state.cache.expire(now)
        timers = self._state.timers
        while (call := timers.pop(now)) is not None:
            call(now)
        if self._state.samples is not None:
            self._state.samples.handle_timeout(now)

    # Figures
    #
    # Counters grow for ever. What is *taken* is what happened since it was last taken. What a track
    # did is kept when the track is gone, once somebody counts.

    def track_counters(self, track: int) -> TrackCounters:
        """Of one track."""
        return self._state.tracks[track].counters()

    def subscription_counters(self, subscription: Subscription) -> SubscriptionCounters | None:
        """Of one receiver; None if there is no such."""
        receiver = self._receiver(subscription)
        return None if receiver is None else receiver.counters()

    def count_traffic(self) -> None:
        """Remember what tracks did that are no more; somebody must take it."""
        self._state.gone = self._state.gone or []

    def take_traffic(self, tracks: Iterable[int] | None = None) -> list[TrackTraffic]:
        """What some tracks did since the last time, and all that are no more; idle ones not."""
        known = self._state.tracks
        found: list[TrackTraffic] = []
        if self._state.gone:
            found, self._state.gone = self._state.gone, []
        for number in list(known) if tracks is None else tracks:
            if number in known:
                found.append(known[number].take_traffic())
        return [each for each in found if not each.is_idle]

    def take_cache(self) -> tuple[CacheTraffic, int]:
        """What the cache did since the last time, and how many bytes it holds."""
        cache = self._state.cache
        return cache.figures.take(), cache.bytes

    def take_clients(self) -> list[ClientTraffic]:
        """How clients that are subscribed to something were served since the last time."""
        found = []
        for session in self._sessions.values():
            receivers = session.receivers.values()
            if session.peering or not receivers:
                continue
            gaps, startup = session.service.take()
            track = None
            if len(receivers) <= _FEW:
                track = max(receivers, key=lambda each: each.counters().bytes).track.name
            found.append(ClientTraffic(session.number, gaps, startup, track))
        return found

    def time_objects(self, samples: Samples | None) -> None:
        """Time some of the objects from now on; None: none."""
        self._state.samples = samples

    def counters(self) -> PlaneCounters:
        """What was given up, and why."""
        return self._state.counters()

    def _receiver(self, subscription: Subscription) -> Receiver | None:
        session = self._sessions.get(subscription.session)
        return None if session is None else session.receivers.get(subscription.request_id)

    # Faults of peers

    def _fault(self, now: float, sender: Session, stream_id: int, error: RemoteError) -> None:
        """Give up what a peer got wrong: a stream, a track, or the session."""
        handler = sender.streams.get(stream_id)
        if handler is None:
            return
        code = INTERNAL_ERROR
        if isinstance(error, MalformedTrackError):
            code = MALFORMED_TRACK
            self._malformed(sender, handler.track, str(error))
        elif not isinstance(error, ObjectTooLargeError):
            self._state.notices.append(SessionFault(sender.number, error))
        sender.stop(stream_id, code)
        handler.reset(now, code)

    def _malformed(self, sender: Session, track: Track | None, reason: str) -> None:
        """Take nothing more of a track from a session; tell it once."""
        if track is not None and track not in sender.malformed:
            sender.malformed.add(track)
            track.broken.add(sender)
            self._state.notices.append(TrackMalformed(track.number, sender.number, reason))
