"""The relay as the admin sees it: an Edge server, its planes, and what surrounds them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Final

from laps_relay.admin.views import ConfigValue, Info
from laps_relay.config import Loaded, shown
from laps_relay.config.mapping import cache_limits
from laps_relay.server.auth import TokenAuthorizer
from laps_relay.server.certificates import Certificate
from laps_relay.telemetry.metrics import Metrics
from laps_relay.telemetry.sampler import Sample
from laps_sdk.edge.events import NamespaceRow, SessionRow, SubscriptionRow, TrackRow
from laps_sdk.edge.server import EdgeServer
from laps_sdk.quic.base import ConnectionStats
from laps_wire.names import FullTrackName

__all__ = ["EdgeView", "reachable"]

_PART: Final = 250
"""Tracks that are read in one turn of the loop: a millisecond or two."""


def reachable(host: str) -> str:
    """A bound address as one can connect to it from this machine, for a URL."""
    found = ip_address(host)
    if found.is_unspecified:
        return "127.0.0.1" if found.version == 4 else "localhost"
    return f"[{host}]" if found.version == 6 else host


class EdgeView:
    """Implements :class:`~laps_relay.admin.views.RelayView`."""

    def __init__(
        self,
        server: EdgeServer,
        authorizer: TokenAuthorizer,
        metrics: Metrics,
        loaded: Loaded,
        *,
        version: str,
        before_metrics: Callable[[], Awaitable[None]],
    ) -> None:
        self._server = server
        self._authorizer = authorizer
        self._metrics = metrics
        self._version = version
        self._before_metrics = before_metrics
        self._started = time.time()
        self.loaded = loaded
        self.certificate: Certificate | None = None
        self.taking_clients = False
        self.draining = False
        self.places: Callable[[], Callable[[int], str] | None] = lambda: None
        """Asked at a drain: what gives each session an address, if there is a network."""
        self.tell_peers: Callable[[], None] = lambda: None
        """Called at a drain: the network hears of it."""
        self.patience: Callable[[], float] = lambda: 0.0
        """Asked at a drain: in how many seconds ``places`` knows who has which tracks."""
        self.keep_peers: Callable[[], None] = lambda: None
        """Called when a drain is taken back: the network hears of it."""
        self.ending = False
        """Whether the relay drains to end, or to become another one."""
        self._sending: asyncio.TimerHandle | None = None
        self.node_id = loaded.config.network.node_id
        """As the network knows it; as configured if there is none."""

    @property
    def now(self) -> float:
        """The clock of the tables."""
        return self._server.now

    @property
    def ready(self) -> bool:
        """Whether clients are taken."""
        return self.taking_clients and not self.draining

    @property
    def certificate_sha256(self) -> str:
        """Of the certificate that new connections get, in hex."""
        return "" if self.certificate is None else self.certificate.sha256

    @property
    def url(self) -> str:
        """Where clients connect; empty if none are taken."""
        if not self._server.running:
            return ""
        host, port = self._server.address
        return f"moqt://{reachable(host)}:{port}"

    def info(self) -> Info:
        """What runs here."""
        config = self.loaded.config
        return Info(
            version=self._version,
            node_id=self.node_id,
            region=config.network.region,
            url=self.url,
            transport=config.listen.transport,
            drafts=list(config.listen.drafts),
            certificate_sha256=self.certificate_sha256,
            certificate_expires=(
                "" if self.certificate is None else self.certificate.not_after.isoformat()
            ),
            started=datetime.fromtimestamp(self._started, UTC).isoformat(),
            uptime_seconds=time.time() - self._started,
            draining=self.draining,
            authorization=not self._authorizer.open,
        )

    def sessions(self) -> Sequence[SessionRow]:
        """All sessions."""
        return self._server.relay.sessions()

    def connection(self, session: int) -> ConnectionStats | None:
        """The figures of a session's connection."""
        port = self._server.ports.get(session)
        return None if port is None else port.peer.connection.stats()

    def tracks(self) -> Sequence[TrackRow]:
        """All tracks."""
        return self._server.relay.tracks()

    async def tracks_in_parts(self) -> Sequence[TrackRow]:
        """All tracks, with turns of the loop in between: thousands of them delay no packet."""
        relay = self._server.relay
        numbers = relay.track_numbers()
        rows: list[TrackRow] = []
        for at in range(0, len(numbers), _PART):
            rows += relay.tracks(numbers[at : at + _PART])
            await asyncio.sleep(0)
        return rows

    def subscriptions(self) -> Sequence[SubscriptionRow]:
        """All receivers."""
        return self._server.relay.subscriptions()

    def namespaces(self) -> Sequence[NamespaceRow]:
        """All published namespaces."""
        return self._server.relay.namespaces()

    def cache_limits(self) -> dict[str, float]:
        """What the cache may hold."""
        return asdict(cache_limits(self.loaded.config))

    def purge(self, track: FullTrackName | None) -> int:
        """Forget cached objects; how many bytes that were."""
        return self._server.relay.purge(track)

    def config(self) -> list[ConfigValue]:
        """The configuration with its sources."""
        return [
            ConfigValue(key=name, value=value, source=place)
            for name, value, place in shown(self.loaded)
        ]

    def drain(self, new_uri: str) -> None:
        """Send everybody away: to one address, or each to where the network finds best.

        Peers hear of it too: nobody may be sent here, and what goes through us moves. Control
        servers have a moment to say who else has the tracks of our clients.
        """
        self.draining = True
        self.tell_peers()
        wait = 0.0 if new_uri else self.patience()
        if wait > 0.0:
            self._wait_no_more()
            self._sending = asyncio.get_running_loop().call_later(wait, self._send_away, "")
        else:
            self._send_away(new_uri)

    def stay(self) -> str | None:
        """Take a drain back, or say why not. Clients that have not left may stay."""
        if not self.draining:
            return "the relay does not drain"
        if self.ending:
            return "the relay ends, or changes its type"
        self.draining = False
        self._wait_no_more()
        self.keep_peers()
        if self._server.running:
            self._server.relay.resume(all_stay=True)
            self._server.settle()
        return None

    def redirect(self, sessions: Sequence[int] | None, share: float, new_uri: str) -> int:
        """Send some clients elsewhere, and take others as before; how many were told.

        Named ones, or a share of all: those are spread over the times at which they came. Without
        an address each goes where the network finds best, and stays if there is no such place.
        """
        if not self._server.running:
            return 0
        if sessions is None:
            there = sorted(
                row.session for row in self.sessions() if not row.leaving and not row.info.upstream
            )
            sessions = [
                session
                for index, session in enumerate(there)
                if int((index + 1) * share) > int(index * share)
            ]
        find = None if new_uri else self.places()
        places = {each: new_uri or (find(each) if find is not None else "") for each in sessions}
        told = self._server.relay.redirect(
            self._server.now, {each: place for each, place in places.items() if place}
        )
        self._server.settle()
        return told

    def send_away(self) -> None:
        """Whoever has not been sent away yet is sent away now."""
        if self._sending is not None:
            self._send_away("")

    def _send_away(self, new_uri: str) -> None:
        self._wait_no_more()
        if self._server.running:
            places = None if new_uri else self.places()
            self._server.relay.drain(self._server.now, new_uri, places=places)
            self._server.settle()

    def _wait_no_more(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None

    async def metrics(self) -> bytes:
        """The text for Prometheus, with figures of this moment."""
        await self._before_metrics()
        return self._metrics.render()

    def sample(self) -> Sample:
        """Everything at once, for the sampler."""
        return self._sample(self.tracks())

    async def sample_in_parts(self) -> Sample:
        """The same, with turns of the loop in between."""
        return self._sample(await self.tracks_in_parts())

    def _sample(self, tracks: Sequence[TrackRow]) -> Sample:
        sessions = self.sessions()
        return Sample(
            now=self.now,
            sessions=sessions,
            tracks=tracks,
            connections={
                row.session: stats
                for row in sessions
                if (stats := self.connection(row.session)) is not None
            },
            auth=self._authorizer.counters,
        )
