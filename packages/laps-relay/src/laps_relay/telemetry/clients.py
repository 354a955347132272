"""``client.report`` and ``cache.stat``: what an Edge measures of its clients and its cache.

The Edge measures objects that it could not send (gaps), the time to the first object, the rate, and
whether sending stalled while data was waiting. The own report of a player
(:mod:`laps_sdk.edge.reports`) is a record of its own: the player knows its buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from laps_sdk.edge.reports import PlayerWindow
from laps_sdk.forwarding.cache import CacheTraffic
from laps_sdk.forwarding.traffic import ClientTraffic
from laps_sdk.quic.base import ConnectionStats
from laps_wire.names import FullTrackName
from laps_wire.reports import Playback
from laps_wire.telemetry import CacheStat, ClientReport

__all__ = ["ClientReports", "cache_stat", "player_report"]


class ClientReports:
    """Makes the reports of a window; remembers the byte counters of each connection."""

    def __init__(self) -> None:
        self._before: dict[int, tuple[int, int]] = {}
        """Bytes sent and bytes waiting, by session."""

    def records(
        self,
        window_ms: int,
        clients: Iterable[ClientTraffic],
        connections: Mapping[int, ConnectionStats],
        text: Callable[[FullTrackName], str],
        ids: Callable[[int], Playback] = lambda _: Playback(),
    ) -> Iterator[ClientReport]:
        """Yield one report for each client that has a subscription.

        ``ids`` returns the hashed ids that a player gave when it connected. Reports that the player
        sends elsewhere can be joined by them.
        """
        before, self._before = self._before, {}
        for client in clients:
            stats = connections.get(client.session)
            if stats is None:
                continue
            self._before[client.session] = stats.bytes_sent, stats.queued_bytes
            sent, waited = before.get(client.session, (0, 0))
            playback = ids(client.session)
            stalled = waited > 0 and stats.queued_bytes > 0 and stats.bytes_sent == sent
            yield ClientReport(
                session_id=str(client.session),
                window_ms=window_ms,
                gaps=client.gaps,
                stalled=stalled,
                stall_ms=window_ms if stalled else None,
                startup_ms=None if client.startup is None else int(client.startup * 1000),
                bitrate_kbps=(
                    (stats.bytes_sent - sent) * 8 // window_ms
                    if window_ms and client.session in before
                    else None
                ),
                player_session=playback.session,
                content=playback.content,
                track=None if client.track is None else text(client.track),
                measured_by="relay",
            )


def player_report(
    said: PlayerWindow, track: str | None, hashed: Callable[[str], str]
) -> ClientReport:
    """Return the record of a player's own report; ids that the player chose are hashed."""
    return ClientReport(
        session_id=str(said.session),
        window_ms=int(said.window * 1000),
        gaps=said.gaps,
        stalled=said.stalled,
        stall_ms=said.stall_ms,
        startup_ms=said.startup_ms,
        buffer_ms=said.buffer_ms,
        latency_ms=said.latency_ms,
        bitrate_kbps=said.bitrate_kbps,
        max_throughput_kbps=said.asked_kbps,
        playback_rate=said.rate,
        state=said.state,
        player_session=hashed(said.playback),
        content=None if said.content is None else hashed(said.content),
        track=track,
        measured_by="player",
        error=said.error,
    )


def cache_stat(
    window_ms: int, traffic: CacheTraffic, stored: int, joins: int = 0
) -> CacheStat | None:
    """Return the record of the cache; None if it is empty and unused."""
    if traffic.is_idle and not stored and not joins:
        return None
    return CacheStat(
        window_ms=window_ms,
        hit_bytes=traffic.hits.bytes,
        miss_bytes=traffic.missed,
        expired_bytes=traffic.expired,
        evicted_bytes=traffic.evicted,
        fetch_joins=joins,
        stored_bytes=stored,
        hit_age_ms=traffic.hits.histogram() if traffic.hits.bytes else None,
        late_age_ms=traffic.late.histogram() if traffic.late.bytes else None,
    )
