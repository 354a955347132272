r"""Who feeds a track: PUBLISH of publishers, and our own SUBSCRIBE to those that announced it.

::

    publisher A --PUBLISH---------> Source \
    publisher B <--our SUBSCRIBE--- Source --- Track --- Receiver, Receiver, ...
                  (announced a                           one upstream subscription each,
                   matching namespace)                   however many receivers

A track that has receivers is asked of every session that published a matching namespace
(moq-transport-16, 8.5). It ends for its receivers when its last source does.
"""

from __future__ import annotations

from typing import Final

from laps_sdk.edge.codes import done_name, reset_code, upstream_code
from laps_sdk.edge.context import Context, Due
from laps_sdk.edge.events import PublisherAdded, PublisherGone
from laps_sdk.edge.records import Client, Grant, Load, Source, Stage, Track
from laps_wire.moqt.codepoints import FilterType, RequestErrorCode
from laps_wire.moqt.keyvalue import KeyValues
from laps_wire.moqt.messages import Publish, PublishDone, RequestError, SubscribeOk
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.properties import TrackProperties
from laps_wire.moqt.structures import Location, SubscriptionFilter

__all__ = ["DONE_PATIENCE", "Sources"]

DONE_PATIENCE: Final = 20
"""Streams behind the end of a track are looked for every ``done_delay``, so often at most."""
_UNCOUNTED: Final = (1 << 62) - 1
"""The stream count of a publisher that does not know it (moq-transport-16, 9.15)."""
_LARGEST = SubscriptionFilter(FilterType.LARGEST_OBJECT)


class Sources:
    """The upstream side of tracks."""

    __slots__ = ("_context",)

    def __init__(self, context: Context) -> None:
        self._context = context

    # Our SUBSCRIBE

    def ensure(self, now: float, track: Track, *, again: bool = False) -> None:
        """Ask every session that may publish a track for it; ``again``: also those that refused."""
        context = self._context
        if again:
            track.refused.clear()
            track.refusal = None
        offers = context.offers.covering(
            track.name.namespace, longest=context.settings.longest_match
        )
        for offer in offers:
            self.ask(now, track, offer.client)
        context.upstreams.ensure(now, track)

    def ask(self, now: float, track: Track, client: Client) -> None:
        """Ask one session for a track, unless it was, refused, or would be the only receiver."""
        if (
            client.usable
            and client.id not in track.sources
            and client.id not in track.refused
            and (not client.info.peering or any(track.receivers_for(client)))
        ):
            self._subscribe(now, track, client)

    def _subscribe(self, now: float, track: Track, client: Client) -> None:
        source = Source(client=client, track=track, pushed=False)
        self._context.add(source, None)
        # It runs while the request waits to be sent, too: whoever waits behind it must not hang.
        timeout = self._context.settings.upstream_timeout
        self._context.timers.set((Due.ANSWER, source), now + timeout)
        if not self._ask(now, source):
            self._context.drop(source, None)

    def _ask(self, now: float, source: Source) -> bool:
        """Send our SUBSCRIBE; False if that cannot be."""
        context, track, client = self._context, source.track, source.client
        if track.sources.get(client.id) is not source:
            return True  # blocked for long, and not wanted any more
        source.forward = _forward(source)
        source.filter = _filter(source)
        wishes = [
            receiver.new_group for receiver in source.receivers if receiver.new_group is not None
        ]
        parameters = Parameters(
            forward=None if source.forward else False,
            subscription_filter=source.filter,
            new_group_request=max(wishes, default=None),
        )

        def retry(later: float) -> None:
            if not self._ask(later, source):
                self.gone(later, source, "INTERNAL_ERROR", "the publisher takes no requests")

        asked = context.ask(client, retry, client.wire.subscribe, track.name, parameters)
        if asked.request_id is None:
            return asked.blocked
        source.request_id = asked.request_id
        if parameters.new_group_request is not None:
            track.group_asked = (parameters.new_group_request, -1)
        client.requests[asked.request_id] = source
        context.timers.set((Due.ANSWER, source), now + context.settings.upstream_timeout)
        return True

    def accepted(self, now: float, source: Source, message: SubscribeOk) -> None:
        """The publisher said SUBSCRIBE_OK."""
        context, track, client = self._context, source.track, source.client
        context.timers.cancel((Due.ANSWER, source))
        refusal = self._describe(track, client, message.track_properties)
        if refusal is not None:
            code, reason = refusal
            self._cancel(source)
            self._refused(now, source, code, reason)
            return
        self._establish(
            now, source, message.track_alias, message.parameters.largest_object, pushed=False
        )

    def rejected(self, now: float, source: Source, error: RequestError) -> None:
        """The publisher said no to our SUBSCRIBE."""
        reason = error.reason or "the publisher rejected the subscription"
        self._refused(now, source, upstream_code(error), reason)

    def overdue(self, now: float, source: Source) -> None:
        """The publisher does not answer our SUBSCRIBE."""
        self._cancel(source)
        self._refused(now, source, RequestErrorCode.TIMEOUT, "the publisher does not answer")

    def _refused(self, now: float, source: Source, code: RequestErrorCode, reason: str) -> None:
        """A publisher will not feed a track; it is not asked again at once."""
        context, track, client = self._context, source.track, source.client
        self._remove(now, source, reason)
        track.refused.add(client.id)
        # The network was not named by a publisher: that it knows none is no answer for those who
        # would wait for one.
        unknown = client.info.upstream and code is RequestErrorCode.DOES_NOT_EXIST
        if not unknown:
            track.refusal = (code, reason)
        final, why = track.refusal or (None, reason)
        context.receivers.source_lost(now, track, "TRACK_ENDED", why, final, again=False)
        context.tracks.settle(now, track)

    # Their PUBLISH

    def published(self, now: float, client: Client, message: Publish, grant: Grant) -> None:
        """Take a PUBLISH that is allowed."""
        context = self._context
        request_id = message.request_id
        full = context.full(client, Load.PUBLISHES)
        track = None if full is not None else context.tracks.open(now, message.track)
        if track is None:
            reason = full or "the relay has as many tracks as it can"
            context.reject(client, request_id, RequestErrorCode.EXCESSIVE_LOAD, reason, retry=1.0)
            return
        refusal = self._describe(track, client, message.track_properties)
        if refusal is not None:
            context.reject(client, request_id, *refusal)
            context.tracks.settle(now, track)
            return
        other = track.sources.get(client.id)
        if other is not None:
            # Our SUBSCRIBE crossed the PUBLISH: it must be over before PUBLISH_OK (16: 5.1).
            self._cancel(other)
            self._remove(now, other, "the publisher sent PUBLISH")
        source = Source(client=client, track=track, pushed=True, request_id=request_id, grant=grant)
        source.forward = self._eager(source) or _forward(source)
        expires = None if grant.expires is None else max(int((grant.expires - now) * 1000), 1)
        parameters = Parameters(forward=source.forward, expires=expires)
        if not context.tell(client, client.wire.accept, request_id, parameters):
            context.tracks.settle(now, track)
            return
        context.add(source, Load.PUBLISHES)
        context.grants.hold(source)
        self._establish(
            now, source, message.track_alias, message.parameters.largest_object, pushed=True
        )

    # Both

    def _describe(
        self, track: Track, client: Client, properties: KeyValues
    ) -> tuple[RequestErrorCode, str] | None:
        """Note what a publisher says about a track; why it cannot be served, if so."""
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

    def _establish(
        self, now: float, source: Source, alias: int, largest: Location | None, *, pushed: bool
    ) -> None:
        context, track, client = self._context, source.track, source.client
        first = not track.established
        if first:
            context.tracks.renew(now, track)
        source.stage = Stage.ESTABLISHED
        source.alias = alias
        if largest is not None and (track.hint is None or largest > track.hint):
            track.hint = largest
        context.tracks.install(track)
        context.events.append(PublisherAdded(session=client.id, track=track.name, pushed=pushed))
        # Receivers first: objects that waited for the alias are forwarded with the ingress.
        context.receivers.serve(now, track)
        context.plane.add_ingress(
            now, client.id, alias, track.number, track.facts.publisher_priority
        )
        if pushed:
            context.spaces.track_published(now, track)
        self.sync(track)
        context.tracks.settle(now, track)

    def sync(self, track: Track) -> None:
        """Tell the sources what the receivers want together: whether, and from where on."""
        context = self._context
        for source in list(track.sources.values()):
            if not source.live or source.request_id is None:
                continue
            forward, filter_ = _forward(source) or self._eager(source), _filter(source)
            if source.unused:
                forward = source.forward  # it lingers as it is
            widen = not source.pushed and _wider(filter_, source.filter)
            if forward == source.forward and not widen:
                continue
            parameters = Parameters(
                forward=forward if forward != source.forward else None,
                subscription_filter=filter_ if widen else None,
            )
            asked = context.ask(
                source.client,
                lambda _: self.sync(track),
                source.client.wire.update,
                source.request_id,
                parameters,
            )
            if asked.request_id is not None:
                source.forward = forward
                source.filter = filter_ if widen else source.filter

    def _eager(self, source: Source) -> bool:
        """Whether a PUBLISH is taken with Forward State 1 while nobody receives it.

        What other relays have is fetched from far away: only if it is needed to rank the track.
        """
        if not source.pushed or not self._context.settings.forward_unwatched:
            return False
        info = source.client.info
        return source.track.ranked or not (info.upstream or info.distant)

    def request_group(self, track: Track, value: int, asker: Client) -> None:
        """Pass a NEW_GROUP_REQUEST on, unless one is under way (moq-transport-16, 9.2.2.9)."""
        context = self._context
        largest = context.tracks.largest(track)
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
                asked = context.ask(
                    source.client,
                    lambda _: self.request_group(track, value, asker),
                    source.client.wire.update,
                    source.request_id,
                    Parameters(new_group_request=value),
                )
                if asked.request_id is not None:
                    track.group_asked = (value, group)

    # Ends

    def done(self, now: float, source: Source, message: PublishDone) -> None:
        """The publisher said PUBLISH_DONE; streams may still be under way."""
        context = self._context
        client = source.client
        if source.request_id is not None:
            client.requests.pop(source.request_id, None)
        source.stage = Stage.DONE
        source.status = done_name(client.draft, message.status_code)
        source.reason = message.reason
        source.promised = 0 if message.stream_count >= _UNCOUNTED else message.stream_count
        delay = context.settings.done_delay
        source.done_by = now + delay * DONE_PATIENCE
        context.timers.set((Due.DONE, source), now + (delay if message.stream_count else 0.0))

    def ended(self, now: float, source: Source) -> None:
        """The publisher ended its request without a word (draft 18)."""
        reason = "the publisher ended it"
        if source.stage is Stage.PENDING:
            self._refused(now, source, RequestErrorCode.INTERNAL_ERROR, reason)
        else:
            self.gone(now, source, "INTERNAL_ERROR", reason)

    def done_now(self, now: float, source: Source) -> None:
        """What was under way behind PUBLISH_DONE should be here: wait for what is not."""
        context = self._context
        begun, under_way = context.plane.ingress_streams(source.client.id, source.alias)
        if (under_way or begun < source.promised) and now < source.done_by:
            context.timers.set((Due.DONE, source), now + context.settings.done_delay)
            return
        self.gone(now, source, source.status, source.reason)

    def is_arriving(self, track: Track) -> bool:
        """Whether streams of a track are under way."""
        streams = self._context.plane.ingress_streams
        return any(
            streams(source.client.id, source.alias)[1]
            for source in track.sources.values()
            if source.stage is not Stage.PENDING
        )

    def drop(
        self, now: float, source: Source, reset: int | None, reason: str, *, status: str
    ) -> None:
        """End a source ourselves."""
        self._cancel(source, reset)
        self.gone(now, source, status, reason)

    def _cancel(self, source: Source, code: int | None = None) -> None:
        """End the request of a source, if it was made and is not over."""
        wire = source.client.wire
        if source.request_id is not None and source.stage is not Stage.DONE:
            self._context.tell(source.client, wire.cancel, source.request_id, code=code)

    def gone(self, now: float, source: Source, status: str, reason: str) -> None:
        """A source is over: with the last one its track ends."""
        track = source.track
        self._remove(now, source, reason)
        self._context.receivers.source_lost(now, track, status, reason, None)
        if source.client.info.upstream:
            # It may have heard of another publisher meanwhile.
            self.ask(now, track, source.client)
        self._context.tracks.settle(now, track)

    def _remove(self, now: float, source: Source, reason: str) -> None:
        context, track, client = self._context, source.track, source.client
        context.drop(source, Load.PUBLISHES if source.pushed else None)
        if source.stage is Stage.PENDING:
            return
        context.plane.remove_ingress(now, client.id, source.alias)
        context.events.append(
            PublisherGone(session=client.id, track=track.name, reason=reason or source.status)
        )
        if source.pushed:
            context.spaces.publisher_left(now, track)

    def idle(self, now: float, track: Track) -> None:
        """Nobody has received a track for a while: unsubscribe from it."""
        context = self._context
        for source in list(track.sources.values()):
            if source.unused and source.stage is not Stage.DONE:
                self._cancel(source)
                self._remove(now, source, "no subscriber is left")
        context.tracks.settle(now, track)

    def malformed(self, now: float, track: Track, session: int, reason: str) -> None:
        """A publisher broke the object model: its subscription ends, and so do all receivers'."""
        context = self._context
        context.receivers.finish(now, track, "MALFORMED_TRACK", reason, reset="MALFORMED_TRACK")
        context.plane.purge(track.number)
        source = track.sources.get(session)
        if source is not None:
            code = reset_code(source.client.draft, "MALFORMED_TRACK")
            self.drop(now, source, code, reason, status="MALFORMED_TRACK")


def _forward(source: Source) -> bool:
    return any(receiver.forward for receiver in source.receivers)


def _filter(source: Source) -> SubscriptionFilter:
    """The widest filter that a source's receivers need.

    A start in the future, or long ago, is passed on only if all want nothing else.
    """
    starts: list[Location] = []
    for receiver in source.receivers:
        if receiver.filter is None or receiver.filter.start is None:
            return _LARGEST
        starts.append(receiver.filter.start)
    if not starts:
        return _LARGEST
    return SubscriptionFilter(FilterType.ABSOLUTE_START, min(starts))


def _wider(wanted: SubscriptionFilter, current: SubscriptionFilter | None) -> bool:
    """Whether a publisher must be told of a new filter.

    Largest Object is as wide as a relay needs: what is older is fetched.
    """
    if current is None or current.start is None:
        return False
    return wanted.start is None or wanted.start < current.start
