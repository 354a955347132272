"""Repair through a relay: what its messages say, which way they go, and who is answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_relay.network.repair import BURST, MAX_POINTS, RATE, RepairMessage, points_of, runs_of
from laps_sdk.forwarding.interfaces import Point
from laps_sdk.peering.reports import PeerFaulted
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import CloseCode
from laps_wire.peering.laps2 import (
    Feature,
    Position,
    RelayType,
    RepairRun,
    RepairTrack,
    Resume,
    ResumeResponse,
)
from laps_wire.peering.laps2.codepoints import MAX_BATCH, MAX_GROUPS, MAX_HOPS
from laps_wire.peering.laps2.messages import decode, encode
from testkit.relay_net import OTHER, TRACK, RelayNet, key_of

KEY = key_of(TRACK)
VIA = RelayType.VIA
HOLD = 15.0


@dataclass
class Logs:
    """The logs of a relay's own clients: ``RepairSide``."""

    ends: list[Point] = field(default_factory=list)
    """What they have."""
    lacks: list[Point] = field(default_factory=list)
    """What they lack of that of others."""
    let_go: list[Point] = field(default_factory=list)
    since: list[float] = field(default_factory=list)
    compared: list[list[Point]] = field(default_factory=list)
    lost: list[bool] = field(default_factory=list)
    resumed: list[list[Point]] = field(default_factory=list)
    given_up: list[Point] = field(default_factory=list)

    def positions(self, key: int, since: float) -> list[Point]:
        assert key == KEY
        self.since.append(since)
        return self.ends

    def position_received(
        self, now: float, key: int, points: Sequence[Point], hold: float, *, lost: bool
    ) -> list[Point]:
        assert (key, hold) == (KEY, HOLD)
        self.compared.append(list(points))
        self.lost.append(lost)
        return self.lacks

    def resume_received(
        self, now: float, key: int, points: Sequence[Point], to: tuple[int, int]
    ) -> list[Point]:
        assert key == KEY
        self.resumed.append(list(points))
        return [point for point in points if point in self.let_go]

    def points_gone(self, now: float, key: int, points: Sequence[Point]) -> None:
        assert key == KEY
        self.given_up += points


def chain(*vias: int) -> tuple[RelayNet, Logs, Logs]:
    """Edge 1 publishes, Edge 3 subscribes, Via 2 and others are between; the logs of both Edges.

    Edge 4 is there as well.
    """
    net = RelayNet()
    logs = {number: Logs() for number in (1, 3, 4)}
    for number in (1, 3, 4):
        net.add(number, hold=HOLD).repair.attach(logs[number])
    for via in (2, *vias):
        net.add(via, VIA)
    for left, right in pairwise((1, 2, *vias, 3)):
        net.join(left, right)
    net.join(4, 2)
    net.run()
    net.publish(1)
    net.run()
    net.subscribe(3)
    net.run()
    return net, logs[1], logs[3]


def track(*points: Point, key: int = KEY) -> tuple[RepairTrack, ...]:
    return (RepairTrack(key, tuple(runs_of(points))),)


def position(*points: Point, source: int = 1, target: int = 3, hops: int = 0) -> Position:
    return Position(NodeId(source), NodeId(target), hops, track(*points))


def resume(*points: Point, source: int = 3, target: int = 1, hops: int = 0) -> Resume:
    return Resume(NodeId(source), NodeId(target), hops, track(*points))


# Points and runs

PLACES = st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans())
STRETCHES = st.lists(
    st.tuples(st.integers(0, 400), st.integers(1, 60), st.integers(0, 3), st.integers(0, 3)),
    max_size=12,
)


@given(STRETCHES, st.lists(PLACES, max_size=20), st.booleans())
def test_runs_say_what_points_say(
    stretches: list[tuple[int, int, int, int]], places: list[tuple[int, int, bool]], ended: bool
) -> None:
    found = {
        (group, subgroup): Point(group, subgroup, end, ended)
        for first, groups, subgroup, end in stretches
        for group in range(first, first + groups)
    }
    found |= {
        (10 * index, subgroup): Point(10 * index, subgroup, end, over)
        for index, (subgroup, end, over) in enumerate(places)
    }
    points = [found[place] for place in sorted(found)]
    runs = runs_of(points)
    assert sorted(points_of(runs)) == points
    message = position(*points)
    assert decode(encode(message))[0] == message


def test_many_groups_that_look_alike_are_few_runs() -> None:
    points = [Point(group, subgroup, 5, True) for group in range(5000) for subgroup in (0, 1)]
    assert sorted(runs_of(points), key=lambda run: (run.subgroup, run.group)) == [
        RepairRun(first, groups, subgroup, 5, True)
        for subgroup in (0, 1)
        for first, groups in ((0, MAX_GROUPS), (MAX_GROUPS, 5000 - MAX_GROUPS))
    ]


def test_few_runs_are_not_more_points_than_anybody_looks_at() -> None:
    points = points_of(RepairRun(first, MAX_GROUPS, 0, 1) for first in (0, 10_000, 20_000))
    assert len(points) == MAX_POINTS


def test_ids_that_no_run_can_hold_are_left_out() -> None:
    net, ours, theirs = chain()
    small, large = Point(1, 0, 2), 1 << 62
    ours.ends = [small, Point(large, 0, 1), Point(1, large, 1), Point(1, 1, large)]
    net.run(HOLD / 2)
    assert theirs.compared == [[small]]


# Both ends


def test_what_is_missing_is_asked_for_and_what_is_gone_is_given_up() -> None:
    net, ours, theirs = chain()
    ours.ends = [Point(4, 0, 9, True), Point(5, 0, 3)]
    theirs.lacks = [Point(4, 0, 0), Point(5, 0, 1)]
    ours.let_go = [Point(4, 0, 0)]
    net.run(HOLD / 2)
    assert theirs.compared == [ours.ends]
    assert ours.resumed == [theirs.lacks]
    assert theirs.given_up == ours.let_go
    counted = [(net.relays[number].repair) for number in (1, 3)]
    assert [(each.asked, each.resumed, each.gone) for each in counted] == [(0, 1, 1), (2, 0, 0)]


def test_logs_are_told_twice_in_a_hold_and_name_what_changed_in_the_last_ones() -> None:
    net, ours, theirs = chain()
    ours.ends = [Point(4, 0, 9, True)]
    ours.since.clear()
    net.run(4 * HOLD)
    assert len(ours.since) == len(theirs.compared) == 8
    assert {after - before for before, after in pairwise(ours.since)} == {HOLD / 2}
    assert net.now - ours.since[-1] >= 4 * HOLD
    net.unsubscribe(3)
    net.run(HOLD)
    theirs.compared.clear()
    net.run(4 * HOLD)
    assert theirs.compared == []
    assert all(relay.repair.clocks[0].next() is None for relay in net.relays.values())


def test_who_lost_a_path_is_told_soon_and_need_not_wait() -> None:
    net, ours, theirs = chain()
    ours.ends = [Point(4, 0, 9)]
    net.add(5, VIA)
    for edge in (1, 3):
        net.join(edge, 5, delay=0.05)
    net.run(HOLD)
    assert not any(theirs.lost)
    theirs.compared.clear()
    net.crash(2)
    net.run(1.0)
    assert theirs.compared
    assert theirs.lost[-1]
    net.run(3 * HOLD)
    assert not theirs.lost[-1]


def test_many_places_go_in_many_messages() -> None:
    net, ours, theirs = chain()
    ours.ends = [Point(group, 0, group % 7) for group in range(MAX_POINTS + 100)]
    net.run(HOLD / 2)
    assert [len(points) for points in theirs.compared] == [MAX_BATCH] * (MAX_POINTS // MAX_BATCH)
    told = [point for points in theirs.compared for point in points]
    assert sorted(told) == ours.ends[100:]


# Who is answered


def test_only_a_target_of_the_track_gets_it_again() -> None:
    net, ours, _ = chain()
    point = Point(4, 0, 0)
    ours.let_go = [point]
    net.say(4, 2, resume(point, source=4))
    net.say(3, 2, Resume(NodeId(3), NodeId(1), 0, track(point, key=key_of(OTHER))))
    net.run(0.5)
    assert (ours.resumed, net.relays[1].repair.resumed) == ([], 0)
    net.say(3, 2, resume(point))
    net.run(0.5)
    assert ours.resumed == [[point]]


def test_a_track_counts_once_in_a_message_that_names_millions_of_places() -> None:
    net, ours, _ = chain()
    wide = RepairTrack(KEY, (RepairRun(0, MAX_GROUPS, 0, 0),) * 4)
    others = [RepairTrack(key, wide.runs) for key in range(1, 9)]
    net.say(3, 2, Resume(NodeId(3), NodeId(1), 0, (wide, *others, wide)))
    net.run(0.5)
    assert [len(points) for points in ours.resumed] == [MAX_POINTS]
    behind = (*others, *others, wide)  # nobody looks so far
    net.say(3, 2, Resume(NodeId(3), NodeId(1), 0, behind))
    net.run(0.5)
    assert len(ours.resumed) == 1


def test_only_a_relay_that_serves_the_track_is_listened_to() -> None:
    net, _, theirs = chain()
    point = Point(4, 0, 9)
    net.say(4, 2, position(point, source=4))
    net.say(4, 2, ResumeResponse(NodeId(4), NodeId(3), 0, track(point)))
    net.run(0.5)
    assert (theirs.compared, theirs.given_up) == ([], [])
    net.say(1, 2, position(point))
    net.say(1, 2, ResumeResponse(NodeId(1), NodeId(3), 0, track(point)))
    net.run(0.5)
    assert (theirs.compared, theirs.given_up) == ([[point]], [point])


def test_a_relay_without_logs_says_nothing() -> None:
    net = RelayNet()
    net.add(1)
    net.add(3)
    net.join(1, 3)
    net.run()
    net.publish(1)
    net.run()
    net.subscribe(3)
    net.run()
    point = Point(4, 0, 9)
    for message in (resume(point), ResumeResponse(NodeId(3), NodeId(1), 0, track(point))):
        net.say(3, 1, message)
    net.say(1, 3, position(point))
    net.run(HOLD)
    assert [relay.repair.asked + relay.repair.resumed for relay in net.relays.values()] == [0, 0]


# Ways


@pytest.mark.parametrize(("hops", "arrives"), [(MAX_HOPS - 2, True), (MAX_HOPS - 1, False)])
def test_messages_go_so_far(hops: int, arrives: bool) -> None:
    net, ours, theirs = chain(5)
    point = Point(4, 0, 9)
    net.say(3, 5, resume(point, hops=hops))
    net.say(1, 2, position(point, hops=hops))
    net.run(0.5)
    assert (bool(ours.resumed), bool(theirs.compared)) == (arrives, arrives)


def test_a_message_that_comes_back_goes_no_further() -> None:
    net, _, theirs = chain()
    net.add(5, VIA)
    for edge in (1, 3):
        net.join(edge, 5)
    net.run()
    net.say(2, 1, position(Point(4, 0, 9)))  # there is another way, by 5
    net.run(0.5)
    assert theirs.compared == []


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(resume(Point(4, 0, 0), target=9), id="a target that nobody knows"),
        pytest.param(position(Point(4, 0, 9)), id="a target behind the sender"),
    ],
)
def test_messages_without_a_way_are_dropped(message: RepairMessage) -> None:
    net, ours, theirs = chain()
    net.say(3, 2, message)
    net.run(0.5)
    assert (ours.resumed, theirs.compared) == ([], [])
    assert net.told(2, PeerFaulted) == []


def test_a_peer_that_has_not_agreed_on_repair_gets_none_and_may_not_send_it() -> None:
    net, ours, theirs = chain()
    ours.ends = [Point(4, 0, 9)]
    link = net.relays[2].links.by_session[net.session(2, 3)]
    link.features -= {Feature.REPAIR}
    net.run(HOLD)
    assert theirs.compared == []
    net.say(3, 2, resume(Point(4, 0, 0)))
    net.run(0.5)
    assert ours.resumed == []
    assert [fault.code for fault in net.told(2, PeerFaulted)] == [CloseCode.PROTOCOL_VIOLATION]


def test_a_peer_that_says_too_much_is_not_listened_to() -> None:
    net, ours, _ = chain()
    sent = int(BURST) + 50

    def ask() -> None:
        for _ in range(sent):
            net.say(3, 2, resume(Point(4, 0, 0)))

    ask()
    net.run(1.0)
    assert len(ours.resumed) == BURST
    ask()
    net.run(0.5)
    assert len(ours.resumed) - BURST == pytest.approx(RATE, abs=2)
