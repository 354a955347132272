"""News about what is there: namespaces and tracks below a prefix."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from laps_sdk.client.core.names import namespace_path, track_path
from laps_sdk.client.core.objects import NamespaceAdded, NamespaceRemoved, TrackAdded, TrackRemoved
from laps_sdk.client.iteration import ItemIterator, ReceiveQueue
from laps_sdk.client.link import Link, Offer, Request
from laps_sdk.errors import RequestError
from laps_wire.moqt.codepoints import SubscribeOptions
from laps_wire.moqt.keyvalue import KeyValues
from laps_wire.moqt.messages import Publish
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.session import (
    Event,
    NamespaceAdvertised,
    NamespaceWithdrawn,
    PublishEnded,
    RequestCancelled,
    RequestReceived,
    TrackBlocked,
)
from laps_wire.moqt.top_n import top_n_parameter
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace

if TYPE_CHECKING:
    from laps_sdk.client.reconnect import Hub

__all__ = ["Announcement", "Namespaces", "Tracks"]

E = TypeVar("E")


class _News(ItemIterator[E]):
    """Events below a prefix: what namespaces and tracks have in common."""

    __slots__ = ("_done", "_hub", "_link", "_request", "prefix")

    def __init__(self, hub: Hub, prefix: Namespace) -> None:
        super().__init__(ReceiveQueue())
        self._hub = hub
        self.prefix = prefix
        self._link: Link | None = None
        self._request: Request | None = None
        self._done = False

    async def _begin(self) -> None:
        await self._hub.join(self)

    def _finish(self) -> None:
        self._stop(None)

    def fail(self, error: Exception) -> None:
        """See ``Durable``."""
        self._stop(error)

    def _stop(self, error: Exception | None) -> None:
        if self._done:
            return
        self._done = True
        self._hub.leave(self)
        self._leave()
        if self._request is not None:
            self._request.give_up()
        self._queue.end(error)

    async def attach(self, link: Link) -> None:
        """See ``Durable``."""
        request = await self._ask(link)
        await request.answered(self._hub.options.timeout)
        self._link, self._request = link, request

    async def _ask(self, link: Link) -> Request:
        raise NotImplementedError

    def detach(self, link: Link) -> None:
        """See ``Durable``."""
        if self._link is link:
            self._link = self._request = None
            self._forget()

    def _leave(self) -> None:
        """Nobody is interested any more."""

    def _forget(self) -> None:
        """What was known is not known any more."""

    def _put(self, event: E) -> None:
        self._queue.put(event, 1)

    def _ended(self, link: Link, event: RequestCancelled) -> None:
        link.forget(event.request_id)
        words = event.reason or "without a reason"
        self._stop(RequestError(f"{namespace_path(self.prefix)}: the relay ended it: {words}"))


class Namespaces(_News[NamespaceAdded | NamespaceRemoved]):
    """Which namespaces begin with a prefix, and when they go."""

    __slots__ = ("known",)

    def __init__(self, hub: Hub, prefix: Namespace) -> None:
        super().__init__(hub, prefix)
        self.known: dict[Namespace, None] = {}
        """Those that are there now."""

    async def _ask(self, link: Link) -> Request:
        return await link.ask(
            f"SUBSCRIBE_NAMESPACE {self.prefix}",
            lambda session: session.subscribe_namespace(self.prefix),
            lambda event: self._heard(link, event),
        )

    def _heard(self, link: Link, event: Event) -> None:
        match event:
            case NamespaceAdvertised(namespace=namespace):
                if namespace not in self.known:
                    self.known[namespace] = None
                    self._put(NamespaceAdded(namespace=namespace, path=namespace_path(namespace)))
            case NamespaceWithdrawn(namespace=namespace):
                self._gone(namespace)
            case RequestCancelled():
                self._ended(link, event)
            case _:
                pass

    def _gone(self, namespace: Namespace) -> None:
        if namespace in self.known:
            del self.known[namespace]
            self._put(NamespaceRemoved(namespace=namespace, path=namespace_path(namespace)))

    def _forget(self) -> None:
        for namespace in list(self.known):
            self._gone(namespace)


class Tracks(_News[TrackAdded | TrackRemoved]):
    """Which tracks are published below a prefix, and when they end."""

    __slots__ = ("_top_n", "known")

    def __init__(self, hub: Hub, prefix: Namespace, top_n: int | None = None) -> None:
        super().__init__(hub, prefix)
        self._top_n = top_n
        self.known: dict[FullTrackName, Offer | None] = {}
        """Those that are there now."""

    async def _ask(self, link: Link) -> Request:
        what = f"SUBSCRIBE_TRACKS {self.prefix}"
        ranked: KeyValues = ()
        if self._top_n is not None:
            ranked = top_n_parameter(self._top_n, link.draft, link.setup.unknown)
        quiet = Parameters(forward=False, ignored=ranked)
        self._hub.offered[self] = None
        if link.draft is Draft.D16:
            options = SubscribeOptions.PUBLISH
            return await link.ask(
                what,
                lambda session: session.subscribe_namespace(self.prefix, options, quiet),
                lambda event: self._heard(link, event),
            )
        return await link.ask(
            what,
            lambda session: session.subscribe_tracks(self.prefix, quiet),
            lambda event: self._heard(link, event),
        )

    def offered(self, link: Link, event: RequestReceived, message: Publish) -> bool:
        """Take a PUBLISH if its track is below our prefix."""
        track = message.track
        if self._done or not self.prefix.is_prefix_of(track.namespace):
            return False
        link.peer.session.accept(event.request_id, Parameters(forward=False))
        link.adopt(
            event.request_id, f"PUBLISH {track}", lambda later: self._of_track(link, offer, later)
        )
        offer = Offer(link, event.request_id, message)
        self._add(track, offer, message)
        return True

    def offer_of(self, link: Link, track: FullTrackName) -> Offer | None:
        """A PUBLISH that stands for this track on a link, if there is one."""
        offer = self.known.get(track)
        return offer if offer is not None and offer.link is link else None

    def _add(self, track: FullTrackName, offer: Offer | None, message: Publish | None) -> None:
        new = track not in self.known
        self.known[track] = offer
        if new:
            largest = None if message is None else message.parameters.largest_object
            self._put(TrackAdded(track=track, path=track_path(track), largest=largest))

    def _of_track(self, link: Link, offer: Offer, event: Event) -> None:
        match event:
            case PublishEnded() | RequestCancelled():
                link.forget(event.request_id)
                self._gone(offer.message.track)
            case _:
                pass
        if offer.user is not None:
            offer.user(event)

    def _heard(self, link: Link, event: Event) -> None:
        match event:
            case TrackBlocked(track=track):
                self._add(track, None, None)
            case RequestCancelled():
                self._ended(link, event)
            case _:
                pass

    def _gone(self, track: FullTrackName) -> None:
        if track in self.known:
            del self.known[track]
            self._put(TrackRemoved(track=track, path=track_path(track)))

    def _forget(self) -> None:
        for track in list(self.known):
            self._gone(track)

    def _leave(self) -> None:
        self._hub.offered.pop(self, None)
        for offer in self.known.values():
            if offer is not None and offer.user is None:
                offer.end()


class Announcement:
    """A namespace that we announce, on every link; see ``Durable``."""

    __slots__ = ("_hub", "_request", "namespace", "users")

    def __init__(self, hub: Hub, namespace: Namespace) -> None:
        self._hub = hub
        self.namespace = namespace
        self._request: Request | None = None
        self.users: set[FullTrackName] = set()
        """Tracks that need it."""

    async def attach(self, link: Link) -> None:
        """See ``Durable``."""
        request = await link.ask(
            f"PUBLISH_NAMESPACE {self.namespace}",
            lambda session: session.publish_namespace(self.namespace),
            lambda event: self._heard(link, event),
        )
        await request.answered(self._hub.options.timeout)
        self._request = request

    def _heard(self, link: Link, event: Event) -> None:
        if isinstance(event, RequestCancelled):
            link.forget(event.request_id)
            self._request = None

    def detach(self, link: Link) -> None:
        """See ``Durable``."""
        if self._request is not None and self._request.link is link:
            self._request = None

    def fail(self, error: Exception) -> None:  # noqa: ARG002 - the interface
        """See ``Durable``."""
        self._request = None

    def end(self) -> None:
        """Take it back."""
        self._hub.leave(self)
        request, self._request = self._request, None
        if request is not None:
            request.give_up()
