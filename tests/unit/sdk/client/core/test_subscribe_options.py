from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.client.core.subscribe_options import (
    Verdict,
    Window,
    WindowLimits,
    fetch_end,
    to_filter,
    to_location,
)
from laps_wire.errors import EncodeError
from laps_wire.moqt.codepoints import FilterType
from laps_wire.moqt.structures import Location, SubscriptionFilter


def test_a_full_queue_pauses_and_a_half_empty_one_resumes() -> None:
    window = Window(WindowLimits(max_objects=4, max_bytes=1000))
    paused = []
    for _ in range(4):
        window.take(10)
        paused.append(window.paused)
    assert paused == [False, False, False, True]
    resumed = [window.give(10) for _ in range(4)]
    assert resumed == [False, True, False, False]  # two are left: half


def test_bytes_count_as_well() -> None:
    window = Window(WindowLimits(max_objects=100, max_bytes=100))
    window.take(100)
    assert window.paused
    assert window.give(100)


def test_over_the_hard_limit_the_newest_goes() -> None:
    window = Window(WindowLimits(max_objects=1, max_bytes=100, hard_factor=2))
    window.take(10)
    assert window.judge(10) is Verdict.TAKE
    window.take(10)
    assert window.judge(10) is Verdict.DROP_NEWEST
    window.drop(10)
    assert (window.dropped, window.dropped_bytes) == (1, 10)
    large = Window(WindowLimits(max_objects=10, max_bytes=100, hard_factor=2))
    assert large.judge(1000) is Verdict.TAKE  # alone, whatever its size: it is here already
    large.take(150)
    assert large.judge(51) is Verdict.DROP_NEWEST
    assert large.judge(50) is Verdict.TAKE


def test_what_was_sent_with_credit_is_taken_above_the_limits() -> None:
    window = Window(WindowLimits(max_objects=1, max_bytes=100, hard_factor=2))
    for _ in range(5):
        assert window.judge(1000, credited=True) is Verdict.TAKE
        window.take(1000)
    assert window.paused
    assert window.unread > 5000
    assert window.judge(1) is Verdict.DROP_NEWEST
    dropping = Window(WindowLimits(max_objects=1, drop=True))
    dropping.take(1)
    assert dropping.judge(1, credited=True) is Verdict.DROP_OLDEST


def test_dropping_takes_the_oldest_and_never_pauses() -> None:
    window = Window(WindowLimits(max_objects=2, max_bytes=100, drop=True))
    window.take(10)
    window.take(10)
    assert window.judge(1) is Verdict.DROP_OLDEST
    assert not window.paused
    window.give(10)
    assert window.judge(90) is Verdict.TAKE
    assert window.judge(91) is Verdict.DROP_OLDEST
    window.give(10)
    assert window.judge(10_000) is Verdict.TAKE


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 50))), st.booleans())
def test_what_is_held_stays_within_bounds(steps: list[tuple[bool, int]], drop: bool) -> None:
    limits = WindowLimits(max_objects=5, max_bytes=100, hard_factor=2, drop=drop)
    window = Window(limits)
    held: list[int] = []
    for put, size in steps:
        if not put:
            if held:
                window.give(held.pop(0))
            continue
        while (verdict := window.judge(size)) is Verdict.DROP_OLDEST:
            old = held.pop(0)
            window.give(old)
            window.drop(old)
        if verdict is Verdict.TAKE:
            window.take(size)
            held.append(size)
        else:
            window.drop(size)
    assert (window.objects, window.bytes) == (len(held), sum(held))
    assert len(held) <= limits.max_objects * (1 if drop else 2)
    assert sum(held) <= limits.max_bytes * (1 if drop else 2)


def test_words_and_numbers() -> None:
    assert to_filter("latest") == SubscriptionFilter(FilterType.LARGEST_OBJECT)
    assert to_filter("next-group") == SubscriptionFilter(FilterType.NEXT_GROUP_START)
    start = SubscriptionFilter(FilterType.ABSOLUTE_START, Location(7, 0))
    assert to_filter(7) == to_filter((7, 0)) == to_filter(Location(7, 0)) == start
    whole = SubscriptionFilter(FilterType.ABSOLUTE_RANGE, Location(7, 2), 9)
    assert to_filter((7, 2), 9) == whole


def test_what_cannot_be_meant_is_refused() -> None:
    with pytest.raises(EncodeError, match="use 'latest', 'next-group'"):
        to_filter("now")  # type: ignore[arg-type] # that is the point
    with pytest.raises(EncodeError, match="needs a start"):
        to_filter("latest", 5)
    with pytest.raises(EncodeError, match="before"):
        to_filter(7, 6)


def test_ends_of_a_fetch_name_what_is_wanted_last() -> None:
    assert to_location(5) == Location(5, 0)
    assert fetch_end(5) == Location(5, 0)
    assert fetch_end((5, 3)) == fetch_end(Location(5, 3)) == Location(5, 4)
