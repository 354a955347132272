"""Sets of integers as ranges, held to Python's sets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.forwarding.ranges import Ranges

VALUES = st.integers(0, 40)
PAIRS = st.tuples(VALUES, st.integers(0, 6))


def values(ranges: Ranges) -> set[int]:
    found = [value for start, end in ranges for value in range(start, end + 1)]
    assert found == sorted(set(found))
    return set(found)


def test_counting_up_is_one_range() -> None:
    ranges = Ranges()
    assert (ranges.first, ranges.last) == (-1, -1)
    assert all(ranges.add(value) for value in range(1000))
    assert not ranges.add(0)
    assert not ranges.add(999)
    assert len(ranges) == 1
    assert (ranges.first, ranges.last) == (0, 999)


@given(st.lists(st.tuples(st.sampled_from("ard"), PAIRS), max_size=30), PAIRS)
def test_it_is_a_set(steps: list[tuple[str, tuple[int, int]]], asked: tuple[int, int]) -> None:
    ranges, model = Ranges(), set[int]()
    for what, (value, more) in steps:
        if what == "a":
            assert ranges.add(value) is (value not in model)
            model.add(value)
        elif what == "r":
            ranges.add_range(value, value + more)
            model.update(range(value, value + more + 1))
        else:
            ranges.discard(value)
            model.discard(value)
        assert values(ranges) == model
        # Neighbours are joined: there are as many ranges as there are ends.
        assert len(ranges) == sum(value + 1 not in model for value in model)
    start, end = asked[0], asked[0] + asked[1]
    wanted = set(range(start, end + 1))
    gaps = [value for first, last in ranges.gaps(start, end) for value in range(first, last + 1)]
    assert gaps == sorted(wanted - model)
    assert ranges.meets(start, end) is bool(wanted & model)
    assert all((value in ranges) is (value in model) for value in wanted)
    assert ranges.last == max(model, default=-1)


@given(st.sets(VALUES), st.sets(VALUES), st.integers(1, 5))
def test_union_limit_and_forget(left: set[int], right: set[int], count: int) -> None:
    one, two = Ranges(), Ranges()
    for value in left:
        one.add(value)
    for value in right:
        two.add(value)
    both = one.union(two)
    assert values(both) == left | right
    assert values(one) == left
    limited, forgot = both.union(Ranges()), both.union(Ranges())
    limited.limit(count)
    assert len(limited) == min(count, len(both))
    assert values(limited) >= values(both)
    assert limited.last == both.last
    forgot.forget(count)
    assert len(forgot) == min(count, len(both))
    assert values(forgot) <= values(both)
    assert forgot.last == both.last


def test_nothing_is_missing_in_an_empty_span() -> None:
    ranges = Ranges()
    assert list(ranges.gaps(3, 2)) == []
    ranges.add_range(0, 9)
    assert list(ranges.gaps(2, 5)) == []


def test_holes() -> None:
    ranges = Ranges()
    for start, end in ((10, 19), (0, 4), (30, 34)):
        ranges.add_range(start, end)
    assert list(ranges.gaps(2, 40)) == [(5, 9), (20, 29), (35, 40)]
    assert list(ranges.gaps(12, 31)) == [(20, 29)]
    assert ranges.meets(5, 10)
    assert not ranges.meets(20, 29)
    ranges.discard(25)
    ranges.discard(15)
    assert list(ranges) == [(0, 4), (10, 14), (16, 19), (30, 34)]
    ranges.discard(30)
    assert not ranges.add(31)
    assert ranges.add(15)
    assert list(ranges) == [(0, 4), (10, 19), (31, 34)]
    filled, short = ranges.union(Ranges()), ranges.union(Ranges())
    filled.limit(2)
    assert list(filled) == [(0, 19), (31, 34)]
    short.forget(2)
    assert list(short) == [(10, 19), (31, 34)]
