from __future__ import annotations

from laps_relay.telemetry.clients import ClientReports, cache_stat, player_report
from laps_sdk.edge.reports import PlayerWindow
from laps_sdk.forwarding.cache import CacheFigures
from laps_sdk.forwarding.traffic import ClientTraffic
from laps_sdk.quic.base import ConnectionStats
from laps_wire.reports import Playback
from laps_wire.telemetry import AGE_BOUNDS_MS, ClientReport
from testkit.plane import NAME
from testkit.relay_views import connection_stats


def reports(
    memory: ClientReports,
    *clients: ClientTraffic,
    sent: int = 0,
    queued: int = 0,
    window: int = 1000,
) -> list[ClientReport]:
    stats: ConnectionStats = connection_stats()._replace(bytes_sent=sent, queued_bytes=queued)
    return list(memory.records(window, clients, {1: stats}, lambda _: "ab"))


def test_what_an_edge_knows_of_a_client() -> None:
    memory = ClientReports()
    (first,) = reports(memory, ClientTraffic(1, 0, 0.25, NAME), sent=1000)
    assert (first.session_id, first.window_ms, first.track) == ("1", 1000, "ab")
    assert (first.startup_ms, first.bitrate_kbps, first.stalled) == (250, None, False)
    assert first.measured_by == "relay"
    (second,) = reports(memory, ClientTraffic(1, 3, None, None), sent=126_000)
    assert (second.gaps, second.startup_ms, second.track) == (3, None, None)
    assert second.bitrate_kbps == 1000


def test_a_client_that_says_which_playback_it_is() -> None:
    clients = [ClientTraffic(1, 0, None, None), ClientTraffic(2, 0, None, None)]
    stats = {1: connection_stats(), 2: connection_stats()}
    ids = {1: Playback("#me", "#film"), 2: Playback()}
    one, two = ClientReports().records(1000, clients, stats, lambda _: "ab", ids.__getitem__)
    assert (one.player_session, one.content, one.measured_by) == ("#me", "#film", "relay")
    assert (two.player_session, two.content) == (None, None)


def test_a_stop_while_more_is_waiting() -> None:
    memory, client = ClientReports(), ClientTraffic(1, 0, None, NAME)
    reports(memory, client, sent=10, queued=5)
    (report,) = reports(memory, client, sent=10, queued=5, window=700)
    assert (report.stalled, report.stall_ms, report.bitrate_kbps) == (True, 700, 0)
    (report,) = reports(memory, client, sent=11, queued=5, window=0)
    assert (report.stalled, report.stall_ms, report.bitrate_kbps) == (False, None, None)
    assert reports(memory, ClientTraffic(2, 0, None, NAME)) == []  # its connection is gone


def test_what_a_player_says_of_itself() -> None:
    said = PlayerWindow(
        session=3,
        window=10.25,
        records=2,
        playback="me",
        content="film",
        state="p",
        buffer_ms=1,
        latency_ms=2,
        startup_ms=3,
        bitrate_kbps=4,
        asked_kbps=5,
        rate=1.5,
        stalled=True,
        stall_ms=6,
        gaps=7,
        error="drm",
    )
    assert player_report(said, "ab", lambda text: f"#{text}") == ClientReport(
        session_id="3",
        window_ms=10_250,
        gaps=7,
        stalled=True,
        stall_ms=6,
        startup_ms=3,
        buffer_ms=1,
        latency_ms=2,
        bitrate_kbps=4,
        max_throughput_kbps=5,
        playback_rate=1.5,
        state="p",
        player_session="#me",
        content="#film",
        track="ab",
        measured_by="player",
        error="drm",
    )
    quiet = player_report(said._replace(content=None), None, str)
    assert (quiet.content, quiet.track) == (None, None)


def test_a_cache() -> None:
    figures = CacheFigures()
    assert cache_stat(1000, figures.take(), 0) is None
    empty = cache_stat(1000, figures.take(), 5)
    assert empty is not None
    assert (empty.stored_bytes, empty.hit_age_ms, empty.late_age_ms) == (5, None, None)
    joined = cache_stat(1000, figures.take(), 0, 3)
    assert joined is not None
    assert joined.fetch_joins == 3
    figures.hit(1.0, 10)
    figures.missed(30, 90.0)
    figures.expired, figures.evicted = 40, 50
    busy = cache_stat(1000, figures.take(), 5)
    assert busy is not None
    assert (busy.hit_bytes, busy.miss_bytes, busy.fetch_joins) == (10, 30, 0)
    assert (busy.expired_bytes, busy.evicted_bytes) == (40, 50)
    assert busy.hit_age_ms is not None
    assert busy.late_age_ms is not None
    assert busy.late_age_ms.bounds_ms == AGE_BOUNDS_MS
