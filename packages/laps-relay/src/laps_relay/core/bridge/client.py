"""Other relays as a client of the Edge: what it wants from them, and what they want from it.

::

    Edge --SUBSCRIBE-----> Wish --wanted----------> host (the network, a Stub, a parent)
         <-SUBSCRIBE_OK--       <-answered--------
         --UNSUBSCRIBE-->       --unwanted------->

    Edge <-SUBSCRIBE------ Pull <-pull------------ host
         --SUBSCRIBE_OK->       --pulled--------->        objects: FeedEgress
         --PUBLISH_DONE->       --pull_ended----->

    Edge <-PUBLISH_NAMESPACE--- offer, withdraw -- host

A wish that was refused, or has ended, stays while somebody at the Edge still receives or waits: the
others may have the track later, and then the Edge is made to ask again.

Tracks are known by their key, the full-name hash; it is their alias, too, as far as an alias goes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from laps_relay.core.bridge.bodies import (
    DRAFT,
    error_data,
    ok_data,
    read_ok,
    read_subscribe,
    subscribe_data,
)
from laps_relay.core.bridge.codes import done_status, request_error, subscribe_code
from laps_relay.core.bridge.egress import FeedEgress, Outlet, alias_of
from laps_relay.core.bridge.virtual import VirtualClient
from laps_relay.core.control.codes import shorten
from laps_relay.core.control.relay import EdgeRelay
from laps_relay.core.control.settings import SessionInfo
from laps_relay.core.network.interfaces import Answer, Feed
from laps_relay.core.timers import Timers
from laps_wire.errors import LocalError
from laps_wire.hashing import KeyedHasher
from laps_wire.moqt.codepoints import FilterType, RequestErrorCode
from laps_wire.moqt.messages import STREAM_COUNT_UNKNOWN, Subscribe, SubscribeOk
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
from laps_wire.names import FullTrackName, Namespace
from laps_wire.peering.laps2 import SubscribeCode, SubscribeData

__all__ = ["EdgeClient", "EdgeClientHost"]

_RECHECK: Final = 5.0
"""How often the Edge is asked whether a wish that was refused is still one, in seconds."""
_LARGEST: Final = SubscriptionFilter(FilterType.LARGEST_OBJECT)


class EdgeClientHost(Protocol):
    """Whoever is behind the client."""

    def wanted(self, now: float, key: int, name: FullTrackName, data: SubscribeData) -> None:
        """The Edge wants a track; again, with other data, if its subscribers ask for more.

        Answer with :meth:`EdgeClient.answered`, now or later.
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

    def closed(self, now: float, code: int, reason: str) -> None:
        """The Edge ended the session, and with it everything."""


@dataclass(slots=True, eq=False)
class _Wish:
    """A track that the Edge wants."""

    key: int
    name: FullTrackName
    request_id: int | None
    """The Edge's SUBSCRIBE; None while it was told that there is nothing."""
    data: SubscribeData | None = None
    """The publisher's answer, once there is one."""
    served: bool = False


@dataclass(slots=True, eq=False)
class _Pull:
    """A track that the others want."""

    key: int
    name: FullTrackName
    request_id: int
    served: bool = False


class EdgeClient:
    """One session of an Edge with other relays behind it."""

    __slots__ = (
        "_hasher",
        "_host",
        "_offers",
        "_outlets",
        "_pulls",
        "_relay",
        "_requests",
        "_timers",
        "_virtual",
        "_wishes",
        "egress",
    )

    def __init__(
        self,
        relay: EdgeRelay,
        number: int,
        host: EdgeClientHost,
        hasher: KeyedHasher,
        clock: Callable[[], float],
        *,
        stop: Callable[[int, int], None] | None = None,
        setup: SetupOptions = NO_OPTIONS,
    ) -> None:
        self._relay = relay
        self._host = host
        self._hasher = hasher
        self._virtual = VirtualClient(relay, number, self._event, setup=setup)
        self._wishes: dict[int, _Wish] = {}
        self._pulls: dict[int, _Pull] = {}
        self._offers: dict[Namespace, int] = {}
        self._requests: dict[int, _Wish | _Pull | Namespace] = {}
        """What each request is about, whoever made it."""
        self._outlets: dict[int, Outlet] = {}
        self._timers: Timers[int] = Timers()
        self.egress = FeedEgress(clock, self._outlets, stop)

    def open(self, now: float, address: str, *, upstream: bool) -> None:
        """Become a session of the Edge, which logs show with this address."""
        info = SessionInfo(
            peer_address=address,
            draft=DRAFT,
            peering=True,
            upstream=upstream,
            alias=lambda name: alias_of(self.key_of(name)),
        )
        self._virtual.open(now, self.egress, info)

    def close(self, now: float) -> None:
        """Leave: what came from the others ends at the Edge."""
        self._virtual.close(now)
        self._outlets.clear()

    @property
    def number(self) -> int:
        """The Edge's number of the session."""
        return self._virtual.number

    def key_of(self, name: FullTrackName) -> int:
        """The full-name hash of a track."""
        return self._hasher.full_name(name.namespace.fields, name.name)

    # Time

    def pump(self, now: float) -> bool:
        """Carry control messages until all is quiet; whether there were any."""
        return self._virtual.pump(now)

    def poll_timeout(self) -> float | None:
        """When :meth:`handle_timeout` wants to be called."""
        return self._timers.next()

    def handle_timeout(self, now: float) -> None:
        """Give up wishes that are none any more."""
        while (key := self._timers.pop(now)) is not None:
            wish = self._wishes[key]
            if self._relay.is_wanted(self.number, wish.name):
                self._timers.set(key, now + _RECHECK)
            else:
                self._drop(now, wish)
        self.pump(now)

    # What the Edge says

    def _event(self, now: float, event: Event) -> None:
        match event:
            case RequestReceived(message=Subscribe() as message):
                self._wanted(now, message)
            case RequestReceived():
                code = RequestErrorCode.NOT_SUPPORTED
                self._virtual.session.reject(event.request_id, code, "there is only the present")
            case UpdateReceived():
                self._updated(now, event)
            case RequestAccepted() | RequestRejected() | PublishEnded() | RequestCancelled():
                self._about(now, event)
            case Terminated():
                self._host.closed(now, event.code, event.reason)
            case _:
                pass  # SETUP; everything else is about requests that we never make

    def _about(
        self,
        now: float,
        event: RequestAccepted | RequestRejected | PublishEnded | RequestCancelled,
    ) -> None:
        subject = self._requests.get(event.request_id)
        match subject:
            case _Wish() if isinstance(event, RequestCancelled):
                self._cancelled(now, subject)
            case _Pull():
                self._pull_event(now, subject, event)
            case Namespace() if not isinstance(event, RequestAccepted):
                del self._requests[event.request_id]
                self._offers.pop(subject, None)
            case _:
                pass

    # What the Edge wants

    def _wanted(self, now: float, message: Subscribe) -> None:
        name, session = message.track, self._virtual.session
        key = self.key_of(name)
        wish = self._wishes.get(key)
        if wish is None:
            wish = self._wishes[key] = _Wish(key, name, message.request_id)
        elif wish.name != name:
            reason = f"{name} has the hash of {wish.name}"
            session.reject(message.request_id, RequestErrorCode.INTERNAL_ERROR, shorten(reason))
            return
        wish.request_id = message.request_id
        self._requests[message.request_id] = wish
        self._timers.cancel(key)
        if wish.data is not None:
            self._accept(wish, wish.data)
        else:
            self._host.wanted(now, key, name, subscribe_data(name, message.parameters))

    def _updated(self, now: float, event: UpdateReceived) -> None:
        """The Edge's receivers want something else together."""
        self._virtual.session.accept(event.update_id)
        wish = self._requests.get(event.request_id)
        parameters = event.message.parameters
        if isinstance(wish, _Wish) and parameters.new_group_request is not None:
            asked = Parameters(
                subscription_filter=_LARGEST, new_group_request=parameters.new_group_request
            )
            self._host.wanted(now, wish.key, wish.name, subscribe_data(wish.name, asked))

    def answered(
        self,
        now: float,
        key: int,
        answer: Answer,
        *,
        code: int,
        reason: str,
        data: SubscribeData,
    ) -> None:
        """What became of a wish."""
        wish = self._wishes.get(key)
        if wish is None:
            return
        if answer is not Answer.ACCEPTED:
            self._refuse(now, wish, code, reason, data)
        elif not wish.served:
            wish.data = data
            if wish.request_id is not None:
                self._accept(wish, data)
            else:
                self._relay.ask_again(now, self.number, wish.name)
        self.pump(now)

    def _accept(self, wish: _Wish, data: SubscribeData) -> None:
        largest, properties = read_ok(data)
        session, request_id = self._virtual.session, wish.request_id
        if request_id is None:
            return
        alias = alias_of(wish.key)
        try:
            parameters = Parameters(largest_object=largest)
            session.accept_subscribe(request_id, alias, parameters, properties)
            wish.served = True
        except LocalError:
            # Two keys that differ above the alias's bits only.
            wish.request_id = wish.data = None
            del self._requests[request_id]
            code, reason = RequestErrorCode.INTERNAL_ERROR, "the track alias is taken"
            session.reject(request_id, code, reason)

    def _refuse(self, now: float, wish: _Wish, code: int, reason: str, data: SubscribeData) -> None:
        """The others do not, or do not any more, have a track."""
        request_id, served = wish.request_id, wish.served
        wish.request_id, wish.data, wish.served = None, None, False
        self._timers.set(wish.key, now + _RECHECK)
        if request_id is None:
            return
        del self._requests[request_id]
        session, reason = self._virtual.session, shorten(reason)
        if served:
            session.publish_done(request_id, done_status(code), STREAM_COUNT_UNKNOWN, reason)
        else:
            session.reject(request_id, request_error(code, data), reason)

    def _cancelled(self, now: float, wish: _Wish) -> None:
        """The Edge unsubscribed, or has waited long enough for an answer."""
        if wish.request_id is not None:
            del self._requests[wish.request_id]
        waits = not wish.served and self._relay.is_wanted(self.number, wish.name)
        wish.request_id, wish.data, wish.served = None, None, False
        if waits:
            self._timers.set(wish.key, now + _RECHECK)
        else:
            self._drop(now, wish)

    def _drop(self, now: float, wish: _Wish) -> None:
        del self._wishes[wish.key]
        self._timers.cancel(wish.key)
        self._host.unwanted(now, wish.key, wish.name)

    # What the others want

    def pull(
        self, now: float, key: int, name: FullTrackName, data: SubscribeData, feed: Feed
    ) -> None:
        """Subscribe to a track at the Edge; its objects go into the feed."""
        asked = read_subscribe(data)
        wishes = NO_PARAMETERS if asked is None else asked.parameters
        outlet = self._outlets.get(alias_of(key))
        pull = self._pulls.get(key)
        if pull is not None and outlet is not None:
            outlet.feed = feed
            if pull.served and wishes.new_group_request is not None:
                update = Parameters(new_group_request=wishes.new_group_request)
                self._virtual.session.update(pull.request_id, update)
                self.pump(now)
            return
        if outlet is not None:
            code, reason = SubscribeCode.HASH_COLLISION, "another track has the same alias"
            self._host.pull_refused(now, key, code, reason, SubscribeData())
            return
        try:
            request_id = self._virtual.session.subscribe(
                name,
                Parameters(
                    subscription_filter=_LARGEST,
                    subscriber_priority=wishes.subscriber_priority,
                    new_group_request=wishes.new_group_request,
                ),
            )
        except LocalError as error:
            reason = f"the Edge takes no subscription: {error}"
            self._host.pull_refused(now, key, SubscribeCode.LIMIT, reason, SubscribeData())
            return
        self._outlets[alias_of(key)] = Outlet(feed)
        pull = self._pulls[key] = self._requests[request_id] = _Pull(key, name, request_id)
        self.pump(now)

    def release(self, now: float, key: int) -> None:
        """Nobody wants it any more."""
        pull = self._pulls.get(key)
        if pull is None:
            return
        self._forget(pull)
        self._virtual.session.cancel(pull.request_id)
        self.pump(now)

    def _forget(self, pull: _Pull) -> None:
        del self._pulls[pull.key], self._requests[pull.request_id]
        del self._outlets[alias_of(pull.key)]

    def _pull_event(
        self,
        now: float,
        pull: _Pull,
        event: RequestAccepted | RequestRejected | PublishEnded | RequestCancelled,
    ) -> None:
        match event:
            case RequestAccepted(message=SubscribeOk() as ok):
                pull.served = True
                facts = TrackProperties.of(ok.track_properties, DRAFT)
                outlet = self._outlets[alias_of(pull.key)]
                outlet.priority = facts.publisher_priority
                outlet.ttl_ms = facts.object_delivery_timeout or 0
                self._host.pulled(now, pull.key, ok_data(ok))
            case RequestRejected(message=error):
                self._forget(pull)
                code, data = subscribe_code(error.error_code), error_data(error)
                self._host.pull_refused(now, pull.key, code, error.reason, data)
            case PublishEnded(message=done):
                self._forget(pull)
                self._host.pull_ended(now, pull.key, done.reason)
            case _:
                self._forget(pull)
                self._host.pull_ended(now, pull.key, "the Edge ended it")

    # Namespaces of the others

    def offer(self, now: float, namespace: Namespace) -> None:
        """Publish a namespace at the Edge, once."""
        if namespace in self._offers:
            return
        try:
            request_id = self._virtual.session.publish_namespace(namespace)
        except LocalError:
            return  # a name that MoQT cannot say, or an Edge that sends everybody away
        self._offers[namespace] = request_id
        self._requests[request_id] = namespace
        self.pump(now)

    def withdraw(self, now: float, namespace: Namespace) -> None:
        """Publish it no longer."""
        request_id = self._offers.pop(namespace, None)
        if request_id is not None:
            del self._requests[request_id]
            self._virtual.session.cancel(request_id)
            self.pump(now)
