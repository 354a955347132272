"""All tracks of an Edge: what is known of them, their FETCHes, and when they are forgotten.

::

    subscribed or published --> live --its last source is gone--> stale: only its cache is left
                                  |                                  |
                                  '--no cache, or never a publisher--'--> forgotten

    FETCH --> range --> cache covers it --------------------> FETCH_OK, objects from the cache
                 |
                 |----> same start as a FETCH of ours: wait for that, then from the cache
                 |
                 '----> our FETCH to a publisher --FETCH_OK-> FETCH_OK
                                                 --objects--> kept, and passed on by the plane
                                                 --error----> the next one, at last the network;
                                                              then what the cache has of it

A track number is never used twice; the number is also the alias that receivers know. A joining
FETCH ends where its subscription began; if that has no answer yet, the FETCH waits for it.
"""

from __future__ import annotations

from typing import Final

from laps_sdk.edge.admission import Admission
from laps_sdk.edge.authorization import Grant
from laps_sdk.edge.codes import properties_for, reset_code, upstream_code
from laps_sdk.edge.events import FetchFailed, FetchRelayed, FetchServed, TrackAdded, TrackRemoved
from laps_sdk.edge.ranges import Span, clip, joining_span, standalone_span, wire_end
from laps_sdk.edge.records import (
    Client,
    FetchJob,
    FetchLeg,
    Load,
    Receiver,
    Source,
    Stage,
    StatusLeg,
    Track,
)
from laps_sdk.edge.state import Due, State
from laps_sdk.edge.tree import NamespaceTree
from laps_sdk.forwarding.interfaces import FetchRange
from laps_wire.moqt.codepoints import FilterType, GroupOrder, RequestErrorCode
from laps_wire.moqt.keyvalue import KeyValues
from laps_wire.moqt.messages import (
    AbsoluteJoiningFetch,
    Fetch,
    FetchOk,
    RelativeJoiningFetch,
    RequestError,
    RequestOk,
    StandaloneFetch,
    TrackStatus,
)
from laps_wire.moqt.parameters import DEFAULT_PRIORITY, Parameters
from laps_wire.moqt.structures import Location, SubscriptionFilter
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName

__all__ = [
    "DONE_PATIENCE",
    "JOIN_PATIENCE",
    "FetchJoins",
    "Fetches",
    "Tracks",
    "filter_of",
    "forwards",
]

_ABOUT_THE_RANGE: Final = (RequestErrorCode.INVALID_RANGE, RequestErrorCode.MALFORMED_TRACK)
"""Answers of a publisher that hold for what we have cached too."""
JOIN_PATIENCE: Final = 1.0
"""How long it waits for another one, in seconds: a long answer is not worth that."""
DONE_PATIENCE: Final = 20
"""Streams behind the end of a track are looked for every ``done_delay``, so often at most."""
_LARGEST = SubscriptionFilter(FilterType.LARGEST_OBJECT)


class Tracks:
    """The table of tracks."""

    __slots__ = ("_next", "_state", "by_name", "by_number", "fetches", "stale", "tree")

    def __init__(self, state: State, admission: Admission) -> None:
        self._state = state
        self._next = 1
        self.fetches = Fetches(state, admission, self)
        self.by_number: dict[int, Track] = {}
        """All of them."""
        self.by_name: dict[FullTrackName, Track] = {}
        """Those that have publishers, or receivers that wait for one."""
        self.stale: dict[FullTrackName, Track] = {}
        """Those of which only the cache is left, oldest first."""
        self.tree: NamespaceTree[Track] = NamespaceTree()
        """Those of ``by_name``, by namespace."""

    def get(self, number: int) -> Track | None:
        """Return the track with this number, or None."""
        return self.by_number.get(number)

    def open(self, now: float, name: FullTrackName) -> Track | None:
        """Return the track of this name, a new one if need be; None if there is no room."""
        track = self.by_name.get(name)
        if track is None:
            if not self._room(now):
                return None
            track = Track(number=0, name=name)
            self._number(track)
            self.by_name[name] = track
            self.tree.add(name.namespace, track)
        return track

    def _number(self, track: Track) -> None:
        track.number = self._next
        self._next += 1
        self.by_number[track.number] = track

    def _room(self, now: float) -> bool:
        """Return whether one more track fits; the oldest caches are forgotten to make room."""
        while len(self.by_number) >= self._state.settings.max_tracks:
            oldest = next(iter(self.stale.values()), None)
            if oldest is None:
                return False
            self.forget(now, oldest)
        return True

    def known(self, name: FullTrackName) -> Track | None:
        """Return the track of this name that has objects: a live one, or a stale one."""
        track = self.by_name.get(name)
        if track is not None and track.installed:
            return track
        return self.stale.get(name, track)

    def largest(self, track: Track) -> Location | None:
        """Return the largest known location of a track."""
        seen = self._state.plane.largest(track.number) if track.installed else None
        if seen is None or track.hint is None:
            return seen or track.hint
        return max(seen, track.hint)

    # In the forwarding plane

    def install(self, track: Track) -> None:
        """Add a track to the forwarding plane, if it is not there."""
        if track.installed:
            return
        state = self._state
        milliseconds = track.facts.max_cache_duration
        max_age = None if milliseconds is None else milliseconds / 1000
        state.plane.add_track(track.number, track.name, max_age=max_age)
        track.installed = True
        state.events.append(TrackAdded(track=track.name, number=track.number))

    def _uninstall(self, now: float, track: Track) -> None:
        state = self._state
        del self.by_number[track.number]
        for job in list(track.fetches):
            reason = "the track is gone"
            self.fetches.fail(now, job, RequestErrorCode.DOES_NOT_EXIST, reason)
        for due in (Due.LINGER, Due.FINISH, Due.FORGET):
            state.timers.cancel((due, track))
        if track.installed:
            track.installed = False
            state.plane.remove_track(now, track.number)
            state.events.append(TrackRemoved(track=track.name, number=track.number))

    def renew(self, now: float, track: Track) -> None:
        """Forget the objects of a track that gets its first publisher again, unless it goes on.

        A publisher that comes back may count its groups from 0 again, and all of them would look
        old. Established receivers, and streams that may still be under way, prevent that.
        """
        stale = self.stale.get(track.name)
        if track.goes_on:
            track.goes_on = False
            if stale is not None and not track.installed:
                self._adopt(track, stale)
            track.fed = True
            return
        if stale is not None:
            self.forget(now, stale)
        bound = any(
            receiver.stage is Stage.ESTABLISHED for receiver in track.receivers.values()
        ) or any(source.stage is Stage.DONE for source in track.sources.values())
        if track.fed and not bound:
            self._uninstall(now, track)
            self._number(track)
            track.hint = track.final = track.group_asked = track.rank = None
            track.ranked = False
        track.fed = True

    def _adopt(self, track: Track, stale: Track) -> None:
        """Give a track the objects of its former subscribers' time."""
        self._unlist(stale)
        del self.stale[stale.name], self.by_number[track.number]
        self._state.timers.cancel((Due.FORGET, stale))
        track.number, track.hint = stale.number, stale.hint
        track.installed = True
        self.by_number[track.number] = track

    # What the sources of a track are asked for

    def update_sources(self, track: Track) -> None:
        """Send the sources the Forward State and the filter that their receivers need together."""
        state = self._state
        for source in list(track.sources.values()):
            if not source.live or source.request_id is None:
                continue
            forward, filter_ = (
                forwards(source) or self.forwards_unwatched(source),
                filter_of(source),
            )
            if source.unused:
                forward = source.forward  # it lingers as it is
            widen = not source.pushed and _wider(filter_, source.filter)
            if forward == source.forward and not widen:
                continue
            parameters = Parameters(
                forward=forward if forward != source.forward else None,
                subscription_filter=filter_ if widen else None,
            )
            asked = state.request(
                source.client,
                lambda _: self.update_sources(track),
                source.client.wire.update,
                source.request_id,
                parameters,
            )
            if asked.request_id is not None:
                source.forward = forward
                source.filter = filter_ if widen else source.filter

    def forwards_unwatched(self, source: Source) -> bool:
        """Return whether a PUBLISH gets Forward State 1 while the track has no receiver.

        The tracks of other networks come from far away: only if they are ranked.
        """
        if not source.pushed or not self._state.settings.forward_unwatched:
            return False
        info = source.client.info
        return source.track.ranked or not (info.upstream or info.distant)

    def request_new_group(self, track: Track, value: int, asker: Client) -> None:
        """Pass a NEW_GROUP_REQUEST on, unless one is under way (moq-transport-16, 9.2.2.9)."""
        state = self._state
        largest = self.largest(track)
        group = -1 if largest is None else largest.group
        if not track.facts.dynamic_groups or 0 < value <= group:
            return
        if track.group_asked is not None:
            asked_value, asked_group = track.group_asked
            if group <= asked_group and asked_value >= value:
                return
        for source in list(track.sources.values()):
            own = source.client is asker and asker.info.peering
            if source.live and source.request_id is not None and not own:
                asked = state.request(
                    source.client,
                    lambda _: self.request_new_group(track, value, asker),
                    source.client.wire.update,
                    source.request_id,
                    Parameters(new_group_request=value),
                )
                if asked.request_id is not None:
                    track.group_asked = (value, group)

    def is_arriving(self, track: Track) -> bool:
        """Return whether streams of a track are under way."""
        streams = self._state.plane.ingress_streams
        return any(
            streams(source.client.id, source.alias)[1]
            for source in track.sources.values()
            if source.stage is not Stage.PENDING
        )

    # The end of a track

    def settle(self, now: float, track: Track) -> None:
        """Set or cancel the linger timer of a track; end the track if it has no use."""
        state = self._state
        if self.by_number.get(track.number) is not track or track.stale:
            return
        linger = (Due.LINGER, track)
        if not any(source.unused for source in track.sources.values()):
            state.timers.cancel(linger)
        elif state.timers.when(linger) is None:
            state.timers.set(linger, now + state.settings.linger)
        if track.receivers:
            return
        if track.sources:
            self.update_sources(track)
        elif not track.fetches:
            self._keep_cache(now, track)

    def _keep_cache(self, now: float, track: Track) -> None:
        """Keep the cache of a track without sources, receivers and FETCHes; forget it if empty."""
        state = self._state
        keep = state.settings.cache_linger
        cached = track.installed and state.plane.track_counters(track.number).cached_objects
        if keep <= 0 or not cached:
            self.forget(now, track)
            return
        older = self.stale.get(track.name)
        if older is not None:
            self.forget(now, older)
        self._unlist(track)
        track.stale = True
        self.stale[track.name] = track
        state.timers.cancel((Due.LINGER, track))
        state.timers.set((Due.FORGET, track), now + keep)

    def _unlist(self, track: Track) -> None:
        if self.by_name.get(track.name) is track:
            del self.by_name[track.name]
            self.tree.remove(track.name.namespace, track)

    def forget(self, now: float, track: Track) -> None:
        """Forget a track without sources and receivers."""
        if self.by_number.get(track.number) is not track:
            return
        self._uninstall(now, track)
        self._unlist(track)
        if self.stale.get(track.name) is track:
            del self.stale[track.name]

    # TRACK_STATUS

    def status_received(self, now: float, client: Client, message: TrackStatus) -> None:
        """Answer a TRACK_STATUS that is authorized, or pass it on to a publisher."""
        state = self._state
        track = self.by_name.get(message.track)
        if track is not None and track.established:
            parameters = Parameters(largest_object=self.largest(track))
            properties = properties_for(track.properties, track.properties_draft, client.draft)
            self._answer_status(client, message.request_id, parameters, properties)
            return
        for offer in reversed(state.offers.covering(message.track.namespace)):
            publisher = offer.client
            if not publisher.usable or publisher.info.peering:
                continue
            asked = state.request(publisher, _no_retry, publisher.wire.track_status, message.track)
            if asked.request_id is None:
                continue
            leg = StatusLeg(
                client=publisher,
                request_id=asked.request_id,
                asker=client,
                asker_request=message.request_id,
            )
            state.add(leg, None)
            state.timers.set((Due.ANSWER, leg), now + state.settings.upstream_timeout)
            return
        code = RequestErrorCode.DOES_NOT_EXIST
        state.reject(client, message.request_id, code, "nobody publishes this track")

    def _answer_status(
        self,
        client: Client,
        request_id: int,
        parameters: Parameters,
        properties: KeyValues,
    ) -> None:
        # Draft 16 has no room for properties in REQUEST_OK.
        if client.draft is Draft.D16:
            properties = ()
        state = self._state
        if not state.command(client, client.wire.accept, request_id, parameters, properties):
            reason = "the answer cannot be written"
            state.reject(client, request_id, RequestErrorCode.INTERNAL_ERROR, reason)

    def status_answered(self, leg: StatusLeg, message: RequestOk) -> None:
        """Pass on the answer of a publisher to TRACK_STATUS."""
        self._state.drop(leg, None)
        properties = properties_for(message.track_properties, leg.client.draft, leg.asker.draft)
        parameters = Parameters(largest_object=message.parameters.largest_object)
        self._answer_status(leg.asker, leg.asker_request, parameters, properties)

    def status_failed(self, leg: StatusLeg, code: RequestErrorCode, reason: str) -> None:
        """Reject a TRACK_STATUS: its publisher rejected it, did not answer, or is gone."""
        self._state.drop(leg, None)
        self._state.reject(leg.asker, leg.asker_request, code, reason)


def forwards(source: Source) -> bool:
    """Return whether a receiver of a source has Forward State 1."""
    return any(receiver.forward for receiver in source.receivers)


def filter_of(source: Source) -> SubscriptionFilter:
    """Return the widest filter that the receivers of a source need.

    A start in the future, or long ago, is passed on only if no receiver needs more.
    """
    starts: list[Location] = []
    for receiver in source.receivers:
        if receiver.filter is None or receiver.filter.start is None:
            return _LARGEST
        starts.append(receiver.filter.start)
    if not starts:
        return _LARGEST
    return SubscriptionFilter(FilterType.ABSOLUTE_START, min(starts))


def _wider(needed: SubscriptionFilter, current: SubscriptionFilter | None) -> bool:
    """Return whether a publisher needs a new filter.

    Largest Object is as wide as a relay needs: older objects are fetched.
    """
    if current is None or current.start is None:
        return False
    return needed.start is None or needed.start < current.start


class FetchJoins:
    """FETCHes that wait for the answer to another one, which begins at the same place.

    Many clients join a live track at once, and each asks for the beginning of the present group. A
    FETCH waits once, for at most ``JOIN_PATIENCE``; then it asks a publisher itself.
    """

    __slots__ = ("_behind", "_count", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[FetchLeg, dict[FetchJob, None]] = {}
        self._behind: dict[FetchJob, FetchLeg] = {}
        self._count = 0

    def join(self, job: FetchJob, track: Track, span: Span) -> bool:
        """Let a FETCH wait for one of ours with the same start; return whether there is one."""
        if job.joined:
            return False
        for other in track.fetches:
            leg, theirs = other.leg, other.span
            if leg is not None and theirs is not None and theirs.start == span.start:
                job.joined = True
                self._waiting.setdefault(leg, {})[job] = None
                self._behind[job] = leg
                self._count += 1
                return True
        return False

    def leave(self, job: FetchJob) -> bool:
        """Let a FETCH wait no longer; return whether it did."""
        leg = self._behind.pop(job, None)
        if leg is None:
            return False
        waiting = self._waiting[leg]
        del waiting[job]
        if not waiting:
            del self._waiting[leg]
        return True

    def over(self, leg: FetchLeg) -> list[FetchJob]:
        """Return the FETCHes that waited for one of ours, which is over."""
        jobs = list(self._waiting.pop(leg, ()))
        for job in jobs:
            del self._behind[job]
        return jobs

    def take(self) -> int:
        """Return how many FETCHes have joined another one since the last call."""
        count, self._count = self._count, 0
        return count


class Fetches:
    """The FETCHes under way, of clients and of the relay."""

    __slots__ = ("_admission", "_state", "_tracks", "joins")

    def __init__(self, state: State, admission: Admission, tracks: Tracks) -> None:
        self._state = state
        self._admission = admission
        self._tracks = tracks
        self.joins = FetchJoins()

    # FETCH

    def fetch_received(self, now: float, client: Client, message: Fetch, grant: Grant) -> None:
        """Begin a FETCH that is authorized, or reject it if a cap is reached."""
        state = self._state
        full = self._admission.full(client, Load.FETCHES)
        if full is not None:
            code = RequestErrorCode.EXCESSIVE_LOAD
            state.reject(client, message.request_id, code, full, retry=1.0)
            return
        job = FetchJob(client=client, request_id=message.request_id, message=message, grant=grant)
        state.add(job, Load.FETCHES)
        self._admission.hold(job)
        target = message.target
        if isinstance(target, StandaloneFetch):
            track = self._tracks.known(target.track)
            if track is None:
                track = self._tracks.open(now, target.track)
            if track is None:
                reason = "the relay has as many tracks as it can"
                self.fail(now, job, RequestErrorCode.EXCESSIVE_LOAD, reason)
                return
            self._begin(now, job, track, standalone_span(target))
            return
        receiver = self._joined(client, target)
        if receiver is None:
            reason = "there is no such subscription"
            self.fail(now, job, RequestErrorCode.INVALID_JOINING_REQUEST_ID, reason)
        elif receiver.stage is Stage.PENDING and not receiver.pushed:
            receiver.joins.append(job)
        else:
            self.join(now, job, receiver)

    def _joined(
        self, client: Client, target: RelativeJoiningFetch | AbsoluteJoiningFetch
    ) -> Receiver | None:
        """Return the subscription that a FETCH joins."""
        record = client.requests.get(target.joining_request_id)
        return record if isinstance(record, Receiver) else None

    def name_of(self, client: Client, message: Fetch) -> FullTrackName | None:
        """Return the name of the track of a FETCH; None if it joins no subscription."""
        if isinstance(message.target, StandaloneFetch):
            return message.target.track
        receiver = self._joined(client, message.target)
        return None if receiver is None else receiver.track.name

    def join(self, now: float, job: FetchJob, receiver: Receiver) -> None:
        """Begin a joining FETCH whose subscription has its answer."""
        target = job.message.target
        span = None
        if not isinstance(target, StandaloneFetch):
            span = joining_span(target, receiver.joining)
        if span is None:
            reason = "nothing was published before the subscription"
            self.fail(now, job, RequestErrorCode.INVALID_RANGE, reason)
            return
        self._begin(now, job, receiver.track, span)

    def _begin(self, now: float, job: FetchJob, track: Track, span: Span) -> None:
        state = self._state
        job.track = track
        track.fetches[job] = None
        largest = self._tracks.largest(track)
        flowing = any(source.live and source.forward for source in track.sources.values())
        if largest is not None and (flowing or track.stale):
            clipped = clip(span, largest)
            if clipped is None:
                reason = f"the largest object is {largest.group}/{largest.object}"
                self.fail(now, job, RequestErrorCode.INVALID_RANGE, reason)
                return
            span = clipped
        job.span = span
        if track.installed and state.plane.covers(now, self._range(job, track, span)):
            self._serve(now, job, track, span, partial=False)
            return
        fill = job.message.parameters.fill_timeout
        joins = fill != 0 and self.joins.join(job, track, span)
        if joins or (fill != 0 and self._relay(job, track, span)):
            wait = JOIN_PATIENCE if joins else state.settings.upstream_timeout
            if fill is not None:
                wait = min(wait, fill / 1000)
            state.timers.set((Due.FILL, job), now + wait)
            return
        self._serve_partial(
            now, job, RequestErrorCode.DOES_NOT_EXIST, "nobody publishes this track"
        )

    def _follow(self, now: float, leg: FetchLeg) -> None:
        """Go on with the FETCHes that waited for one of ours, which is over."""
        for job in self.joins.over(leg):
            if job.track is not None and job.span is not None and not job.client.closed:
                self._begin(now, job, job.track, job.span)

    def _serve_partial(
        self, now: float, job: FetchJob, code: RequestErrorCode, reason: str
    ) -> None:
        """Answer with what the cache has, if it has anything: no publisher helps."""
        state, track, span = self._state, job.track, job.span
        if track is not None and span is not None and track.installed:
            largest = self._tracks.largest(track)
            clipped = None if largest is None else clip(span, largest)
            if clipped is not None and state.plane.track_counters(track.number).cached_objects:
                self._serve(now, job, track, clipped, partial=True)
                return
        self.fail(now, job, code, reason)

    def _range(self, job: FetchJob, track: Track, span: Span) -> FetchRange:
        parameters = job.message.parameters
        priority = parameters.subscriber_priority
        return FetchRange(
            track=track.number,
            start=span.start,
            end=span.end,
            order=parameters.group_order or GroupOrder.ASCENDING,
            priority=DEFAULT_PRIORITY if priority is None else priority,
        )

    def _serve(self, now: float, job: FetchJob, track: Track, span: Span, *, partial: bool) -> None:
        """Answer from the cache."""
        state, client = self._state, job.client
        final = track.final
        if not state.command(
            client,
            client.wire.accept_fetch,
            job.request_id,
            wire_end(span.end),
            end_of_track=final is not None and span.end >= final,
            track_properties=properties_for(track.properties, track.properties_draft, client.draft),
        ):
            self.fail(now, job, RequestErrorCode.INTERNAL_ERROR, "the answer cannot be written")
            return
        job.answered = True
        state.timers.cancel((Due.FILL, job))
        state.plane.serve_fetch(
            now, job.subscription, self._range(job, track, span), partial=partial
        )
        state.events.append(FetchServed(session=client.id, track=track.name, complete=not partial))

    # Our FETCH

    def _publishers(self, job: FetchJob, track: Track) -> list[Client]:
        """Return who may have a track's objects: its sources, then those that announced it.

        The relay network comes last, and is not asked for what it asks for itself.
        """
        found = {
            source.client: None
            for source in track.sources.values()
            if source.live and source.client.usable and not source.client.info.peering
        }
        offers = self._state.offers.covering(track.name.namespace)
        # The most specific announcement first.
        for offer in reversed(offers):
            if offer.client.usable and not offer.client.info.peering:
                found[offer.client] = None
        if not job.client.info.peering:
            upstreams = self._state.upstreams.values()
            found.update((each, None) for each in upstreams if each.usable and each.info.fetches)
        return [client for client in found if client not in job.asked]

    def _relay(self, job: FetchJob, track: Track, span: Span) -> bool:
        """Send our FETCH to a publisher; return False if there is none left."""
        state = self._state
        parameters = Parameters(
            subscriber_priority=job.message.parameters.subscriber_priority,
            group_order=job.message.parameters.group_order,
        )
        target = StandaloneFetch(track.name, span.start, wire_end(span.end))
        for client in self._publishers(job, track):
            job.asked.append(client)
            asked = state.request(client, _no_retry, client.wire.fetch, target, parameters)
            if asked.request_id is None:
                continue
            leg = FetchLeg(client=client, request_id=asked.request_id, job=job)
            state.add(leg, None)
            job.leg = leg
            self._tracks.install(track)
            # Objects may come before FETCH_OK.
            state.plane.relay_fetch(
                client.id, leg.request_id, job.subscription, self._range(job, track, span)
            )
            state.events.append(
                FetchRelayed(session=job.client.id, track=track.name, publisher=client.id)
            )
            return True
        return False

    def fetch_accepted(self, now: float, leg: FetchLeg, message: FetchOk) -> None:
        """Pass on the FETCH_OK of a publisher."""
        state, job = self._state, leg.job
        if leg.client.wire.request_state(leg.request_id) is None:
            self._detach(leg)  # its objects came before
            state.drop(leg, None)
        if job is None:
            return
        client = job.client
        state.timers.cancel((Due.FILL, job))
        properties = message.track_properties
        if state.command(
            client,
            client.wire.accept_fetch,
            job.request_id,
            message.end_location,
            end_of_track=message.end_of_track,
            track_properties=properties_for(properties, leg.client.draft, client.draft),
        ):
            job.answered = True
            if client.wire.request_state(job.request_id) is None:
                self._remove(now, job)
        else:
            self.fail(now, job, RequestErrorCode.INTERNAL_ERROR, "the answer cannot be written")

    def fetch_rejected(self, now: float, leg: FetchLeg, error: RequestError) -> None:
        """Ask the next publisher, or answer from the cache: a publisher rejected our FETCH."""
        job = leg.job
        self._state.drop(leg, None)
        if job is None:
            return
        job.leg = None
        code = upstream_code(error)
        reason = error.reason or "the publisher rejected the FETCH"
        if code in _ABOUT_THE_RANGE:
            self.fail(now, job, code, reason)
            self._follow(now, leg)
            return
        state = self._state
        state.plane.cancel_fetch(now, job.subscription, reset_code(job.client.draft, "CANCELLED"))
        job.error = job.error or (code, reason)
        track, span = job.track, job.span
        if track is not None and span is not None and self._relay(job, track, span):
            self._follow(now, leg)
            return  # for as long as the first one had
        # A live publisher keeps no history: what we kept of it is better than nothing.
        state.timers.cancel((Due.FILL, job))
        self._serve_partial(now, job, *job.error)
        self._follow(now, leg)

    def leg_lost(self, now: float, leg: FetchLeg) -> None:
        """Fail a FETCH whose publisher ended ours, or is gone."""
        job = leg.job
        self._state.drop(leg, None)
        if job is not None:
            job.leg = None
            reason = "the publisher is gone"
            self.fail(now, job, RequestErrorCode.INTERNAL_ERROR, reason)
        self._follow(now, leg)

    def upstream_ended(self, now: float, leg: FetchLeg) -> None:
        """Note the end of the data stream of our FETCH; its answer may still come."""
        state, client = self._state, leg.client
        state.command(client, client.wire.fetch_ended, leg.request_id)
        if client.wire.request_state(leg.request_id) is None:
            self._detach(leg)
            state.drop(leg, None)
        self._follow(now, leg)

    def fill_due(self, now: float, job: FetchJob) -> None:
        """Cancel our FETCH, which takes too long, and use the cache (moq-transport-18, 10.2.5)."""
        state, track, span = self._state, job.track, job.span
        if self.joins.leave(job) and track is not None and span is not None:
            # It is not its own FETCH that takes so long.
            self._begin(now, job, track, span)
            return
        self._abandon(now, job)
        state.plane.cancel_fetch(now, job.subscription, reset_code(job.client.draft, "CANCELLED"))
        self._serve_partial(now, job, RequestErrorCode.TIMEOUT, "the publisher does not answer")

    def _detach(self, leg: FetchLeg) -> None:
        """Separate our FETCH from the FETCH that it was made for."""
        if leg.job is not None:
            leg.job.leg = None
            leg.job = None

    def _abandon(self, now: float, job: FetchJob) -> None:
        """Cancel our FETCH for a client that no longer waits for it."""
        leg = job.leg
        if leg is None:
            return
        self._detach(leg)
        self._state.command(leg.client, leg.client.wire.cancel, leg.request_id)
        self._state.drop(leg, None)
        self._follow(now, leg)

    # Ends

    def answer_ended(self, now: float, job: FetchJob, *, complete: bool) -> None:
        """End a FETCH whose answer was sent, or whose stream was reset."""
        state, client = self._state, job.client
        state.command(client, client.wire.fetch_ended, job.request_id)
        if not complete and job.track is not None:
            state.events.append(
                FetchFailed(session=client.id, track=job.track.name, reason="its stream was reset")
            )
        if client.wire.request_state(job.request_id) is None:
            if job.leg is not None and complete:
                self._detach(job.leg)  # the end of its stream is still to come
            self._remove(now, job)

    def fetch_cancelled(self, now: float, job: FetchJob) -> None:
        """Remove a FETCH that its client has cancelled."""
        self._state.plane.cancel_fetch(
            now, job.subscription, reset_code(job.client.draft, "CANCELLED")
        )
        self._remove(now, job)

    def fail(
        self,
        now: float,
        job: FetchJob,
        code: RequestErrorCode,
        reason: str,
        *,
        reset: int | None = None,
    ) -> None:
        """End a FETCH that cannot be served: with REQUEST_ERROR, or a reset behind its answer."""
        state, client = self._state, job.client
        if job.track is not None:
            state.events.append(FetchFailed(session=client.id, track=job.track.name, reason=reason))
            if reset is None:
                reset = reset_code(client.draft, "INTERNAL_ERROR")
            state.plane.cancel_fetch(now, job.subscription, reset)
        if job.answered:
            state.command(client, client.wire.fetch_ended, job.request_id)
        else:
            state.reject(client, job.request_id, code, reason)
        self._remove(now, job)

    def _remove(self, now: float, job: FetchJob) -> None:
        state, track = self._state, job.track
        self.joins.leave(job)
        if track is not None:
            track.fetches.pop(job, None)
        self._abandon(now, job)
        state.drop(job, Load.FETCHES)
        if track is not None:
            self._tracks.settle(now, track)


def _no_retry(now: float) -> None:
    """Do nothing: a FETCH that is blocked at one publisher goes to another."""
