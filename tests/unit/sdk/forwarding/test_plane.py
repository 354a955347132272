"""The plane as a whole: what each receiver reads, in both drafts and across them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.forwarding.interfaces import (
    CacheLimits,
    Egress,
    EgressEntry,
    FetchOutcome,
    FetchRange,
    ForwardingPlane,
    OutStream,
    PlaneLimits,
    RankChanged,
    SessionFault,
    Subscription,
    SubscriptionCounters,
    SubscriptionDone,
    TrackEnded,
    TrackMalformed,
)
from laps_sdk.forwarding.plane import Plane
from laps_sdk.quic.base import Connection
from laps_sdk.quic.base import OutStream as TransportStream
from laps_wire.errors import ProtocolViolation
from laps_wire.moqt.data import (
    ObjectDatagram,
    ObjectStatus,
    StreamKind,
    encode_extensions,
    encode_padding_stream,
)
from laps_wire.moqt.keyvalue import KeyValue
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft
from testkit.plane import D16, D18, NAME, Net, bodies, entry, subgroup

DRAFTS = [D16, D18]

PAIRS = [(source, target) for source in DRAFTS for target in DRAFTS]


drafts = pytest.mark.parametrize("draft", DRAFTS)

# For the type checker: these lines fail if one side of a border moves alone.
PLANE: type[ForwardingPlane] = Plane


def as_egress(connection: Connection) -> Egress:
    return connection


def as_stream(stream: TransportStream) -> OutStream:
    return stream


pairs = pytest.mark.parametrize(("source", "target"), PAIRS)


def test_it_is_a_forwarding_plane() -> None:
    plane: ForwardingPlane = Plane()
    assert plane.poll_timeout() is None
    assert plane.poll_notices() == []


# Streams


@pytest.mark.parametrize("subgroup_id", [0, 4, None])
@pytest.mark.parametrize("priority", [None, 9])
@pytest.mark.parametrize("end_of_group", [False, True])
@pairs
def test_a_subgroup_arrives_as_it_was_sent(
    source: Draft, target: Draft, subgroup_id: int | None, priority: int | None, end_of_group: bool
) -> None:
    net = Net()
    publisher, receiver = net.publisher(source), net.receiver(target)
    blocks = [
        encode_extensions(
            [KeyValue(0x3D00, index), KeyValue(0x777, b"unknown")],
            source,
            immutable=[KeyValue(0x101, b"x"), KeyValue(0x102, 70)],
        )
        for index in range(4)
    ]
    data = subgroup(
        source,
        dict(zip([4, 5, 9, 10], bodies(4, 300), strict=True)),
        group=8,
        subgroup_id=subgroup_id,
        priority=priority,
        extensions=blocks,
        end_of_group=end_of_group,
        first_object=True,
    )
    net.send(publisher, data)
    (got,) = net.egress[receiver].subgroups()
    assert got.ids == [4, 5, 9, 10]
    assert got.payloads == bodies(4, 300)
    assert got.stream.fin
    assert got.header.track_alias == 3
    assert got.header.group_id == 8
    assert got.header.subgroup_id == subgroup_id
    assert got.header.priority == priority
    assert got.header.end_of_group is end_of_group
    assert got.header.first_object is (source is D18 and target is D18)
    assert [item.header.subgroup_id for item in got.objects] == [
        4 if subgroup_id is None else subgroup_id
    ] * 4
    expected = [
        encode_extensions(
            [KeyValue(0x3D00, index), KeyValue(0x777, b"unknown")],
            target,
            immutable=[KeyValue(0x101, b"x"), KeyValue(0x102, 70)],
        )
        for index in range(4)
    ]
    assert [item.header.extensions for item in got.objects] == expected


@pairs
@pytest.mark.parametrize("status", [ObjectStatus.END_OF_GROUP, ObjectStatus.END_OF_TRACK])
def test_status_objects_are_forwarded(source: Draft, target: Draft, status: ObjectStatus) -> None:
    net = Net()
    publisher, receiver = net.publisher(source), net.receiver(target)
    net.send(publisher, subgroup(source, bodies(2), status=(2, status)))
    (got,) = net.egress[receiver].subgroups()
    assert [item.header.status for item in got.objects][-1] is status
    ended = [TrackEnded(1, Location(0, 2))] if status is ObjectStatus.END_OF_TRACK else []
    assert net.plane.poll_notices() == ended


@pairs
@given(places=st.lists(st.integers(1, 900), max_size=12))
def test_how_the_input_is_cut_changes_nothing(
    source: Draft, target: Draft, places: list[int]
) -> None:
    net = Net()
    publisher, receiver = net.publisher(source), net.receiver(target)
    data = subgroup(
        source, bodies(6, 120), subgroup_id=None, extensions=[b""] * 6, end_of_group=True
    )
    net.send(publisher, data, places)
    (got,) = net.egress[receiver].subgroups()
    assert got.payloads == bodies(6, 120)
    assert got.stream.fin
    counted = net.plane.subscription_counters(Subscription(receiver, 0))
    assert counted == SubscriptionCounters(6, 720, 1, 0, 0, 0, 0)


@pairs
def test_bytes_go_on_before_their_object_is_whole(source: Draft, target: Draft) -> None:
    net = Net()
    publisher, receiver = net.publisher(source), net.receiver(target)
    data = subgroup(source, [b"x" * 1000])
    stream = net.open(publisher, data[:500])
    (out,) = net.egress[receiver].streams
    assert len(out.data) == 500
    net.more(publisher, stream, data[500:])
    assert len(out.data) == len(data)
    assert not out.fin
    net.more(publisher, stream, b"", fin=True)
    assert out.fin


def test_payloads_are_not_copied_for_each_receiver() -> None:
    net = Net()
    publisher = net.publisher()
    receivers = [net.receiver() for _ in range(3)]
    stream = net.open(publisher, subgroup(D16, [b"a" * 2000])[:1000])
    chunk = b"a" * 900
    net.more(publisher, stream, chunk)
    assert all(net.egress[each].streams[0].writes[-1] is chunk for each in receivers)


@pairs
def test_a_reset_is_mirrored_also_in_the_middle_of_an_object(source: Draft, target: Draft) -> None:
    net = Net()
    publisher, receiver = net.publisher(source), net.receiver(target)
    stream = net.open(publisher, subgroup(source, bodies(2, 50))[:-20])
    net.reset(publisher, stream, 2)
    (out,) = net.egress[receiver].streams
    assert out.reset_code == 2
    assert not out.fin
    assert net.plane.track_counters(1).cached_objects == 1
    counted = net.plane.subscription_counters(Subscription(receiver, 0))
    assert counted is not None
    assert counted.objects == 2


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (None, None, [(2, 0), (2, 1), (2, 2), (3, 0), (3, 1), (3, 2)]),
        ((2, 1), None, [(2, 1), (2, 2), (3, 0), (3, 1), (3, 2)]),
        ((2, 9), None, [(3, 0), (3, 1), (3, 2)]),
        ((3, 0), 3, [(3, 0), (3, 1), (3, 2)]),
        ((0, 0), 2, [(2, 0), (2, 1), (2, 2)]),
        ((4, 0), None, []),
    ],
)
@pairs
def test_filters(source: Draft, target: Draft, start: Any, end: Any, expected: Any) -> None:
    net = Net()
    publisher = net.publisher(source)
    receiver = net.receiver(target, start=start, end_group=end)
    for group in (2, 3):
        net.send(publisher, subgroup(source, bodies(3, 9, group), group=group), range(200))
    got = net.egress[receiver].objects()
    assert sorted(got) == expected
    assert all(payload == bodies(3, 9, group)[index] for (group, index), payload in got.items())


@pairs
def test_the_next_object_is_the_next_whole_one(source: Draft, target: Draft) -> None:
    net = Net()
    publisher = net.publisher(source)
    data = subgroup(source, bodies(3, 100), subgroup_id=None)
    stream = net.open(publisher, data[:50])
    receiver = net.receiver(target)
    net.more(publisher, stream, data[50:], fin=True)
    (got,) = net.egress[receiver].subgroups()
    assert got.ids == [1, 2]
    assert got.header.subgroup_id == 0


def test_forward_off_and_on() -> None:
    net = Net()
    publisher, receiver = net.publisher(), net.receiver(forward=False)
    data = subgroup(D16, bodies(6, 20))
    step = (len(data) - 3) // 6
    stream = net.open(publisher, data[: 3 + 2 * step])
    assert net.egress[receiver].streams == []
    key = Subscription(receiver, 0)
    net.plane.update_egress(net.now, key, entry())
    net.more(publisher, stream, data[3 + 2 * step : 3 + 4 * step])
    net.plane.update_egress(net.now, key, entry(forward=False))
    (out,) = net.egress[receiver].streams
    assert out.reset_code is not None
    net.more(publisher, stream, data[3 + 4 * step :], fin=True)
    assert len(net.egress[receiver].streams) == 1
    assert sorted(net.egress[receiver].objects()) == [(0, 2), (0, 3)]


def test_an_update_changes_priorities_and_ranges() -> None:
    net = Net()
    publisher, receiver = net.publisher(), net.receiver()
    for group in (1, 2):
        net.open(publisher, subgroup(D16, bodies(1), group=group))
    first, second = net.egress[receiver].streams
    assert first.priority < second.priority
    before = second.priority
    key = Subscription(receiver, 0)
    net.plane.update_egress(net.now, key, entry(start=(2, 0), priority=3, delivery_timeout=1.0))
    assert first.reset_code is not None
    assert second.reset_code is None
    assert second.priority < before
    net.plane.update_egress(net.now, Subscription(99, 0), entry())
    net.plane.update_egress(net.now, Subscription(receiver, 5), entry())


def test_subscriptions_are_done_behind_their_last_group() -> None:
    net = Net()
    publisher, receiver = net.publisher(), net.receiver(start=(0, 0), end_group=1)
    for group in range(3):
        stream = net.open(publisher, subgroup(D16, bodies(2), group=group))
        if group < 2:
            net.more(publisher, stream, b"", fin=True)
    assert net.plane.poll_notices() == [SubscriptionDone(Subscription(receiver, 0))]
    assert sorted(net.egress[receiver].objects()) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    late = net.receiver(start=(0, 0), end_group=0)
    assert net.plane.poll_notices() == [SubscriptionDone(Subscription(late, 0))]


def test_a_removed_receiver_is_reset_or_left_to_end() -> None:
    net = Net()
    publisher = net.publisher()
    one, two, three = (net.receiver() for _ in range(3))
    stream = net.open(publisher, subgroup(D16, bodies(2)))
    counters = net.plane.remove_egress(net.now, Subscription(one, 0), reset_code=1)
    assert counters == SubscriptionCounters(2, 20, 1, 0, 0, 0, 0)
    net.plane.remove_egress(net.now, Subscription(two, 0), reset_code=None)
    net.more(publisher, stream, b"", fin=True)
    assert net.egress[one].streams[0].reset_code == 1
    assert net.egress[two].streams[0].fin
    assert net.egress[three].streams[0].fin
    net.send(publisher, subgroup(D16, bodies(1), group=1))
    assert [len(net.egress[each].streams) for each in (one, two, three)] == [1, 1, 2]
    nothing = SubscriptionCounters(0, 0, 0, 0, 0, 0, 0)
    assert net.plane.remove_egress(net.now, Subscription(one, 0), reset_code=1) == nothing
    assert net.plane.subscription_counters(Subscription(one, 0)) is None
    assert net.plane.subscription_counters(Subscription(77, 0)) is None


def test_a_dropped_stream_is_counted_and_the_next_group_arrives() -> None:
    net = Net()
    publisher, receiver, other = net.publisher(), net.receiver(), net.receiver()
    data = subgroup(D16, bodies(4, 100))
    stream = net.open(publisher, data[:220])
    net.drop(receiver, lost=50)
    net.more(publisher, stream, data[220:], fin=True)
    net.send(publisher, subgroup(D16, bodies(1), group=1))
    counted = net.plane.subscription_counters(Subscription(receiver, 0))
    assert counted is not None
    assert (counted.dropped_streams, counted.streams) == (1, 2)
    assert counted.dropped_bytes == 50 + 400 - (220 - 3 - 3 * 3)
    assert len(net.egress[receiver].streams) == 2
    assert net.egress[other].subgroups()[0].payloads == bodies(4, 100)
    net.plane.out_stream_gone(net.now, 99, net.egress[receiver].streams[0], 1, stopped=True)


def test_a_session_that_is_gone() -> None:
    net = Net()
    publisher, receiver = net.publisher(), net.receiver()
    net.open(publisher, subgroup(D16, bodies(2, 50))[:-5])
    net.open(publisher, subgroup(D16, bodies(1), alias=66))
    net.plane.remove_session(net.now, publisher)
    assert net.egress[receiver].resets() == [None]  # it may come back, and bring the rest
    net.now += PlaneLimits().continued_time + 1
    net.plane.handle_timeout(net.now)
    assert net.egress[receiver].streams[0].reset_code == 1
    net.plane.remove_session(net.now, publisher)
    net.plane.remove_session(net.now, receiver)
    assert net.plane.track_counters(1).receivers == 0
    # Whatever still comes from there is not looked at.
    net.open(publisher, b"garbage")
    net.more(publisher, 6, b"garbage")
    net.reset(publisher, 6)
    net.plane.datagram(net.now, publisher, b"garbage")
    net.plane.remove_ingress(net.now, publisher, 7)
    assert net.plane.poll_notices() == []


def test_a_track_that_is_gone() -> None:
    net = Net()
    first, second, receiver = net.publisher(), net.publisher(), net.receiver()
    data = subgroup(D16, bodies(2, 50))
    net.open(first, data[:-5])
    net.open(second, data[:-5])
    net.plane.remove_track(net.now, 1)
    net.plane.remove_track(net.now, 1)
    assert net.egress[receiver].streams[0].reset_code == 1
    assert net.egress[first].stopped
    assert net.egress[second].stopped
    assert net.plane.largest(1) is None
    assert net.plane.purge() == 0
    assert net.plane.purge(1) == 0
    net.send(first, data)
    net.wait(60)
    assert net.plane.counters().unknown_alias_streams == 1


def test_removed_ingress_lets_streams_end() -> None:
    net = Net()
    publisher, receiver = net.publisher(), net.receiver()
    data = subgroup(D16, bodies(2, 50))
    stream = net.open(publisher, data[:-5])
    net.plane.remove_ingress(net.now, publisher, 7)
    net.more(publisher, stream, data[-5:], fin=True)
    assert net.egress[receiver].subgroups()[0].payloads == bodies(2, 50)


# Aliases that are not known yet


@pairs
def test_what_comes_before_its_alias_is_replayed(source: Draft, target: Draft) -> None:
    net = Net()
    publisher, receiver = net.publisher(source, alias=1), net.receiver(target)
    data = subgroup(source, bodies(3, 60))
    whole = net.send(publisher, data, [20, 90])
    assert whole
    half = subgroup(source, bodies(2, 60, 1), group=1)
    stream = net.open(publisher, half[:40])
    net.datagram(publisher, ObjectDatagram(7, 5, 0, b"datagram"))
    assert net.egress[receiver].streams == []
    net.plane.add_ingress(net.now, publisher, 7, 1, 128)
    net.more(publisher, stream, half[40:], fin=True)
    one, two = net.egress[receiver].subgroups()
    assert one.payloads == bodies(3, 60)
    assert two.payloads == bodies(2, 60, 1)
    assert [each.payload for each in net.egress[receiver].object_datagrams()] == [b"datagram"]
    net.wait(60)
    assert set(net.plane.counters()) == {0}


def test_a_fault_in_what_waited() -> None:
    net = Net()
    publisher = net.publisher(alias=1)
    net.open(publisher, subgroup(D16, bodies(1))[:-3], fin=True)
    net.plane.add_ingress(net.now, publisher, 7, 1, 128)
    (fault,) = net.plane.poll_notices()
    assert isinstance(fault, SessionFault)


# Faults


@drafts
def test_a_broken_stream_is_the_session_s_fault(draft: Draft) -> None:
    net = Net()
    publisher, receiver = net.publisher(draft), net.receiver()
    net.send(publisher, subgroup(draft, bodies(2))[:-3])
    (fault,) = net.plane.poll_notices()
    assert isinstance(fault, SessionFault)
    assert fault.session == publisher
    assert isinstance(fault.error, ProtocolViolation)
    assert all(out.reset_code is not None for out in net.egress[receiver].streams)
    net.plane.datagram(net.now, publisher, b"\x3f\x01")
    (fault,) = net.plane.poll_notices()
    assert isinstance(fault, SessionFault)


def test_extensions_over_our_limit_end_the_stream_alone() -> None:
    net = Net()
    publisher, receiver = net.publisher(), net.receiver()
    data = subgroup(D16, bodies(1), extensions=[b""])
    stream = net.open(publisher, data)
    net.more(publisher, stream, b"\x00" + (0x8000_0000 | 1 << 20).to_bytes(4, "big"))
    assert net.plane.poll_notices() == []
    assert net.egress[publisher].stopped == [(stream, 0)]
    assert net.egress[receiver].streams[0].reset_code == 0
    net.more(publisher, stream, b"more")


def test_a_malformed_track_is_told_once_and_not_taken_any_more() -> None:
    net = Net()
    publisher, receiver = net.publisher(), net.receiver()
    net.send(publisher, subgroup(D16, bodies(2), end_of_group=True))
    for _ in range(2):
        stream = net.open(publisher, subgroup(D16, {5: b"late"}, subgroup_id=1))
        assert net.egress[publisher].stopped[-1] == (stream, 0x12)
    net.datagram(publisher, ObjectDatagram(7, 0, 9, b"late"))
    (notice,) = net.plane.poll_notices()
    assert isinstance(notice, TrackMalformed)
    assert notice[:2] == (1, publisher)
    assert "0:5" in notice.reason
    assert len(net.egress[receiver].streams) == 1
    assert net.plane.track_counters(1).cached_objects == 2


def test_a_datagram_can_make_a_track_malformed() -> None:
    net = Net()
    publisher = net.publisher()
    net.datagram(publisher, ObjectDatagram(7, 0, 3, b"last", end_of_group=True))
    net.datagram(publisher, ObjectDatagram(7, 0, 4, b"more"))
    (notice,) = net.plane.poll_notices()
    assert isinstance(notice, TrackMalformed)


# Figures, ranks, cache


def test_counters_and_largest() -> None:
    net = Net()
    publisher = net.publisher()
    receivers = [net.receiver() for _ in range(3)]
    assert net.plane.largest(1) is None
    assert net.plane.largest(9) is None
    stream = net.open(publisher, subgroup(D16, bodies(4, 25), group=5))
    assert net.plane.largest(1) == Location(5, 3)
    counted = net.plane.track_counters(1)
    assert (counted.objects_in, counted.bytes_in) == (4, 100)
    assert (counted.objects_out, counted.bytes_out) == (12, 300)
    assert counted.receivers == len(receivers)
    assert (counted.cached_groups, counted.cached_objects) == (1, 4)
    net.more(publisher, stream, b"", fin=True)
    assert net.plane.track_counters(1) == counted


def test_ranks_are_told_when_they_change() -> None:
    net = Net()
    publisher = net.publisher()
    net.plane.rank_by(1, 0x100)
    blocks = [encode_extensions([KeyValue(0x100, value)], D16) for value in (5, 5, 9)]
    net.send(publisher, subgroup(D16, bodies(3), extensions=blocks))
    assert net.plane.poll_notices() == [RankChanged(1, 5), RankChanged(1, 9)]
    net.plane.rank_by(1, None)
    net.send(publisher, subgroup(D16, bodies(1), extensions=blocks[:1], group=1))
    assert net.plane.poll_notices() == []


def test_cache_limits_and_purge() -> None:
    net = Net()
    publisher = net.publisher()
    for group in range(4):
        net.send(publisher, subgroup(D16, bodies(2, 100), group=group))
    assert net.plane.track_counters(1).cached_groups == 4
    net.plane.set_cache_limits(net.now, CacheLimits(max_groups=2))
    assert net.plane.track_counters(1).cached_groups == 2
    held = net.plane.track_counters(1).cached_bytes
    assert net.plane.purge(1) == held
    assert net.plane.track_counters(1).cached_bytes == 0
    net.send(publisher, subgroup(D16, bodies(2, 100), group=9))
    assert net.plane.purge() > 0


def test_timeouts_come_from_the_cache_and_from_what_waits() -> None:
    net = Net()
    publisher = net.publisher()
    net.send(publisher, subgroup(D16, bodies(1)))
    assert net.plane.poll_timeout() == 160.0
    net.send(publisher, subgroup(D16, bodies(1), alias=50))
    assert net.plane.poll_timeout() == 103.0
    net.plane.purge()
    net.wait(100)
    assert net.plane.poll_timeout() is None


def test_a_fetch_is_served_relayed_and_cancelled() -> None:
    net = Net()
    publisher, receiver = net.publisher(), net.session(D18)
    net.send(publisher, subgroup(D16, bodies(2), end_of_group=True))
    wanted = FetchRange(track=1, start=Location(0, 0), end=Location(0, 1))
    assert net.plane.covers(net.now, wanted)
    key = Subscription(receiver, 4)
    assert net.plane.serve_fetch(net.now, key, wanted) is FetchOutcome.SERVED
    net.plane.relay_fetch(publisher, 8, Subscription(receiver, 6), wanted)
    net.plane.stream_opened(net.now, publisher, 3, StreamKind.FETCH, b"\x05\x08", True)
    net.plane.cancel_fetch(net.now, key, 1)
    assert [out.fin for out in net.egress[receiver].streams] == [True, True]


def test_padding_is_thrown_away() -> None:
    net = Net()
    publisher = net.publisher(D18)
    data = encode_padding_stream(20, D18)
    net.plane.stream_opened(net.now, publisher, 3, StreamKind.PADDING, data, False)
    net.more(publisher, 3, bytes(9))
    assert net.plane.poll_notices() == []
    assert isinstance(entry(), EgressEntry)


# Bad input


@pairs
@given(st.data())
def test_whatever_a_peer_sends_is_forwarded_or_told(
    source: Draft, target: Draft, data: st.DataObject
) -> None:
    """No bytes raise anything, whoever receives, comes late or fetches."""
    net = Net()
    publisher = net.publisher(source)
    net.receiver(target)
    wanted = FetchRange(track=1, start=Location(0, 0), end=Location(3, 9))
    asker = net.session(target)
    net.plane.relay_fetch(publisher, 1, Subscription(asker, 2), wanted)
    garbage = st.binary(max_size=40)
    number = 0
    for _ in range(data.draw(st.integers(1, 6))):
        number += 4
        kind = data.draw(st.sampled_from(["subgroup", "object", "fetch", "datagram"]))
        tail = data.draw(garbage)
        fin = data.draw(st.booleans())
        if kind == "subgroup":
            start = data.draw(st.sampled_from([0x10, 0x11, 0x13, 0x15, 0x19, 0x31]))
            head = bytes([start, 7, data.draw(st.integers(0, 3))])
            net.plane.stream_opened(
                net.now, publisher, number, StreamKind.SUBGROUP, head + tail, fin
            )
        elif kind == "object":
            stream = net.open(publisher, subgroup(source, bodies(2), extensions=[b"", b""]))
            net.more(publisher, stream, tail, fin=fin)
        elif kind == "fetch":
            net.plane.stream_opened(
                net.now, publisher, number, StreamKind.FETCH, b"\x05\x01" + tail, fin
            )
        else:
            net.plane.datagram(
                net.now, publisher, data.draw(st.sampled_from([b"", b"\x01\x07"])) + tail
            )
        late = net.receiver(target, start=(0, 0))
        net.plane.serve_fetch(net.now, Subscription(late, 2), wanted, partial=True)
        net.wait(data.draw(st.sampled_from([0.0, 4.0, 100.0])))
    for egress in net.egress.values():
        for stream_out in egress.streams:
            assert stream_out.data or stream_out.reset_code is not None
    net.plane.remove_session(net.now, publisher)
    net.plane.remove_track(net.now, 1)
    assert net.plane._state.cache.bytes == 0


@drafts
def test_incoming_streams_are_counted(draft: Draft) -> None:
    net = Net()
    publisher = net.session(draft)
    assert net.plane.ingress_streams(publisher, 7) == (0, 0)
    net.open(publisher, subgroup(draft, bodies(1)))  # before its alias is known
    net.plane.add_track(1, NAME)
    net.plane.add_ingress(net.now, publisher, 7, 1, 128)
    assert net.plane.ingress_streams(publisher, 7) == (1, 1)
    stream = net.open(publisher, subgroup(draft, bodies(1), group=1))
    net.send(publisher, subgroup(draft, bodies(1), group=2))
    net.open(publisher, subgroup(draft, bodies(1), alias=8))
    assert net.plane.ingress_streams(publisher, 7) == (3, 2)
    net.reset(publisher, stream)
    assert net.plane.ingress_streams(publisher, 7) == (3, 1)
    assert net.plane.ingress_streams(99, 7) == (0, 0)


def test_a_track_leaves_nothing_in_sessions_nor_a_session_in_tracks() -> None:
    net = Net()
    one, two = net.publisher(), net.publisher(alias=9)
    track = net.plane._state.tracks[1]
    net.send(one, subgroup(D16, bodies(3), end_of_group=True))
    net.send(one, subgroup(D16, {7: b"behind the end"}, subgroup_id=1))
    net.send(two, subgroup(D16, {8: b"behind the end"}, subgroup_id=1, alias=9))
    senders = [net.plane._sessions[number] for number in (one, two)]
    assert [track in sender.malformed for sender in senders] == [True, True]
    net.plane.remove_session(net.now, two)
    assert list(track.ingress) == [(senders[0], 7)]
    assert track.broken == {senders[0]}
    # An alias may be given to another track.
    net.plane.add_track(2, NAME)
    net.plane.add_ingress(net.now, one, 7, 2, 128)
    assert track.ingress == {}
    net.plane.add_ingress(net.now, one, 8, 1, 128)
    net.plane.remove_track(net.now, 1)
    assert list(senders[0].sources) == [7]
    assert senders[0].malformed == set()


def test_streams_to_another_relay_are_renewed() -> None:
    net = Net()
    one, far = net.publisher(D18), net.receiver(D18, peering=True)
    net.plane.renew_egress(Subscription(99, 0))
    net.plane.renew_egress(Subscription(far, 0))  # nothing is open
    whole = subgroup(D18, bodies(2, 10))
    stream = net.open(one, whole[:-10])
    net.plane.renew_egress(Subscription(far, 0))
    net.more(one, stream, whole[-10:] + b"\0\1x", fin=True)
    assert [each.fin for each in net.egress[far].streams] == [True, True]
    net.wait(1.0)
    before = net.now - 0.1
    stream = net.open(one, subgroup(D18, bodies(2, 10), group=1)[:-10])
    net.plane.renew_egress(Subscription(far, 0), before)
    net.more(one, stream, bodies(2, 10)[1], fin=True)
    assert len(net.egress[far].streams) == 3  # it began later


def test_an_alias_that_the_relay_takes_itself_is_no_track() -> None:
    class Desk:
        """Keeps what it is given."""

        def __init__(self) -> None:
            self.taken: list[bytes] = []

        def take(self, now: float, session: int, payload: bytes) -> None:
            del now, session
            self.taken.append(payload)

        def refuse(self, session: int, kind: str, reason: str) -> None:
            raise AssertionError((session, kind, reason))

    net, desk = Net(), Desk()
    one, far = net.publisher(D18), net.receiver(D18)
    net.plane.add_intake(net.now, one, 7, desk, 64)
    net.send(one, subgroup(D18, [b"report"]))
    net.plane.remove_intake(one, 7)
    net.plane.remove_intake(99, 7)
    net.send(one, subgroup(D18, [b"too late"], group=1))  # waits for an alias
    assert desk.taken == [b"report"]
    net.plane.add_ingress(net.now, one, 7, 1, 128)
    assert desk.taken == [b"report"]
    assert len(net.egress[far].streams) == 1


# What the plane counts: counters stay, what is taken is taken once.


def test_a_plane_has_figures() -> None:
    figures = Plane()
    assert set(figures.counters()) == {0}
    assert figures.subscription_counters(Subscription(1, 2)) is None
    assert figures.take_traffic() == []
    assert figures.take_clients() == []


def test_counters_of_tracks_and_receivers_stay() -> None:
    net = Net()
    publisher, receiver = net.publisher(), net.receiver()
    net.send(publisher, subgroup(D16, bodies(2)))
    for _ in range(2):
        assert net.plane.track_counters(1).objects_out == 2
        counted = net.plane.subscription_counters(Subscription(receiver, 0))
        assert counted is not None
        assert counted.objects == 2
    assert net.plane.subscription_counters(Subscription(receiver, 7)) is None


def test_traffic_is_told_once_and_not_lost_with_its_track() -> None:
    net = Net()
    publisher = net.publisher()
    net.receiver()
    net.plane.count_traffic()
    net.send(publisher, subgroup(D16, bodies(1)))
    assert [each.bytes_out for each in net.plane.take_traffic([1, 2])] == [10]
    net.send(publisher, subgroup(D16, bodies(1), group=1))
    net.plane.remove_track(net.now, 1)
    assert [each.bytes_out for each in net.plane.take_traffic()] == [10]
    assert net.plane.take_traffic() == []


def test_nobody_counts_what_tracks_did_that_are_gone() -> None:
    net = Net()
    publisher = net.publisher()
    net.receiver()
    net.send(publisher, subgroup(D16, bodies(1)))
    net.plane.remove_track(net.now, 1)
    assert net.plane.take_traffic() == []


def test_the_cache_and_the_clients_are_told_since_the_last_time() -> None:
    net = Net()
    publisher, receiver = net.publisher(), net.receiver()
    net.send(publisher, subgroup(D16, bodies(3)))
    figures, held = net.plane.take_cache()
    assert held == net.plane.track_counters(1).cached_bytes > 0
    assert figures.evicted == 0
    net.plane.set_cache_limits(net.now, CacheLimits(max_bytes=0))
    figures, held = net.plane.take_cache()
    assert (figures.evicted > 0, held) == (True, 0)
    assert net.plane.take_cache()[0].evicted == 0
    (client,) = net.plane.take_clients()
    assert (client.session, client.track) == (receiver, NAME)


def test_objects_are_timed_while_somebody_wants_that() -> None:
    net = Net()
    net.plane.time_objects(None)
    assert net.plane.poll_timeout() is None
