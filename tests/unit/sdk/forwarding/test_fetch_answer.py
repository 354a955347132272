"""Answers to FETCH from the cache."""

from __future__ import annotations

import pytest

from laps_sdk.forwarding.interfaces import (
    FetchEnded,
    FetchOutcome,
    FetchRange,
    PlaneLimits,
    Subscription,
)
from laps_wire.moqt.codepoints import GroupOrder
from laps_wire.moqt.data import MoqObject, ObjectDatagram, RangeEnd, RangeKind, encode_extensions
from laps_wire.moqt.keyvalue import KeyValue
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft
from testkit.plane import D16, D18, Net, bodies, subgroup

UP, DOWN = GroupOrder.ASCENDING, GroupOrder.DESCENDING
PAIRS = [(source, target) for source in (D16, D18) for target in (D16, D18)]
LAST = (1 << 62) - 1


def wanted(
    start: tuple[int, int], end: tuple[int, int], order: GroupOrder = UP, priority: int = 128
) -> FetchRange:
    return FetchRange(
        track=1, start=Location(*start), end=Location(*end), order=order, priority=priority
    )


def big(limits: PlaneLimits | None = None) -> Net:
    net = Net(limits=limits or PlaneLimits())
    publisher = net.publisher()
    net.send(publisher, subgroup(D16, bodies(20, 9000), end_of_group=True), range(0, 190000, 1200))
    return net


@pytest.mark.parametrize(("source", "target"), PAIRS)
@pytest.mark.parametrize("order", [UP, DOWN])
def test_an_answer_holds_everything(source: Draft, target: Draft, order: GroupOrder) -> None:
    net = Net()
    publisher, receiver = net.publisher(source), net.session(target)
    block = encode_extensions([KeyValue(0x200, 99), KeyValue(0x301, b"raw")], source)
    for group in (4, 5):
        data = subgroup(source, {0: b"zero", 2: b"two"}, group=group, subgroup_id=3, priority=7)
        net.send(publisher, data)
        data = subgroup(
            source,
            {1: b"", 3: b"x" * 300},
            group=group,
            subgroup_id=None,
            extensions=[block, b""],
            end_of_group=True,
        )
        net.send(publisher, data)
    key = Subscription(receiver, 6)
    assert net.plane.serve_fetch(net.now, key, wanted((4, 1), (5, LAST), order)) is (
        FetchOutcome.SERVED
    )
    assert net.plane.poll_notices() == [FetchEnded(key, complete=True)]
    request, items = net.egress[receiver].fetched(order=order)
    assert request == 6
    groups = [(4, 1), (5, 0)] if order is UP else [(5, 0), (4, 1)]
    expected = [(group, each) for group, first in groups for each in range(first, 4)]
    objects = [item for item in items if isinstance(item, MoqObject)]
    assert [(item.header.group_id, item.header.object_id) for item in objects] == expected
    assert len(items) == len(objects)
    by_id = {item.header.object_id: item for item in objects}
    assert [by_id[each].payload for each in (0, 1, 2, 3)] == [b"zero", b"", b"two", b"x" * 300]
    assert [by_id[each].header.subgroup_id for each in (0, 1, 2, 3)] == [3, 1, 3, 1]
    assert [by_id[each].header.priority for each in (0, 1, 2, 3)] == [7, 128, 7, 128]
    expected_block = encode_extensions([KeyValue(0x200, 99), KeyValue(0x301, b"raw")], target)
    assert by_id[1].header.extensions == expected_block


@pytest.mark.parametrize("target", [D16, D18])
@pytest.mark.parametrize("order", [UP, DOWN])
def test_what_is_not_known_is_said(target: Draft, order: GroupOrder) -> None:
    net = Net()
    publisher, receiver = net.publisher(), net.session(target)
    for group in (2, 4):
        net.send(publisher, subgroup(D16, {1: b"x", 3: b"y"}, group=group))
    key = Subscription(receiver, 0)
    asked = wanted((1, 0), (4, 9), order)
    assert net.plane.serve_fetch(net.now, key, asked) is FetchOutcome.GAPS
    assert net.egress[receiver].streams == []
    assert net.plane.serve_fetch(net.now, key, asked, partial=True) is FetchOutcome.SERVED
    _, items = net.egress[receiver].fetched(order=order)
    shown = [item if isinstance(item, RangeEnd) else item.header.location for item in items]
    unknown = RangeKind.UNKNOWN
    up: list[RangeEnd | Location] = [
        RangeEnd(unknown, 2, 0),
        Location(2, 1),
        RangeEnd(unknown, 2, 2),
        Location(2, 3),
        RangeEnd(unknown, 4, 0),
        Location(4, 1),
        RangeEnd(unknown, 4, 2),
        Location(4, 3),
        RangeEnd(unknown, 4, 9),
    ]
    down: list[RangeEnd | Location] = [
        RangeEnd(unknown, 4, 0),
        Location(4, 1),
        RangeEnd(unknown, 4, 2),
        Location(4, 3),
        RangeEnd(unknown, 2, 0),
        Location(2, 1),
        RangeEnd(unknown, 2, 2),
        Location(2, 3),
        RangeEnd(unknown, 1, LAST),
    ]
    assert shown == (up if order is UP else down)


def test_a_large_answer_is_made_while_it_is_sent() -> None:
    net = big(PlaneLimits(fetch_window=30000))
    receiver = net.session(D18, fast=False)
    key = Subscription(receiver, 0)
    net.plane.serve_fetch(net.now, key, wanted((0, 0), (0, 19)))
    (out,) = net.egress[receiver].streams
    assert out.droppable
    steps = 0
    while not out.fin:
        assert out.queued < 30000 + 9000 + 32768
        before = len(out.data)
        net.wait(0.02)
        assert len(out.data) == before
        assert net.plane.poll_notices() == []
        out.sent = len(out.data)
        net.wait(0.02)
        steps += 1
    assert steps > 3
    assert net.plane.poll_notices() == [FetchEnded(key, complete=True)]
    _, items = net.egress[receiver].fetched()
    assert [item.payload for item in items if isinstance(item, MoqObject)] == bodies(20, 9000)


def test_what_is_evicted_meanwhile_is_unknown_and_takes_no_memory() -> None:
    net = big(PlaneLimits(fetch_window=30000))
    one, two = net.session(D16, fast=False), net.session(D16, fast=False)
    for receiver in (one, two):
        net.plane.serve_fetch(net.now, Subscription(receiver, 0), wanted((0, 0), (0, 19)))
    segments = list(net.plane._state.cache.order)
    net.plane.purge()
    # A reader that is slow, or reads nothing at all, must not keep what the cache has let go.
    assert not any(segment.chunks for segment in segments)
    net.drop(two)
    assert net.plane.poll_notices() == [FetchEnded(Subscription(two, 0), complete=False)]
    net.egress[one].fast = True
    net.wait(1)
    _, items = net.egress[one].fetched()
    *objects, rest = items
    assert 0 < len(objects) < 20
    assert [item.header.object_id for item in objects if isinstance(item, MoqObject)] == list(
        range(len(objects))
    )
    assert rest == RangeEnd(RangeKind.UNKNOWN, 0, 19)
    assert not net.egress[two].streams[0].fin
    assert net.plane.poll_notices() == [FetchEnded(Subscription(one, 0), complete=True)]
    net.drop(one)
    assert net.plane.poll_notices() == []


def test_chunks_that_are_nothing_but_payload_are_not_copied() -> None:
    net = Net()
    publisher, receiver = net.publisher(), net.session(D16)
    data = subgroup(D16, [b"x" * 100_000])
    stream = net.open(publisher, data[:100])
    chunk = data[100:-100]
    net.more(publisher, stream, chunk)
    net.more(publisher, stream, data[-100:], fin=True)
    net.plane.serve_fetch(net.now, Subscription(receiver, 0), wanted((0, 0), (0, 0)))
    assert any(write is chunk for write in net.egress[receiver].streams[0].writes)
    _, items = net.egress[receiver].fetched()
    assert isinstance(items[0], MoqObject)
    assert items[0].payload == b"x" * 100_000


def test_datagrams_are_marked() -> None:
    net = Net()
    publisher, receiver = net.publisher(), net.session(D18)
    net.datagram(publisher, ObjectDatagram(7, 0, 0, b"x", 5))
    net.plane.serve_fetch(net.now, Subscription(receiver, 0), wanted((0, 0), (0, 0)))
    _, (item,) = net.egress[receiver].fetched()
    assert isinstance(item, MoqObject)
    assert item.header.subgroup_id is None
    assert item.header.priority == 5


def test_ids_that_the_draft_has_no_integers_for() -> None:
    net = Net()
    publisher, receiver = net.publisher(D18), net.session(D16)
    net.send(publisher, subgroup(D18, {1 << 63: b"x"}))
    key = Subscription(receiver, 0)
    net.plane.serve_fetch(net.now, key, wanted((0, 1 << 63), (0, 1 << 63)))
    assert net.egress[receiver].streams[0].reset_code == 0
    assert net.plane.poll_notices() == [FetchEnded(key, complete=False)]


def test_priorities() -> None:
    net = big()
    receiver = net.session(D16)
    for request, priority in ((0, 9), (2, 3)):
        asked = wanted((0, 0), (0, 0), priority=priority)
        net.plane.serve_fetch(net.now, Subscription(receiver, request), asked)
    first, second = net.egress[receiver].streams
    assert first.priority > second.priority > 0


def test_a_receiver_that_takes_nothing_is_looked_at_rarely() -> None:
    net = big(PlaneLimits(fetch_window=30000))
    receiver = net.session(D16, fast=False)
    net.plane.serve_fetch(net.now, Subscription(receiver, 0), wanted((0, 0), (0, 19)))
    looks = 0
    end = net.now + 10
    while (due := net.plane._state.timers.next()) is not None and due < end:
        net.now = due
        net.plane.handle_timeout(net.now)
        looks += 1
    assert looks < 60
    stream = net.egress[receiver].streams[0]
    while not stream.fin:  # and goes on as soon as it takes something
        stream.sent = len(stream.data)
        net.wait(0.25)
    assert len(net.egress[receiver].fetched()[1]) == 20
