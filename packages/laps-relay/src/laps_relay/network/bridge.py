"""The bridge between an Edge and its network: the network is one of the Edge's sessions.

::

    shell    Edge (EdgeRelay, Plane)            NetworkBridge                 NetworkRelay
      |        events -------------- observe --> announcements --- announce, withdraw -->
      |        SUBSCRIBE ----------- pump -----> Upstream -- subscribe, unsubscribe -->
      |                                                   <------- answered --------------
      |        <-- SUBSCRIBE -------------------          <------- serve_track, release --
      |        SUBSCRIBE_OK ... ---- pump ----->          -- publisher_accepted, ... -->
      |        Plane <-- objects --------------- PlaneSink  <----- DataSink -- PeerPlane
      |        Plane --- objects --> FeedEgress ------------------ Feed -----> PeerPlane
      |        FETCH, answers ------ pump -----> Fetching -------- fetch, fetched, ... -->

The shell calls :meth:`NetworkBridge.pump` when it settles its sessions, until neither the Edge nor
the bridge has anything left to handle, and gives :meth:`NetworkBridge.observe` the Edge's events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import cast

from laps_relay.cpp.directory import Directory
from laps_relay.network.relay import NetworkRelay
from laps_sdk.edge.events import PrefixAdded, RelayEvent
from laps_sdk.edge.relay import EdgeRelay
from laps_sdk.edge.tree import NamespaceTree
from laps_sdk.forwarding.interfaces import ForwardingPlane, Point
from laps_sdk.upstream.announcements import Announcements
from laps_sdk.upstream.fetching import Fetching
from laps_sdk.upstream.interfaces import Answer, Feed, FetchHandle
from laps_sdk.upstream.sink import PlaneSink
from laps_sdk.upstream.upstream import Upstream
from laps_wire.hashing import KeyedHasher
from laps_wire.names import FullTrackName
from laps_wire.peering.laps2 import (
    FLAG_FETCH,
    AnnounceInfo,
    AnnounceKind,
    DataHeader,
    SubscribeCode,
    SubscribeData,
)

__all__ = ["NetworkBridge", "RemotePublishes"]


class NetworkBridge:
    """Joins an Edge and its network.

    It is the network's ``LocalSide``, ``FetchSide``, ``RepairSide`` and ``DataSink``, and the
    owner of the Edge's :class:`~laps_sdk.upstream.upstream.Upstream`.
    """

    __slots__ = (
        "_announcements",
        "_directory",
        "_fetching",
        "_network",
        "_plane",
        "_remote",
        "_sink",
        "client",
    )

    def __init__(
        self,
        relay: EdgeRelay,
        plane: ForwardingPlane,
        network: NetworkRelay,
        hasher: KeyedHasher,
        *,
        session: int,
        clock: Callable[[], float],
        directory: Directory | None = None,
    ) -> None:
        """``session`` is the Edge's number of the network's session.

        ``directory`` collects all names for C++ peers, which are no part of the network.
        """
        self._directory = directory
        self.client = Upstream(
            relay,
            session,
            self,
            hasher,
            clock,
            renew=plane.renew_egress,
            fetches=(plane, network),
        )
        self._fetching = cast("Fetching", self.client.fetching)
        self._network = network
        self._plane = plane
        self._sink = PlaneSink(plane, session, repairs=True)
        self._announcements = Announcements(lambda number: number == session)
        self._remote = RemotePublishes(relay, self.client)

    # For the shell

    def open(self, now: float) -> None:
        """Join the Edge; call it once, before anything else."""
        self.client.open(now, "network", upstream=True)

    def pump(self, now: float) -> bool:
        """Carry messages until both ends are quiet; return whether there were any."""
        return self.client.pump(now)

    def observe(self, now: float, events: Iterable[RelayEvent]) -> None:
        """Announce what clients publish; push announced tracks to clients that now watch them."""
        events = list(events)
        self._remote.observe(now, events)
        if self._directory is not None:
            self._directory.observe(now, events)
        for added, (kind, name) in self._announcements.observe(events):
            if added:
                self._network.announce(now, kind, name)
            else:
                self._network.withdraw(now, kind, name)

    def poll_timeout(self) -> float | None:
        """Return when :meth:`handle_timeout` wants to be called."""
        return self.client.poll_timeout()

    def handle_timeout(self, now: float) -> None:
        """Drop subscriptions without a subscriber, and fetches that waited too long."""
        self.client.handle_timeout(now)

    @property
    def misplaced(self) -> int:
        """How many streams and datagrams from other relays held no objects of their track."""
        return self._sink.misplaced + self._fetching.strays

    # LocalSide

    def serve_track(
        self, now: float, key: int, name: FullTrackName, data: SubscribeData, feed: Feed
    ) -> None:
        """Subscribe to a track at the Edge for the network."""
        self.client.subscribe_at_edge(now, key, name, data, feed)

    def renew(self, now: float, key: int, before: float) -> None:  # noqa: ARG002 - LocalSide
        """Go on with the open streams of a track in new ones."""
        self.client.renew(key, before)

    def release(self, now: float, key: int) -> None:
        """Unsubscribe from a track at the Edge."""
        self.client.unsubscribe_at_edge(now, key)

    def answered(
        self,
        now: float,
        key: int,
        answer: Answer,
        *,
        code: SubscribeCode,
        reason: str,
        data: SubscribeData,
    ) -> None:
        """Give the Edge the answer to a subscription."""
        self.client.subscribe_answered(now, key, answer, code=code, reason=reason, data=data)

    def announce_added(self, now: float, entry: AnnounceInfo) -> None:
        """Offer clients a name that another relay announced."""
        if entry.plaintext is None:
            return
        if entry.kind is AnnounceKind.NAMESPACE:
            self.client.publish(now, entry.kind, entry.plaintext)
        else:
            self._remote.add(now, entry.plaintext)
            if self._directory is not None:
                self._directory.discovered(now, entry.plaintext)

    def announce_removed(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """Withdraw a name that no other relay announces now."""
        if kind is AnnounceKind.TRACK:
            self._remote.remove(name)
            if self._directory is not None:
                self._directory.vanished(now, name)
        self.client.unpublish(now, kind, name)

    # FetchSide

    def fetch_answered(
        self, now: float, fetch_id: int, code: int, reason: str, data: SubscribeData
    ) -> None:
        """Give the Edge the answer to a FETCH."""
        self._fetching.answered(now, fetch_id, code, reason, data)
        self.client.pump(now)

    def serve_fetch(
        self, now: float, handle: FetchHandle, name: FullTrackName, data: SubscribeData, feed: Feed
    ) -> None:
        """Ask the Edge for a range that another relay fetches."""
        self._fetching.serve(now, handle, name, data, feed)
        self.client.pump(now)

    def drop_fetch(self, now: float, handle: FetchHandle) -> None:
        """Cancel a FETCH that another relay gave up."""
        self._fetching.drop(handle)
        self.client.pump(now)

    # RepairSide

    def positions(self, key: int, since: float) -> list[Point]:
        """Return the ends of all subgroups of a track that have changed since then."""
        track = self.client.track_of(key)
        return [] if track is None else self._plane.positions(track, since)

    def position_received(
        self, now: float, key: int, points: Sequence[Point], hold: float, *, lost: bool
    ) -> list[Point]:
        """Return where to resume subgroups that another relay has, and the log has not."""
        track = self.client.track_of(key)
        if track is None:
            return []
        return self._plane.lacking(now, track, points, hold, lost=lost)

    def resume_received(
        self, now: float, key: int, points: Sequence[Point], to: tuple[int, int]
    ) -> list[Point]:
        """Send subgroups again to one egress set of the feed; return what is gone."""
        subscription = self.client.subscription_of(key)
        if subscription is None:
            return list(points)
        with self.client.egress.only_to(to):
            return self._plane.resume_egress(now, subscription, points)

    def points_gone(self, now: float, key: int, points: Sequence[Point]) -> None:
        """Wait no longer for these subgroups: their objects are gone."""
        track = self.client.track_of(key)
        if track is not None:
            self._plane.give_up(now, track, points)

    # DataSink

    def stream_opened(
        self, now: float, stream: int, header: DataHeader, data: bytes, fin: bool
    ) -> bool:
        """Take a stream of a track or of a FETCH; return False if no FETCH asked for it."""
        if header.flags & FLAG_FETCH:
            return self._fetching.stream_opened(now, stream, header, data, fin)
        self._sink.stream_opened(now, stream, header, data, fin)
        return True

    def stream_data(self, now: float, stream: int, data: bytes, fin: bool) -> None:
        """Take more bytes of a stream."""
        if stream in self._fetching.streams:
            self._fetching.stream_data(now, stream, data, fin)
        else:
            self._sink.stream_data(now, stream, data, fin)

    def stream_reset(self, now: float, stream: int, code: int) -> None:
        """End a stream that was reset, or whose session ended."""
        if stream in self._fetching.streams:
            self._fetching.stream_reset(now, stream, code)
        else:
            self._sink.stream_reset(now, stream, code)

    def datagram(self, now: float, header: DataHeader, payload: bytes) -> None:
        """Take an object."""
        self._sink.datagram(now, header, payload)

    # UpstreamOwner

    def edge_subscribed(
        self,
        now: float,
        key: int,
        name: FullTrackName,
        data: SubscribeData,
    ) -> None:
        """Subscribe to a track in the network."""
        if self._network.keeps(key):
            self.client.relay.goes_on(name)
        self._network.subscribe(now, name, data)

    def edge_unsubscribed(self, now: float, key: int, name: FullTrackName) -> None:  # noqa: ARG002
        """Unsubscribe from a track in the network."""
        self._network.unsubscribe(now, name)

    def edge_accepted(self, now: float, key: int, data: SubscribeData) -> None:
        """Tell the network that the Edge serves a track."""
        self._network.publisher_accepted(now, key, data)

    def edge_refused(
        self, now: float, key: int, code: SubscribeCode, reason: str, data: SubscribeData
    ) -> None:
        """Tell the network that the Edge does not serve a track."""
        self._network.publisher_refused(now, key, code, reason, data)

    def edge_ended(self, now: float, key: int, reason: str) -> None:
        """Tell the network that a track has ended at the Edge."""
        self._network.publisher_ended(now, key, reason)

    def edge_closed(self, now: float, code: int, reason: str) -> None:
        """Do nothing: an Edge never closes the session with its own network."""


class RemotePublishes:
    """Tracks that other relays announced, for clients that want tracks pushed to them.

    Such a track becomes a PUBLISH at the Edge only if a client watches its namespace
    (SUBSCRIBE_TRACKS, or draft 16's SUBSCRIBE_NAMESPACE for tracks): a PUBLISH carries what only
    the publisher can tell, and asking for all tracks of the network would flood it.
    """

    __slots__ = ("_client", "_relay", "_tracks")

    def __init__(self, relay: EdgeRelay, client: Upstream) -> None:
        self._relay = relay
        self._client = client
        self._tracks: NamespaceTree[FullTrackName] = NamespaceTree()

    def add(self, now: float, name: FullTrackName) -> None:
        """Note a track; push it if a client watches its namespace."""
        self._tracks.add(name.namespace, name)
        if self._relay.is_watched(name.namespace):
            self._client.publish(now, AnnounceKind.TRACK, name)

    def remove(self, name: FullTrackName) -> None:
        """Forget a track."""
        self._tracks.remove(name.namespace, name)

    def observe(self, now: float, events: Iterable[RelayEvent]) -> None:
        """Push the tracks below each prefix that a client began to watch."""
        for event in events:
            if isinstance(event, PrefixAdded) and event.tracks:
                for name in list(self._tracks.under(event.prefix)):
                    self._client.publish(now, AnnounceKind.TRACK, name)
