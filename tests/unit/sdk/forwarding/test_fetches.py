"""Fetches that end before their answer does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.forwarding.fetches import LAST_OBJECT, is_covered, items, plan
from laps_sdk.forwarding.interfaces import (
    FetchEnded,
    FetchOutcome,
    FetchRange,
    PlaneLimits,
    SessionFault,
    Subscription,
    TrackMalformed,
    UpstreamEnded,
)
from laps_wire.moqt.codepoints import GroupOrder
from laps_wire.moqt.data import (
    FetchHeader,
    FetchWriter,
    MoqObject,
    ObjectDatagram,
    ObjectHeader,
    ObjectStatus,
    RangeEnd,
    RangeKind,
    StreamKind,
    encode_extensions,
)
from laps_wire.moqt.keyvalue import KeyValue
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft
from testkit.plane import D16, D18, Net, bodies, cut, subgroup

WANTED = FetchRange(track=1, start=Location(0, 0), end=Location(0, 19))


def make() -> tuple[Net, int, int]:
    net = Net(limits=PlaneLimits(fetch_window=10000))
    publisher = net.publisher()
    net.send(publisher, subgroup(D16, bodies(20, 5000), end_of_group=True))
    return net, publisher, net.session(D16, fast=False)


def test_a_track_that_is_not_known() -> None:
    net, _, receiver = make()
    other = FetchRange(track=9, start=Location(0, 0), end=Location(0, 0))
    assert not net.plane.covers(net.now, other)
    key = Subscription(receiver, 0)
    assert net.plane.serve_fetch(net.now, key, other, partial=True) is FetchOutcome.GAPS


def test_cancelling_an_answer_from_the_cache() -> None:
    net, _, receiver = make()
    key = Subscription(receiver, 0)
    net.plane.serve_fetch(net.now, key, WANTED)
    net.plane.cancel_fetch(net.now, key, 1)
    net.plane.cancel_fetch(net.now, key, 1)
    assert net.egress[receiver].streams[0].reset_code == 1
    net.wait(1)
    assert net.plane.poll_notices() == []
    assert net.plane._sessions[receiver].outs == {}


def test_cancelling_an_answer_that_is_passed_on() -> None:
    net, publisher, receiver = make()
    for request, opened in ((6, True), (8, False)):
        key = Subscription(receiver, request)
        net.plane.relay_fetch(publisher, request, key, WANTED)
        if opened:
            data = bytes([5, request])
            net.plane.stream_opened(net.now, publisher, 3, StreamKind.FETCH, data, False)
        net.plane.cancel_fetch(net.now, key, 4)
    # A stream is opened with the first bytes of the answer: the second one never was.
    assert net.egress[receiver].resets() == [4]
    assert net.egress[publisher].stopped == [(3, 1)]
    assert net.plane._sessions[publisher].fetches == {}
    assert net.plane.poll_notices() == []


def test_a_receiver_that_is_gone() -> None:
    net, publisher, receiver = make()
    net.plane.serve_fetch(net.now, Subscription(receiver, 0), WANTED)
    net.plane.relay_fetch(publisher, 6, Subscription(receiver, 2), WANTED)
    net.plane.remove_session(net.now, receiver)
    net.wait(1)
    net.plane.stream_opened(net.now, publisher, 3, StreamKind.FETCH, b"\x05\x06", True)
    assert net.plane.poll_notices() == [UpstreamEnded(publisher, 6, complete=True)]


def test_an_upstream_that_is_gone() -> None:
    net, publisher, receiver = make()
    other = net.session(D16)
    net.plane.relay_fetch(publisher, 6, Subscription(receiver, 2), WANTED)
    net.plane.relay_fetch(other, 6, Subscription(receiver, 4), WANTED)
    net.plane.remove_session(net.now, publisher)
    assert net.plane.poll_notices() == [
        FetchEnded(Subscription(receiver, 2), complete=False),
        UpstreamEnded(publisher, 6, complete=False),
    ]
    assert net.egress[receiver].streams == []


def test_a_track_that_is_gone() -> None:
    net, publisher, receiver = make()
    net.plane.serve_fetch(net.now, Subscription(receiver, 0), WANTED)
    net.plane.relay_fetch(publisher, 6, Subscription(receiver, 2), WANTED)
    net.plane.remove_track(net.now, 1)
    assert net.plane.poll_notices() == [
        FetchEnded(Subscription(receiver, 2), complete=False),
        UpstreamEnded(publisher, 6, complete=False),
    ]
    # What was found in the cache is still sent.
    net.egress[receiver].fast = True
    net.wait(1)
    assert net.plane.poll_notices() == [FetchEnded(Subscription(receiver, 0), complete=True)]


def test_what_is_over_is_forgotten() -> None:
    net, _, _ = make()
    receiver = net.session(D16)
    for request in range(0, 40, 2):
        net.plane.serve_fetch(net.now, Subscription(receiver, request), WANTED)
    # Also behind some that go on.
    assert len(net.plane._fetches._outs) == 0
    slow = net.session(D16, fast=False)
    for request in (0, 2):
        net.plane.serve_fetch(net.now, Subscription(slow, request), WANTED)
    for request in range(0, 40, 2):
        net.plane.serve_fetch(net.now, Subscription(receiver, request), WANTED)
    assert len(net.plane._fetches._outs) == 2


def test_nobody_waits_for_an_answer_that_is_not_wanted() -> None:
    net, publisher, receiver = make()
    key = Subscription(receiver, 2)
    net.plane.relay_fetch(publisher, 6, key, WANTED)
    out, _ = net.plane._fetches._outs[key]
    out.reset(1)
    assert net.plane._sessions[publisher].fetches == {}
    assert net.plane._state.tracks[1].relays == {}
    assert net.plane.poll_notices() == [FetchEnded(key, complete=False)]


def test_an_answer_under_way_goes_with_its_track() -> None:
    """Its receiver has left, its stream has not: nothing more of it is kept."""
    net, publisher, receiver = make()
    net.plane.relay_fetch(publisher, 6, Subscription(receiver, 2), WANTED)
    net.plane.stream_opened(net.now, publisher, 3, StreamKind.FETCH, b"\x05\x06", False)
    net.drop(receiver)
    net.plane.remove_track(net.now, 1)
    assert net.egress[publisher].stopped == [(3, 1)]
    assert net.plane._sessions[publisher].streams == {}
    assert net.plane.poll_notices() == [
        FetchEnded(Subscription(receiver, 2), complete=False),
        UpstreamEnded(publisher, 6, complete=False),
    ]


# What the cache knows of a range.


UP, DOWN = GroupOrder.ASCENDING, GroupOrder.DESCENDING


NO, UNKNOWN = RangeKind.NON_EXISTENT, RangeKind.UNKNOWN


Shown = list[tuple[int, int] | RangeEnd]


def ask(
    net: Net, start: tuple[int, int], end: tuple[int, int], order: GroupOrder = UP
) -> tuple[bool, Shown]:
    """Whether a range is covered, and what an answer holds."""
    state = net.plane._state
    wanted = FetchRange(track=1, start=Location(*start), end=Location(*end), order=order)
    spans = plan(net.now, state.cache, state.tracks[1], wanted)
    shown: Shown = [
        item if isinstance(item, RangeEnd) else (item.head.group_id, item.head.object_id)
        for item in items(spans)
    ]
    return is_covered(spans), shown


def filled() -> Net:
    """Groups 2 and 3 complete, 4 under way, 6 with holes that were told; 5 does not exist."""
    net = Net()
    publisher = net.publisher()
    net.send(publisher, subgroup(D16, bodies(3), group=2, end_of_group=True))
    net.send(publisher, subgroup(D16, bodies(2), group=3, status=(2, ObjectStatus.END_OF_GROUP)))
    net.open(publisher, subgroup(D16, bodies(3, 50), group=4)[:-5])
    block = b"\x3c\x01"
    net.send(
        publisher,
        subgroup(D16, {0: b"x", 4: b"y", 9: b"z"}, group=6, extensions=[block, b"\x3e\x02", b""]),
    )
    return net


@pytest.mark.parametrize(
    ("start", "end", "covered", "shown"),
    [
        ((2, 0), (2, 2), True, [(2, 0), (2, 1), (2, 2)]),
        ((2, 1), (2, 1), True, [(2, 1)]),
        ((2, 0), (2, LAST_OBJECT), True, [(2, 0), (2, 1), (2, 2)]),
        ((2, 5), (2, 8), True, []),
        ((2, 1), (3, LAST_OBJECT), True, [(2, 1), (2, 2), (3, 0), (3, 1)]),
        ((3, 0), (4, 1), True, [(3, 0), (3, 1), (4, 0), (4, 1)]),
        ((4, 1), (4, 2), False, [(4, 1), RangeEnd(UNKNOWN, 4, 2)]),
        ((0, 0), (2, 0), False, [RangeEnd(UNKNOWN, 1, LAST_OBJECT), (2, 0)]),
        ((5, 0), (6, 0), True, [(6, 0)]),
        (
            (6, 0),
            (6, 9),
            False,
            [(6, 0), RangeEnd(UNKNOWN, 6, 1), (6, 4), RangeEnd(UNKNOWN, 6, 8), (6, 9)],
        ),
        ((6, 2), (6, 4), True, [(6, 4)]),
        ((6, 2), (6, 3), True, []),
        (
            (4, 1),
            (7, 3),
            False,
            [
                (4, 1),
                RangeEnd(UNKNOWN, 4, LAST_OBJECT),
                (6, 0),
                RangeEnd(UNKNOWN, 6, 1),
                (6, 4),
                RangeEnd(UNKNOWN, 6, 8),
                (6, 9),
                RangeEnd(UNKNOWN, 7, LAST_OBJECT),
            ],
        ),
        ((8, 0), (9, 0), False, [RangeEnd(UNKNOWN, 9, LAST_OBJECT)]),
    ],
)
def test_ascending(
    start: tuple[int, int], end: tuple[int, int], covered: bool, shown: Shown
) -> None:
    assert ask(filled(), start, end) == (covered, shown)


@pytest.mark.parametrize(
    ("start", "end", "covered", "shown"),
    [
        ((2, 1), (3, LAST_OBJECT), True, [(3, 0), (3, 1), (2, 1), (2, 2)]),
        (
            (0, 0),
            (2, 1),
            False,
            [(2, 0), (2, 1), RangeEnd(UNKNOWN, 0, LAST_OBJECT)],
        ),
        (
            (4, 0),
            (6, 0),
            False,
            [(6, 0), (4, 0), (4, 1), RangeEnd(UNKNOWN, 4, LAST_OBJECT)],
        ),
    ],
)
def test_descending(
    start: tuple[int, int], end: tuple[int, int], covered: bool, shown: Shown
) -> None:
    assert ask(filled(), start, end, DOWN) == (covered, shown)


def test_absent_ranges_are_told_before_unknown_ones() -> None:
    net = filled()
    # Behind the last object of group 3 there is nothing; of group 4 we know not all.
    covered, shown = ask(net, (3, 1), (4, 0))
    assert covered
    net.plane._state.cache.remove_group(net.plane._state.tracks[1].groups[4])
    covered, shown = ask(net, (3, 1), (4, 0))
    assert not covered
    assert shown == [(3, 1), RangeEnd(NO, 3, LAST_OBJECT), RangeEnd(UNKNOWN, 4, 0)]
    assert ask(net, (4, 9), (4, 3)) == (True, [])


def test_groups_that_are_known_not_to_exist() -> None:
    net = filled()
    missing = net.plane._state.tracks[1].missing_groups
    missing.add_range(8, 9)
    missing.add_range(11, 12)
    assert ask(net, (8, 0), (9, 5)) == (True, [])
    expected = [RangeEnd(NO, 9, LAST_OBJECT), RangeEnd(UNKNOWN, 10, LAST_OBJECT)]
    assert ask(net, (8, 0), (12, 5)) == (False, expected)
    down = [RangeEnd(NO, 11, LAST_OBJECT), RangeEnd(UNKNOWN, 10, LAST_OBJECT)]
    assert ask(net, (8, 0), (12, 5), DOWN) == (False, down)


def test_the_end_of_the_track_is_known() -> None:
    net = Net()
    publisher = net.publisher()
    net.send(publisher, subgroup(D16, bodies(1), status=(1, ObjectStatus.END_OF_TRACK)))
    assert ask(net, (0, 0), (99, 0)) == (True, [(0, 0)])


def test_datagrams_and_subgroups_together() -> None:
    net = Net()
    publisher = net.publisher(D18)
    net.send(publisher, subgroup(D18, {1: b"x", 3: b"y"}))
    for object_id in (2, 0):
        net.datagram(publisher, ObjectDatagram(7, 0, object_id, b"z"))
    assert ask(net, (0, 0), (0, 3)) == (True, [(0, 0), (0, 1), (0, 2), (0, 3)])


@given(
    present=st.sets(st.integers(0, 9), max_size=8),
    absent=st.sets(st.integers(0, 9), max_size=5),
    start=st.integers(0, 9),
    length=st.integers(0, 9),
)
def test_a_group_held_to_a_model(
    present: set[int], absent: set[int], start: int, length: int
) -> None:
    net = Net()
    publisher = net.publisher()
    data = dict.fromkeys(sorted(present), b"x")
    net.open(publisher, subgroup(D16, data))
    group = net.plane._state.tracks[1].group(0)
    for object_id in absent:
        group.missing.add(object_id)
    end = min(start + length, 9)
    covered, shown = ask(net, (0, start), (0, end))
    wanted = range(start, end + 1)
    assert covered is all(each in present | absent for each in wanted)
    assert [each[1] for each in shown if not isinstance(each, RangeEnd)] == [
        each for each in wanted if each in present
    ]
    # Read as a receiver does: what is left out without a word does not exist.
    status: dict[int, str] = {}
    pos = start
    for item in shown:
        word = "here"
        last = item[1]
        if isinstance(item, RangeEnd):
            word = "unknown" if item.kind is UNKNOWN else "absent"
            last = item.object_id
            status.update(dict.fromkeys(range(pos, last + 1), word))
        else:
            status.update(dict.fromkeys(range(pos, last), "absent"))
            status[last] = word
        pos = last + 1
    status.update(dict.fromkeys(range(pos, end + 1), "absent"))
    for each in wanted:
        known = "here" if each in present else "absent" if each in absent else "unknown"
        assert status[each] == known


# Answers to FETCH from the cache.


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


# Answers of an upstream, passed on and kept.


drafts = pytest.mark.parametrize(("source", "target"), PAIRS)


STREAM = 3


def item(group: int, object_id: int, payload: bytes, **options: Any) -> MoqObject:
    values: dict[str, Any] = {"subgroup_id": 0, "priority": 100, "extensions": b"", **options}
    header = ObjectHeader(
        group,
        object_id,
        values["subgroup_id"],
        values["priority"],
        len(payload),
        ObjectStatus.NORMAL,
        values["extensions"],
    )
    return MoqObject(header, payload)


def answer(
    draft: Draft, items: list[MoqObject | RangeEnd], order: GroupOrder = UP, request: int = 8
) -> bytes:
    writer = FetchWriter(FetchHeader(request), draft, order)
    data = writer.start
    for each in items:
        data += writer.range_end(each) if isinstance(each, RangeEnd) else writer.object(*each)
    return data


class Relay(Net):
    """An upstream, a receiver, and a fetch that is passed on between them."""

    def __init__(
        self,
        source: Draft = D16,
        target: Draft = D16,
        *,
        start: tuple[int, int] = (0, 0),
        end: tuple[int, int] = (9, 9),
        order: GroupOrder = UP,
    ) -> None:
        super().__init__()
        self.upstream = self.publisher(source)
        self.target = self.session(target)
        self.key = Subscription(self.target, 6)
        self.wanted = FetchRange(track=1, start=Location(*start), end=Location(*end), order=order)
        self.plane.relay_fetch(self.upstream, 8, self.key, self.wanted)

    def arrive(self, data: bytes, places: list[int] | None = None, *, fin: bool = True) -> None:
        first, *rest = cut(data, places or [])
        self.plane.stream_opened(
            self.now, self.upstream, STREAM, StreamKind.FETCH, first, fin and not rest
        )
        for index, piece in enumerate(rest):
            self.more(self.upstream, STREAM, piece, fin=fin and index == len(rest) - 1)

    def covers(self, start: tuple[int, int], end: tuple[int, int]) -> bool:
        wanted = FetchRange(track=1, start=Location(*start), end=Location(*end))
        return self.plane.covers(self.now, wanted)


@drafts
@pytest.mark.parametrize("order", [UP, DOWN])
@given(places=st.lists(st.integers(1, 500), max_size=10))
def test_an_answer_is_passed_on(
    source: Draft, target: Draft, order: GroupOrder, places: list[int]
) -> None:
    net = Relay(source, target, order=order)
    pairs = [KeyValue(0x200, 99), KeyValue(0x301, b"raw")]
    items: list[MoqObject | RangeEnd] = [
        item(3, 0, b"a" * 90),
        item(3, 1, b"", extensions=encode_extensions(pairs, source)),
        RangeEnd(RangeKind.UNKNOWN, 3, 5),
        item(3, 7, b"c", subgroup_id=4, priority=1),
        item(3, 8, b"d", subgroup_id=None),
    ]
    other = 4 if order is UP else 2
    items += [item(other, 2, b"e" * 200)]
    net.arrive(answer(source, items, order), places)
    assert net.plane.poll_notices() == [
        FetchEnded(net.key, complete=True),
        UpstreamEnded(net.upstream, 8, complete=True),
    ]
    request, got = net.egress[net.target].fetched(order=order)
    assert request == 6
    assert got[0] == items[0]
    assert isinstance(got[1], MoqObject)
    assert got[1].header.extensions == encode_extensions(pairs, target)
    assert got[2:] == items[2:]
    # And all of it was kept.
    assert net.plane.track_counters(1).cached_objects == 5
    assert net.covers((3, 0), (3, 1))
    assert not net.covers((3, 0), (3, 3))
    assert net.covers((3, 6), (3, 8))
    late = net.session(target)
    net.plane.serve_fetch(net.now, Subscription(late, 0), net.wanted, partial=True)
    _, again = net.egress[late].fetched(order=order)
    objects = [each for each in got if isinstance(each, MoqObject)]
    assert [each for each in again if isinstance(each, MoqObject)] == objects


def test_bytes_go_on_as_they_arrive() -> None:
    net = Relay()
    data = answer(D16, [item(0, 0, b"x" * 1000)])
    net.arrive(data[:500], fin=False)
    (out,) = net.egress[net.target].streams
    assert len(out.data) == 500
    net.more(net.upstream, STREAM, data[500:])
    assert out.data == answer(D16, [item(0, 0, b"x" * 1000)], request=6)
    assert not out.fin


def test_what_is_left_out_does_not_exist() -> None:
    net = Relay(start=(1, 0), end=(9, LAST))
    net.plane._state.tracks[1].group(4)
    items: list[MoqObject | RangeEnd] = [
        item(1, 2, b"x"),
        item(4, 1, b"x"),
        RangeEnd(RangeKind.NON_EXISTENT, 4, 4),
        RangeEnd(RangeKind.UNKNOWN, 4, 6),
        item(4, 8, b"x"),
        item(4, 9, b"x"),
    ]
    net.arrive(answer(D16, items))
    track = net.plane._state.tracks[1]
    assert list(track.missing_groups) == [(2, 3)]
    assert list(track.groups[4].missing) == [(0, 0), (2, 4), (7, 7)]
    assert net.covers((2, 0), (3, LAST))
    assert net.covers((4, 0), (4, 4))
    assert not net.covers((4, 0), (4, 5))
    assert net.covers((4, 7), (4, 9))
    # It was an upstream's word, not the publisher's: the object may still come.
    net.send(net.upstream, subgroup(D16, {7: b"late"}, group=4, subgroup_id=7))
    assert net.plane.track_counters(1).objects_in == 1
    notices = net.plane.poll_notices()
    assert not any(isinstance(notice, TrackMalformed) for notice in notices)


def test_what_is_cached_is_not_cached_twice() -> None:
    net = Relay()
    stream = net.open(net.upstream, subgroup(D16, bodies(3)))
    data = answer(D16, [item(0, each, b"0-0-0-0-0-") for each in range(6)])
    net.arrive(data)
    # Objects behind the last one of the stream come by themselves.
    assert net.plane.track_counters(1).cached_objects == 3
    net.more(net.upstream, stream, b"", fin=True)


def test_segments_follow_priority_and_age() -> None:
    net = Relay()
    data = answer(D16, [item(0, 0, b"a", priority=1), item(0, 1, b"b", priority=2)])
    net.arrive(data, fin=False)
    assert len(net.plane._state.cache.order) == 2
    receiver = net.receiver(start=(0, 0))
    assert net.egress[receiver].objects() == {(0, 0): b"a", (0, 1): b"b"}
    net.now += 30
    rest = answer(
        D16,
        [item(0, 0, b"a", priority=1), item(0, 1, b"b", priority=2), item(0, 2, b"c", priority=2)],
    )
    net.more(net.upstream, STREAM, rest[len(data) :], fin=True)
    assert len(net.plane._state.cache.order) == 3


@drafts
def test_a_reset_is_mirrored(source: Draft, target: Draft) -> None:
    net = Relay(source, target)
    net.arrive(answer(source, [item(0, 0, b"x" * 10)])[:-3], fin=False)
    net.reset(net.upstream, STREAM, 2)
    assert net.egress[net.target].streams[0].reset_code == 2
    assert net.plane.poll_notices() == [
        FetchEnded(net.key, complete=False),
        UpstreamEnded(net.upstream, 8, complete=False),
    ]
    assert net.plane.track_counters(1).cached_objects == 0


def test_a_broken_answer() -> None:
    net = Relay()
    net.arrive(answer(D16, [item(0, 0, b"x" * 10)])[:-3])
    notices = net.plane.poll_notices()
    assert isinstance(notices[0], SessionFault)
    assert notices[1:] == [
        FetchEnded(net.key, complete=False),
        UpstreamEnded(net.upstream, 8, complete=False),
    ]


def test_an_answer_that_makes_the_track_malformed() -> None:
    net = Relay()
    net.send(net.upstream, subgroup(D16, bodies(1), end_of_group=True))
    net.arrive(answer(D16, [item(0, 0, b"0-0-0-0-0-"), item(0, 5, b"no")]))
    assert isinstance(net.plane.poll_notices()[0], TrackMalformed)
    assert net.egress[net.target].streams[0].reset_code == 0x12


def test_a_header_in_pieces_and_a_header_alone() -> None:
    net = Relay()
    net.arrive(answer(D16, []), [1])
    assert net.plane.poll_notices()[0] == FetchEnded(net.key, complete=True)
    other = Relay()
    other.arrive(b"\x05")
    (fault,) = other.plane.poll_notices()
    assert isinstance(fault, SessionFault)
    third = Relay()
    third.arrive(b"\x05", fin=False)
    third.reset(third.upstream, STREAM)
    assert third.plane.poll_notices() == []


def test_an_answer_that_nobody_waits_for() -> None:
    net = Relay()
    net.arrive(answer(D16, [], request=99), fin=False)
    assert net.egress[net.upstream].stopped == [(STREAM, 1)]
    assert net.plane.poll_notices() == []


def test_a_receiver_that_gives_up_does_not_end_the_caching() -> None:
    net = Relay()
    data = answer(D16, [item(0, each, b"x" * 20) for each in range(4)])
    net.arrive(data[:30], fin=False)
    net.drop(net.target, lost=0, stopped=True)
    assert net.plane.poll_notices() == [FetchEnded(net.key, complete=False)]
    net.more(net.upstream, STREAM, data[30:], fin=True)
    assert net.plane.poll_notices() == [UpstreamEnded(net.upstream, 8, complete=True)]
    assert net.plane.track_counters(1).cached_objects == 4


def test_relayed_ids_that_the_draft_has_no_integers_for() -> None:
    net = Relay(D18, D16, end=(1 << 63, 0))
    items: list[MoqObject | RangeEnd] = [item(1 << 63, 0, b"x"), item(1 << 63, 1, b"y")]
    net.arrive(answer(D18, items))
    assert net.egress[net.target].streams[0].reset_code == 0
    assert net.plane.poll_notices() == [
        FetchEnded(net.key, complete=False),
        UpstreamEnded(net.upstream, 8, complete=True),
    ]
    assert net.plane.track_counters(1).cached_objects == 2
    broken = Relay(D18, D16, end=(1 << 63, 0))
    ranges: list[MoqObject | RangeEnd] = [RangeEnd(RangeKind.UNKNOWN, 1 << 63, 0)]
    broken.arrive(answer(D18, ranges))
    assert broken.egress[broken.target].streams[0].reset_code == 0


def test_extensions_that_cannot_be_read() -> None:
    net = Relay()
    net.arrive(answer(D16, [item(0, 0, b"x", extensions=b"\x03\x05")]))
    assert isinstance(net.plane.poll_notices()[0], SessionFault)
    assert net.plane.track_counters(1).cached_objects == 0
