"""``connect`` and :class:`Session`: the entry points of every application."""

from __future__ import annotations

import asyncio
import functools
import itertools
import secrets
import time
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Literal

from laps_sdk.client.core.numbering import Numbering, first_group
from laps_sdk.client.core.objects import (
    NamespaceLike,
    TrackLike,
    TrackStatus,
    to_namespace,
    to_track,
    track_path,
)
from laps_sdk.client.core.playback import Playback
from laps_sdk.client.core.progress import Gap
from laps_sdk.client.core.subscribe_options import (
    LocationLike,
    Start,
    SubscriptionOptions,
    WindowLimits,
    fetch_end,
    to_filter,
    to_location,
)
from laps_sdk.client.dial import CLIENT_EGRESS, DEAD_AFTER, Backoff, ConnectOptions, TokenLike
from laps_sdk.client.discovery import Announcement, Namespaces, Tracks
from laps_sdk.client.fetch import Fetch
from laps_sdk.client.link import Link, Offer
from laps_sdk.client.publication import PublishedTrack
from laps_sdk.client.reconnect import Reconnector
from laps_sdk.client.reporter import Reporter
from laps_sdk.client.subscription import Subscription
from laps_sdk.errors import ConnectionLostError, RequestError
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
from laps_wire.moqt.parameters import (
    DEFAULT_PRIORITY,
    PUBLISHER_INSTANCE,
    Parameters,
    TrackProperties,
)
from laps_wire.moqt.session import Event, RequestReceived
from laps_wire.moqt.structures import StandaloneFetch
from laps_wire.names import FullTrackName, Namespace
from laps_wire.reports import NAMESPACE

if TYPE_CHECKING:
    from typing import Self

    from laps_sdk.quic.memory.network import MemoryNetwork

__all__ = ["Order", "Overflow", "Session", "connect"]

Order = Literal["ascending", "descending"]
"""The order in which groups are delivered."""

Overflow = Literal["wait", "drop"]
"""A full receive queue either holds the sender back or drops its oldest object."""

_REPORT_PRIORITY: Final = 255
"""The lowest priority: everything else is sent before reports."""

_ORDERS = {"ascending": GroupOrder.ASCENDING, "descending": GroupOrder.DESCENDING}


class Session:
    """A session with a relay; :func:`laps_sdk.connect` makes it."""

    __slots__ = (
        "_aliases",
        "_announcements",
        "_ended",
        "_published",
        "_reconnector",
        "_reports",
        "_watchers",
    )

    def __init__(self, address: RelayAddress, options: ConnectOptions) -> None:
        self._reconnector = Reconnector(address, options, self._request_received)
        self._aliases = itertools.count(1)
        self._published: dict[FullTrackName, PublishedTrack] = {}
        self._ended: list[PublishedTrack] = []
        """Tracks that have ended with objects that the relay had not acknowledged."""
        self._reports: set[FullTrackName] = set()
        """Tracks of playback reports, which may be lost."""
        self._watchers: dict[Tracks, None] = {}
        self._announcements: dict[Namespace, Announcement] = {}

    # Life

    async def __aenter__(self) -> Self:
        await self._reconnector.start()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        await self._close(drain=error is None)

    async def close(self) -> None:
        """End every track and the session, after all written data is sent.

        Raises ``ConnectionLostError`` if the relay did not acknowledge all of it.
        """
        await self._close(drain=True)

    async def _close(self, *, drain: bool) -> None:
        resuming = [track for track in self._published.values() if track.is_resuming]
        try:
            if drain and resuming:
                await asyncio.gather(*(track.until_resent() for track in resuming))
        except asyncio.CancelledError:
            drain = False
            raise
        finally:
            connected = self.connected
            for track in list(self._published.values()):
                track.end_now()
            await self._reconnector.close(drain=drain)
        if not drain:
            return
        missing: list[str] = []
        ended, self._ended = self._ended, []
        for track in ended:
            before = 0 if not connected else track.lost
            track.count_lost()
            if track.lost > before:
                missing.append(f"{track.lost - before} of {track_path(track.name)}")
        if missing:
            raise ConnectionLostError(
                f"objects that the relay did not acknowledge: {', '.join(missing)}"
            )

    # Getters

    @property
    def address(self) -> RelayAddress:
        """The address of the relay; a GOAWAY can change it."""
        return self._reconnector.address

    @property
    def connected(self) -> bool:
        """Whether the session is connected now."""
        return self._reconnector.link is not None

    @property
    def draft(self) -> str | None:
        """The MoQT draft in use, ``moqt-18`` or ``moqt-16``; None without a connection."""
        link = self._reconnector.link
        return None if link is None else link.draft.alpn

    @property
    def relay(self) -> str | None:
        """The name of the relay's software, if the relay sent it."""
        link = self._reconnector.link
        return None if link is None else link.setup.moqt_implementation

    @property
    def reconnects(self) -> int:
        """The number of connections after the first one."""
        return self._reconnector.reconnects

    @property
    def rtt(self) -> float | None:
        """The smoothed round-trip time in seconds; None until it is measured."""
        link = self._reconnector.link
        return None if link is None else link.connection.rtt

    @property
    def stats(self) -> ConnectionStats | None:
        """Statistics of the current connection; None without one."""
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
        resume_time: float = 10.0,
        resume_bytes: int = 8 * 1024 * 1024,
    ) -> PublishedTrack:
        """Publish a track and return it once the relay has accepted it.

        With ``announce`` the session announces only the namespace, and the relay subscribes when a
        subscriber asks for the track. ``first`` is the number of the first group; by default it is
        taken from the clock. Each object carries its capture time unless ``timestamps`` is False.

        After a lost connection the track is sent again from what the session still holds: the
        objects of the last ``resume_time`` seconds, at most ``resume_bytes`` bytes of payload, 0
        for none. Subscribers get no object twice. Datagrams are not sent again.

        Raises ``RequestRefusedError`` if the relay refuses the track, ``RequestTimeoutError`` if it
        does not answer, and ``StateError`` if the session publishes the track already.
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
            resume_time=resume_time,
            resume_bytes=resume_bytes,
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
        if track.name not in self._reports:
            self._ended = [
                each for each in (*self._ended, track) if each.lost or each.unacknowledged
            ]
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
        """Return a reporter of playback quality, for use with ``async with``.

        ``content`` names the content, ``playback`` is a random id of this playback; the relay keeps
        hashes of both. The reporter sends a report every ``interval`` seconds and at each event.
        Reports have the lowest priority. A relay that refuses them causes no error.
        """
        if interval < 1:
            raise EncodeError(f"interval {interval}: must be 1 second or more")
        state = Playback(uuid.uuid4().hex if playback is None else playback, content)
        name = FullTrackName(to_namespace(namespace), state.session.encode())
        self._reports.add(name)
        publish = functools.partial(
            self.publish,
            name,
            priority=_REPORT_PRIORITY,
            first=0,
            timestamps=False,
            resume_bytes=0,
        )
        return Reporter(publish, state, interval)

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
        """Return a subscription to a track; ``async with`` or ``async for`` starts it.

        ``start`` is ``"latest"`` (the next object), ``"next-group"``, a group, or a location.
        ``end`` is the last group. ``join`` first fetches that many groups before the current one,
        and the objects of the current one so far. ``wait`` is the time to wait for a publisher, in
        seconds.

        If the publisher is lost without ending the track, the subscription raises
        ``SubscriptionEndedError``. With ``follow`` it waits for the next publisher instead, without
        a limit. A lost connection to the relay is restored in both cases.

        The queue holds at most ``max_objects`` and ``max_bytes``. A full queue holds the relay
        back: what waits unread gives the session no credit. When as much waits as the session's
        window (``ConnectionLimits.max_data``), the relay can send nothing on the whole session, not
        even answers. If an application may not read for long, use a session of its own, or
        ``overflow="drop"``: then the queue drops and counts its oldest object. Datagrams cannot be
        held back, nor can the transport qh3: above four times the limits new objects are dropped.

        ``on_gap`` is called for objects that did not arrive. It is called at once if they can no
        longer arrive: the connection was lost and no cache has them, or the subscription ended.
        Otherwise it is called ``gap_after`` seconds after their group is over. A group is over
        when its streams have ended and either its end is known or a later group has begun. Streams
        can overtake each other, so a missing object may still be in flight. An object that arrives
        after its gap was reported is delivered as usual and counted in ``late``.
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
        """Return past objects from ``start`` to ``end`` inclusive, each a group or a location."""
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
        """Return additions and removals of namespaces below ``prefix``; "" matches all."""
        return Namespaces(self._reconnector, to_namespace(prefix))

    def tracks(self, prefix: NamespaceLike = "", *, top_n: int | None = None) -> Tracks:
        """Return additions and removals of tracks that are published below ``prefix``.

        ``top_n`` limits them to the tracks that rank highest by the ranking property of their
        objects. It works with draft 16; with draft 18 pass ``top_n`` to :func:`laps_sdk.connect`.
        """
        return Tracks(self._reconnector, to_namespace(prefix), self._watchers, top_n)

    async def track_status(
        self, namespace: TrackLike, name: str | bytes | None = None
    ) -> TrackStatus:
        """Return the status of a track; raises ``RequestRefusedError`` if the relay knows none."""
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
                    session.reject(event.request_id, code, "no subscription covers this track")
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
    """Ignore events after the answer to TRACK_STATUS."""


def _properties(
    priority: int,
    cache_duration: float | None,
    delivery_timeout: float | None,
    order: GroupOrder,
    others: KeyValues,
) -> KeyValues:
    """Return the properties of a track, without those that have default values.

    A random number tells relays that a publisher which comes back is the same one.
    """
    pairs = list(others)
    if all(pair.type != PUBLISHER_INSTANCE for pair in pairs):
        pairs.append(KeyValue(PUBLISHER_INSTANCE, secrets.randbits(48)))
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
    keepalive: float | None = None,
    dead_after: float = DEAD_AFTER,
    limits: ConnectionLimits | None = None,
    egress: EgressLimits | None = None,
    top_n: int | None = None,
    network: MemoryNetwork | None = None,
) -> Session:
    """Return a session with a relay; ``async with`` connects and closes it.

    ``moqt://host:33435`` selects raw QUIC, ``https://host:33435/moq`` WebTransport. Entering the
    session raises ``ConnectError`` if there is no connection.

    The relay's certificate is checked against the system's authorities. ``ca_file`` names another
    authority. ``pin`` is the SHA-256 of the one trusted certificate, as ``laps-relay dev-cert``
    prints it. On loopback the session also trusts the development certificate of the same user's
    relay. ``insecure`` accepts any certificate.

    ``token`` authorizes the session: a token, or a function that returns a new one for each
    connection. ``timeout`` limits the wait for a connection and for each answer, in seconds. A
    lost connection is restored after the delays of ``backoff``, unless ``reconnect`` is False.

    A relay that is silent gets a PING every ``keepalive`` seconds, by default four times in
    ``dead_after``. If nothing arrives for ``dead_after`` seconds, the connection is lost. With 0
    only the idle timeout of ``limits`` ends it.

    ``top_n`` limits discovery to the highest-ranking tracks below each prefix. ``network`` is the
    memory network of a test.
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
            keepalive=keepalive,
            dead_after=dead_after,
            limits=limits or ConnectionLimits(),
            egress=egress or CLIENT_EGRESS,
            top_n=top_n,
            network=network,
        ),
    )
