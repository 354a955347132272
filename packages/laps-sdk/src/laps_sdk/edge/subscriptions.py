r"""The sources and the receivers of tracks.

::

    publisher A --PUBLISH---------> Source \
    publisher B <--our SUBSCRIBE--- Source --- Track --- Receiver <--SUBSCRIBE--- subscriber C
                  (announced a                        \- Receiver ---our PUBLISH-> subscriber D
                   matching namespace)                            (watches a matching prefix)

    SUBSCRIBE --allowed--> PENDING --a source is established--> ESTABLISHED --> PUBLISH_DONE
                              |                                      |
                              '--patience ends: REQUEST_ERROR        '--UNSUBSCRIBE

A track that has receivers is asked of every session that published a matching namespace
(moq-transport-16, 8.5), once, however many receivers it has. It ends for its receivers when its
last source does. A receiver is in the forwarding plane exactly while it is ESTABLISHED.

The relay network is a session too, an upstream: it is asked for every track that another session
receives, even if clients publish it. If the network knows no publisher, receivers wait for as long
as they may. ``subscribe_again`` repeats the request when a publisher is announced. When only the
network itself receives a track, our SUBSCRIBE to it ends after ``linger``.

A track goes to a watch once, never to a session that publishes it, and only if the authorizer lets
the session subscribe to it. Top-N is in docs/spec/top-n.md.
"""

from __future__ import annotations

from typing import Final

from laps_sdk.edge.admission import Admission
from laps_sdk.edge.authorization import Action, Grant
from laps_sdk.edge.codes import (
    done_code,
    done_name,
    properties_for,
    reset_code,
    shorten,
    upstream_code,
)
from laps_sdk.edge.events import (
    PublisherAdded,
    PublisherGone,
    SubscriberAdded,
    SubscriberGone,
)
from laps_sdk.edge.ranges import after, window_of
from laps_sdk.edge.records import Client, Load, Receiver, Source, Stage, Track, Watch
from laps_sdk.edge.state import Due, State
from laps_sdk.edge.tracks import DONE_PATIENCE, Tracks, filter_of, forwards
from laps_sdk.forwarding.interfaces import EgressEntry, SubscriptionCounters
from laps_sdk.forwarding.ranking import Change
from laps_wire.moqt.codepoints import RequestErrorCode
from laps_wire.moqt.keyvalue import KeyValues
from laps_wire.moqt.messages import (
    Publish,
    PublishDone,
    RequestError,
    Subscribe,
    SubscribeOk,
)
from laps_wire.moqt.parameters import Parameters, TrackProperties
from laps_wire.moqt.session import UpdateReceived
from laps_wire.moqt.structures import Location
from laps_wire.moqt.top_n import RANK_PROPERTY
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace

__all__ = ["Subscriptions"]

_ENDS: Final = frozenset(
    {"TRACK_ENDED", "SUBSCRIPTION_ENDED", "UNAUTHORIZED", "EXPIRED", "MALFORMED_TRACK"}
)
"""The status codes of PUBLISH_DONE after which no publisher is waited for."""
_NOTHING = SubscriptionCounters(0, 0, 0, 0, 0, 0, 0)
_UNCOUNTED: Final = (1 << 62) - 1
"""The stream count of a publisher that does not know it (moq-transport-16, 9.15)."""


class Subscriptions:
    """The sources and receivers of all tracks."""

    __slots__ = ("_admission", "_state", "_tracks")

    def __init__(self, state: State, admission: Admission, tracks: Tracks) -> None:
        self._state = state
        self._admission = admission
        self._tracks = tracks

    # Our SUBSCRIBE to publishers

    def subscribe_to_publishers(self, now: float, track: Track, *, again: bool = False) -> None:
        """Subscribe at every session that may publish a track.

        ``again``: also at sessions that refused it.
        """
        state = self._state
        if again:
            track.refused.clear()
            track.refusal = None
        offers = state.offers.covering(track.name.namespace, longest=state.settings.longest_match)
        for offer in offers:
            self.subscribe_to(now, track, offer.client)
        self.subscribe_to_upstreams(now, track)

    def subscribe_to(self, now: float, track: Track, client: Client) -> None:
        """Subscribe to a track at one session.

        Nothing happens if that was done, if the session refused, or would be the only receiver.
        """
        if (
            client.usable
            and client.id not in track.sources
            and client.id not in track.refused
            and (not client.info.peering or any(track.receivers_for(client)))
        ):
            self._add_source(now, track, client)

    def _add_source(self, now: float, track: Track, client: Client) -> None:
        source = Source(client=client, track=track, pushed=False)
        self._state.add(source, None)
        # The timeout also runs while the request waits to be sent, so that receivers do not hang.
        timeout = self._state.settings.upstream_timeout
        self._state.timers.set((Due.ANSWER, source), now + timeout)
        if not self._send_subscribe(now, source):
            self._state.drop(source, None)

    def _send_subscribe(self, now: float, source: Source) -> bool:
        """Send our SUBSCRIBE; return False if the session does not allow it."""
        state, track, client = self._state, source.track, source.client
        if track.sources.get(client.id) is not source:
            return True  # blocked for long, and removed meanwhile
        source.forward = forwards(source)
        source.filter = filter_of(source)
        groups = [
            receiver.new_group for receiver in source.receivers if receiver.new_group is not None
        ]
        parameters = Parameters(
            forward=None if source.forward else False,
            subscription_filter=source.filter,
            new_group_request=max(groups, default=None),
        )

        def retry(later: float) -> None:
            if not self._send_subscribe(later, source):
                self.source_gone(later, source, "INTERNAL_ERROR", "the publisher takes no requests")

        asked = state.request(client, retry, client.wire.subscribe, track.name, parameters)
        if asked.request_id is None:
            return asked.blocked
        source.request_id = asked.request_id
        if parameters.new_group_request is not None:
            track.group_asked = (parameters.new_group_request, -1)
        client.requests[asked.request_id] = source
        state.timers.set((Due.ANSWER, source), now + state.settings.upstream_timeout)
        return True

    def subscribe_accepted(self, now: float, source: Source, message: SubscribeOk) -> None:
        """Establish a source: its publisher sent SUBSCRIBE_OK."""
        state, track, client = self._state, source.track, source.client
        state.timers.cancel((Due.ANSWER, source))
        refusal = self._describe(track, client, message.track_properties)
        if refusal is not None:
            code, reason = refusal
            self._cancel_source(source)
            self._subscribe_failed(now, source, code, reason)
            return
        self._establish_source(
            now, source, message.track_alias, message.parameters.largest_object, pushed=False
        )

    def subscribe_rejected(self, now: float, source: Source, error: RequestError) -> None:
        """Remove a source: its publisher rejected our SUBSCRIBE."""
        reason = error.reason or "the publisher rejected the subscription"
        self._subscribe_failed(now, source, upstream_code(error), reason)

    def subscribe_overdue(self, now: float, source: Source) -> None:
        """Cancel our SUBSCRIBE: the publisher has not answered in time."""
        self._cancel_source(source)
        self._subscribe_failed(
            now, source, RequestErrorCode.TIMEOUT, "the publisher does not answer"
        )

    def _subscribe_failed(
        self, now: float, source: Source, code: RequestErrorCode, reason: str
    ) -> None:
        """Remove a source that will not feed its track; it is not asked again at once."""
        track, client = source.track, source.client
        self._remove_source(now, source, reason)
        track.refused.add(client.id)
        # The network was not named by a publisher: that it knows none is no answer for those who
        # would wait for one.
        unknown = client.info.upstream and code is RequestErrorCode.DOES_NOT_EXIST
        if not unknown:
            track.refusal = (code, reason)
        final, why = track.refusal or (None, reason)
        status, reason = track.parting or ("INTERNAL_ERROR", why)
        self._source_lost(now, track, status, reason, final, again=False)
        self._tracks.settle(now, track)

    # Our SUBSCRIBE to the relay network

    def upstream_ready(self, now: float, client: Client) -> None:
        """Subscribe to all tracks that have receivers at an upstream whose SETUP has come."""
        if client.id in self._state.upstreams:
            for track in list(self._tracks.by_name.values()):
                self.subscribe_to_upstreams(now, track)

    def subscribe_to_upstreams(self, now: float, track: Track) -> None:
        """Subscribe to a track at every upstream, unless that was done."""
        for client in self._state.upstreams.values():
            self.subscribe_to(now, track, client)

    def has_other_receivers(self, session: int, name: FullTrackName) -> bool:
        """Return whether sessions other than ``session`` receive a track or wait for it.

        If none does, forget that the session refused the track: the next receiver asks it again.
        """
        state = self._state
        client, track = state.clients.get(session), self._tracks.by_name.get(name)
        if client is None or track is None:
            return False
        if any(track.receivers_for(client)):
            return True
        track.refused.discard(session)
        return False

    def subscribe_again(self, now: float, session: int, name: FullTrackName) -> None:
        """Subscribe to a track once more at a session that refused it before."""
        state = self._state
        client, track = state.clients.get(session), self._tracks.by_name.get(name)
        if client is not None and track is not None and track.receivers:
            track.refused.discard(session)
            self.subscribe_to(now, track, client)

    # PUBLISH of publishers

    def publish_received(self, now: float, client: Client, message: Publish, grant: Grant) -> None:
        """Accept a PUBLISH that is authorized, or reject it if a cap is reached."""
        state = self._state
        request_id = message.request_id
        full = self._admission.full(client, Load.PUBLISHES)
        track = None if full is not None else self._tracks.open(now, message.track)
        if track is None:
            reason = full or "the relay has as many tracks as it can"
            state.reject(client, request_id, RequestErrorCode.EXCESSIVE_LOAD, reason, retry=1.0)
            return
        refusal = self._describe(track, client, message.track_properties)
        if refusal is not None:
            state.reject(client, request_id, *refusal)
            self._tracks.settle(now, track)
            return
        other = track.sources.get(client.id)
        if other is not None:
            # Our SUBSCRIBE crossed the PUBLISH: it must be over before PUBLISH_OK (16: 5.1).
            self._cancel_source(other)
            self._remove_source(now, other, "the publisher sent PUBLISH")
        source = Source(client=client, track=track, pushed=True, request_id=request_id, grant=grant)
        source.forward = self._tracks.forwards_unwatched(source) or forwards(source)
        expires = None if grant.expires is None else max(int((grant.expires - now) * 1000), 1)
        parameters = Parameters(forward=source.forward, expires=expires)
        if not state.command(client, client.wire.accept, request_id, parameters):
            self._tracks.settle(now, track)
            return
        state.add(source, Load.PUBLISHES)
        self._admission.hold(source)
        self._establish_source(
            now, source, message.track_alias, message.parameters.largest_object, pushed=True
        )

    def _describe(
        self, track: Track, client: Client, properties: KeyValues
    ) -> tuple[RequestErrorCode, str] | None:
        """Store the properties of a track; return the error if the track cannot be served."""
        facts = TrackProperties.of(properties, client.draft)
        if facts.malformed:
            return RequestErrorCode.MALFORMED_TRACK, "the track's properties cannot be read"
        if facts.mandatory:
            types = ", ".join(f"0x{type_:X}" for type_ in facts.mandatory)
            return RequestErrorCode.UNSUPPORTED_EXTENSION, f"mandatory track properties: {types}"
        if not track.established:
            track.properties = properties
            track.properties_draft = client.draft
            track.facts = facts
        return None

    def _establish_source(
        self, now: float, source: Source, alias: int, largest: Location | None, *, pushed: bool
    ) -> None:
        state, track, client = self._state, source.track, source.client
        self._publisher_back(now, source, largest)
        if not track.established:
            self._tracks.renew(now, track)
        source.stage = Stage.ESTABLISHED
        source.alias = alias
        if largest is not None and (track.hint is None or largest > track.hint):
            track.hint = largest
        self._tracks.install(track)
        state.events.append(PublisherAdded(session=client.id, track=track.name, pushed=pushed))
        # Receivers first: objects that waited for the alias are forwarded with the ingress.
        self._accept_waiting(now, track)
        priority = track.facts.publisher_priority
        state.plane.add_ingress(now, client.id, alias, track.number, priority, largest)
        if pushed:
            self._track_published(now, track)
        self._tracks.update_sources(track)
        self._tracks.settle(now, track)

    # Ends of sources

    def publish_done_received(self, now: float, source: Source, message: PublishDone) -> None:
        """Wait for streams under way: the publisher sent PUBLISH_DONE."""
        state = self._state
        client = source.client
        if source.request_id is not None:
            client.requests.pop(source.request_id, None)
        source.stage = Stage.DONE
        source.status = done_name(client.draft, message.status_code)
        source.reason = message.reason
        source.promised = 0 if message.stream_count >= _UNCOUNTED else message.stream_count
        delay = state.settings.done_delay
        source.done_by = now + delay * DONE_PATIENCE
        state.timers.set((Due.DONE, source), now + (delay if message.stream_count else 0.0))

    def source_ended(self, now: float, source: Source) -> None:
        """Remove a source whose publisher ended its request without PUBLISH_DONE (draft 18)."""
        reason = "the publisher ended it"
        if source.stage is Stage.PENDING:
            self._subscribe_failed(now, source, RequestErrorCode.INTERNAL_ERROR, reason)
        else:
            self.source_gone(now, source, "INTERNAL_ERROR", reason)

    def publish_done_due(self, now: float, source: Source) -> None:
        """Remove a source behind PUBLISH_DONE, or wait on for its streams until ``done_by``."""
        state = self._state
        begun, under_way = state.plane.ingress_streams(source.client.id, source.alias)
        if (under_way or begun < source.promised) and now < source.done_by:
            state.timers.set((Due.DONE, source), now + state.settings.done_delay)
            return
        self.source_gone(now, source, source.status, source.reason)

    def end_source(
        self, now: float, source: Source, reset: int | None, reason: str, *, status: str
    ) -> None:
        """Cancel the request of a source, and remove the source."""
        self._cancel_source(source, reset)
        self.source_gone(now, source, status, reason)

    def _cancel_source(self, source: Source, code: int | None = None) -> None:
        """End the request of a source, if it was made and is not over."""
        wire = source.client.wire
        if source.request_id is not None and source.stage is not Stage.DONE:
            self._state.command(source.client, wire.cancel, source.request_id, code=code)

    def source_gone(self, now: float, source: Source, status: str, reason: str) -> None:
        """Remove a source; with its last source a track ends for its receivers."""
        track = source.track
        self._remove_source(now, source, reason)
        if source.stage is not Stage.PENDING:
            track.parting = status, reason
        self._source_lost(now, track, status, reason, None)
        if source.client.info.upstream:
            # The network may know another publisher by now.
            self.subscribe_to(now, track, source.client)
        self._tracks.settle(now, track)

    def _remove_source(self, now: float, source: Source, reason: str) -> None:
        state, track, client = self._state, source.track, source.client
        state.drop(source, Load.PUBLISHES if source.pushed else None)
        if source.stage is Stage.PENDING:
            return
        state.plane.remove_ingress(now, client.id, source.alias)
        state.events.append(
            PublisherGone(session=client.id, track=track.name, reason=reason or source.status)
        )
        if source.pushed:
            self._publisher_left(now, track)

    def unsubscribe_unused(self, now: float, track: Track) -> None:
        """Unsubscribe from the sources of a track that has had no receiver for ``linger``."""
        for source in list(track.sources.values()):
            if source.unused and source.stage is not Stage.DONE:
                self._cancel_source(source)
                self._remove_source(now, source, "no subscriber is left")
        self._tracks.settle(now, track)

    def track_malformed(self, now: float, track: Track, session: int, reason: str) -> None:
        """End a source that broke the object model, and all receivers of its track."""
        state = self._state
        for receiver in self._served(track):
            code = reset_code(receiver.client.draft, "MALFORMED_TRACK")
            self.end_receiver(now, receiver, "MALFORMED_TRACK", reason, reset=code)
        state.plane.purge(track.number)
        source = track.sources.get(session)
        if source is not None:
            code = reset_code(source.client.draft, "MALFORMED_TRACK")
            self.end_source(now, source, code, reason, status="MALFORMED_TRACK")

    # SUBSCRIBE of subscribers

    def subscribe_received(
        self, now: float, client: Client, message: Subscribe, grant: Grant
    ) -> None:
        """Accept a SUBSCRIBE that is authorized, let it wait for a publisher, or reject it."""
        state = self._state
        full = self._admission.full(client, Load.SUBSCRIPTIONS)
        track = None if full is not None else self._tracks.open(now, message.track)
        if track is None:
            reason = full or "the relay has as many tracks as it can"
            state.reject(
                client, message.request_id, RequestErrorCode.EXCESSIVE_LOAD, reason, retry=1.0
            )
            return
        wait = self._rendezvous(client.draft, message.parameters.rendezvous_timeout)
        receiver = Receiver(
            client=client,
            track=track,
            pushed=False,
            request_id=message.request_id,
            patience=now + wait,
            rendezvous=client.draft is Draft.D18 and wait > 0,
            grant=grant,
        )
        _note(receiver, message.parameters)
        state.add(receiver, Load.SUBSCRIPTIONS)
        self._admission.hold(receiver)
        if receiver.fed:
            self._accept(now, receiver)
            self.subscribe_to_upstreams(now, track)
        else:
            self.subscribe_to_publishers(now, track, again=True)
            self._wait_for_source(now, receiver)
        self._tracks.settle(now, track)

    def _rendezvous(self, draft: Draft, asked: int | None) -> float:
        """Return how long to wait for a publisher; absent is 0 in draft 18 (10.2.6)."""
        settings = self._state.settings
        if draft is Draft.D16:
            return settings.rendezvous_wait
        return min((asked or 0) / 1000, settings.max_rendezvous)

    def _wait_for_source(self, now: float, receiver: Receiver) -> None:
        """Let a receiver wait for a publisher's answer, or for a publisher."""
        state = self._state
        if receiver.expects:
            # The publisher's time to answer runs elsewhere.
            state.timers.cancel((Due.PATIENCE, receiver))
        elif receiver.patience > now:
            state.timers.set((Due.PATIENCE, receiver), receiver.patience)
        elif receiver.rendezvous:
            self._reject_receiver(now, receiver, RequestErrorCode.TIMEOUT, "no publisher came")
        else:
            code = RequestErrorCode.DOES_NOT_EXIST
            self._reject_receiver(now, receiver, code, "nobody publishes this track")

    def rendezvous_due(self, now: float, receiver: Receiver) -> None:
        """Reject a SUBSCRIBE that has waited as long as it may, if no publisher is being asked."""
        self._wait_for_source(now, receiver)
        self._tracks.settle(now, receiver.track)

    def _accept_waiting(self, now: float, track: Track) -> None:
        """Accept all SUBSCRIBEs that wait for a track: it has a publisher."""
        for receiver in list(track.receivers.values()):
            if receiver.stage is Stage.PENDING and not receiver.pushed and receiver.fed:
                self._accept(now, receiver)

    def _accept(self, now: float, receiver: Receiver) -> None:
        state, track, client = self._state, receiver.track, receiver.client
        state.timers.cancel((Due.PATIENCE, receiver))
        largest = self._tracks.largest(track)
        window = window_of(receiver.filter, largest)
        if window is None:
            reason = "the last group that was asked for is over"
            self._reject_receiver(now, receiver, RequestErrorCode.INVALID_RANGE, reason)
            return
        receiver.joining = largest
        receiver.start, receiver.end_group = window
        properties = properties_for(track.properties, track.properties_draft, client.draft)
        if not state.command(
            client,
            client.wire.accept_subscribe,
            receiver.request_id,
            receiver.alias,
            self._answer_parameters(now, receiver, largest),
            properties,
        ):
            reason = "the track cannot be described in this draft"
            self._reject_receiver(now, receiver, RequestErrorCode.INTERNAL_ERROR, reason)
            return
        self._establish_receiver(now, receiver)
        for update_id in receiver.updates:
            state.command(
                client,
                client.wire.accept,
                update_id,
                self._answer_parameters(now, receiver, largest),
            )
        receiver.updates.clear()
        if receiver.new_group is not None:
            self._tracks.request_new_group(track, receiver.new_group, client)
        joins, receiver.joins = receiver.joins, []
        for job in joins:
            self._tracks.fetches.join(now, job, receiver)

    def _answer_parameters(
        self, now: float, receiver: Receiver, largest: Location | None
    ) -> Parameters:
        """Return the parameters of SUBSCRIBE_OK, or of the answer to an update."""
        expires = None
        if receiver.grant is not None and receiver.grant.expires is not None:
            expires = max(int((receiver.grant.expires - now) * 1000), 1)
        return Parameters(largest_object=largest, expires=expires)

    def _establish_receiver(self, now: float, receiver: Receiver) -> None:
        state, track = self._state, receiver.track
        receiver.stage = Stage.ESTABLISHED
        state.plane.add_egress(now, receiver.subscription, self._egress_entry(receiver))
        state.events.append(
            SubscriberAdded(
                session=receiver.client.id,
                request_id=receiver.request_id,
                track=track.name,
                pushed=receiver.pushed,
            )
        )
        if track.final is not None:
            self.track_ended(now, track, track.final)
        self._tracks.update_sources(track)

    def _egress_entry(self, receiver: Receiver) -> EgressEntry:
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

    # Our PUBLISH to those that watch a prefix

    def _track_published(self, now: float, track: Track) -> None:
        """Offer a track that was PUBLISHed to all who watch its namespace."""
        for watch in self._state.watches.covering(track.name.namespace):
            if watch.tracks:
                self.consider(now, track, watch)

    def _publisher_left(self, now: float, track: Track) -> None:
        """Take a track whose last PUBLISH has ended out of the rankings."""
        if track.pushed:
            # The former publisher may now receive the track from the others.
            self._track_published(now, track)
            return
        self._rank(track, ranked=False)
        for watch in self._state.watches.covering(track.name.namespace):
            watch.declined.discard(track.number)
            if watch.ranking is not None:
                self._apply_ranking(now, watch, watch.ranking.remove(track.number))

    def consider(self, now: float, track: Track, watch: Watch) -> None:
        """Offer a track to a watch, or let it compete for the top."""
        if not track.pushed or track.number in watch.declined:
            return
        if watch.client.id in track.sources:
            # A session never gets its own, nor does that rank against others.
            if watch.ranking is not None:
                self._apply_ranking(now, watch, watch.ranking.remove(track.number))
            else:
                self._withdraw(now, watch, track, "the session publishes it itself")
        elif watch.ranking is None:
            self._offer(now, track, watch)
        else:
            self._rank(track, ranked=True)
            self._apply_ranking(now, watch, watch.ranking.update(track.number, track.rank or 0))

    def _withdraw(self, now: float, watch: Watch, track: Track, reason: str) -> None:
        """End what we PUBLISHed to a watch."""
        receiver = track.receivers.get(watch.client.id)
        if receiver is not None and receiver.watch is watch:
            self.end_receiver(now, receiver, "SUBSCRIPTION_ENDED", reason)

    def _offer(self, now: float, track: Track, watch: Watch) -> None:
        """Send PUBLISH of a track to a watch, if that may receive it and does not yet."""
        state, client = self._state, watch.client
        if (
            client.requests.get(watch.request_id) is not watch
            or not client.usable
            or not track.pushed
            or client.id in track.sources
            or track.name in watch.blocked
            or track.number in watch.declined
            or (watch.ranking is not None and not watch.ranking.in_top(track.number))
            or client.id in track.receivers
        ):
            return
        tokens = () if watch.grant is None else watch.grant.tokens
        name = track.name
        grant, decision = self._admission.request(
            now, client, Action.SUBSCRIBE, name.namespace, name.name, tokens
        )
        if not decision.allowed:
            return
        if self._admission.full(client, Load.OFFERS) is None and self._publish_to(
            now, track, watch, grant
        ):
            return
        if client.draft is Draft.D18 and watch.ranking is None:
            # The client can SUBSCRIBE instead, and must not be offered the track twice (18: 6.1).
            suffix = FullTrackName(watch.suffix(name.namespace), name.name)
            if state.command(client, client.wire.publish_blocked, watch.request_id, suffix):
                watch.blocked[name] = None

    def _publish_to(self, now: float, track: Track, watch: Watch, grant: Grant) -> bool:
        """Send PUBLISH; return False if the session does not allow it."""
        state, client = self._state, watch.client

        def retry(later: float) -> None:
            self._offer(later, track, watch)

        largest = self._tracks.largest(track)
        asked = state.request(
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
        state.add(receiver, Load.OFFERS)
        self._admission.hold(receiver)
        return True

    def publish_accepted(self, now: float, receiver: Receiver, parameters: Parameters) -> None:
        """Establish a receiver: it sent PUBLISH_OK. Objects flow from where PUBLISH was sent."""
        _note(receiver, parameters)
        if receiver.filter is not None:
            window = window_of(receiver.filter, receiver.joining)
            if window is not None:
                receiver.start, receiver.end_group = window
        self._establish_receiver(now, receiver)
        if receiver.new_group is not None:
            self._tracks.request_new_group(receiver.track, receiver.new_group, receiver.client)
        self.subscribe_to_upstreams(now, receiver.track)
        self._tracks.settle(now, receiver.track)

    def _track_declined(self, now: float, receiver: Receiver) -> None:
        """Remember that a session gave up a track: it is not offered again."""
        watch = receiver.watch
        if watch is None:
            return
        watch.declined.add(receiver.track.number)
        if watch.ranking is not None:
            self._apply_ranking(now, watch, watch.ranking.remove(receiver.track.number))

    # Top-N

    def rank_changed(self, now: float, track: Track, value: int) -> None:
        """Apply a new value of the ranking property of a track."""
        track.rank = value
        for watch in self._state.watches.covering(track.name.namespace):
            if watch.ranking is not None and track.number in watch.ranking:
                self._apply_ranking(now, watch, watch.ranking.update(track.number, value))

    def _apply_ranking(self, now: float, watch: Watch, change: Change) -> None:
        if change.left is not None:
            left = self._tracks.get(change.left)
            if left is not None:
                self._withdraw(now, watch, left, "the track left the top")
        if change.entered is not None:
            entered = self._tracks.get(change.entered)
            if entered is not None:
                self._offer(now, entered, watch)

    def rerank(self, prefix: Namespace) -> None:
        """Stop ranking the tracks below a prefix that no Top-N watch ranks now."""
        state = self._state
        for track in list(self._tracks.tree.under(prefix)):
            self._rank(
                track,
                ranked=any(
                    watch.ranking is not None
                    for watch in state.watches.covering(track.name.namespace)
                ),
            )

    def _rank(self, track: Track, *, ranked: bool) -> None:
        if ranked != track.ranked and track.installed:
            track.ranked = ranked
            self._state.plane.rank_by(track.number, RANK_PROPERTY if ranked else None)
            self._tracks.update_sources(track)

    # Updates of receivers

    def update_received(self, now: float, receiver: Receiver, event: UpdateReceived) -> None:
        """Apply an update of a receiver."""
        state, client, track = self._state, receiver.client, receiver.track
        if not self._admission.renew(now, receiver, event.update_id, event.tokens):
            self.end_receiver(
                now,
                receiver,
                "UPDATE_FAILED",
                "an update was not allowed",
                code=RequestErrorCode.UNAUTHORIZED,
            )
            return
        parameters = event.message.parameters
        was_forward = receiver.forward
        _note(receiver, parameters)
        if receiver.stage is Stage.PENDING:
            # Its answer comes behind the one to the SUBSCRIBE.
            receiver.updates.append(event.update_id)
            return
        largest = self._tracks.largest(track)
        if parameters.subscription_filter is not None:
            window = window_of(receiver.filter, largest)
            if window is None:
                reason = "the last group that was asked for is over"
                state.reject(client, event.update_id, RequestErrorCode.INVALID_RANGE, reason)
                self.end_receiver(now, receiver, "UPDATE_FAILED", reason)
                return
            receiver.start, receiver.end_group = window
        if receiver.forward and not was_forward and client.draft is Draft.D18:
            receiver.joining = largest  # (moq-transport-18, 5.1)
        state.plane.update_egress(now, receiver.subscription, self._egress_entry(receiver))
        state.command(
            client,
            client.wire.accept,
            event.update_id,
            self._answer_parameters(now, receiver, largest),
        )
        self._tracks.update_sources(track)
        if parameters.new_group_request is not None:
            self._tracks.request_new_group(track, parameters.new_group_request, client)

    # Ends of receivers

    def end_receiver(
        self,
        now: float,
        receiver: Receiver,
        status: str,
        reason: str,
        *,
        reset: int | None = None,
        code: RequestErrorCode = RequestErrorCode.INTERNAL_ERROR,
    ) -> None:
        """End a receiver: send PUBLISH_DONE, or REQUEST_ERROR if it had no answer yet.

        PUBLISH_DONE comes behind the end of all streams (moq-transport-16, 9.15), so open streams
        are reset. They would otherwise go on to a receiver that may not be allowed to have them.
        """
        client = receiver.client
        if reset is None:
            reset = reset_code(client.draft, "CANCELLED")
        if receiver.stage is Stage.PENDING and not receiver.pushed:
            self._reject_receiver(now, receiver, code, reason)
        else:
            counters = self._remove_receiver(now, receiver, reason, reset)
            self._state.command(
                client,
                client.wire.publish_done,
                receiver.request_id,
                done_code(client.draft, status),
                counters.streams,
                shorten(reason),
            )
        self._tracks.settle(now, receiver.track)

    def _finish_receiver(self, now: float, receiver: Receiver, status: str, reason: str) -> None:
        """End a receiver behind what the log still has for it."""
        if receiver.ending is not None:
            return
        if receiver.stage is Stage.ESTABLISHED:
            receiver.ending = status, reason
            if not self._state.plane.finish_egress(receiver.subscription):
                return  # SubscriptionDone follows
        self.end_receiver(now, receiver, status, reason)

    def subscription_done(self, now: float, receiver: Receiver) -> None:
        """End a receiver that has got all that it wants, or all that there is."""
        status, reason = receiver.ending or ("SUBSCRIPTION_ENDED", "the last group was sent")
        self.end_receiver(now, receiver, status, reason)

    def _reject_receiver(
        self, now: float, receiver: Receiver, code: RequestErrorCode, reason: str
    ) -> None:
        """Send REQUEST_ERROR to a SUBSCRIBE that waits."""
        self._remove_receiver(now, receiver, reason, None)
        self._state.reject(receiver.client, receiver.request_id, code, reason)

    def receiver_left(self, now: float, receiver: Receiver, reason: str) -> None:
        """Remove a receiver that unsubscribed, or whose session is gone."""
        reset = reset_code(receiver.client.draft, "CANCELLED")
        self._remove_receiver(now, receiver, reason, reset)
        self._track_declined(now, receiver)
        self._tracks.settle(now, receiver.track)

    def _remove_receiver(
        self, now: float, receiver: Receiver, reason: str, reset: int | None
    ) -> SubscriptionCounters:
        state = self._state
        load = Load.OFFERS if receiver.pushed else Load.SUBSCRIPTIONS
        state.drop(receiver, load)
        for job in receiver.joins:
            text = "the subscription that it joins was not accepted"
            self._tracks.fetches.fail(now, job, RequestErrorCode.INVALID_JOINING_REQUEST_ID, text)
        if receiver.stage is not Stage.ESTABLISHED:
            return _NOTHING
        counters = state.plane.remove_egress(now, receiver.subscription, reset_code=reset)
        state.events.append(
            SubscriberGone(
                session=receiver.client.id,
                request_id=receiver.request_id,
                track=receiver.track.name,
                reason=reason,
                counters=counters,
            )
        )
        return counters

    def _source_lost(
        self,
        now: float,
        track: Track,
        status: str,
        reason: str,
        code: RequestErrorCode | None,
        *,
        again: bool = True,
    ) -> None:
        """End the receivers of a track that have no source left, or let them wait for another one.

        A status that ends a track ends its receivers. After any other one its publisher may come
        back: established receivers stay for the grace. SUBSCRIBEs that wait are rejected with
        ``code``; with None they wait on. ``again``: then all that may publish the track are asked
        once more.
        """
        if any(not source.client.info.peering for source in track.sources.values()):
            return  # a client's source feeds all receivers
        lost = [receiver for receiver in track.receivers.values() if not receiver.sources]
        grace = 0.0 if status in _ENDS else self._state.settings.publisher_grace
        waiting = [each for each in lost if each.stage is Stage.PENDING and not each.pushed]
        for receiver in lost:
            if receiver in waiting or receiver.lost is not None:
                continue
            if receiver.stage is Stage.ESTABLISHED and grace:
                receiver.lost = status, reason
                self._state.timers.set((Due.GRACE, receiver), now + grace)
            else:
                self._finish_receiver(now, receiver, status, reason)
        bereft = any(each.lost is not None for each in lost)
        if code is None and again and (waiting or bereft):
            self.subscribe_to_publishers(now, track, again=True)
        for receiver in waiting:
            if code is not None:
                self._reject_receiver(now, receiver, code, reason)
            else:
                self._wait_for_source(now, receiver)

    def _publisher_back(self, now: float, source: Source, largest: Location | None) -> None:
        """Let receivers that were kept go on, if a publisher goes on with what they have.

        One that numbers its objects from the beginning would bring nothing but old locations. Such
        a track is another one: it ends for those who have the former.
        """
        track = source.track
        known = self._tracks.largest(track)
        instance = track.facts.publisher_instance
        goes_on = (
            track.established
            or source.client.info.upstream  # the relay of the publisher has compared
            or known is None
            or (largest is not None and largest >= known)
            or (instance is not None and instance == track.instance)
        )
        track.instance, track.parting = instance, None
        for receiver in list(source.receivers):
            if receiver.lost is None:
                continue
            receiver.lost = None
            self._state.timers.cancel((Due.GRACE, receiver))
            if not goes_on:
                reason = "the publisher was lost, and another one numbers its objects anew"
                code = reset_code(receiver.client.draft, "MALFORMED_TRACK")
                self.end_receiver(now, receiver, "MALFORMED_TRACK", reason, reset=code)

    def grace_over(self, now: float, receiver: Receiver) -> None:
        """End a receiver whose publisher was lost, and has not come back in time."""
        if receiver.lost is not None and not receiver.fed:
            self._finish_receiver(now, receiver, *receiver.lost)
            self._tracks.settle(now, receiver.track)

    @staticmethod
    def _served(track: Track) -> list[Receiver]:
        """The receivers of a track but those that wait for a publisher."""
        receivers = track.receivers.values()
        return [each for each in receivers if each.stage is Stage.ESTABLISHED or each.pushed]

    def track_ended(self, now: float, track: Track, final: Location) -> None:
        """Note the end of a track; its streams may still be under way."""
        track.final = final
        delay = self._state.settings.done_delay
        track.finish_by = now + delay * DONE_PATIENCE
        self._state.timers.set((Due.FINISH, track), now + delay)

    def track_finish_due(self, now: float, track: Track) -> None:
        """End all receivers of a track that ended, once its streams have arrived."""
        state = self._state
        if now < track.finish_by and self._tracks.is_arriving(track):
            state.timers.set((Due.FINISH, track), now + state.settings.done_delay)
        else:
            for receiver in self._served(track):
                self._finish_receiver(now, receiver, "TRACK_ENDED", "the track has ended")


def _note(receiver: Receiver, parameters: Parameters) -> None:
    """Store the parameters of a subscription; absent ones stay as they are."""
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
