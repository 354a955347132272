"""What the cache knows of a range."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.forwarding.fetches import LAST_OBJECT, is_covered, items, plan
from laps_sdk.forwarding.interfaces import FetchRange
from laps_wire.moqt.codepoints import GroupOrder
from laps_wire.moqt.data import ObjectDatagram, ObjectStatus, RangeEnd, RangeKind
from laps_wire.moqt.structures import Location
from testkit.plane import D16, D18, Net, bodies, subgroup

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
