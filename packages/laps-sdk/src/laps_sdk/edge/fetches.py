"""FETCH: answered from the cache, or passed on to a publisher.

::

    FETCH --> range --> cache covers it --------------------> FETCH_OK, objects from the cache
                 |
                 '----> our FETCH to a publisher --FETCH_OK-> FETCH_OK
                                                 --objects--> kept, and passed on by the plane
                                                 --error----> the next one, at last the network;
                                                              then what the cache has of it

A joining FETCH ends where its subscription began; if that has no answer yet, it waits for it.
"""

from __future__ import annotations

from typing import Final

from laps_sdk.edge.codes import properties_for, reset_code, upstream_code
from laps_sdk.edge.context import Context, Due
from laps_sdk.edge.events import FetchFailed, FetchRelayed, FetchServed
from laps_sdk.edge.fetch_joins import PATIENCE, FetchJoins
from laps_sdk.edge.ranges import Span, clip, joining_span, standalone_span, wire_end
from laps_sdk.edge.records import Client, FetchJob, FetchLeg, Grant, Load, Receiver, Stage, Track
from laps_sdk.forwarding.interfaces import FetchRange
from laps_wire.moqt.codepoints import GroupOrder, RequestErrorCode
from laps_wire.moqt.messages import (
    AbsoluteJoiningFetch,
    Fetch,
    FetchOk,
    RelativeJoiningFetch,
    RequestError,
    StandaloneFetch,
)
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.properties import DEFAULT_PRIORITY
from laps_wire.names import FullTrackName

__all__ = ["Fetches", "no_retry"]

_ABOUT_THE_RANGE: Final = (RequestErrorCode.INVALID_RANGE, RequestErrorCode.MALFORMED_TRACK)
"""Answers of a publisher that hold for what we have cached too."""


class Fetches:
    """FETCHes under way."""

    __slots__ = ("_context", "joins")

    def __init__(self, context: Context) -> None:
        self._context = context
        self.joins = FetchJoins()

    # FETCH

    def fetch(self, now: float, client: Client, message: Fetch, grant: Grant) -> None:
        """Take a FETCH that is allowed."""
        context = self._context
        full = context.full(client, Load.FETCHES)
        if full is not None:
            code = RequestErrorCode.EXCESSIVE_LOAD
            context.reject(client, message.request_id, code, full, retry=1.0)
            return
        job = FetchJob(client=client, request_id=message.request_id, message=message, grant=grant)
        context.add(job, Load.FETCHES)
        context.grants.hold(job)
        target = message.target
        if isinstance(target, StandaloneFetch):
            track = context.tracks.known(target.track)
            if track is None:
                track = context.tracks.open(now, target.track)
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
        """The subscription that a FETCH joins."""
        record = client.requests.get(target.joining_request_id)
        return record if isinstance(record, Receiver) else None

    def name_of(self, client: Client, message: Fetch) -> FullTrackName | None:
        """The track that a FETCH is about."""
        if isinstance(message.target, StandaloneFetch):
            return message.target.track
        receiver = self._joined(client, message.target)
        return None if receiver is None else receiver.track.name

    def join(self, now: float, job: FetchJob, receiver: Receiver) -> None:
        """Begin a joining FETCH: its subscription has its answer."""
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
        context = self._context
        job.track = track
        track.fetches[job] = None
        largest = context.tracks.largest(track)
        flowing = any(source.live and source.forward for source in track.sources.values())
        if largest is not None and (flowing or track.stale):
            clipped = clip(span, largest)
            if clipped is None:
                reason = f"the largest object is {largest.group}/{largest.object}"
                self.fail(now, job, RequestErrorCode.INVALID_RANGE, reason)
                return
            span = clipped
        job.span = span
        if track.installed and context.plane.covers(now, self._range(job, track, span)):
            self._serve(now, job, track, span, partial=False)
            return
        fill = job.message.parameters.fill_timeout
        joins = fill != 0 and self.joins.join(job, track, span)
        if joins or (fill != 0 and self._relay(job, track, span)):
            wait = PATIENCE if joins else context.settings.upstream_timeout
            if fill is not None:
                wait = min(wait, fill / 1000)
            context.timers.set((Due.FILL, job), now + wait)
            return
        self._make_do(now, job, RequestErrorCode.DOES_NOT_EXIST, "nobody publishes this track")

    def _follow(self, now: float, leg: FetchLeg) -> None:
        """A FETCH of ours is over: those that waited for it go on."""
        for job in self.joins.over(leg):
            if job.track is not None and job.span is not None and not job.client.closed:
                self._begin(now, job, job.track, job.span)

    def _make_do(self, now: float, job: FetchJob, code: RequestErrorCode, reason: str) -> None:
        """No publisher helps: send what the cache has, if it has anything."""
        context, track, span = self._context, job.track, job.span
        if track is not None and span is not None and track.installed:
            largest = context.tracks.largest(track)
            clipped = None if largest is None else clip(span, largest)
            if clipped is not None and context.plane.track_counters(track.number).cached_objects:
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
        context, client = self._context, job.client
        final = track.final
        if not context.tell(
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
        context.timers.cancel((Due.FILL, job))
        context.plane.serve_fetch(
            now, job.subscription, self._range(job, track, span), partial=partial
        )
        context.events.append(
            FetchServed(session=client.id, track=track.name, complete=not partial)
        )

    # Our FETCH

    def _publishers(self, job: FetchJob, track: Track) -> list[Client]:
        """Who may have a track's objects: those that feed it, then those that announced it.

        The relay network comes last, and is not asked for what it asks for itself.
        """
        found = {
            source.client: None
            for source in track.sources.values()
            if source.live and source.client.usable and not source.client.info.peering
        }
        offers = self._context.offers.covering(track.name.namespace)
        # The most specific announcement first.
        for offer in reversed(offers):
            if offer.client.usable and not offer.client.info.peering:
                found[offer.client] = None
        if not job.client.info.peering:
            upstreams = self._context.upstreams.clients.values()
            found.update((each, None) for each in upstreams if each.usable and each.info.fetches)
        return [client for client in found if client not in job.asked]

    def _relay(self, job: FetchJob, track: Track, span: Span) -> bool:
        """Ask a publisher; False if there is none that can be asked."""
        context = self._context
        parameters = Parameters(
            subscriber_priority=job.message.parameters.subscriber_priority,
            group_order=job.message.parameters.group_order,
        )
        target = StandaloneFetch(track.name, span.start, wire_end(span.end))
        for client in self._publishers(job, track):
            job.asked.append(client)
            asked = context.ask(client, no_retry, client.wire.fetch, target, parameters)
            if asked.request_id is None:
                continue
            leg = FetchLeg(client=client, request_id=asked.request_id, job=job)
            context.add(leg, None)
            job.leg = leg
            context.tracks.install(track)
            # Objects may come before FETCH_OK.
            context.plane.relay_fetch(
                client.id, leg.request_id, job.subscription, self._range(job, track, span)
            )
            context.events.append(
                FetchRelayed(session=job.client.id, track=track.name, publisher=client.id)
            )
            return True
        return False

    def accepted(self, now: float, leg: FetchLeg, message: FetchOk) -> None:
        """The publisher said FETCH_OK."""
        context, job = self._context, leg.job
        if leg.client.wire.request_state(leg.request_id) is None:
            self._detach(leg)  # its objects came before
            context.drop(leg, None)
        if job is None:
            return
        client = job.client
        context.timers.cancel((Due.FILL, job))
        properties = message.track_properties
        if context.tell(
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

    def rejected(self, now: float, leg: FetchLeg, error: RequestError) -> None:
        """The publisher said no."""
        job = leg.job
        self._context.drop(leg, None)
        if job is None:
            return
        job.leg = None
        code = upstream_code(error)
        reason = error.reason or "the publisher rejected the FETCH"
        if code in _ABOUT_THE_RANGE:
            self.fail(now, job, code, reason)
            self._follow(now, leg)
            return
        context = self._context
        context.plane.cancel_fetch(now, job.subscription, reset_code(job.client.draft, "CANCELLED"))
        job.error = job.error or (code, reason)
        track, span = job.track, job.span
        if track is not None and span is not None and self._relay(job, track, span):
            self._follow(now, leg)
            return  # for as long as the first one had
        # A live publisher keeps no history: what we kept of it is better than nothing.
        context.timers.cancel((Due.FILL, job))
        self._make_do(now, job, *job.error)
        self._follow(now, leg)

    def leg_lost(self, now: float, leg: FetchLeg) -> None:
        """The publisher ended our FETCH, or its session is gone."""
        job = leg.job
        self._context.drop(leg, None)
        if job is not None:
            job.leg = None
            reason = "the publisher is gone"
            self.fail(now, job, RequestErrorCode.INTERNAL_ERROR, reason)
        self._follow(now, leg)

    def upstream_ended(self, now: float, leg: FetchLeg) -> None:
        """The data stream of our FETCH is over; its answer may still come."""
        context, client = self._context, leg.client
        context.tell(client, client.wire.fetch_ended, leg.request_id)
        if client.wire.request_state(leg.request_id) is None:
            self._detach(leg)
            context.drop(leg, None)
        self._follow(now, leg)

    def overdue(self, now: float, job: FetchJob) -> None:
        """The publisher takes too long (moq-transport-18, 10.2.5)."""
        context, track, span = self._context, job.track, job.span
        if self.joins.leave(job) and track is not None and span is not None:
            # It is not its own FETCH that takes so long.
            self._begin(now, job, track, span)
            return
        self._abandon(now, job)
        context.plane.cancel_fetch(now, job.subscription, reset_code(job.client.draft, "CANCELLED"))
        self._make_do(now, job, RequestErrorCode.TIMEOUT, "the publisher does not answer")

    def _detach(self, leg: FetchLeg) -> None:
        """Let a FETCH of ours and whoever asked for it go their own ways."""
        if leg.job is not None:
            leg.job.leg = None
            leg.job = None

    def _abandon(self, now: float, job: FetchJob) -> None:
        """Cancel our FETCH: nobody waits for it."""
        leg = job.leg
        if leg is None:
            return
        self._detach(leg)
        self._context.tell(leg.client, leg.client.wire.cancel, leg.request_id)
        self._context.drop(leg, None)
        self._follow(now, leg)

    # Ends

    def ended(self, now: float, job: FetchJob, *, complete: bool) -> None:
        """The plane has sent the answer, or its stream was reset."""
        context, client = self._context, job.client
        context.tell(client, client.wire.fetch_ended, job.request_id)
        if not complete and job.track is not None:
            context.events.append(
                FetchFailed(session=client.id, track=job.track.name, reason="its stream was reset")
            )
        if client.wire.request_state(job.request_id) is None:
            if job.leg is not None and complete:
                self._detach(job.leg)  # the end of its stream will be told
            self._remove(now, job)

    def cancelled(self, now: float, job: FetchJob) -> None:
        """The subscriber gave up."""
        self._context.plane.cancel_fetch(
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
        """End a FETCH that cannot be served: REQUEST_ERROR, or a reset if it has its answer."""
        context, client = self._context, job.client
        if job.track is not None:
            context.events.append(
                FetchFailed(session=client.id, track=job.track.name, reason=reason)
            )
            if reset is None:
                reset = reset_code(client.draft, "INTERNAL_ERROR")
            context.plane.cancel_fetch(now, job.subscription, reset)
        if job.answered:
            context.tell(client, client.wire.fetch_ended, job.request_id)
        else:
            context.reject(client, job.request_id, code, reason)
        self._remove(now, job)

    def _remove(self, now: float, job: FetchJob) -> None:
        context, track = self._context, job.track
        self.joins.leave(job)
        if track is not None:
            track.fetches.pop(job, None)
        self._abandon(now, job)
        context.drop(job, Load.FETCHES)
        if track is not None:
            context.tracks.settle(now, track)


def no_retry(now: float) -> None:
    """A FETCH that is blocked at one publisher goes to another."""
