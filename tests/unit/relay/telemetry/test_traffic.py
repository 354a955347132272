"""From the planes' figures to ``hop.stat``."""

from __future__ import annotations

from laps_relay.peer_forwarding.forwarding import LOCAL
from laps_relay.peer_forwarding.traffic import Arrival, Departure
from laps_relay.telemetry.traffic import Hop, HopRecords, delivery
from laps_sdk.forwarding.samples import Sample
from laps_sdk.forwarding.traffic import LinkTraffic, TrackTraffic
from laps_wire.names import FullTrackName
from laps_wire.telemetry import DeliverySample, HopStat
from testkit.plane import NAME

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
