"""The bridge between an Edge and the network core: the network is a client of its own Edge.

::

    shell    Edge (EdgeRelay, Plane)            NetworkBridge                 NetworkRelay
      |        events -------------- observe --> announcements --- announce, withdraw -->
      |        SUBSCRIBE ----------- pump -----> EdgeClient ------ want, unwant --------->
      |                                                     <----- answered --------------
      |        <-- SUBSCRIBE -------------------            <----- pull, release ---------
      |        SUBSCRIBE_OK ... ---- pump ----->            ------ pulled, pull_ended --->
      |        Plane <-- objects --------------- PlaneSink  <----- DataSink -- PeerPlane
      |        Plane --- objects --> FeedEgress ------------------ Feed -----> PeerPlane
      |        FETCH, answers ------ pump -----> Fetching -------- fetch, fetched, ... -->

The shell calls :meth:`NetworkBridge.pump` where it settles its sessions, until neither the Edge nor
the bridge has anything more to say, and gives :meth:`NetworkBridge.observe` the Edge's events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, cast

from laps_sdk.edge.events import RelayEvent
from laps_sdk.edge.relay import EdgeRelay
from laps_sdk.forwarding.interfaces import ForwardingPlane
from laps_sdk.upstream.announcements import Announcements
from laps_sdk.upstream.directory import Directory
from laps_sdk.upstream.elsewhere import Elsewhere
from laps_sdk.upstream.fetching import Fetching, FetchNetwork
from laps_sdk.upstream.interfaces import Answer, Feed, FetchHandle
from laps_sdk.upstream.sink import PlaneSink
from laps_sdk.upstream.upstream import EdgeClient
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

__all__ = ["NetworkBridge", "NetworkCommands"]


class NetworkCommands(FetchNetwork, Protocol):
    """What the bridge asks of the network core; ``NetworkRelay`` has it."""

    def announce(self, now: float, kind: AnnounceKind, name: FullTrackName) -> object:
        """Our clients publish this; a namespace has an empty track name."""

    def withdraw(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """They do not any more."""

    def want(self, now: float, name: FullTrackName, data: SubscribeData) -> object:
        """Our clients want a track; again with other data if they want something else of it."""

    def unwant(self, now: float, name: FullTrackName) -> None:
        """They do not any more."""

    def pulled(self, now: float, key: int, data: SubscribeData) -> None:
        """A pull is served."""

    def pull_refused(
        self, now: float, key: int, code: SubscribeCode, reason: str, data: SubscribeData
    ) -> None:
        """A pull is not served."""

    def pull_ended(self, now: float, key: int, reason: str) -> None:
        """A pull that was served is over."""


class NetworkBridge:
    """Implements ``LocalSide``, ``FetchSide`` and ``DataSink`` for an Edge."""

    __slots__ = (
        "_announcements",
        "_directory",
        "_elsewhere",
        "_fetching",
        "_network",
        "_sink",
        "client",
    )

    def __init__(
        self,
        relay: EdgeRelay,
        plane: ForwardingPlane,
        network: NetworkCommands,
        hasher: KeyedHasher,
        *,
        session: int,
        clock: Callable[[], float],
        directory: Directory | None = None,
    ) -> None:
        """``directory`` hears of all names, for peers that are no part of the network."""
        self._directory = directory
        self.client = EdgeClient(
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
        self._sink = PlaneSink(plane, session)
        self._announcements = Announcements(lambda number: number == session)
        self._elsewhere = Elsewhere(relay, self.client)

    # For the shell

    def open(self, now: float) -> None:
        """Join the Edge; once, before anything else."""
        self.client.open(now, "network", upstream=True)

    def pump(self, now: float) -> bool:
        """Carry control messages until all is quiet; whether there were any."""
        return self.client.pump(now)

    def observe(self, now: float, events: Iterable[RelayEvent]) -> None:
        """Tell the network what our clients publish, and clients what it has for them."""
        events = list(events)
        self._elsewhere.observe(now, events)
        if self._directory is not None:
            self._directory.observe(now, events)
        for added, (kind, name) in self._announcements.observe(events):
            if added:
                self._network.announce(now, kind, name)
            else:
                self._network.withdraw(now, kind, name)

    def poll_timeout(self) -> float | None:
        """When :meth:`handle_timeout` wants to be called."""
        return self.client.poll_timeout()

    def handle_timeout(self, now: float) -> None:
        """Give up what nobody waits for any more."""
        self.client.handle_timeout(now)

    @property
    def misplaced(self) -> int:
        """Streams and datagrams from other relays that were no objects of their track."""
        return self._sink.misplaced + self._fetching.strays

    # LocalSide

    def pull(
        self, now: float, key: int, name: FullTrackName, data: SubscribeData, feed: Feed
    ) -> None:
        """Somebody in the network wants a track that was announced here."""
        self.client.pull(now, key, name, data, feed)

    def renew(self, now: float, key: int, before: float) -> None:  # noqa: ARG002 - LocalSide
        """Its open streams should go on in new ones."""
        self.client.renew(key, before)

    def release(self, now: float, key: int) -> None:
        """Nobody in the network wants it any more."""
        self.client.release(now, key)

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
        """What became of a want of ours."""
        self.client.answered(now, key, answer, code=code, reason=reason, data=data)

    def discovered(self, now: float, entry: AnnounceInfo) -> None:
        """Our clients hear of a name that somebody else announced."""
        if entry.plaintext is None:
            return
        if entry.kind is AnnounceKind.NAMESPACE:
            self.client.offer(now, entry.kind, entry.plaintext)
        else:
            self._elsewhere.add(now, entry.plaintext)
            if self._directory is not None:
                self._directory.discovered(now, entry.plaintext)

    def vanished(self, now: float, kind: AnnounceKind, name: FullTrackName) -> None:
        """Nobody else announces that name any more."""
        if kind is AnnounceKind.TRACK:
            self._elsewhere.remove(name)
            if self._directory is not None:
                self._directory.vanished(now, name)
        self.client.withdraw(now, kind, name)

    # FetchSide

    def fetch_answered(
        self, now: float, fetch_id: int, code: int, reason: str, data: SubscribeData
    ) -> None:
        """What becomes of a FETCH of ours."""
        self._fetching.answered(now, fetch_id, code, reason, data)
        self.client.pump(now)

    def serve_fetch(
        self, now: float, handle: FetchHandle, name: FullTrackName, data: SubscribeData, feed: Feed
    ) -> None:
        """Another relay asks for what was published here."""
        self._fetching.serve(now, handle, name, data, feed)
        self.client.pump(now)

    def drop_fetch(self, now: float, handle: FetchHandle) -> None:
        """It does not want the rest."""
        self._fetching.drop(handle)
        self.client.pump(now)

    # DataSink

    def stream_opened(
        self, now: float, stream: int, header: DataHeader, data: bytes, fin: bool
    ) -> bool:
        """A stream of a track began, or the answer to a FETCH; False: nobody asked for it."""
        if header.flags & FLAG_FETCH:
            return self._fetching.stream_opened(now, stream, header, data, fin)
        self._sink.stream_opened(now, stream, header, data, fin)
        return True

    def stream_data(self, now: float, stream: int, data: bytes, fin: bool) -> None:
        """More of it."""
        if stream in self._fetching.streams:
            self._fetching.stream_data(now, stream, data, fin)
        else:
            self._sink.stream_data(now, stream, data, fin)

    def stream_reset(self, now: float, stream: int, code: int) -> None:
        """It was abandoned, or its session ended."""
        if stream in self._fetching.streams:
            self._fetching.stream_reset(now, stream, code)
        else:
            self._sink.stream_reset(now, stream, code)

    def datagram(self, now: float, header: DataHeader, payload: bytes) -> None:
        """An object."""
        self._sink.datagram(now, header, payload)

    # EdgeClientHost

    def wanted(self, now: float, key: int, name: FullTrackName, data: SubscribeData) -> None:  # noqa: ARG002
        """Our clients want a track."""
        self._network.want(now, name, data)

    def unwanted(self, now: float, key: int, name: FullTrackName) -> None:  # noqa: ARG002
        """They do not any more."""
        self._network.unwant(now, name)

    def pulled(self, now: float, key: int, data: SubscribeData) -> None:
        """The Edge serves a pull."""
        self._network.pulled(now, key, data)

    def pull_refused(
        self, now: float, key: int, code: SubscribeCode, reason: str, data: SubscribeData
    ) -> None:
        """The Edge does not serve it."""
        self._network.pull_refused(now, key, code, reason, data)

    def pull_ended(self, now: float, key: int, reason: str) -> None:
        """The Edge serves it no longer."""
        self._network.pull_ended(now, key, reason)

    def edge_closed(self, now: float, code: int, reason: str) -> None:
        """An Edge never closes the session with its own network."""
