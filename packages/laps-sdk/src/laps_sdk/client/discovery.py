"""Discovery: the namespaces and tracks below a prefix, and the namespaces that we announce.

::

    SUBSCRIBE_NAMESPACE -> NAMESPACE, NAMESPACE_DONE     -> Namespaces -> async for
    SUBSCRIBE_TRACKS    -> PUBLISH (forward 0), its end  -> Tracks     -> async for
    PUBLISH_NAMESPACE   <- Announcement
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from laps_sdk.client.core.objects import (
    NamespaceAdded,
    NamespaceRemoved,
    TrackAdded,
    TrackRemoved,
    namespace_path,
    track_path,
)
from laps_sdk.client.iteration import ItemIterator, ReceiveQueue
from laps_sdk.client.link import Link, Offer, Request
from laps_sdk.client.reconnect import Reconnector
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

__all__ = ["Announcement", "Namespaces", "Tracks"]


class _PrefixRequest:
    """A request about a prefix, made on every link: a ``Durable``.

    ``ask`` sends it, ``lost`` is called when its link is gone, ``end`` when it fails for good.
    """

    __slots__ = ("_ask", "_end", "_link", "_lost", "_prefix", "_reconnector", "_request")

    def __init__(
        self,
        reconnector: Reconnector,
        prefix: Namespace,
        *,
        ask: Callable[[Link], Awaitable[Request]],
        lost: Callable[[], None],
        end: Callable[[Exception], None],
    ) -> None:
        self._reconnector = reconnector
        self._prefix = prefix
        self._ask = ask
        self._lost = lost
        self._end = end
        self._link: Link | None = None
        self._request: Request | None = None

    async def start(self) -> None:
        """Make the request now, and again on later links."""
        await self._reconnector.join(self)

    async def attach(self, link: Link) -> None:
        """See ``Durable``."""
        request = await self._ask(link)
        await request.answered(self._reconnector.options.timeout)
        self._link, self._request = link, request

    def detach(self, link: Link) -> None:
        """See ``Durable``."""
        if self._link is link:
            self._link = self._request = None
            self._lost()

    def fail(self, error: Exception) -> None:
        """See ``Durable``."""
        self._end(error)

    def cancelled(self, link: Link, event: RequestCancelled) -> None:
        """Fail because the relay ended the request."""
        link.forget(event.request_id)
        reason = event.reason or "without a reason"
        path = namespace_path(self._prefix)
        self._end(RequestError(f"{path}: the relay ended the request: {reason}"))

    def withdraw(self) -> None:
        """End the request on the current link and make it on no other."""
        self._reconnector.leave(self)
        if self._request is not None:
            self._request.give_up()


class Namespaces(ItemIterator[NamespaceAdded | NamespaceRemoved]):
    """Additions and removals of namespaces below a prefix.

    :meth:`laps_sdk.Session.namespaces` makes it; ``async for`` returns the events.
    """

    __slots__ = ("_watch", "known", "prefix")

    def __init__(self, reconnector: Reconnector, prefix: Namespace) -> None:
        super().__init__(ReceiveQueue())
        self.prefix = prefix
        self.known: dict[Namespace, None] = {}
        """The namespaces that exist now."""
        self._watch = _PrefixRequest(
            reconnector, prefix, ask=self._ask, lost=self._forget, end=self._end
        )

    async def _begin(self) -> None:
        await self._watch.start()

    def _finish(self) -> None:
        self._watch.withdraw()

    async def _ask(self, link: Link) -> Request:
        return await link.ask(
            f"SUBSCRIBE_NAMESPACE {self.prefix}",
            lambda session: session.subscribe_namespace(self.prefix),
            lambda event: self._received(link, event),
        )

    def _received(self, link: Link, event: Event) -> None:
        match event:
            case NamespaceAdvertised(namespace=namespace):
                if namespace not in self.known:
                    self.known[namespace] = None
                    path = namespace_path(namespace)
                    self._queue.put(NamespaceAdded(namespace=namespace, path=path), 1)
            case NamespaceWithdrawn(namespace=namespace):
                self._remove(namespace)
            case RequestCancelled():
                self._watch.cancelled(link, event)
            case _:
                pass

    def _remove(self, namespace: Namespace) -> None:
        if namespace in self.known:
            del self.known[namespace]
            path = namespace_path(namespace)
            self._queue.put(NamespaceRemoved(namespace=namespace, path=path), 1)

    def _forget(self) -> None:
        for namespace in list(self.known):
            self._remove(namespace)


class Tracks(ItemIterator[TrackAdded | TrackRemoved]):
    """Additions and removals of tracks that are published below a prefix.

    :meth:`laps_sdk.Session.tracks` makes it; ``async for`` returns the events.
    """

    __slots__ = ("_active", "_top_n", "_watch", "known", "prefix")

    def __init__(
        self,
        reconnector: Reconnector,
        prefix: Namespace,
        active: dict[Tracks, None],
        top_n: int | None = None,
    ) -> None:
        super().__init__(ReceiveQueue())
        self.prefix = prefix
        self._top_n = top_n
        self.known: dict[FullTrackName, Offer | None] = {}
        """The tracks that exist now."""
        self._active = active
        """The session's table of those to which it shows each PUBLISH of the relay."""
        self._watch = _PrefixRequest(
            reconnector, prefix, ask=self._ask, lost=self._forget, end=self._end
        )

    async def _begin(self) -> None:
        await self._watch.start()

    def _finish(self) -> None:
        self._active.pop(self, None)
        for offer in self.known.values():
            if offer is not None and offer.user is None:
                offer.end()
        self._watch.withdraw()

    async def _ask(self, link: Link) -> Request:
        what = f"SUBSCRIBE_TRACKS {self.prefix}"
        ranked: KeyValues = ()
        if self._top_n is not None:
            ranked = top_n_parameter(self._top_n, link.draft, link.setup.unknown)
        quiet = Parameters(forward=False, ignored=ranked)
        self._active[self] = None
        if link.draft is Draft.D16:
            options = SubscribeOptions.PUBLISH
            return await link.ask(
                what,
                lambda session: session.subscribe_namespace(self.prefix, options, quiet),
                lambda event: self._received(link, event),
            )
        return await link.ask(
            what,
            lambda session: session.subscribe_tracks(self.prefix, quiet),
            lambda event: self._received(link, event),
        )

    def publish_received(self, link: Link, event: RequestReceived, message: Publish) -> bool:
        """Accept a PUBLISH of the relay without its objects; False if the prefix is another."""
        track = message.track
        if self._ended or not self.prefix.is_prefix_of(track.namespace):
            return False
        link.peer.session.accept(event.request_id, Parameters(forward=False))
        link.adopt(
            event.request_id, f"PUBLISH {track}", lambda later: self._of_track(link, offer, later)
        )
        offer = Offer(link, event.request_id, message)
        self._add(track, offer, message)
        return True

    def offer_of(self, link: Link, track: FullTrackName) -> Offer | None:
        """Return the accepted PUBLISH of a track on a link; None if there is none."""
        offer = self.known.get(track)
        return offer if offer is not None and offer.link is link else None

    def _add(self, track: FullTrackName, offer: Offer | None, message: Publish | None) -> None:
        new = track not in self.known
        self.known[track] = offer
        if new:
            largest = None if message is None else message.parameters.largest_object
            added = TrackAdded(track=track, path=track_path(track), largest=largest)
            self._queue.put(added, 1)

    def _of_track(self, link: Link, offer: Offer, event: Event) -> None:
        match event:
            case PublishEnded() | RequestCancelled():
                link.forget(event.request_id)
                self._remove(offer.message.track)
            case _:
                pass
        if offer.user is not None:
            offer.user(event)

    def _received(self, link: Link, event: Event) -> None:
        match event:
            case TrackBlocked(track=track):
                self._add(track, None, None)
            case RequestCancelled():
                self._watch.cancelled(link, event)
            case _:
                pass

    def _remove(self, track: FullTrackName) -> None:
        if track in self.known:
            del self.known[track]
            self._queue.put(TrackRemoved(track=track, path=track_path(track)), 1)

    def _forget(self) -> None:
        for track in list(self.known):
            self._remove(track)


class Announcement:
    """A namespace that this session announces, on every link: a ``Durable``."""

    __slots__ = ("_reconnector", "_request", "namespace", "users")

    def __init__(self, reconnector: Reconnector, namespace: Namespace) -> None:
        self._reconnector = reconnector
        self.namespace = namespace
        self._request: Request | None = None
        self.users: set[FullTrackName] = set()
        """Tracks of this namespace that are published."""

    async def attach(self, link: Link) -> None:
        """See ``Durable``."""
        request = await link.ask(
            f"PUBLISH_NAMESPACE {self.namespace}",
            lambda session: session.publish_namespace(self.namespace),
            lambda event: self._received(link, event),
        )
        await request.answered(self._reconnector.options.timeout)
        self._request = request

    def _received(self, link: Link, event: Event) -> None:
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
        """Withdraw the announcement."""
        self._reconnector.leave(self)
        request, self._request = self._request, None
        if request is not None:
            request.give_up()
