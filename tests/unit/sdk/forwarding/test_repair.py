"""Logs that are compared, and what is sent again: both ends of repair between relays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.forwarding.coding import CANCELLED, DELIVERY_TIMEOUT
from laps_sdk.forwarding.interfaces import PlaneLimits, Point, Subscription
from laps_wire.moqt.data import MoqObject, ObjectCollector, ObjectDatagram, SubgroupParser
from laps_wire.moqt.structures import Location
from testkit.plane import D18, NAME, FakeStream, Net, bodies, cut, subgroup

ALIAS = 3
"""Of what a receiver of the test's plane gets."""
FAR = Subscription(2, 0)
"""The other relay at the origin."""
HOLD = 2.0


def origin(**options: Any) -> tuple[Net, int]:
    """A plane with a publisher, which sends to another relay."""
    net = Net()
    publisher = net.publisher(D18)
    assert net.receiver(D18, peering=True, **options) == FAR.session
    return net, publisher


def listener(limits: PlaneLimits | None = None) -> tuple[Net, int, int]:
    """A plane that gets a track from the network, for one client."""
    net = Net(limits=limits or PlaneLimits(continued_time=3.0, continued_limit=6.0))
    peer = net.publisher(D18, alias=ALIAS, peering=True, upstream=True)
    return net, peer, net.receiver(D18)


def ids(stream: FakeStream) -> list[int]:
    """The objects of a stream, which may end before the next one."""
    items = ObjectCollector(SubgroupParser(D18)).feed(stream.data)
    return [item.header.object_id for item in items if isinstance(item, MoqObject)]


def sent(net: Net, before: int) -> list[tuple[list[int], bool, bool]]:
    """What was sent to the other relay after so many streams: objects, continued, at its end."""
    streams = net.egress[FAR.session].streams[before:]
    return [(ids(each), each.continued, each.fin) for each in streams]


def lacks(net: Net, *points: Point, lost: bool = False) -> list[Point]:
    return net.plane.lacking(net.now, 1, points, HOLD, lost=lost)


# What a log has


def test_positions_are_the_ends_of_subgroups() -> None:
    net = Net()
    one = net.publisher(D18)
    net.send(one, subgroup(D18, bodies(3), group=5))
    net.send(one, subgroup(D18, {7: b"x", 9: b"y"}, group=4, subgroup_id=7))
    net.send(one, subgroup(D18, bodies(2), group=4), fin=False)
    net.datagram(one, ObjectDatagram(7, 3, 0, b"datagram"))
    whole = [Point(4, 0, 2), Point(4, 7, 10, True), Point(5, 0, 3, True)]
    assert net.plane.positions(1, net.now) == whole
    assert net.plane.positions(99, net.now) == []
    net.wait(1.0)
    net.send(one, subgroup(D18, bodies(2, 60), group=6)[:-1], fin=False)
    assert net.plane.positions(1, net.now) == [Point(6, 0, 1)]  # the second one is not whole
    assert net.plane.positions(1, net.now - 1.0) == [*whole, Point(6, 0, 1)]
    net.plane.purge()
    assert net.plane.positions(1, net.now - 1.0) == [*whole, Point(6, 0, 1)]  # what has come


# What a log lacks


def test_what_is_missing_is_asked_for_after_a_while() -> None:
    net, _, _ = listener()
    assert lacks(net, Point(0, 0, 2)) == []
    net.wait(HOLD - 0.1)
    assert lacks(net, Point(0, 0, 2)) == []
    net.wait(0.1)
    assert lacks(net, Point(0, 0, 2)) == [Point(0, 0, 0)]


def test_a_second_log_that_ends_earlier_does_not_delay_what_another_one_has() -> None:
    """A publisher moved: its former relay has the beginning only."""
    net, peer, _ = listener()
    net.send(peer, subgroup(D18, bodies(2), alias=ALIAS), fin=False)
    for _ in range(4):
        assert lacks(net, Point(0, 0, 4)) == []
        assert lacks(net, Point(0, 0, 2)) == []
        net.wait(HOLD / 4)
    net.send(peer, subgroup(D18, bodies(1), alias=ALIAS, group=1))
    assert lacks(net, Point(0, 0, 4)) == [Point(0, 0, 2)]


def test_what_may_be_under_way_is_not_asked_for() -> None:
    net, peer, _ = listener()
    ends = [Point(4, 0, 2, True), Point(5, 0, 2, True), Point(6, 0, 2, True)]
    net.send(peer, subgroup(D18, bodies(2), alias=ALIAS, group=4))
    assert lacks(net, *ends) == []
    net.wait(HOLD - 0.5)
    later = net.open(peer, subgroup(D18, bodies(1), alias=ALIAS, group=5))
    net.wait(0.5)
    assert lacks(net, *ends) == []  # something of the group comes; what is behind it is behind it
    net.more(peer, later, b"", fin=True)
    assert lacks(net, *ends) == []
    net.wait(HOLD)
    assert lacks(net, *ends) == [Point(6, 0, 0)]
    assert lacks(net, Point(6, 0, 0)) == []


def test_the_rest_is_asked_for_from_the_first_object_that_is_not_whole() -> None:
    net, peer, _ = listener()
    data = subgroup(D18, bodies(3, 60), alias=ALIAS)
    stream = net.open(peer, data[: len(data) - 70])
    assert lacks(net, Point(0, 0, 3), lost=True) == [Point(0, 0, 1)]
    net.more(peer, stream, data[len(data) - 70 :])
    assert lacks(net, Point(0, 0, 3), lost=True) == []


def test_a_beginning_that_is_missing_is_asked_for() -> None:
    net, peer, _ = listener()
    data = subgroup(D18, {5: b"five", 6: b"six"}, alias=ALIAS)
    net.open(peer, data, continued=True)
    assert lacks(net, Point(0, 0, 7), lost=True) == [Point(0, 0, 0)]
    net.open(peer, subgroup(D18, bodies(5), alias=ALIAS))
    assert lacks(net, Point(0, 0, 5), lost=True) == []


def asks(net: Net, *points: Point) -> list[float]:
    """When something is asked for, if nobody answers."""
    began, asked = net.now, []
    for _ in range(40):
        asked += [net.now - began for _ in lacks(net, *points)]
        net.wait(HOLD / 4)
    return asked


def test_it_is_asked_for_again_now_and_then_and_then_given_up() -> None:
    net, peer, client = listener(PlaneLimits(continued_time=100.0))
    stream = net.open(peer, subgroup(D18, bodies(2, 60), alias=ALIAS)[:100])
    net.plane.stream_lost(net.now, peer, stream)
    net.send(peer, subgroup(D18, bodies(1), alias=ALIAS, group=1))
    assert asks(net, Point(0, 0, 2, True)) == [0, HOLD, 2 * HOLD, 3 * HOLD]
    assert net.egress[client].resets() == [CANCELLED, None]


def test_it_is_asked_for_again_whatever_else_comes() -> None:
    net, peer, _ = listener()
    assert lacks(net, Point(1, 0, 2), lost=True) == [Point(1, 0, 0)]
    net.wait(HOLD)
    net.send(peer, subgroup(D18, bodies(1), alias=ALIAS))
    assert lacks(net, Point(1, 0, 2)) == [Point(1, 0, 0)]


def test_what_nobody_here_wants_is_not_lacking() -> None:
    net = Net(limits=PlaneLimits(group_records=2))
    peer = net.session(D18, peering=True, upstream=True)
    net.plane.add_track(1, NAME)
    net.plane.add_ingress(net.now, peer, ALIAS, 1, 128, Location(4, 1))
    ends = [Point(3, 0, 5), Point(4, 0, 2, True), Point(4, 1, 4), Point(5, 0, 1)]
    assert lacks(net, *ends, lost=True) == [Point(4, 1, 2), Point(5, 0, 0)]
    for group in range(6, 9):  # so that the record of group 6 is dropped
        net.send(peer, subgroup(D18, bodies(1), alias=ALIAS, group=group))
    net.plane.purge()
    net.send(peer, subgroup(D18, bodies(1), alias=ALIAS, group=9))
    assert lacks(net, Point(6, 0, 1, True), Point(9, 0, 1, True), lost=True) == []
    assert net.plane.lacking(net.now, 99, ends, HOLD, lost=True) == []


# A stream that is lost


def test_a_stream_that_is_lost_goes_on_with_another_one() -> None:
    net, peer, client = listener()
    data = subgroup(D18, bodies(3, 60), alias=ALIAS)
    stream = net.open(peer, data[:100])
    net.plane.stream_lost(net.now, peer, stream)
    net.plane.stream_lost(net.now, peer, stream)
    net.plane.stream_lost(net.now, 99, stream)
    (out,) = net.egress[client].streams
    assert not out.closed
    assert lacks(net, Point(0, 0, 3, True)) == [Point(0, 0, 1)]  # nobody waits for it
    rest = dict(enumerate(bodies(3, 60)))
    del rest[0]
    net.open(peer, subgroup(D18, rest, alias=ALIAS), fin=True, continued=True)
    assert net.egress[client].subgroups()[0].payloads == bodies(3, 60)
    assert out.fin
    assert lacks(net, Point(0, 0, 3, True), lost=True) == []


def test_an_end_that_is_lost_comes_by_itself() -> None:
    net, peer, client = listener()
    stream = net.open(peer, subgroup(D18, bodies(2), alias=ALIAS))
    assert lacks(net, Point(0, 0, 2, True), lost=True) == []  # the stream may still bring it
    net.plane.stream_lost(net.now, peer, stream)
    assert lacks(net, Point(0, 0, 2)) == []
    assert lacks(net, Point(0, 0, 2, True), lost=True) == [Point(0, 0, 2)]
    net.open(peer, subgroup(D18, [], alias=ALIAS), fin=True, continued=True)
    assert [stream.fin for stream in net.egress[client].streams] == [True]


def test_a_stream_that_is_lost_is_not_waited_for_for_ever() -> None:
    for give_up in (False, True):
        net, peer, client = listener()
        stream = net.open(peer, subgroup(D18, bodies(3, 60), alias=ALIAS)[:100])
        net.plane.stream_lost(net.now, peer, stream)
        net.send(peer, subgroup(D18, bodies(1), alias=ALIAS, group=1))
        out = net.egress[client].streams[0]
        if give_up:
            net.plane.give_up(net.now, 1, [Point(0, 0, 1), Point(0, 9, 0), Point(9, 0, 0)])
            net.plane.give_up(net.now, 99, [Point(0, 0, 1)])
        else:
            net.wait(2.5)
            assert out.reset_code is None
            net.wait(4.0)
        assert out.reset_code == CANCELLED
        assert lacks(net, Point(0, 0, 3, True), lost=True) == []


def test_a_stream_that_is_lost_behind_the_end_of_its_subgroup_is_not_missed() -> None:
    net, peer, client = listener()
    data = subgroup(D18, bodies(2), alias=ALIAS)
    first, second = net.open(peer, data), net.open(peer, data)
    net.more(peer, first, b"", fin=True)
    net.plane.stream_lost(net.now, peer, second)
    (out,) = net.egress[client].streams
    assert out.fin
    assert lacks(net, Point(0, 0, 2, True), lost=True) == []


def test_while_another_stream_brings_the_same_nothing_is_waited_for() -> None:
    net, peer, client = listener()
    data = subgroup(D18, bodies(2), alias=ALIAS)
    first, second = net.open(peer, data), net.open(peer, data)
    net.plane.stream_lost(net.now, peer, first)
    net.reset(peer, second, 7)
    assert net.egress[client].resets() == [7]


def test_streams_of_which_nothing_is_known_can_be_lost() -> None:
    net, peer, client = listener()
    data = subgroup(D18, bodies(2), alias=ALIAS)
    header = net.open(peer, data[:1])
    unknown = net.open(peer, subgroup(D18, bodies(1), alias=50))
    for stream in (header, unknown):
        net.plane.stream_lost(net.now, peer, stream)
        net.more(peer, stream, data[1:], fin=True)
    net.wait(60.0)
    assert net.egress[client].streams == []
    assert net.egress[peer].stopped == []


# Sending it again


def test_it_is_sent_again_from_an_object_on() -> None:
    net, one = origin()
    net.send(one, subgroup(D18, bodies(4)))
    net.send(one, subgroup(D18, bodies(2), group=1))
    points = [Point(0, 0, 2), Point(1, 0, 0), Point(0, 0, 4)]
    assert net.plane.resume_egress(net.now, FAR, points) == []
    assert sorted(sent(net, 2)) == [([], True, True), ([0, 1], False, True), ([2, 3], True, True)]


def test_what_is_gone_is_named() -> None:
    net, one = origin()
    net.send(one, subgroup(D18, bodies(2)))
    net.send(one, subgroup(D18, {5: b"five"}, group=1, subgroup_id=4))
    data = subgroup(D18, bodies(4, 60), group=2)
    first, rest = cut(data, [len(subgroup(D18, bodies(2, 60), group=2))])
    stream = net.open(one, first)
    net.plane.purge()
    net.more(one, stream, rest, fin=True)
    points = [Point(0, 0, 1), Point(1, 4, 0), Point(2, 1, 0), Point(7, 0, 0)]
    assert net.plane.resume_egress(net.now, FAR, points) == points
    assert sent(net, 3) == []
    assert net.plane.resume_egress(net.now, FAR, [Point(2, 0, 1)]) == [Point(2, 0, 1)]
    assert sent(net, 3) == [([2, 3], True, True)]  # what there is comes all the same
    assert net.plane.resume_egress(net.now, Subscription(99, 0), points) == points


def test_of_an_open_subgroup_only_what_was_sent_already_comes_again() -> None:
    net, one = origin()
    data = subgroup(D18, bodies(3, 60))
    stream = net.open(one, data[:100])  # to the middle of the second object
    assert net.plane.resume_egress(net.now, FAR, [Point(0, 0, 0)]) == []
    assert net.plane.resume_egress(net.now, FAR, [Point(0, 0, 1)]) == []
    net.more(one, stream, data[100:])
    assert net.plane.resume_egress(net.now, FAR, [Point(0, 0, 2)]) == []
    assert net.plane.resume_egress(net.now, FAR, [Point(0, 0, 3)]) == []  # nothing is behind it
    assert sent(net, 0) == [
        ([0, 1, 2], False, False),
        ([0, 1], False, True),
        ([1], True, True),
        ([2], True, True),
    ]
    net.more(one, stream, b"", fin=True)
    assert len(net.egress[FAR.session].streams) == 4


def middle() -> tuple[Net, int, int, bytes]:
    """A stream that is sent again joins the first one inside the second object."""
    net, one = origin()
    data = subgroup(D18, bodies(3, 60))
    second = len(subgroup(D18, bodies(2, 60)))
    stream = net.open(one, data[: second - 10])
    net.plane.resume_egress(net.now, FAR, [Point(0, 0, 1)])
    net.more(one, stream, data[second - 10 : second - 5])
    return net, one, stream, data[second - 5 :]


def test_a_stream_that_is_sent_again_waits_for_the_end_of_its_object_only() -> None:
    net, one, stream, rest = middle()
    net.more(one, stream, rest[:5])
    net.wait(2.0)
    net.more(one, stream, rest[5:])
    assert sent(net, 0) == [([0, 1, 2], False, False), ([1], True, True)]


def test_a_stream_that_is_sent_again_and_dropped_stops_nothing_else() -> None:
    net, one, stream, rest = middle()
    net.drop(FAR.session, 1, lost=0)
    net.more(one, stream, rest, fin=True)
    assert sent(net, 0)[0] == ([0, 1, 2], False, True)
    assert net.plane.track_counters(1).dropped_objects == 0


def test_what_is_let_go_before_its_turn_is_no_end() -> None:
    net = Net(limits=PlaneLimits(lagging_streams=1))
    one, far = net.publisher(D18), net.receiver(D18, fast=False, peering=True)
    for group in range(2):
        data = subgroup(D18, bodies(2, 60), group=group)
        net.send(one, data, [len(subgroup(D18, bodies(1, 60)))])
    egress = net.egress[far]
    egress.room = 10
    assert net.plane.resume_egress(net.now, FAR, [Point(0, 0, 0), Point(1, 0, 0)]) == []
    assert sent(net, 2) == [([0], False, False)]
    net.plane.purge()
    for stream in tuple(egress.streams):
        stream.send(net.now)
    assert sent(net, 2) == [([0], False, False)]
    assert egress.streams[2].reset_code is not None


def test_however_much_is_sent_again_is_sent_one_after_the_other() -> None:
    net, one = origin()
    for group in range(1000):
        net.send(one, subgroup(D18, bodies(2), group=group))
    points = [Point(group, 0, 1) for group in range(1000)]
    assert net.plane.resume_egress(net.now, FAR, points) == []
    assert sent(net, 1000) == [([1], True, True)] * 1000


@pytest.mark.parametrize(
    ("waits", "again"),
    [
        pytest.param(0.4, [([0], False, False), ([2, 3, 4], True, True)], id="some"),
        pytest.param(1.1, [([0], False, False), ([4], True, True)], id="all but one"),
    ],
)
def test_what_is_too_old_is_left_out(
    waits: float, again: list[tuple[list[int], bool, bool]]
) -> None:
    net, one = origin(delivery_timeout=1.0)
    ends = [len(subgroup(D18, bodies(count, 60))) for count in range(1, 6)]
    first, *rest = cut(subgroup(D18, bodies(6, 60)), ends)
    stream = net.open(one, first)
    for chunk in rest[:-1]:
        net.wait(waits)
        net.more(one, stream, chunk)
    net.plane.resume_egress(net.now, FAR, [Point(0, 0, 0)])
    net.more(one, stream, rest[-1], fin=True)
    assert sent(net, 0) == [([0, 1, 2, 3, 4, 5], False, True), *again]  # the last one comes once
    assert net.egress[FAR.session].resets() == [None, DELIVERY_TIMEOUT, None]


def test_when_all_is_too_old_the_other_stream_still_brings_the_rest() -> None:
    net, one = origin(delivery_timeout=1.0)
    ends = [len(subgroup(D18, bodies(count, 60))) for count in (1, 2)]
    first, second, third = cut(subgroup(D18, bodies(3, 60)), ends)
    stream = net.open(one, first)
    net.more(one, stream, second)
    net.wait(2.0)
    net.plane.resume_egress(net.now, FAR, [Point(0, 0, 0)])
    net.more(one, stream, third, fin=True)
    assert sent(net, 0) == [([0, 1, 2], False, True), ([0], False, False)]


# Both ends


@dataclass
class Path:
    """The way between two planes, on which streams are lost in their middle."""

    near: Net
    far: Net
    peer: int
    carried: dict[FakeStream, int] = field(default_factory=dict)

    def carry(self, keep: list[int]) -> None:
        """Bring all new streams; of the first ones only so many bytes, then they are lost."""
        streams = self.near.egress[FAR.session].streams
        for stream in streams[len(self.carried) :]:
            size = keep[len(self.carried)] if len(self.carried) < len(keep) else len(stream.data)
            self.carried[stream] = size
            if not size:
                continue  # nobody ever hears of it
            data, whole = stream.data[:size], size >= len(stream.data)
            number = self.far.open(
                self.peer, data, fin=whole and stream.fin, continued=stream.continued
            )
            if not whole:
                self.far.plane.stream_lost(self.far.now, self.peer, number)

    def repair(self) -> None:
        """Compare the logs, and send what is missing."""
        points = self.near.plane.positions(1, 0.0)
        due = lacks(self.far, *points, lost=True)
        gone = self.near.plane.resume_egress(self.near.now, FAR, due)
        assert gone == []


SUBGROUPS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.lists(st.integers(0, 3), min_size=1, max_size=4),
        st.integers(0, 40),
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda each: each[0],
)


@given(SUBGROUPS, st.lists(st.integers(0, 120), max_size=4))
def test_the_logs_are_alike_in_the_end(
    subgroups: list[tuple[int, list[int], int]], keep: list[int]
) -> None:
    near, one = origin()
    far, peer, client = listener(PlaneLimits(continued_time=100.0))
    path = Path(near, far, peer)
    expected: dict[tuple[int, int], bytes] = {}
    for group, steps, size in subgroups:
        payloads: dict[int, bytes] = {}
        for step in steps:
            payloads[max(payloads, default=-1) + 1 + step] = bodies(1, size, seed=step)[0]
        near.send(one, subgroup(D18, payloads, group=group))
        expected |= {(group, object_id): payload for object_id, payload in payloads.items()}
        path.carry(keep)
    for _ in range(24):
        path.repair()
        path.carry(keep)
        near.wait(HOLD / 4)
        far.wait(HOLD / 4)
    assert far.egress[client].objects() == expected
    assert far.plane.poll_notices() == []
    far.wait(600.0)
    assert all(stream.closed for stream in far.egress[client].streams)
