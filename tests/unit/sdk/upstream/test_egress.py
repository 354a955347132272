"""What the plane writes, into feeds."""

from __future__ import annotations

import pytest

from laps_sdk.forwarding.interfaces import LinkedStream
from laps_sdk.forwarding.priority import publisher_priority, stream_priority
from laps_sdk.upstream.egress import FeedEgress, FetchOutlet, Outlet, alias_at, alias_of
from laps_wire.moqt.codepoints import GroupOrder
from laps_wire.moqt.data import ObjectDatagram, encode_datagram
from laps_wire.nodeid import NodeId
from testkit.edge_client import KeptFeed
from testkit.plane import D18, FakeStream, bodies, subgroup

URGENT = stream_priority(128, 17, GroupOrder.ASCENDING, 5, 1)


class Rig:
    def __init__(self) -> None:
        self.feed = KeptFeed()
        self.outlets = {7: Outlet(self.feed, priority=9, ttl_ms=1500)}
        self.stopped: list[tuple[int, int]] = []
        self.egress = FeedEgress(
            lambda: 100.0, self.outlets, lambda number, code: self.stopped.append((number, code))
        )

    @property
    def written(self) -> list[FakeStream]:
        return self.feed.egress.streams


def test_the_first_write_tells_the_feed() -> None:
    rig = Rig()
    stream = rig.egress.open_unidirectional(priority=URGENT, droppable=True, drop_code=4)
    assert (stream.closed, stream.queued, rig.written) == (False, 0, [])
    data = subgroup(D18, bodies(2))
    stream.write(data[:9])
    stream.write(data[9:])
    stream.set_priority(1)
    assert rig.feed.opened == [(17, 1500, None)]
    (out,) = rig.written
    assert out.data == data
    assert out.priority == 17
    assert rig.egress.stream_of(out) is stream
    rig.feed.egress.fast = False
    assert stream.queued == len(data)
    stream.write(b"", True)
    assert stream.closed
    assert out.fin
    assert rig.egress.stream_of(out) is None


def test_a_stream_that_goes_on_with_another_one_says_so() -> None:
    rig = Rig()
    for goes_on in (False, True):
        stream = rig.egress.open_unidirectional(priority=URGENT)
        assert isinstance(stream, LinkedStream)
        if goes_on:
            stream.goes_on()
        stream.write(subgroup(D18, bodies(1)), True)
    assert rig.feed.continued == [False, True]


def test_streams_that_begin_for_one_set_go_only_there() -> None:
    rig = Rig()
    with rig.egress.only_to((5, 70)):
        inside = rig.egress.open_unidirectional(priority=URGENT)
    outside = rig.egress.open_unidirectional(priority=URGENT)
    for stream in (outside, inside):
        stream.write(subgroup(D18, bodies(1)), True)
    assert rig.feed.to == [None, (5, 70)]


def test_a_stream_may_be_abandoned() -> None:
    rig = Rig()
    stream = rig.egress.open_unidirectional(priority=URGENT, deadline=105.0)
    stream.write(subgroup(D18, bodies(1)))
    stream.reset(0x42)
    assert rig.feed.opened == [(17, 1500, 105.0)]
    assert rig.written[0].reset_code == 0x42
    assert rig.egress.stream_of(rig.written[0]) is None
    # Before anything was written there is nobody to tell.
    early = rig.egress.open_unidirectional()
    early.set_deadline(3.0)
    early.reset(0x42)
    early.write(b"late")
    assert early.closed
    assert len(rig.written) == 1


def test_deadlines_pass() -> None:
    rig = Rig()
    stream = rig.egress.open_unidirectional()
    stream.write(subgroup(D18, bodies(1)))
    with pytest.raises(AssertionError, match=r"101\.0"):
        stream.set_deadline(101.0)  # a plane never does, and a fake stream says so


def test_a_track_that_nobody_pulls_goes_nowhere() -> None:
    rig = Rig()
    stream = rig.egress.open_unidirectional()
    stream.write(subgroup(D18, bodies(1), alias=8))
    stream.write(b"more", True)
    assert stream.closed
    assert stream.queued == 0
    cut = rig.egress.open_unidirectional()
    cut.write(b"")
    assert not rig.egress.send_datagram(encode_datagram(ObjectDatagram(8, 1, 1), D18))
    assert not rig.egress.send_datagram(b"")
    assert not rig.feed.opened


def test_datagrams() -> None:
    rig = Rig()
    items = [
        (ObjectDatagram(7, 1, 0, b"a", priority=3), None),
        (ObjectDatagram(7, 1, 5, b"b", priority=4), 100.5),
        (ObjectDatagram(7, 1, 6, b"c"), 99.0),
        (ObjectDatagram(7, 1, 7, b"d"), 500.0),
    ]
    for item, deadline in items:
        assert rig.egress.send_datagram(encode_datagram(item, D18), deadline)
    assert [(priority, ttl) for _, priority, ttl in rig.feed.datagrams] == [
        (3, 1500),
        (4, 500),
        (9, 1),
        (9, 1500),
    ]
    rig.outlets[7].ttl_ms = 0
    rig.egress.send_datagram(encode_datagram(items[0][0], D18), 100.25)
    assert rig.feed.datagrams[-1][2] == 250
    assert rig.egress.max_datagram_size > 1200


def test_streams_that_the_plane_refuses() -> None:
    rig = Rig()
    rig.egress.stop_sending(5, 6)
    assert rig.stopped == [(5, 6)]
    FeedEgress(lambda: 0.0, {}).stop_sending(5, 6)


def test_aliases() -> None:
    key = 0xFFFF_FFFF_FFFF_FFFF
    assert alias_of(key) == 2**62 - 1
    data = subgroup(D18, bodies(1), alias=alias_of(key))
    assert alias_at(data) == alias_of(key)
    assert [alias_at(data[:size]) for size in range(3)] == [None, None, None]


def test_the_publishers_part_of_a_priority() -> None:
    for publisher in (0, 128, 255):
        value = stream_priority(200, publisher, GroupOrder.DESCENDING, 2**40, 2**20)
        assert publisher_priority(value) == publisher


def test_the_answer_to_a_fetch_goes_into_its_own_feed() -> None:
    rig, answer, handle = Rig(), KeptFeed(), (NodeId(2), 7)
    told: list[tuple[object, bool]] = []
    fetches = {4: FetchOutlet(answer, handle, lambda who, begins: told.append((who, begins)))}
    egress = FeedEgress(lambda: 100.0, rig.outlets, fetches=fetches)
    stream = egress.open_unidirectional(priority=URGENT)
    stream.write(b"\x05\x04")
    assert told == [(handle, True)]
    stream.write(b"objects", True)
    assert told == [(handle, True), (handle, False)]
    assert answer.opened == [(17, 0, None)]
    assert [each.data for each in answer.egress.streams] == [b"\x05\x04objects"]
    second = egress.open_unidirectional()
    second.write(b"\x05\x04")
    second.reset(3)
    assert told[2:] == [(handle, True), (handle, False)]
    # Request 5 was given up.
    egress.open_unidirectional().write(b"\x05\x05")
    assert len(answer.egress.streams) == 2
