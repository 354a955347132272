"""The tables and commands of an Edge, as the admin needs them."""

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
from laps_relay.server.client_drain import ClientDrain
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
    """Return a bound address as a host for URLs on this machine."""
    found = ip_address(host)
    if found.is_unspecified:
        return "127.0.0.1" if found.version == 4 else "localhost"
    return f"[{host}]" if found.version == 6 else host


class EdgeView:
    """Reads an Edge for the admin; implements :class:`~laps_relay.admin.views.RelayView`."""

    def __init__(
        self,
        server: EdgeServer,
        drain: ClientDrain,
        authorizer: TokenAuthorizer,
        metrics: Metrics,
        loaded: Loaded,
        *,
        version: str,
        before_metrics: Callable[[], Awaitable[None]],
    ) -> None:
        self._server = server
        self._drain = drain
        self._authorizer = authorizer
        self._metrics = metrics
        self._version = version
        self._before_metrics = before_metrics
        self._started = time.time()
        self.loaded = loaded
        self.certificate: Certificate | None = None
        self.taking_clients = False
        self.node_id = loaded.config.network.node_id
        """The node id that the network knows; as configured if the relay is alone."""

    @property
    def now(self) -> float:
        """The clock of the tables."""
        return self._server.now

    @property
    def ready(self) -> bool:
        """Whether clients are accepted."""
        return self.taking_clients and not self._drain.draining

    @property
    def certificate_sha256(self) -> str:
        """SHA-256 of the certificate that new connections get, in hex."""
        return "" if self.certificate is None else self.certificate.sha256

    @property
    def url(self) -> str:
        """The address that clients connect to; empty if none are accepted."""
        if not self._server.running:
            return ""
        host, port = self._server.address
        return f"moqt://{reachable(host)}:{port}"

    def info(self) -> Info:
        """Return version, addresses and state of the relay."""
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
            draining=self._drain.draining,
            authorization=not self._authorizer.open,
        )

    def sessions(self) -> Sequence[SessionRow]:
        """Return all sessions."""
        return self._server.relay.sessions()

    def connection(self, session: int) -> ConnectionStats | None:
        """Return the figures of a session's connection; None if it is gone."""
        port = self._server.ports.get(session)
        return None if port is None else port.peer.connection.stats()

    def tracks(self) -> Sequence[TrackRow]:
        """Return all tracks."""
        return self._server.relay.tracks()

    async def tracks_in_parts(self) -> Sequence[TrackRow]:
        """Return all tracks, with turns of the loop in between, so that no packet is delayed."""
        relay = self._server.relay
        numbers = relay.track_numbers()
        rows: list[TrackRow] = []
        for at in range(0, len(numbers), _PART):
            rows += relay.tracks(numbers[at : at + _PART])
            await asyncio.sleep(0)
        return rows

    def subscriptions(self) -> Sequence[SubscriptionRow]:
        """Return all receivers."""
        return self._server.relay.subscriptions()

    def namespaces(self) -> Sequence[NamespaceRow]:
        """Return all published namespaces."""
        return self._server.relay.namespaces()

    def cache_limits(self) -> dict[str, float]:
        """Return what the cache may hold."""
        return asdict(cache_limits(self.loaded.config))

    def purge(self, track: FullTrackName | None) -> int:
        """Remove cached objects of one track or of all; return their bytes."""
        return self._server.relay.purge(track)

    def config(self) -> list[ConfigValue]:
        """Return every configuration value with its source."""
        return [
            ConfigValue(key=name, value=value, source=place)
            for name, value, place in shown(self.loaded)
        ]

    def drain(self, new_uri: str) -> None:
        """Send all clients away."""
        self._drain.begin(new_uri)

    def stay(self) -> str | None:
        """Take a drain back; return why that is refused, or None."""
        return self._drain.take_back()

    def redirect(self, sessions: Sequence[int] | None, share: float, new_uri: str) -> int:
        """Send some clients elsewhere; return how many."""
        return self._drain.redirect(sessions, share, new_uri)

    async def metrics(self) -> bytes:
        """Return the text for Prometheus, with figures of this moment."""
        await self._before_metrics()
        return self._metrics.render()

    def sample(self) -> Sample:
        """Return all tables at once, for the sampler."""
        return self._sample(self.tracks())

    async def sample_in_parts(self) -> Sample:
        """Return all tables, with turns of the loop in between."""
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
