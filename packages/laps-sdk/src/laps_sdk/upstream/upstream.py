"""What is above an Edge, as one of the Edge's sessions: the network, a Stub's parents, or one peer.

::

    EdgeRelay                    Upstream                       its owner
    --SUBSCRIBE---------------> UpstreamSubscriptions --edge_subscribed--------------------->
    <-SUBSCRIBE_OK, errors----                        <-subscribe_answered-------------------
    <-SUBSCRIBE---------------- LocalSubscriptions    <-subscribe_at_edge--------------------
    --SUBSCRIBE_OK, errors---->                       --edge_accepted, _refused, _ended----->
    <-PUBLISH_NAMESPACE-------- Namespaces            <-publish, unpublish-------------------
    <-PUBLISH------------------ Publications          <-publish, unpublish-------------------
    --FETCH, <-FETCH----------> Fetching, if the owner can fetch

Messages cross the :mod:`~laps_sdk.upstream.seam` as dataclasses. Objects go past it, through
:class:`~laps_sdk.upstream.egress.FeedEgress` and :class:`~laps_sdk.upstream.sink.PlaneSink`.

A track's key is its full-name hash. The low bits of the key are its track alias here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from math import inf
from typing import Final, Protocol, TypeAlias

from laps_sdk.edge.codes import shorten
from laps_sdk.edge.relay import EdgeRelay
from laps_sdk.edge.settings import SessionInfo
from laps_sdk.forwarding.interfaces import ForwardingPlane, Subscription
from laps_sdk.timers import Timers, earliest
from laps_sdk.upstream.bodies import (
    DRAFT,
    error_data,
    ok_data,
    read_ok,
    read_subscribe,
    subscribe_data,
)
from laps_sdk.upstream.codes import done_status, ended_code, request_error, subscribe_code
from laps_sdk.upstream.egress import FeedEgress, FetchOutlet, Outlet, alias_of
from laps_sdk.upstream.fetching import Fetching, FetchNetwork
from laps_sdk.upstream.interfaces import Answer, Feed
from laps_sdk.upstream.seam import Seam
from laps_wire.errors import LocalError
from laps_wire.moqt.codepoints import FilterType, RequestErrorCode
from laps_wire.moqt.messages import (
    STREAM_COUNT_UNKNOWN,
    Fetch,
    PublishOk,
    RequestOk,
    StandaloneFetch,
    Subscribe,
    SubscribeOk,
)
from laps_wire.moqt.parameters import NO_PARAMETERS, Parameters, TrackProperties
from laps_wire.moqt.session import (
    Event,
    PublishEnded,
    RequestAccepted,
    RequestCancelled,
    RequestReceived,
    RequestRejected,
    Terminated,
    UpdateReceived,
)
from laps_wire.moqt.setup import NO_OPTIONS, SetupOptions
from laps_wire.moqt.structures import SubscriptionFilter
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from laps_wire.peering.laps2 import AnnounceKind, SubscribeCode, SubscribeData

__all__ = [
    "LocalSubscriptions",
    "NameHasher",
    "Namespaces",
    "Publications",
    "Upstream",
    "UpstreamOwner",
    "UpstreamSubscriptions",
]

_RECHECK: Final = 5.0
"""How often the Edge is asked whether a refused subscription still has a subscriber, in seconds."""
_LARGEST: Final = SubscriptionFilter(FilterType.LARGEST_OBJECT)

_RequestEvent: TypeAlias = (
    RequestAccepted | RequestRejected | PublishEnded | RequestCancelled | UpdateReceived
)
"""What the Edge answers to a request of ours, or adds to one of its own."""


class NameHasher(Protocol):
    """Makes the keys of tracks: ``laps_wire.hashing.KeyedHasher``, or the C++ relay's hash."""

    def full_name(self, fields: Iterable[bytes], name: bytes) -> int:
        """Return the full-name hash."""


class UpstreamOwner(Protocol):
    """Who is above the Edge: ``NetworkBridge``, ``StubUplink``, ``StubParent`` or ``CppPeer``."""

    def edge_subscribed(
        self, now: float, key: int, name: FullTrackName, data: SubscribeData
    ) -> None:
        """Handle a subscription of the Edge, or other data for it when its subscribers ask more.

        Answer each call with :meth:`Upstream.subscribe_answered`, at once or later.
        """

    def edge_unsubscribed(self, now: float, key: int, name: FullTrackName) -> None:
        """Handle the end of a subscription of the Edge."""

    def edge_accepted(self, now: float, key: int, data: SubscribeData) -> None:
        """Handle that the Edge serves a track; ``data`` is the publisher's answer."""

    def edge_refused(
        self, now: float, key: int, code: SubscribeCode, reason: str, data: SubscribeData
    ) -> None:
        """Handle that the Edge does not serve a track."""

    def edge_ended(self, now: float, key: int, reason: str) -> None:
        """Handle that a track which the Edge served has ended."""

    def edge_closed(self, now: float, code: int, reason: str) -> None:
        """Handle that the Edge closed the session, and with it everything."""


class Upstream:
    """One session of an Edge with other relays behind it."""

    __slots__ = (
        "_claims",
        "_hasher",
        "_local",
        "_namespaces",
        "_publications",
        "_renew",
        "_subscriptions",
        "draft",
        "egress",
        "fetching",
        "owner",
        "relay",
        "seam",
        "session",
    )

    def __init__(
        self,
        relay: EdgeRelay,
        number: int,
        owner: UpstreamOwner,
        hasher: NameHasher,
        clock: Callable[[], float],
        *,
        stop: Callable[[int, int], None] | None = None,
        renew: Callable[[Subscription, float], None] | None = None,
        setup: SetupOptions = NO_OPTIONS,
        draft: Draft = DRAFT,
        fetches: tuple[ForwardingPlane, FetchNetwork] | None = None,
    ) -> None:
        """``number`` is the Edge's number of the session.

        ``draft`` is the one in which properties, codes and bodies are. ``fetches`` is the plane
        for the answers to FETCHes and the network that brings them; without it there are none.
        """
        self.relay = relay
        self.owner = owner
        self.draft = draft
        self._hasher = hasher
        self._renew = renew
        self.seam = Seam(relay, number, self._event, setup=setup)
        self.session = self.seam.session
        """Our end of the session with the Edge."""
        self._claims: dict[int, dict[object, None]] = {}
        """Which parts have subscribed to a track above."""
        self._subscriptions = UpstreamSubscriptions(self)
        self._local = LocalSubscriptions(self)
        self._namespaces = Namespaces(self)
        self._publications = Publications(self, self._subscriptions)
        outlets: dict[int, FetchOutlet] = {}
        self.egress = FeedEgress(clock, self._local.outlets, stop, draft, outlets)
        """What the forwarding plane writes to."""
        self.fetching: Fetching | None = None
        """FETCHes in both directions, if the owner can fetch."""
        if fetches is not None:
            self.fetching = Fetching(self.seam, draft, self.key_of, *fetches, outlets, clock)

    def open(self, now: float, address: str, *, upstream: bool, distant: bool = False) -> None:
        """Become a session of the Edge; logs show it with this address."""
        info = SessionInfo(
            peer_address=address,
            draft=self.draft,
            peering=True,
            upstream=upstream,
            distant=distant,
            fetches=self.fetching is not None,
            alias=lambda name: alias_of(self.key_of(name)),
        )
        self.seam.open(now, self.egress, info)

    def close(self, now: float) -> None:
        """Leave the Edge: tracks from above end there."""
        self._local.outlets.clear()
        self.seam.close(now)

    @property
    def number(self) -> int:
        """The Edge's number of the session."""
        return self.seam.number

    @property
    def closed(self) -> bool:
        """Whether the session is over."""
        return self.seam.closed

    @property
    def idle(self) -> bool:
        """Whether neither end has a request under way."""
        return not self.session.open_requests and not self._local.outlets

    @property
    def collisions(self) -> int:
        """How many names the Edge asked for in vain, because others have their hashes."""
        return self._subscriptions.collisions

    def key_of(self, name: FullTrackName) -> int:
        """Return the full-name hash of a track."""
        return self._hasher.full_name(name.namespace.fields, name.name)

    # Time

    def pump(self, now: float) -> bool:
        """Carry messages until both ends are quiet; return whether there were any."""
        return self.seam.pump(now)

    def poll_timeout(self) -> float | None:
        """Return when :meth:`handle_timeout` wants to be called."""
        fetching = None if self.fetching is None else self.fetching.poll_timeout()
        return earliest(self._subscriptions.poll_timeout(), fetching)

    def handle_timeout(self, now: float) -> None:
        """Drop refused subscriptions without a subscriber, and fetches that waited too long."""
        self._subscriptions.handle_timeout(now)
        if self.fetching is not None:
            self.fetching.handle_timeout(now)
        self.pump(now)

    # From the Edge

    def _event(self, now: float, event: Event) -> None:
        match event:
            case RequestReceived(message=Subscribe() as message):
                self._subscriptions.subscribe(now, message)
            case RequestReceived(
                message=Fetch(target=StandaloneFetch() as target, parameters=parameters)
            ) if self.fetching is not None:
                self.fetching.asked(now, event.request_id, target, parameters)
            case RequestReceived():
                code = RequestErrorCode.NOT_SUPPORTED
                self.session.reject(event.request_id, code, "there is only the present")
            case (
                RequestAccepted()
                | RequestRejected()
                | PublishEnded()
                | RequestCancelled()
                | UpdateReceived()
            ):
                _ = (
                    self._subscriptions.event(now, event)
                    or self._local.event(now, event)
                    or self._namespaces.event(event)
                    or self._publications.event(now, event)
                    or (self.fetching is not None and self.fetching.event(now, event))
                )
            case Terminated():
                self.owner.edge_closed(now, event.code, event.reason)
            case _:
                pass  # SETUP, GOAWAY; the rest is about requests that we never make

    # For the parts

    def subscribe_above(
        self, now: float, part: object, key: int, name: FullTrackName, data: SubscribeData
    ) -> None:
        """Subscribe to a track at the owner for a part, or change the data of that."""
        self._claims.setdefault(key, {})[part] = None
        self.owner.edge_subscribed(now, key, name, data)

    def unsubscribe_above(self, now: float, part: object, key: int, name: FullTrackName) -> None:
        """Unsubscribe a part; the owner hears of it when no other part has subscribed."""
        claims = self._claims.get(key, {})
        if claims.pop(part, self) is None and not claims:
            del self._claims[key]
            self.owner.edge_unsubscribed(now, key, name)

    # From the owner

    def subscribe_answered(
        self, now: float, key: int, answer: Answer, *, code: int, reason: str, data: SubscribeData
    ) -> None:
        """Give the Edge the answer to a subscription; ``data`` is the publisher's own."""
        self._subscriptions.answered(now, key, answer, code, reason, data)
        self._publications.answered(now, key, answer, code, reason, data)
        self.pump(now)

    def subscribe_at_edge(
        self, now: float, key: int, name: FullTrackName, data: SubscribeData, feed: Feed
    ) -> None:
        """Subscribe to a track at the Edge; its objects go into the feed."""
        self._local.subscribe(now, key, name, data, feed)
        self.pump(now)

    def unsubscribe_at_edge(self, now: float, key: int) -> None:
        """Unsubscribe from a track at the Edge."""
        self._local.unsubscribe(key)
        self.pump(now)

    def renew(self, key: int, before: float = inf) -> None:
        """Go on with the open streams of a track in new streams, from their next objects on.

        Streams that began after ``before`` go on as they are.
        """
        subscription = self.subscription_of(key)
        if self._renew is not None and subscription is not None:
            self._renew(subscription, before)

    def track_of(self, key: int) -> int | None:
        """Return the Edge's number of a track that crosses this session; None if none does."""
        name = self._local.name_of(key) or self._subscriptions.name_of(key)
        return None if name is None else self.relay.track_number(name)

    def subscription_of(self, key: int) -> Subscription | None:
        """Return our subscription to a track at the Edge; None if there is none."""
        request_id = self._local.request_of(key)
        return None if request_id is None else Subscription(self.number, request_id)

    def publish(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """Publish a namespace at the Edge, or push a track to it."""
        if kind is AnnounceKind.NAMESPACE:
            self._namespaces.publish(name.namespace)
        else:
            self._publications.publish(now, name)
        self.pump(now)

    def unpublish(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """Withdraw a namespace or a track from the Edge."""
        if kind is AnnounceKind.NAMESPACE:
            self._namespaces.unpublish(name.namespace)
        else:
            self._publications.unpublish(now, name)
        self.pump(now)


@dataclass(slots=True, eq=False)
class _EdgeSubscription:
    key: int
    name: FullTrackName
    request_id: int | None = None
    """The Edge's SUBSCRIBE; None after a refusal, while the track may still come."""
    data: SubscribeData | None = None
    """The publisher's answer, once there is one."""
    answered: float = 0.0
    """When ``data`` came."""
    served: bool = False


class UpstreamSubscriptions:
    """Tracks that the Edge subscribes to above it, by key.

    ::

        SUBSCRIBE --> asked --ACCEPTED--> served --ENDED--> PUBLISH_DONE ----.
                        |                    |                               |
                        '--REFUSED--> REQUEST_ERROR ----------------------> kept: the track may
                        '--UNSUBSCRIBE------'--> edge_unsubscribed  ACCEPTED  come later
                                                     ^           asks again <--'
                                                     '-- the Edge has no subscriber left
    """

    __slots__ = ("_requests", "_timers", "_tracks", "_upstream", "collisions")

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._tracks: dict[int, _EdgeSubscription] = {}
        self._requests: dict[int, _EdgeSubscription] = {}
        self._timers: Timers[int] = Timers()
        self.collisions = 0
        """Names refused because another one has their hash."""

    def name_of(self, key: int) -> FullTrackName | None:
        """Return the name of a track that the Edge subscribes to; None if it does not."""
        track = self._tracks.get(key)
        return None if track is None else track.name

    def is_asked(self, key: int) -> bool:
        """Return whether the Edge has a SUBSCRIBE to us for a track."""
        track = self._tracks.get(key)
        return track is not None and track.request_id is not None

    # From the Edge

    def subscribe(self, now: float, message: Subscribe) -> None:
        """Handle a SUBSCRIBE of the Edge."""
        name, upstream = message.track, self._upstream
        key = upstream.key_of(name)
        track = self._tracks.setdefault(key, _EdgeSubscription(key, name))
        if track.name != name:
            self.collisions += 1
            reason = shorten(f"{name} has the hash of {track.name}")
            upstream.session.reject(message.request_id, RequestErrorCode.INTERNAL_ERROR, reason)
            return
        track.request_id = message.request_id
        self._requests[message.request_id] = track
        self._timers.cancel(key)
        if track.data is not None and track.answered == now:
            self._accept(track, message.request_id, track.data)
            return
        if track.data is not None:
            # Objects since the answer found no subscriber here: open streams must go on in new
            # ones, so the subscription begins anew.
            track.data = None
            upstream.unsubscribe_above(now, self, key, name)
        data = subscribe_data(name, message.parameters, upstream.draft)
        upstream.subscribe_above(now, self, key, name, data)

    def event(self, now: float, event: _RequestEvent) -> bool:
        """Handle an event of one of these subscriptions; return whether it was one."""
        track = self._requests.get(event.request_id)
        if track is None:
            return False
        if isinstance(event, UpdateReceived):
            self._updated(now, track, event)
        elif isinstance(event, RequestCancelled):
            self._cancelled(now, track)
        return True

    def _updated(self, now: float, track: _EdgeSubscription, event: UpdateReceived) -> None:
        """Accept an update; only a request for a new group goes further up."""
        upstream = self._upstream
        upstream.session.accept(event.update_id)
        group = event.message.parameters.new_group_request
        if group is not None:
            asked = Parameters(subscription_filter=_LARGEST, new_group_request=group)
            data = subscribe_data(track.name, asked, upstream.draft)
            upstream.subscribe_above(now, self, track.key, track.name, data)

    def _cancelled(self, now: float, track: _EdgeSubscription) -> None:
        """The Edge unsubscribed, or has waited long enough for an answer."""
        waits = not track.served and self._has_subscriber(track)
        self._close(track)
        if waits:
            self._timers.set(track.key, now + _RECHECK)
        else:
            self._drop(now, track)

    def _has_subscriber(self, track: _EdgeSubscription) -> bool:
        return self._upstream.relay.has_receivers(self._upstream.number, track.name)

    def _close(self, track: _EdgeSubscription) -> None:
        """Forget the request of a subscription."""
        if track.request_id is not None:
            del self._requests[track.request_id]
        track.request_id, track.data, track.served = None, None, False

    def _drop(self, now: float, track: _EdgeSubscription) -> None:
        del self._tracks[track.key]
        self._timers.cancel(track.key)
        self._upstream.unsubscribe_above(now, self, track.key, track.name)

    # From above

    def answered(
        self, now: float, key: int, answer: Answer, code: int, reason: str, data: SubscribeData
    ) -> None:
        """Give the Edge an answer; with ACCEPTED after a refusal, have the Edge ask again."""
        track = self._tracks.get(key)
        if track is None:
            return
        if answer is not Answer.ACCEPTED:
            self._refuse(now, track, code, reason, data)
        elif not track.served:
            track.data, track.answered = data, now
            if track.request_id is not None:
                self._accept(track, track.request_id, data)
            else:
                self._upstream.relay.subscribe_again(now, self._upstream.number, track.name)

    def _accept(self, track: _EdgeSubscription, request_id: int, data: SubscribeData) -> None:
        largest, properties = read_ok(data, self._upstream.draft)
        session = self._upstream.session
        parameters = Parameters(largest_object=largest)
        try:
            session.accept_subscribe(request_id, alias_of(track.key), parameters, properties)
            track.served = True
        except LocalError:
            # Two keys may agree in all bits that an alias has.
            self._close(track)
            code, reason = RequestErrorCode.INTERNAL_ERROR, "the track alias is taken"
            session.reject(request_id, code, reason)

    def _refuse(
        self, now: float, track: _EdgeSubscription, code: int, reason: str, data: SubscribeData
    ) -> None:
        request_id, served = track.request_id, track.served
        self._close(track)
        if self._timers.when(track.key) is None:
            self._timers.set(track.key, now + _RECHECK)
        if request_id is None:
            return
        session, reason = self._upstream.session, shorten(reason)
        if served:
            session.publish_done(request_id, done_status(code), STREAM_COUNT_UNKNOWN, reason)
        else:
            session.reject(request_id, request_error(code, data), reason)

    # Time

    def poll_timeout(self) -> float | None:
        """Return when :meth:`handle_timeout` wants to be called."""
        return self._timers.next()

    def handle_timeout(self, now: float) -> None:
        """Drop refused subscriptions for which the Edge has no subscriber left."""
        while (key := self._timers.pop(now)) is not None:
            track = self._tracks[key]
            if self._has_subscriber(track):
                self._timers.set(key, now + _RECHECK)
            else:
                self._drop(now, track)


@dataclass(slots=True, eq=False)
class _LocalSubscription:
    key: int
    name: FullTrackName
    request_id: int
    outlet: Outlet
    ok: SubscribeOk | None = None
    """The publisher's answer."""


class LocalSubscriptions:
    """Tracks that the owner subscribes to at the Edge, by key, and where their objects go."""

    __slots__ = ("_requests", "_tracks", "_upstream", "outlets")

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._tracks: dict[int, _LocalSubscription] = {}
        self._requests: dict[int, _LocalSubscription] = {}
        self.outlets: dict[int, Outlet] = {}
        """Where objects go, by track alias."""

    def subscribe(
        self, now: float, key: int, name: FullTrackName, data: SubscribeData, feed: Feed
    ) -> None:
        """Subscribe to a track at the Edge; its objects go into the feed."""
        message = read_subscribe(data)
        asked = NO_PARAMETERS if message is None else message.parameters
        known = self._tracks.get(key)
        if known is not None:
            self._again(now, known, asked, feed)
            return
        upstream, alias = self._upstream, alias_of(key)
        if alias in self.outlets:
            code, reason = SubscribeCode.HASH_COLLISION, "another track has the same alias"
            upstream.owner.edge_refused(now, key, code, reason, SubscribeData())
            return
        parameters = Parameters(
            subscription_filter=_LARGEST,
            subscriber_priority=asked.subscriber_priority,
            new_group_request=asked.new_group_request,
        )
        try:
            request_id = upstream.session.subscribe(name, parameters)
        except LocalError as error:
            reason = f"the Edge takes no subscription: {error}"
            upstream.owner.edge_refused(now, key, SubscribeCode.LIMIT, reason, SubscribeData())
            return
        track = _LocalSubscription(key, name, request_id, Outlet(feed))
        self._tracks[key] = self._requests[request_id] = track
        self.outlets[alias] = track.outlet

    def _again(self, now: float, track: _LocalSubscription, asked: Parameters, feed: Feed) -> None:
        """Answer a second subscribe: it may have another feed, or ask for a new group."""
        track.outlet.feed = feed
        if track.ok is None:
            return
        upstream = self._upstream
        largest = upstream.relay.largest(track.name)
        if largest is not None:
            track.ok = replace(
                track.ok, parameters=replace(track.ok.parameters, largest_object=largest)
            )
        upstream.owner.edge_accepted(now, track.key, ok_data(track.ok, upstream.draft))
        if asked.new_group_request is not None:
            update = Parameters(new_group_request=asked.new_group_request)
            upstream.session.update(track.request_id, update)

    def name_of(self, key: int) -> FullTrackName | None:
        """Return the name of a track that we have subscribed to; None if we have not."""
        track = self._tracks.get(key)
        return None if track is None else track.name

    def request_of(self, key: int) -> int | None:
        """Return the id of our SUBSCRIBE for a track; None if there is none."""
        track = self._tracks.get(key)
        return None if track is None else track.request_id

    def unsubscribe(self, key: int) -> None:
        """Unsubscribe from a track at the Edge."""
        track = self._tracks.get(key)
        if track is not None:
            self._forget(track)
            self._upstream.session.cancel(track.request_id)

    def _forget(self, track: _LocalSubscription) -> None:
        del self._tracks[track.key], self._requests[track.request_id]
        del self.outlets[alias_of(track.key)]

    def event(self, now: float, event: _RequestEvent) -> bool:
        """Handle an event of one of these subscriptions; return whether it was one."""
        track = self._requests.get(event.request_id)
        if track is None:
            return False
        key, owner, draft = track.key, self._upstream.owner, self._upstream.draft
        match event:
            case RequestAccepted(message=SubscribeOk() as ok):
                facts = TrackProperties.of(ok.track_properties, draft)
                track.outlet.priority = facts.publisher_priority
                track.outlet.ttl_ms = facts.object_delivery_timeout or 0
                track.ok = ok
                owner.edge_accepted(now, key, ok_data(ok, draft))
            case RequestRejected(message=error):
                self._forget(track)
                code, data = subscribe_code(error.error_code), error_data(error, draft)
                owner.edge_refused(now, key, code, error.reason, data)
            case PublishEnded(message=done):
                self._forget(track)
                code = ended_code(draft, done.status_code)
                if code is SubscribeCode.ENDED:
                    owner.edge_ended(now, key, done.reason)
                else:
                    owner.edge_refused(now, key, code, done.reason, SubscribeData())
            case _:
                # The Edge cancelled it: nothing else can come for a SUBSCRIBE of ours.
                self._forget(track)
                owner.edge_ended(now, key, "the Edge ended it")
        return True


class Namespaces:
    """Namespaces that the owner publishes at the Edge."""

    __slots__ = ("_names", "_requests", "_upstream")

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._names: dict[Namespace, int] = {}
        self._requests: dict[int, Namespace] = {}

    def publish(self, namespace: Namespace) -> None:
        """Publish a namespace, once; a reserved one, or a draining Edge, is passed over."""
        if namespace in self._names:
            return
        try:
            request_id = self._upstream.session.publish_namespace(namespace)
        except LocalError:
            return
        self._names[namespace] = request_id
        self._requests[request_id] = namespace

    def unpublish(self, namespace: Namespace) -> None:
        """Withdraw a namespace."""
        request_id = self._names.pop(namespace, None)
        if request_id is not None:
            del self._requests[request_id]
            self._upstream.session.cancel(request_id)

    def event(self, event: _RequestEvent) -> bool:
        """Handle an event of one of these namespaces; return whether it was one."""
        namespace = self._requests.get(event.request_id)
        if namespace is None:
            return False
        if not isinstance(event, RequestAccepted):
            del self._requests[event.request_id], self._names[namespace]
        return True


@dataclass(slots=True, eq=False)
class _Publication:
    key: int
    name: FullTrackName
    request_id: int | None = None
    """Our PUBLISH, once there is one."""
    subscribed: bool = False
    """Whether we have subscribed to the track above."""


class Publications:
    """Tracks that the owner pushes to the Edge.

    A PUBLISH carries the track's properties and largest location, which only the answer to a
    subscribe tells. So the subscribe comes first; it stays for as long as the Edge takes the track
    with Forward State 1::

        publish --edge_subscribed--> ACCEPTED --PUBLISH--> Forward State 1: subscribed, 0: not
                                        |                       |
                                        '-- unpublish, ENDED ---'--> PUBLISH_DONE
    """

    __slots__ = ("_requests", "_subscriptions", "_tracks", "_upstream")

    def __init__(self, upstream: Upstream, subscriptions: UpstreamSubscriptions) -> None:
        self._upstream = upstream
        self._subscriptions = subscriptions
        self._tracks: dict[int, _Publication] = {}
        self._requests: dict[int, _Publication] = {}

    def publish(self, now: float, name: FullTrackName) -> None:
        """Push a track, once."""
        key = self._upstream.key_of(name)
        if key not in self._tracks:
            track = self._tracks[key] = _Publication(key, name)
            self._forward(now, track, True)

    def unpublish(self, now: float, name: FullTrackName) -> None:
        """End a track at the Edge."""
        track = self._tracks.pop(self._upstream.key_of(name), None)
        if track is not None:
            self._end(track, SubscribeCode.ENDED, "the publisher ended it")
            self._forward(now, track, False)

    def _forward(self, now: float, track: _Publication, forward: bool) -> None:
        """Subscribe to the track above or unsubscribe, as the Forward State says."""
        if forward == track.subscribed:
            return
        track.subscribed, upstream = forward, self._upstream
        if forward:
            data = subscribe_data(track.name, NO_PARAMETERS, upstream.draft)
            upstream.subscribe_above(now, self, track.key, track.name, data)
        else:
            upstream.unsubscribe_above(now, self, track.key, track.name)

    def _end(self, track: _Publication, code: int, reason: str) -> None:
        """End our PUBLISH, if there is one."""
        request_id, track.request_id = track.request_id, None
        if request_id is not None:
            del self._requests[request_id]
            self._upstream.session.publish_done(
                request_id, done_status(code), STREAM_COUNT_UNKNOWN, shorten(reason)
            )

    def answered(
        self, now: float, key: int, answer: Answer, code: int, reason: str, data: SubscribeData
    ) -> None:
        """Publish a track that was accepted above; end one that was refused or has ended."""
        track = self._tracks.get(key)
        if track is None or not track.subscribed:
            return
        if answer is not Answer.ACCEPTED:
            # The track stays announced: a subscriber of the Edge gets this answer.
            self._end(track, code, reason)
            self._forward(now, track, False)
        elif track.request_id is None and not self._subscriptions.is_asked(key):
            self._publish(track, data)

    def _publish(self, track: _Publication, data: SubscribeData) -> None:
        upstream = self._upstream
        largest, properties = read_ok(data, upstream.draft)
        parameters = Parameters(largest_object=largest)
        try:
            track.request_id = upstream.session.publish(
                track.name, alias_of(track.key), parameters, properties
            )
        except LocalError:
            return  # the alias is taken, or the Edge drains
        self._requests[track.request_id] = track

    def event(self, now: float, event: _RequestEvent) -> bool:
        """Handle an event of one of these tracks; return whether it was one."""
        track = self._requests.get(event.request_id)
        if track is None:
            return False
        match event:
            case RequestAccepted(message=(RequestOk() | PublishOk()) as ok):
                self._forward(now, track, ok.parameters.forward is not False)
            case UpdateReceived():
                self._upstream.session.accept(event.update_id)
                forward = event.message.parameters.forward
                if forward is not None:
                    self._forward(now, track, forward)
            case _:
                # The Edge does not take the track, or has cancelled it.
                del self._requests[event.request_id]
                track.request_id = None
                self._forward(now, track, False)
        return True
