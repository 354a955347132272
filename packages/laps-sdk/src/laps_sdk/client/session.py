"""``connect`` and the session that it returns: where every application begins."""

from __future__ import annotations

import functools
import itertools
import time
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Literal

from laps_sdk.client.core.names import NamespaceLike, TrackLike, to_namespace, to_track
from laps_sdk.client.core.numbering import Numbering, first_group
from laps_sdk.client.core.objects import TrackStatus
from laps_sdk.client.core.playback import Playback
from laps_sdk.client.core.progress import Gap
from laps_sdk.client.core.subscribe_options import (
    LocationLike,
    Start,
    SubscriptionOptions,
    fetch_end,
    to_filter,
    to_location,
)
from laps_sdk.client.core.window import WindowLimits
from laps_sdk.client.discovery import Announcement, Namespaces, Tracks
from laps_sdk.client.fetch import Fetch
from laps_sdk.client.link import Link, Offer
from laps_sdk.client.options import CLIENT_EGRESS, Backoff, ConnectOptions, TokenLike
from laps_sdk.client.publication import PublishedTrack
from laps_sdk.client.reconnect import Reconnector
from laps_sdk.client.reporter import Reporter
from laps_sdk.client.subscription import Subscription
from laps_sdk.errors import RequestError
from laps_sdk.quic.base import ConnectionLimits, ConnectionStats, EgressLimits
from laps_sdk.quic.endpoint import Backend
from laps_sdk.quic.moqt import DRAFTS
from laps_sdk.tokens.constants import TOKEN_TYPE_CAT
from laps_sdk.uri import RelayAddress, parse_address
from laps_wire.errors import EncodeError, StateError
from laps_wire.moqt.codepoints import GroupOrder, PropertyTypeD18, RequestErrorCode
from laps_wire.moqt.keyvalue import KeyValue, KeyValues
from laps_wire.moqt.messages import Fetch as FetchMessage
from laps_wire.moqt.messages import Publish as PublishMessage
from laps_wire.moqt.messages import RequestOk
from laps_wire.moqt.messages import Subscribe as SubscribeMessage
from laps_wire.moqt.messages import TrackStatus as TrackStatusMessage
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.properties import DEFAULT_PRIORITY, TrackProperties
from laps_wire.moqt.session import Event, RequestReceived
from laps_wire.moqt.structures import StandaloneFetch
from laps_wire.names import FullTrackName, Namespace
from laps_wire.reports import NAMESPACE

if TYPE_CHECKING:
    from typing import Self

    from laps_sdk.quic.memory.network import MemoryNetwork

__all__ = ["Order", "Overflow", "Session", "connect"]

Order = Literal["ascending", "descending"]
"""Which group goes first."""

Overflow = Literal["wait", "drop"]
"""A full receive queue holds the sender back, or drops its oldest object."""

_REPORT_PRIORITY: Final = 255
"""Reports give way to everything else that is sent."""

_ORDERS = {"ascending": GroupOrder.ASCENDING, "descending": GroupOrder.DESCENDING}


class Session:
    """A session with a relay; made by :func:`laps_sdk.connect`."""

    __slots__ = ("_aliases", "_announcements", "_published", "_reconnector", "_watchers")

    def __init__(self, address: RelayAddress, options: ConnectOptions) -> None:
        self._reconnector = Reconnector(address, options, self._request_received)
        self._aliases = itertools.count(1)
        self._published: dict[FullTrackName, PublishedTrack] = {}
        self._watchers: dict[Tracks, None] = {}
        self._announcements: dict[Namespace, Announcement] = {}

    # Life

    async def __aenter__(self) -> Self:
        await self._reconnector.start()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        await self._close(drain=error is None)

    async def close(self) -> None:
        """End every track and the session; what was written goes out first."""
        await self._close(drain=True)

    async def _close(self, *, drain: bool) -> None:
        for track in list(self._published.values()):
            track.end_now()
        await self._reconnector.close(drain=drain)

    # Getters

    @property
    def address(self) -> RelayAddress:
        """Where the relay is; a relay that goes away may say where to go."""
        return self._reconnector.address

    @property
    def connected(self) -> bool:
        """Whether there is a connection now."""
        return self._reconnector.link is not None

    @property
    def draft(self) -> str | None:
        """The draft that is spoken now, ``moqt-18`` or ``moqt-16``."""
        link = self._reconnector.link
        return None if link is None else link.draft.alpn

    @property
    def relay(self) -> str | None:
        """What the relay says about its software."""
        link = self._reconnector.link
        return None if link is None else link.setup.moqt_implementation

    @property
    def reconnects(self) -> int:
        """How many connections followed the first one."""
        return self._reconnector.reconnects

    @property
    def rtt(self) -> float | None:
        """The smoothed round-trip time in seconds, once there is one."""
        link = self._reconnector.link
        return None if link is None else link.connection.rtt

    @property
    def stats(self) -> ConnectionStats | None:
        """Figures of the present connection."""
        link = self._reconnector.link
        return None if link is None else link.connection.stats()

    # Publishing

    async def publish(
        self,
        namespace: TrackLike,
        name: str | bytes | None = None,
        *,
        announce: bool = False,
        priority: int = DEFAULT_PRIORITY,
        forward: bool = True,
        timestamps: bool = True,
        first: int | None = None,
        cache_duration: float | None = None,
        delivery_timeout: float | None = None,
        order: Order = "ascending",
        properties: KeyValues = (),
    ) -> PublishedTrack:
        """Offer a track to the relay, and wait until it has taken it.

        With ``announce`` only its namespace is told, and the relay subscribes when somebody wants
        the track. ``first`` is the number of its first group; without it the clock says. Objects
        carry the time at which they were written unless ``timestamps`` is False.
        """
        track_name = to_track(namespace, name)
        if track_name in self._published:
            raise StateError(f"{track_name} is published already")
        track = PublishedTrack(
            self._reconnector,
            track_name,
            alias=next(self._aliases),
            announce=announce,
            priority=priority,
            forward=forward,
            timestamps=timestamps,
            numbering=Numbering(first_group(time.time()) if first is None else first),
            properties=_properties(
                priority, cache_duration, delivery_timeout, _ORDERS[order], properties
            ),
            ended=self._track_ended,
        )
        self._published[track_name] = track
        try:
            await self._reconnector.join(track)
            if announce:
                await self._announce(track_name)
        except BaseException:
            track.end_now()
            raise
        return track

    async def _announce(self, track: FullTrackName) -> None:
        namespace = track.namespace
        announcement = self._announcements.get(namespace)
        if announcement is None:
            announcement = self._announcements[namespace] = Announcement(
                self._reconnector, namespace
            )
            announcement.users.add(track)
            await self._reconnector.join(announcement)
        else:
            announcement.users.add(track)

    def _track_ended(self, track: PublishedTrack) -> None:
        self._published.pop(track.name, None)
        announcement = self._announcements.get(track.name.namespace)
        # A track that failed before it was announced takes nothing back from the others.
        if announcement is not None and track.name in announcement.users:
            announcement.users.discard(track.name)
            if not announcement.users:
                del self._announcements[track.name.namespace]
                announcement.end()

    def reports(
        self,
        content: str | None = None,
        *,
        playback: str | None = None,
        namespace: NamespaceLike = NAMESPACE,
        interval: float = 10.0,
    ) -> Reporter:
        """Tell the relay how a playback goes: to be used with ``async with``.

        ``content`` is what is played, ``playback`` the random id of this playing of it; the relay
        keeps hashes of both. A report goes out every ``interval`` seconds, and when something
        happens. It gives way to everything else that is sent, and a relay that wants none is no
        error.
        """
        if interval < 1:
            raise EncodeError(f"interval {interval}: must be 1 second or more")
        told = Playback(uuid.uuid4().hex if playback is None else playback, content)
        name = FullTrackName(to_namespace(namespace), told.session.encode())
        publish = functools.partial(
            self.publish, name, priority=_REPORT_PRIORITY, first=0, timestamps=False
        )
        return Reporter(publish, told, interval)

    # Subscribing

    def subscribe(
        self,
        namespace: TrackLike,
        name: str | bytes | None = None,
        *,
        start: Start = "latest",
        end: int | None = None,
        join: int | None = None,
        priority: int | None = None,
        order: Order | None = None,
        delivery_timeout: float | None = None,
        wait: float = 1.0,
        follow: bool = False,
        max_objects: int = 4096,
        max_bytes: int = 16 * 1024 * 1024,
        overflow: Overflow = "wait",
        on_gap: Callable[[Gap], None] | None = None,
        gap_after: float = 3.0,
    ) -> Subscription:
        """The objects of a track from now on.

        ``start`` is ``"latest"`` (the next object), ``"next-group"``, a group, or a location;
        ``end`` the last group. ``join`` first fetches so many groups before the present one, and
        the present one up to now. ``wait`` is how many seconds to wait for a publisher.

        A publisher that is lost without having ended the track ends the subscription with
        ``SubscriptionEndedError``. With ``follow`` the subscription then waits for the next
        publisher, however long that takes, and goes on with what that one sends. A connection
        to the relay that is lost is made again either way.

        The queue holds ``max_objects`` and ``max_bytes``; over that the relay is held back, or with
        ``overflow="drop"`` the oldest is thrown away and counted.

        ``on_gap`` is called for objects that did not arrive: at once if they cannot come any more
        (the connection was lost and no cache has them, or the subscription has ended), and else
        ``gap_after`` seconds after the streams of their group have ended and a later group has
        begun, or the end of their group is known. Streams overtake each other, most of all while
        a way in the network changes, so what is missing may be under way. An object that comes
        even later is given out like any other, and counted in ``late``.
        """
        return Subscription(
            self._reconnector,
            to_track(namespace, name),
            SubscriptionOptions(
                filter=to_filter(start, end),
                join=join,
                priority=priority,
                order=None if order is None else _ORDERS[order],
                delivery_timeout=delivery_timeout,
                wait=wait,
                follow=follow,
                gap_after=gap_after,
                limits=WindowLimits(
                    max_objects=max_objects, max_bytes=max_bytes, drop=overflow == "drop"
                ),
            ),
            on_gap,
            self._find_offer,
        )

    def fetch(
        self,
        namespace: TrackLike,
        name: str | bytes | None = None,
        *,
        start: LocationLike,
        end: LocationLike,
        priority: int | None = None,
        order: Order = "ascending",
        max_objects: int = 4096,
        max_bytes: int = 16 * 1024 * 1024,
    ) -> Fetch:
        """Objects of the past, from ``start`` to ``end``: groups, or locations; both included."""
        return Fetch(
            self._reconnector,
            to_track(namespace, name),
            to_location(start),
            fetch_end(end),
            parameters=Parameters(subscriber_priority=priority, group_order=_ORDERS[order]),
            limits=WindowLimits(max_objects=max_objects, max_bytes=max_bytes),
        )

    # Looking around

    def namespaces(self, prefix: NamespaceLike = "") -> Namespaces:
        """News of namespaces that begin with ``prefix``; the empty one is the beginning of all."""
        return Namespaces(self._reconnector, to_namespace(prefix))

    def tracks(self, prefix: NamespaceLike = "", *, top_n: int | None = None) -> Tracks:
        """News of tracks that are published below ``prefix``.

        With ``top_n`` only of those that rank highest, as far as the relay can tell them by the
        ranking property of their objects. Draft 16; in draft 18 say it to ``connect``.
        """
        return Tracks(self._reconnector, to_namespace(prefix), self._watchers, top_n)

    async def track_status(
        self, namespace: TrackLike, name: str | bytes | None = None
    ) -> TrackStatus:
        """What a subscription would find."""
        track = to_track(namespace, name)
        link = await self._reconnector.link_in_time()
        what = f"TRACK_STATUS {track}"
        request = await link.ask(what, lambda session: session.track_status(track), _ignore)
        answer = await request.answered(self._reconnector.options.timeout)
        link.forget(request.id)
        if not isinstance(answer, RequestOk):
            raise RequestError(f"{what}: the relay answered {type(answer).__name__}")
        expires = answer.parameters.expires
        return TrackStatus(
            track=track,
            largest=answer.parameters.largest_object,
            expires=expires / 1000 if expires else None,
            properties=TrackProperties.of(answer.track_properties, link.draft),
        )

    # Requests of the relay

    def _request_received(self, link: Link, event: RequestReceived) -> None:
        """Let a track answer, or reject the request; ``MoqtPeer.settle`` sends the answer."""
        session, message = link.peer.session, event.message
        match message:
            case SubscribeMessage() | TrackStatusMessage():
                track = message.track
            case FetchMessage(target=StandaloneFetch(track=track)):
                pass
            case PublishMessage():
                if not any(one.publish_received(link, event, message) for one in self._watchers):
                    code = RequestErrorCode.UNINTERESTED
                    session.reject(event.request_id, code, "nobody asked for it")
                return
            case _:
                code = RequestErrorCode.NOT_SUPPORTED
                session.reject(event.request_id, code, "this is a client")
                return
        published = self._published.get(track)
        if published is None:
            code = RequestErrorCode.DOES_NOT_EXIST
            session.reject(event.request_id, code, "no such track here")
        else:
            published.request_received(link, event)

    def _find_offer(self, link: Link, track: FullTrackName) -> Offer | None:
        """Return the PUBLISH of a track that was accepted on a link; None if there is none."""
        for watcher in self._watchers:
            offer = watcher.offer_of(link, track)
            if offer is not None:
                return offer
        return None


def _ignore(event: Event) -> None:
    """A status has nothing behind its answer."""


def _properties(
    priority: int,
    cache_duration: float | None,
    delivery_timeout: float | None,
    order: GroupOrder,
    others: KeyValues,
) -> KeyValues:
    """The properties of a track; what is the default is left out."""
    pairs = list(others)
    if delivery_timeout is not None:
        milliseconds = max(1, int(delivery_timeout * 1000))
        pairs.append(KeyValue(PropertyTypeD18.OBJECT_DELIVERY_TIMEOUT, milliseconds))
    if cache_duration is not None:
        pairs.append(KeyValue(PropertyTypeD18.MAX_CACHE_DURATION, int(cache_duration * 1000)))
    if priority != DEFAULT_PRIORITY:
        pairs.append(KeyValue(PropertyTypeD18.DEFAULT_PUBLISHER_PRIORITY, priority))
    if order is not GroupOrder.ASCENDING:
        pairs.append(KeyValue(PropertyTypeD18.DEFAULT_PUBLISHER_GROUP_ORDER, order))
    return tuple(sorted(pairs, key=lambda pair: pair.type))


def connect(
    address: str | RelayAddress,
    *,
    ca_file: str | None = None,
    pin: str | None = None,
    insecure: bool = False,
    token: TokenLike = None,
    token_type: int = TOKEN_TYPE_CAT,
    transport: Backend = "aioquic",
    drafts: Sequence[str] = DRAFTS,
    reconnect: bool = True,
    timeout: float = 10.0,
    backoff: Backoff | None = None,
    limits: ConnectionLimits | None = None,
    egress: EgressLimits | None = None,
    top_n: int | None = None,
    network: MemoryNetwork | None = None,
) -> Session:
    """A session with a relay, to be used with ``async with``.

    ``moqt://host:33435`` is raw QUIC, ``https://host:33435/moq`` WebTransport.

    The certificate is checked against the system's authorities, against ``ca_file``, or only by its
    SHA-256 (``pin``, as ``laps-relay dev-cert`` prints it). On loopback the development certificate
    of a relay of the same user is found by itself. ``insecure`` takes any.

    ``token`` authorizes the session: a token, or a function that gives a fresh one for each
    connection. ``timeout`` is how long to wait for a connection and for each answer, in seconds.
    A connection that is lost is made again, unless ``reconnect`` is False; ``backoff`` says when.
    ``top_n`` asks for only so many tracks below each prefix, those that rank highest.
    ``network`` is for tests: the memory network on which ``address`` is.
    """
    return Session(
        parse_address(address) if isinstance(address, str) else address,
        ConnectOptions(
            ca_file=ca_file,
            pin=pin,
            insecure=insecure,
            token=token,
            token_type=token_type,
            transport=transport,
            drafts=tuple(drafts),
            reconnect=reconnect,
            timeout=timeout,
            backoff=backoff or Backoff(),
            limits=limits or ConnectionLimits(),
            egress=egress or CLIENT_EGRESS,
            top_n=top_n,
            network=network,
        ),
    )
