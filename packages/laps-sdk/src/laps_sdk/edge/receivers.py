"""Who receives a track: SUBSCRIBE of subscribers, and our own PUBLISH to those that watch a prefix.

::

    SUBSCRIBE --allowed--> PENDING --a source is established--> ESTABLISHED --> PUBLISH_DONE
                              |                                      |
                              '--patience ends: REQUEST_ERROR        '--UNSUBSCRIBE

A receiver is in the forwarding plane exactly while it is ESTABLISHED.
"""

from __future__ import annotations

from laps_sdk.edge.codes import done_code, properties_for, reset_code, shorten
from laps_sdk.edge.context import Context, Due
from laps_sdk.edge.events import SubscriberAdded, SubscriberGone
from laps_sdk.edge.ranges import after, window_of
from laps_sdk.edge.records import Client, Grant, Load, Receiver, Stage, Track, Watch
from laps_sdk.edge.sources import DONE_PATIENCE
from laps_sdk.forwarding.interfaces import EgressEntry, SubscriptionCounters
from laps_wire.moqt.codepoints import RequestErrorCode
from laps_wire.moqt.messages import Subscribe
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.session.events import UpdateReceived
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft

__all__ = ["Receivers", "note"]

_NOTHING = SubscriptionCounters(0, 0, 0, 0, 0, 0, 0)


class Receivers:
    """The downstream side of tracks."""

    __slots__ = ("_context",)

    def __init__(self, context: Context) -> None:
        self._context = context

    # SUBSCRIBE

    def subscribe(self, now: float, client: Client, message: Subscribe, grant: Grant) -> None:
        """Take a SUBSCRIBE that is allowed."""
        context = self._context
        full = context.full(client, Load.SUBSCRIPTIONS)
        track = None if full is not None else context.tracks.open(now, message.track)
        if track is None:
            reason = full or "the relay has as many tracks as it can"
            context.reject(
                client, message.request_id, RequestErrorCode.EXCESSIVE_LOAD, reason, retry=1.0
            )
            return
        wait = self._wait(client.draft, message.parameters.rendezvous_timeout)
        receiver = Receiver(
            client=client,
            track=track,
            pushed=False,
            request_id=message.request_id,
            patience=now + wait,
            rendezvous=client.draft is Draft.D18 and wait > 0,
            grant=grant,
        )
        note(receiver, message.parameters)
        context.add(receiver, Load.SUBSCRIPTIONS)
        context.grants.hold(receiver)
        if receiver.fed:
            self._accept(now, receiver)
            context.upstreams.ensure(now, track)
        else:
            context.sources.ensure(now, track, again=True)
            self._wait_on(now, receiver)
        self._context.tracks.settle(now, track)

    def _wait(self, draft: Draft, asked: int | None) -> float:
        """How long to wait for a publisher; absent is 0 in draft 18 (10.2.6)."""
        settings = self._context.settings
        if draft is Draft.D16:
            return settings.rendezvous_wait
        return min((asked or 0) / 1000, settings.max_rendezvous)

    def _wait_on(self, now: float, receiver: Receiver) -> None:
        """Let a receiver wait for a publisher's answer, or for a publisher."""
        context = self._context
        if receiver.expects:
            # The publisher's time to answer runs elsewhere.
            context.timers.cancel((Due.PATIENCE, receiver))
        elif receiver.patience > now:
            context.timers.set((Due.PATIENCE, receiver), receiver.patience)
        elif receiver.rendezvous:
            self._refuse(now, receiver, RequestErrorCode.TIMEOUT, "no publisher came")
        else:
            code = RequestErrorCode.DOES_NOT_EXIST
            self._refuse(now, receiver, code, "nobody publishes this track")

    def impatient(self, now: float, receiver: Receiver) -> None:
        """A SUBSCRIBE has waited as long as it may."""
        self._wait_on(now, receiver)
        self._context.tracks.settle(now, receiver.track)

    def serve(self, now: float, track: Track) -> None:
        """A track has a publisher: accept whoever waits for it."""
        for receiver in list(track.receivers.values()):
            if receiver.stage is Stage.PENDING and not receiver.pushed and receiver.fed:
                self._accept(now, receiver)

    def _accept(self, now: float, receiver: Receiver) -> None:
        context, track, client = self._context, receiver.track, receiver.client
        context.timers.cancel((Due.PATIENCE, receiver))
        largest = context.tracks.largest(track)
        window = window_of(receiver.filter, largest)
        if window is None:
            reason = "the last group that was asked for is over"
            self._refuse(now, receiver, RequestErrorCode.INVALID_RANGE, reason)
            return
        receiver.joining = largest
        receiver.start, receiver.end_group = window
        properties = properties_for(track.properties, track.properties_draft, client.draft)
        if not context.tell(
            client,
            client.wire.accept_subscribe,
            receiver.request_id,
            receiver.alias,
            self._facts(now, receiver, largest),
            properties,
        ):
            reason = "the track cannot be described in this draft"
            self._refuse(now, receiver, RequestErrorCode.INTERNAL_ERROR, reason)
            return
        self._establish(now, receiver)
        for update_id in receiver.updates:
            context.tell(client, client.wire.accept, update_id, self._facts(now, receiver, largest))
        receiver.updates.clear()
        if receiver.new_group is not None:
            context.sources.request_group(track, receiver.new_group, client)
        joins, receiver.joins = receiver.joins, []
        for job in joins:
            context.fetches.join(now, job, receiver)

    def _facts(self, now: float, receiver: Receiver, largest: Location | None) -> Parameters:
        """What SUBSCRIBE_OK, or the answer to an update, says."""
        expires = None
        if receiver.grant is not None and receiver.grant.expires is not None:
            expires = max(int((receiver.grant.expires - now) * 1000), 1)
        return Parameters(largest_object=largest, expires=expires)

    def _establish(self, now: float, receiver: Receiver) -> None:
        context, track = self._context, receiver.track
        receiver.stage = Stage.ESTABLISHED
        context.plane.add_egress(now, receiver.subscription, self._entry(receiver))
        context.events.append(
            SubscriberAdded(
                session=receiver.client.id,
                request_id=receiver.request_id,
                track=track.name,
                pushed=receiver.pushed,
            )
        )
        if track.final is not None:
            self.ended(now, track, track.final)
        context.sources.sync(track)

    def _entry(self, receiver: Receiver) -> EgressEntry:
        facts = receiver.track.facts
        limits = [
            limit
            for limit in (receiver.timeout, facts.object_delivery_timeout)
            if limit is not None and limit > 0
        ]
        return EgressEntry(
            track=receiver.track.number,
            alias=receiver.alias,
            echo=not receiver.client.info.peering,
            start=receiver.start,
            end_group=receiver.end_group,
            forward=receiver.forward,
            priority=receiver.priority,
            order=receiver.order or facts.group_order,
            delivery_timeout=min(limits) / 1000 if limits else None,
        )

    # PUBLISH

    def publish(self, now: float, track: Track, watch: Watch, grant: Grant) -> bool:
        """Offer a track to a session that watches its namespace; False if it cannot be."""
        context, client = self._context, watch.client

        def retry(later: float) -> None:
            context.spaces.offer(later, track, watch)

        largest = context.tracks.largest(track)
        asked = context.ask(
            client,
            retry,
            client.wire.publish,
            track.name,
            client.alias(track),
            Parameters(
                forward=None if watch.forward else False,
                largest_object=largest,
                expires=(
                    None if grant.expires is None else max(int((grant.expires - now) * 1000), 1)
                ),
            ),
            properties_for(track.properties, track.properties_draft, client.draft),
        )
        if asked.request_id is None:
            return asked.blocked
        receiver = Receiver(
            client=client,
            track=track,
            pushed=True,
            request_id=asked.request_id,
            forward=watch.forward,
            joining=largest,
            start=after(largest),
            watch=watch,
            grant=grant,
        )
        context.add(receiver, Load.OFFERS)
        context.grants.hold(receiver)
        return True

    def published(self, now: float, receiver: Receiver, parameters: Parameters) -> None:
        """The subscriber said PUBLISH_OK: objects may flow, from where PUBLISH was sent."""
        context = self._context
        note(receiver, parameters)
        if receiver.filter is not None:
            window = window_of(receiver.filter, receiver.joining)
            if window is not None:
                receiver.start, receiver.end_group = window
        self._establish(now, receiver)
        if receiver.new_group is not None:
            context.sources.request_group(receiver.track, receiver.new_group, receiver.client)
        context.upstreams.ensure(now, receiver.track)
        context.tracks.settle(now, receiver.track)

    # Updates

    def update(self, now: float, receiver: Receiver, event: UpdateReceived) -> None:
        """Change a subscription."""
        context, client, track = self._context, receiver.client, receiver.track
        if not context.grants.renew(now, receiver, event.update_id, event.tokens):
            self.end(
                now,
                receiver,
                "UPDATE_FAILED",
                "an update was not allowed",
                code=RequestErrorCode.UNAUTHORIZED,
            )
            return
        parameters = event.message.parameters
        was_forward = receiver.forward
        note(receiver, parameters)
        if receiver.stage is Stage.PENDING:
            # Its answer comes behind the one to the SUBSCRIBE.
            receiver.updates.append(event.update_id)
            return
        largest = context.tracks.largest(track)
        if parameters.subscription_filter is not None:
            window = window_of(receiver.filter, largest)
            if window is None:
                reason = "the last group that was asked for is over"
                context.reject(client, event.update_id, RequestErrorCode.INVALID_RANGE, reason)
                self.end(now, receiver, "UPDATE_FAILED", reason)
                return
            receiver.start, receiver.end_group = window
        if receiver.forward and not was_forward and client.draft is Draft.D18:
            receiver.joining = largest  # (moq-transport-18, 5.1)
        context.plane.update_egress(now, receiver.subscription, self._entry(receiver))
        context.tell(
            client, client.wire.accept, event.update_id, self._facts(now, receiver, largest)
        )
        context.sources.sync(track)
        if parameters.new_group_request is not None:
            context.sources.request_group(track, parameters.new_group_request, client)

    # Ends

    def end(
        self,
        now: float,
        receiver: Receiver,
        status: str,
        reason: str,
        *,
        reset: int | None = None,
        code: RequestErrorCode = RequestErrorCode.INTERNAL_ERROR,
    ) -> None:
        """End a receiver: PUBLISH_DONE, or REQUEST_ERROR if it had no answer yet.

        PUBLISH_DONE comes behind the end of all streams (moq-transport-16, 9.15), so those that are
        open are reset: they would go on, and to somebody who may not have them any more.
        """
        client = receiver.client
        if reset is None:
            reset = reset_code(client.draft, "CANCELLED")
        if receiver.stage is Stage.PENDING and not receiver.pushed:
            self._refuse(now, receiver, code, reason)
        else:
            counters = self._remove(now, receiver, reason, reset)
            self._context.tell(
                client,
                client.wire.publish_done,
                receiver.request_id,
                done_code(client.draft, status),
                counters.streams,
                shorten(reason),
            )
        self._context.tracks.settle(now, receiver.track)

    def _refuse(self, now: float, receiver: Receiver, code: RequestErrorCode, reason: str) -> None:
        """Say REQUEST_ERROR to a SUBSCRIBE that waits."""
        self._remove(now, receiver, reason, None)
        self._context.reject(receiver.client, receiver.request_id, code, reason)

    def left(self, now: float, receiver: Receiver, reason: str) -> None:
        """The subscriber does not want a track any more, or is gone."""
        reset = reset_code(receiver.client.draft, "CANCELLED")
        self._remove(now, receiver, reason, reset)
        self._context.spaces.receiver_left(now, receiver)
        self._context.tracks.settle(now, receiver.track)

    def _remove(
        self, now: float, receiver: Receiver, reason: str, reset: int | None
    ) -> SubscriptionCounters:
        context = self._context
        load = Load.OFFERS if receiver.pushed else Load.SUBSCRIPTIONS
        context.drop(receiver, load)
        for job in receiver.joins:
            text = "the subscription that it joins was not accepted"
            context.fetches.fail(now, job, RequestErrorCode.INVALID_JOINING_REQUEST_ID, text)
        if receiver.stage is not Stage.ESTABLISHED:
            return _NOTHING
        counters = context.plane.remove_egress(now, receiver.subscription, reset_code=reset)
        context.events.append(
            SubscriberGone(
                session=receiver.client.id,
                request_id=receiver.request_id,
                track=receiver.track.name,
                reason=reason,
                counters=counters,
            )
        )
        return counters

    def source_lost(
        self,
        now: float,
        track: Track,
        status: str,
        reason: str,
        code: RequestErrorCode | None,
        *,
        again: bool = True,
    ) -> None:
        """A source of a track is gone: who has no other one is done.

        SUBSCRIBEs that wait get ``code`` if a publisher gave one, or wait on; ``again``: then all
        that may publish the track are asked once more.
        """
        if any(not source.client.info.peering for source in track.sources.values()):
            return  # it feeds everybody
        lost = [receiver for receiver in track.receivers.values() if not receiver.sources]
        for receiver in lost:
            if receiver.stage is Stage.ESTABLISHED or receiver.pushed:
                self.end(now, receiver, status, reason)
        waiting = [each for each in lost if track.receivers.get(each.client.id) is each]
        if code is None and again and waiting:
            self._context.sources.ensure(now, track, again=True)
        for receiver in waiting:
            if code is not None:
                self._refuse(now, receiver, code, reason)
            else:
                self._wait_on(now, receiver)

    def finish(
        self, now: float, track: Track, status: str, reason: str, *, reset: str | None = None
    ) -> None:
        """End all receivers of a track but those that wait for a publisher."""
        for receiver in list(track.receivers.values()):
            if receiver.stage is Stage.ESTABLISHED or receiver.pushed:
                draft = receiver.client.draft
                code = None if reset is None else reset_code(draft, reset)
                self.end(now, receiver, status, reason, reset=code)

    def ended(self, now: float, track: Track, final: Location) -> None:
        """END_OF_TRACK has passed; streams of the track may still be under way."""
        track.final = final
        delay = self._context.settings.done_delay
        track.finish_by = now + delay * DONE_PATIENCE
        self._context.timers.set((Due.FINISH, track), now + delay)

    def over(self, now: float, track: Track) -> None:
        """A track that ended is done, once what was under way has arrived."""
        context = self._context
        if now < track.finish_by and context.sources.is_arriving(track):
            context.timers.set((Due.FINISH, track), now + context.settings.done_delay)
        else:
            self.finish(now, track, "TRACK_ENDED", "the track has ended")


def note(receiver: Receiver, parameters: Parameters) -> None:
    """Take what a subscriber says about its subscription; what is absent stays."""
    if parameters.forward is not None:
        receiver.forward = parameters.forward
    if parameters.subscriber_priority is not None:
        receiver.priority = parameters.subscriber_priority
    if parameters.group_order is not None:
        receiver.order = parameters.group_order
    if parameters.subscription_filter is not None:
        receiver.filter = parameters.subscription_filter
    if parameters.new_group_request is not None:
        receiver.new_group = parameters.new_group_request
    for timeout in (parameters.subgroup_delivery_timeout, parameters.object_delivery_timeout):
        if timeout is not None:
            receiver.timeout = timeout
