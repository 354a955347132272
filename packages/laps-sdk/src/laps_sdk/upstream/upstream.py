"""Other relays as a client of the Edge: what it wants from them, and what they want from it.

::

    Edge --SUBSCRIBE-----> Wishes --wanted----------> host (the network, a Stub, a parent)
         <-SUBSCRIBE_OK--         <-answered---------
    Edge <-SUBSCRIBE------ Pulls  <-pull-------------
         --SUBSCRIBE_OK->         --pulled---------->       objects: FeedEgress
    Edge --FETCH--> Fetching, if the host has any           the past; both ways
    Edge <-PUBLISH_NAMESPACE, PUBLISH- Namespaces, Publications <-offer, withdraw--

Tracks are known by their key, the full-name hash; it is their alias, too, as far as an alias goes.
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
from laps_sdk.upstream.seam import Seam, SeamEnd
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
from laps_wire.moqt.parameters import NO_PARAMETERS, Parameters
from laps_wire.moqt.properties import TrackProperties
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
    "EdgeClient",
    "EdgeClientHost",
    "NameHasher",
    "Namespaces",
    "Office",
    "Publications",
    "Pulls",
    "RequestEvent",
    "Wishes",
]


class EdgeClient:
    """One session of an Edge with other relays behind it."""

    __slots__ = (
        "_namespaces",
        "_office",
        "_publications",
        "_pulls",
        "_renew",
        "_seam",
        "_wishes",
        "egress",
        "fetching",
    )

    def __init__(
        self,
        relay: EdgeRelay,
        number: int,
        host: EdgeClientHost,
        hasher: NameHasher,
        clock: Callable[[], float],
        *,
        stop: Callable[[int, int], None] | None = None,
        renew: Callable[[Subscription, float], None] | None = None,
        setup: SetupOptions = NO_OPTIONS,
        draft: Draft = DRAFT,
        fetches: tuple[ForwardingPlane, FetchNetwork] | None = None,
    ) -> None:
        """``fetches``: the plane that answers go to, and who brings them; None: nobody does."""
        self._seam = Seam(relay, number, self._event, setup=setup)
        self._office = Office(relay, self._seam, host, hasher, draft)
        self._wishes = Wishes(self._office)
        self._pulls = Pulls(self._office)
        self._namespaces = Namespaces(self._office)
        self._publications = Publications(self._office, self._wishes)
        self._renew = renew
        outlets: dict[int, FetchOutlet] = {}
        self.egress = FeedEgress(clock, self._pulls.outlets, stop, draft, outlets)
        """What the forwarding plane writes to."""
        self.fetching: Fetching | None = None
        """What was published before, if the others are asked for it."""
        if fetches is not None:
            self.fetching = Fetching(self._office, *fetches, outlets, clock)

    def open(self, now: float, address: str, *, upstream: bool, distant: bool = False) -> None:
        """Become a session of the Edge, which logs show with this address."""
        info = SessionInfo(
            peer_address=address,
            draft=self._office.draft,
            peering=True,
            upstream=upstream,
            distant=distant,
            fetches=self.fetching is not None,
            alias=lambda name: alias_of(self.key_of(name)),
        )
        self._seam.open(now, self.egress, info)

    def close(self, now: float) -> None:
        """Leave: what came from the others ends at the Edge."""
        self._pulls.outlets.clear()
        self._seam.close(now)

    @property
    def number(self) -> int:
        """The Edge's number of the session."""
        return self._seam.number

    @property
    def closed(self) -> bool:
        """Whether the session is over."""
        return self._seam.closed

    def key_of(self, name: FullTrackName) -> int:
        """The full-name hash of a track."""
        return self._office.key_of(name)

    # Time

    def pump(self, now: float) -> bool:
        """Carry control messages until all is quiet; whether there were any."""
        return self._seam.pump(now)

    @property
    def collisions(self) -> int:
        """Names that the Edge wanted and did not get: others have their hashes."""
        return self._wishes.collisions

    def poll_timeout(self) -> float | None:
        """When :meth:`handle_timeout` wants to be called."""
        fetching = None if self.fetching is None else self.fetching.poll_timeout()
        return earliest(self._wishes.poll_timeout(), fetching)

    def handle_timeout(self, now: float) -> None:
        """Give up what nobody waits for any more."""
        self._wishes.handle_timeout(now)
        if self.fetching is not None:
            self.fetching.handle_timeout(now)
        self.pump(now)

    # What the Edge says

    def _event(self, now: float, event: Event) -> None:
        match event:
            case RequestReceived(message=Subscribe() as message):
                self._wishes.subscribe(now, message)
            case RequestReceived(
                message=Fetch(target=StandaloneFetch() as target, parameters=parameters)
            ) if self.fetching is not None:
                self.fetching.asked(now, event.request_id, target, parameters)
            case RequestReceived():
                code = RequestErrorCode.NOT_SUPPORTED
                self._office.session.reject(event.request_id, code, "there is only the present")
            case (
                RequestAccepted()
                | RequestRejected()
                | PublishEnded()
                | RequestCancelled()
                | UpdateReceived()
            ):
                _ = (
                    self._wishes.event(now, event)
                    or self._pulls.event(now, event)
                    or self._namespaces.event(now, event)
                    or self._publications.event(now, event)
                    or (self.fetching is not None and self.fetching.event(now, event))
                )
            case Terminated():
                self._office.host.edge_closed(now, event.code, event.reason)
            case _:
                pass  # SETUP, GOAWAY; the rest is about requests that we never make

    # What the others say

    def answered(
        self, now: float, key: int, answer: Answer, *, code: int, reason: str, data: SubscribeData
    ) -> None:
        """What became of a track that the Edge wants."""
        self._wishes.answered(now, key, answer, code, reason, data)
        self._publications.answered(now, key, answer, code, reason, data)
        self.pump(now)

    def pull(
        self, now: float, key: int, name: FullTrackName, data: SubscribeData, feed: Feed
    ) -> None:
        """The others want a track; its objects go into the feed."""
        self._pulls.pull(now, key, name, data, feed)
        self.pump(now)

    def renew(self, key: int, before: float = inf) -> None:
        """Streams of a track that are open go on in new ones, from their next objects on.

        Those that began after ``before`` do not.
        """
        request_id = self._pulls.request_of(key)
        if self._renew is not None and request_id is not None:
            self._renew(Subscription(self._seam.number, request_id), before)

    def release(self, now: float, key: int) -> None:
        """They do not any more."""
        self._pulls.release(key)
        self.pump(now)

    def offer(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """The others publish a namespace, or push a track."""
        if kind is AnnounceKind.NAMESPACE:
            self._namespaces.offer(name.namespace)
        else:
            self._publications.offer(now, name)
        self.pump(now)

    def withdraw(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """They do not any more."""
        if kind is AnnounceKind.NAMESPACE:
            self._namespaces.withdraw(name.namespace)
        else:
            self._publications.withdraw(now, name)
        self.pump(now)


RequestEvent: TypeAlias = (
    RequestAccepted | RequestRejected | PublishEnded | RequestCancelled | UpdateReceived
)
"""What the Edge says about a request that there is already."""


class NameHasher(Protocol):
    """How a track's key is made: ``laps_wire.hashing.KeyedHasher``, or the C++ relay's way."""

    def full_name(self, fields: Iterable[bytes], name: bytes) -> int:
        """The full-name hash."""


class EdgeClientHost(Protocol):
    """Whoever is behind the client."""

    def wanted(self, now: float, key: int, name: FullTrackName, data: SubscribeData) -> None:
        """The Edge wants a track; again, with other data, if its subscribers ask for more.

        Answer with ``EdgeClient.answered``, now or later, and each time.
        """

    def unwanted(self, now: float, key: int, name: FullTrackName) -> None:
        """It does not any more."""

    def pulled(self, now: float, key: int, data: SubscribeData) -> None:
        """A pull is served; ``data`` is the publisher's answer."""

    def pull_refused(
        self, now: float, key: int, code: SubscribeCode, reason: str, data: SubscribeData
    ) -> None:
        """A pull is not served."""

    def pull_ended(self, now: float, key: int, reason: str) -> None:
        """A pull that was served is over."""

    def edge_closed(self, now: float, code: int, reason: str) -> None:
        """The Edge ended the session, and with it everything."""


class Office:
    """The session with the Edge, whoever is behind it, and what is wanted of them."""

    __slots__ = ("_claims", "_hasher", "draft", "host", "relay", "seam")

    def __init__(
        self,
        relay: EdgeRelay,
        seam: Seam,
        host: EdgeClientHost,
        hasher: NameHasher,
        draft: Draft,
    ) -> None:
        self.relay = relay
        self.seam = seam
        self.draft = draft
        """In which properties, codes and bodies are."""
        self.host = host
        self._hasher = hasher
        self._claims: dict[int, dict[object, None]] = {}
        """Which parts want a track."""

    @property
    def session(self) -> SeamEnd:
        """Our end of the session with the Edge."""
        return self.seam.session

    def key_of(self, name: FullTrackName) -> int:
        """The full-name hash of a track."""
        return self._hasher.full_name(name.namespace.fields, name.name)

    def want(
        self, now: float, part: object, key: int, name: FullTrackName, data: SubscribeData
    ) -> None:
        """A part wants a track, or something else of it."""
        self._claims.setdefault(key, {})[part] = None
        self.host.wanted(now, key, name, data)

    def unwant(self, now: float, part: object, key: int, name: FullTrackName) -> None:
        """A part does not any more."""
        claims = self._claims.get(key, {})
        if claims.pop(part, self) is None and not claims:
            del self._claims[key]
            self.host.unwanted(now, key, name)


_RECHECK: Final = 5.0
"""How often the Edge is asked whether a wish that was refused is still one, in seconds."""
_LARGEST: Final = SubscriptionFilter(FilterType.LARGEST_OBJECT)


@dataclass(slots=True, eq=False)
class _Wish:
    key: int
    name: FullTrackName
    request_id: int | None = None
    """The Edge's SUBSCRIBE; None while it was told that there is nothing."""
    data: SubscribeData | None = None
    """The publisher's answer, once there is one."""
    found: float = 0.0
    """When that came."""
    served: bool = False


class Wishes:
    """All of them, by key."""

    __slots__ = ("_office", "_requests", "_timers", "_wishes", "collisions")

    def __init__(self, office: Office) -> None:
        self._office = office
        self._wishes: dict[int, _Wish] = {}
        self._requests: dict[int, _Wish] = {}
        self._timers: Timers[int] = Timers()
        self.collisions = 0
        """Names refused because another one has their hash."""

    def is_asked(self, key: int) -> bool:
        """Whether the Edge has a SUBSCRIBE to us for a track."""
        wish = self._wishes.get(key)
        return wish is not None and wish.request_id is not None

    # The Edge

    def subscribe(self, now: float, message: Subscribe) -> None:
        """The Edge said SUBSCRIBE."""
        name, office = message.track, self._office
        key = office.key_of(name)
        wish = self._wishes.setdefault(key, _Wish(key, name))
        if wish.name != name:
            self.collisions += 1
            reason = shorten(f"{name} has the hash of {wish.name}")
            office.session.reject(message.request_id, RequestErrorCode.INTERNAL_ERROR, reason)
            return
        wish.request_id = message.request_id
        self._requests[message.request_id] = wish
        self._timers.cancel(key)
        if wish.data is not None and wish.found == now:
            self._accept(wish, message.request_id, wish.data)
            return
        if wish.data is not None:
            # What came since then found nobody here: streams that are open must go on in new ones.
            wish.data = None
            office.unwant(now, self, key, name)
        data = subscribe_data(name, message.parameters, office.draft)
        office.want(now, self, key, name, data)

    def event(self, now: float, event: RequestEvent) -> bool:
        """Whether this is about a wish; if so, it was acted on."""
        wish = self._requests.get(event.request_id)
        if wish is None:
            return False
        if isinstance(event, UpdateReceived):
            self._updated(now, wish, event)
        elif isinstance(event, RequestCancelled):
            self._cancelled(now, wish)
        return True

    def _updated(self, now: float, wish: _Wish, event: UpdateReceived) -> None:
        """The Edge's receivers want something else together."""
        self._office.session.accept(event.update_id)
        group = event.message.parameters.new_group_request
        if group is not None:
            asked = Parameters(subscription_filter=_LARGEST, new_group_request=group)
            data = subscribe_data(wish.name, asked, self._office.draft)
            self._office.want(now, self, wish.key, wish.name, data)

    def _cancelled(self, now: float, wish: _Wish) -> None:
        """The Edge unsubscribed, or has waited long enough for an answer."""
        waits = not wish.served and self._is_wanted(wish)
        self._close(wish)
        if waits:
            self._timers.set(wish.key, now + _RECHECK)
        else:
            self._drop(now, wish)

    def _is_wanted(self, wish: _Wish) -> bool:
        return self._office.relay.is_wanted(self._office.seam.number, wish.name)

    def _close(self, wish: _Wish) -> None:
        """Its request is over."""
        if wish.request_id is not None:
            del self._requests[wish.request_id]
        wish.request_id, wish.data, wish.served = None, None, False

    def _drop(self, now: float, wish: _Wish) -> None:
        del self._wishes[wish.key]
        self._timers.cancel(wish.key)
        self._office.unwant(now, self, wish.key, wish.name)

    # The others

    def answered(
        self, now: float, key: int, answer: Answer, code: int, reason: str, data: SubscribeData
    ) -> None:
        """What became of a wish."""
        wish = self._wishes.get(key)
        if wish is None:
            return
        if answer is not Answer.ACCEPTED:
            self._refuse(now, wish, code, reason, data)
        elif not wish.served:
            wish.data, wish.found = data, now
            if wish.request_id is not None:
                self._accept(wish, wish.request_id, data)
            else:
                office = self._office
                office.relay.ask_again(now, office.seam.number, wish.name)

    def _accept(self, wish: _Wish, request_id: int, data: SubscribeData) -> None:
        largest, properties = read_ok(data, self._office.draft)
        session = self._office.session
        parameters = Parameters(largest_object=largest)
        try:
            session.accept_subscribe(request_id, alias_of(wish.key), parameters, properties)
            wish.served = True
        except LocalError:
            # Two keys that differ in nothing that an alias has.
            self._close(wish)
            code, reason = RequestErrorCode.INTERNAL_ERROR, "the track alias is taken"
            session.reject(request_id, code, reason)

    def _refuse(self, now: float, wish: _Wish, code: int, reason: str, data: SubscribeData) -> None:
        """The others do not, or do not any more, have a track."""
        request_id, served = wish.request_id, wish.served
        self._close(wish)
        if self._timers.when(wish.key) is None:
            self._timers.set(wish.key, now + _RECHECK)
        if request_id is None:
            return
        session, reason = self._office.session, shorten(reason)
        if served:
            session.publish_done(request_id, done_status(code), STREAM_COUNT_UNKNOWN, reason)
        else:
            session.reject(request_id, request_error(code, data), reason)

    # Time

    def poll_timeout(self) -> float | None:
        """When :meth:`handle_timeout` wants to be called."""
        return self._timers.next()

    def handle_timeout(self, now: float) -> None:
        """Give up wishes that are none any more."""
        while (key := self._timers.pop(now)) is not None:
            wish = self._wishes[key]
            if self._is_wanted(wish):
                self._timers.set(key, now + _RECHECK)
            else:
                self._drop(now, wish)


_LARGEST: Final = SubscriptionFilter(FilterType.LARGEST_OBJECT)


@dataclass(slots=True, eq=False)
class _Pull:
    key: int
    name: FullTrackName
    request_id: int
    outlet: Outlet
    ok: SubscribeOk | None = None
    """The publisher's answer."""


class Pulls:
    """All of them, by key."""

    __slots__ = ("_office", "_pulls", "_requests", "outlets")

    def __init__(self, office: Office) -> None:
        self._office = office
        self._pulls: dict[int, _Pull] = {}
        self._requests: dict[int, _Pull] = {}
        self.outlets: dict[int, Outlet] = {}
        """Where objects go, by track alias."""

    def pull(
        self, now: float, key: int, name: FullTrackName, data: SubscribeData, feed: Feed
    ) -> None:
        """Subscribe to a track at the Edge; its objects go into the feed."""
        asked = read_subscribe(data)
        wishes = NO_PARAMETERS if asked is None else asked.parameters
        known = self._pulls.get(key)
        if known is not None:
            self._again(now, known, wishes, feed)
            return
        office, alias = self._office, alias_of(key)
        if alias in self.outlets:
            code, reason = SubscribeCode.HASH_COLLISION, "another track has the same alias"
            office.host.pull_refused(now, key, code, reason, SubscribeData())
            return
        parameters = Parameters(
            subscription_filter=_LARGEST,
            subscriber_priority=wishes.subscriber_priority,
            new_group_request=wishes.new_group_request,
        )
        try:
            request_id = office.session.subscribe(name, parameters)
        except LocalError as error:
            reason = f"the Edge takes no subscription: {error}"
            office.host.pull_refused(now, key, SubscribeCode.LIMIT, reason, SubscribeData())
            return
        pull = _Pull(key, name, request_id, Outlet(feed))
        self._pulls[key] = self._requests[request_id] = pull
        self.outlets[alias] = pull.outlet

    def _again(self, now: float, pull: _Pull, wishes: Parameters, feed: Feed) -> None:
        """The others ask again: they want something else of it, or have another feed for it."""
        pull.outlet.feed = feed
        if pull.ok is None:
            return
        office = self._office
        largest = office.relay.largest(pull.name)
        if largest is not None:
            pull.ok = replace(
                pull.ok, parameters=replace(pull.ok.parameters, largest_object=largest)
            )
        office.host.pulled(now, pull.key, ok_data(pull.ok, office.draft))
        if wishes.new_group_request is not None:
            update = Parameters(new_group_request=wishes.new_group_request)
            office.session.update(pull.request_id, update)

    def request_of(self, key: int) -> int | None:
        """Our SUBSCRIBE for a track."""
        pull = self._pulls.get(key)
        return None if pull is None else pull.request_id

    def release(self, key: int) -> None:
        """Nobody wants it any more."""
        pull = self._pulls.get(key)
        if pull is not None:
            self._forget(pull)
            self._office.session.cancel(pull.request_id)

    def _forget(self, pull: _Pull) -> None:
        del self._pulls[pull.key], self._requests[pull.request_id]
        del self.outlets[alias_of(pull.key)]

    def event(self, now: float, event: RequestEvent) -> bool:
        """Whether this is about a pull; if so, it was acted on."""
        pull = self._requests.get(event.request_id)
        if pull is None:
            return False
        key, host, draft = pull.key, self._office.host, self._office.draft
        match event:
            case RequestAccepted(message=SubscribeOk() as ok):
                facts = TrackProperties.of(ok.track_properties, draft)
                pull.outlet.priority = facts.publisher_priority
                pull.outlet.ttl_ms = facts.object_delivery_timeout or 0
                pull.ok = ok
                host.pulled(now, key, ok_data(ok, draft))
            case RequestRejected(message=error):
                self._forget(pull)
                code, data = subscribe_code(error.error_code), error_data(error, draft)
                host.pull_refused(now, key, code, error.reason, data)
            case PublishEnded(message=done):
                self._forget(pull)
                code = ended_code(draft, done.status_code)
                if code is SubscribeCode.ENDED:
                    host.pull_ended(now, key, done.reason)
                else:
                    host.pull_refused(now, key, code, done.reason, SubscribeData())
            case _:
                # Its stream was reset: the session lets nothing else pass for a SUBSCRIBE of ours.
                self._forget(pull)
                host.pull_ended(now, key, "the Edge ended it")
        return True


class Namespaces:
    """Our PUBLISH_NAMESPACEs."""

    __slots__ = ("_names", "_office", "_requests")

    def __init__(self, office: Office) -> None:
        self._office = office
        self._names: dict[Namespace, int] = {}
        self._requests: dict[int, Namespace] = {}

    def offer(self, namespace: Namespace) -> None:
        """Publish a namespace, once."""
        if namespace in self._names:
            return
        try:
            request_id = self._office.session.publish_namespace(namespace)
        except LocalError:
            return  # a name that MoQT cannot say, or an Edge that sends everybody away
        self._names[namespace] = request_id
        self._requests[request_id] = namespace

    def withdraw(self, namespace: Namespace) -> None:
        """Publish it no longer."""
        request_id = self._names.pop(namespace, None)
        if request_id is not None:
            del self._requests[request_id]
            self._office.session.cancel(request_id)

    def event(self, now: float, event: RequestEvent) -> bool:  # noqa: ARG002 - as all parts
        """Whether this is about a namespace; if so, it was acted on."""
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
    wanted: bool = False


class Publications:
    """Our PUBLISHes."""

    __slots__ = ("_office", "_requests", "_tracks", "_wishes")

    def __init__(self, office: Office, wishes: Wishes) -> None:
        self._office = office
        self._wishes = wishes
        self._tracks: dict[int, _Publication] = {}
        self._requests: dict[int, _Publication] = {}

    def offer(self, now: float, name: FullTrackName) -> None:
        """A track was announced."""
        key = self._office.key_of(name)
        if key not in self._tracks:
            track = self._tracks[key] = _Publication(key, name)
            self._forward(now, track, True)

    def withdraw(self, now: float, name: FullTrackName) -> None:
        """It is not any more."""
        track = self._tracks.pop(self._office.key_of(name), None)
        if track is not None:
            self._end(track, SubscribeCode.ENDED, "the publisher ended it")
            self._forward(now, track, False)

    def _forward(self, now: float, track: _Publication, wanted: bool) -> None:
        if wanted != track.wanted:
            track.wanted = wanted
            if wanted:
                data = subscribe_data(track.name, NO_PARAMETERS, self._office.draft)
                self._office.want(now, self, track.key, track.name, data)
            else:
                self._office.unwant(now, self, track.key, track.name)

    def _end(self, track: _Publication, code: int, reason: str) -> None:
        """The track has ended, for the Edge."""
        request_id, track.request_id = track.request_id, None
        if request_id is not None:
            del self._requests[request_id]
            self._office.session.publish_done(
                request_id, done_status(code), STREAM_COUNT_UNKNOWN, shorten(reason)
            )

    def answered(
        self, now: float, key: int, answer: Answer, code: int, reason: str, data: SubscribeData
    ) -> None:
        """What became of a subscribe for a track."""
        track = self._tracks.get(key)
        if track is None or not track.wanted:
            return
        if answer is not Answer.ACCEPTED:
            # It stays announced: who subscribes to it is told why not.
            self._end(track, code, reason)
            self._forward(now, track, False)
        elif track.request_id is None and not self._wishes.is_asked(key):
            self._publish(track, data)

    def _publish(self, track: _Publication, data: SubscribeData) -> None:
        largest, properties = read_ok(data, self._office.draft)
        parameters = Parameters(largest_object=largest)
        try:
            track.request_id = self._office.session.publish(
                track.name, alias_of(track.key), parameters, properties
            )
        except LocalError:
            return  # the alias is taken, or an Edge sends everybody away
        self._requests[track.request_id] = track

    def event(self, now: float, event: RequestEvent) -> bool:
        """Whether this is about a PUBLISH of ours; if so, it was acted on."""
        track = self._requests.get(event.request_id)
        if track is None:
            return False
        match event:
            case RequestAccepted(message=(RequestOk() | PublishOk()) as ok):
                self._forward(now, track, ok.parameters.forward is not False)
            case UpdateReceived():
                self._office.session.accept(event.update_id)
                forward = event.message.parameters.forward
                if forward is not None:
                    self._forward(now, track, forward)
            case _:
                # The Edge does not take it, or not any more.
                del self._requests[event.request_id]
                track.request_id = None
                self._forward(now, track, False)
        return True
