"""From the planes' figures to records of hops, deliveries, clients and the cache."""

from __future__ import annotations

from laps_relay.peer_forwarding.forwarding import LOCAL
from laps_relay.peer_forwarding.traffic import Arrival, Departure
from laps_relay.telemetry.traffic import (
    ClientReports,
    Hop,
    HopRecords,
    cache_stat,
    delivery,
    player_report,
)
from laps_sdk.edge.reports import PlayerWindow
from laps_sdk.forwarding.cache import CacheFigures
from laps_sdk.forwarding.samples import Sample
from laps_sdk.forwarding.traffic import ClientTraffic, LinkTraffic, TrackTraffic
from laps_sdk.quic.base import ConnectionStats
from laps_wire.names import FullTrackName
from laps_wire.reports import Playback
from laps_wire.telemetry import AGE_BOUNDS_MS, ClientReport, DeliverySample, HopStat
from testkit.plane import NAME
from testkit.relay_views import connection_stats

KEY = 0xABC
TEXT = f"{KEY:016x}"
PEERS = {1: "1:1", 2: "2:2", 3: "3:3"}
FOREIGN = {-1: "9:9"}
BRIDGE = 0


def text(name: FullTrackName) -> str:
    assert name == NAME
    return TEXT


def traffic(
    *links: LinkTraffic, bytes_in: int = 0, bytes_out: int = 0, dropped: int = 0, group: int = 7
) -> TrackTraffic:
    return TrackTraffic(
        NAME, bytes_in // 10, bytes_in, bytes_out // 10, bytes_out, dropped, group, group, links
    )


def rows(
    hops: HopRecords,
    tracks: tuple[TrackTraffic, ...] = (),
    came: tuple[Arrival, ...] = (),
    sent: tuple[Departure, ...] = (),
) -> dict[tuple[str | None, str | None], HopStat]:
    found = list(
        hops.records(1000, tracks, came, sent, text=text, peer=PEERS.get, foreign=FOREIGN.get)
    )
    assert {row.track for row in found} <= {TEXT}
    assert {row.window_ms for row in found} <= {1000}
    by_way = {(row.in_peer, row.out_peer): row for row in found}
    assert len(by_way) == len(found)
    return by_way


def test_the_relay_of_the_publisher() -> None:
    hops = rows(
        HopRecords(),
        (traffic(LinkTraffic(BRIDGE, 0, 0, 10, 100), bytes_in=100, bytes_out=300, dropped=2),),
        (Arrival(KEY, LOCAL, 1, 124),),
        (Departure(KEY, LOCAL, 1, 1, 124, 0), Departure(KEY, LOCAL, 2, 1, 100, 3)),
    )
    clients, first, second = hops[None, None], hops[None, "1:1"], hops[None, "2:2"]
    assert len(hops) == 3
    assert [row.in_bytes for row in hops.values()] == [100, 100, 100]
    assert (clients.objects, clients.out_bytes, clients.drops) == (30, 300, {"cap": 2})
    assert (first.objects, first.out_bytes, first.drops) == (1, 124, {})
    assert (second.out_bytes, second.drops) == (100, {"cc": 3})
    assert (clients.first_group_id, clients.last_group_id) == (7, 7)


def test_a_via_says_once_what_came_in() -> None:
    hops = rows(HopRecords(), (), (Arrival(KEY, 1, 2, 500),), (Departure(KEY, 1, 2, 2, 500, 0),))
    assert hops["1:1", None].in_bytes == hops["1:1", "2:2"].in_bytes == 500
    assert (hops["1:1", None].out_bytes, hops["1:1", None].objects) == (0, 0)
    assert (hops["1:1", "2:2"].out_bytes, hops["1:1", "2:2"].objects) == (500, 2)
    assert hops["1:1", "2:2"].last_group_id is None  # it does not look into what it passes on


def test_the_relay_of_subscribers() -> None:
    bridge = LinkTraffic(BRIDGE, 10, 100, 0, 0)
    memory = HopRecords()
    hops = rows(memory, (traffic(bridge, bytes_out=200),), (Arrival(KEY, 1, 1, 124),))
    assert list(hops) == [("1:1", None)]
    assert (hops["1:1", None].in_bytes, hops["1:1", None].out_bytes) == (124, 200)
    # Who comes late gets what is cached: it came from there, too.
    hops = rows(memory, (traffic(bytes_out=50),))
    assert list(hops) == [("1:1", None)]
    assert (hops["1:1", None].in_bytes, hops["1:1", None].out_bytes) == (0, 50)


def test_clients_have_it_from_who_brought_most() -> None:
    bridge = LinkTraffic(BRIDGE, 10, 100, 0, 0)
    two = (Arrival(KEY, 1, 1, 20), Arrival(KEY, 2, 1, 104))
    hops = rows(HopRecords(), (traffic(bridge, bytes_in=30, bytes_out=200),), two)
    assert {way: (row.in_bytes, row.out_bytes) for way, row in hops.items()} == {
        ("1:1", None): (20, 0),
        ("2:2", None): (104, 200),
        (None, None): (30, 0),
    }


def test_a_stub_and_its_parent_count_payload() -> None:
    stub = LinkTraffic(-1, 3, 33, 0, 0)
    parent = rows(HopRecords(), (traffic(stub, bytes_out=33),))
    assert parent["9:9", None].in_bytes == 33
    to_stub = LinkTraffic(-1, 0, 0, 4, 44)
    parent = rows(HopRecords(), (traffic(to_stub, bytes_in=44),))
    assert parent[None, "9:9"].out_bytes == parent[None, None].in_bytes == 44
    assert parent[None, "9:9"].objects == 4


def test_how_long_objects_waited() -> None:
    waits: dict[Hop, list[float]] = {(TEXT, None, None): [1.0, 3.0], (TEXT, None, "1:1"): []}
    (row,) = HopRecords().records(
        *(1000, [traffic(bytes_in=5)], [], []),
        text=text,
        peer=PEERS.get,
        foreign=FOREIGN.get,
        waits=waits,
    )
    assert row.queue_ms is not None
    assert (row.queue_ms.count, row.queue_ms.sum_ms) == (2, 4.0)


def test_a_session_that_nobody_knows_is_left_out() -> None:
    unknown = (Departure(KEY, 1, 99, 1, 5, 0), Departure(KEY, 99, 1, 1, 5, 0))
    assert rows(HopRecords(), (), (Arrival(KEY, 99, 1, 5),), unknown) == {}


def test_a_group_that_does_not_fit_a_column() -> None:
    (row,) = rows(HopRecords(), (traffic(bytes_in=5, group=1 << 63),)).values()
    assert row.last_group_id is None


PEERS = {1: "1:1", 2: "2:2"}
FOREIGN = {-1: "9:9"}
SAMPLE = Sample(0xABC, 7, 0, 100, 10.0, 10.5)


def made(sample: Sample) -> DeliverySample | None:
    return delivery(sample, 100, 1000.0, peer=PEERS.get, foreign=FOREIGN.get)


def ends(sample: Sample) -> tuple[str | None, str | None]:
    body = made(sample)
    assert body is not None
    return body.in_peer, body.out_peer


def test_times_of_day() -> None:
    assert made(SAMPLE) == DeliverySample(
        track=f"{0xABC:016x}",
        one_in=100,
        in_us=1_010_000_000,
        out_us=1_010_500_000,
        size_bytes=100,
        group_id=7,
        object_id=0,
    )


def test_who_is_at_both_ends() -> None:
    assert ends(SAMPLE._replace(source=1, client=0, target=2)) == ("1:1", "2:2")
    assert ends(SAMPLE._replace(client=-1)) == ("9:9", None)
    assert ends(SAMPLE._replace(viewer=-1)) == (None, "9:9")
    assert ends(SAMPLE._replace(client=0)) == (None, None)


def test_what_nobody_can_name_is_left_out() -> None:
    assert made(SAMPLE._replace(source=5)) is None
    assert made(SAMPLE._replace(target=5)) is None
    assert made(SAMPLE._replace(viewer=0)) is None  # the other plane tells it


def test_ids_that_fit_no_column() -> None:
    body = made(SAMPLE._replace(group_id=1 << 63, object_id=1 << 63))
    assert body is not None
    assert (body.group_id, body.object_id) == (None, None)


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
