"""Timers by key."""

from __future__ import annotations

import weakref

from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.timers import Timers, earliest, first_of


class Owner:
    """A key that can be referred to weakly."""


def test_the_earliest_is_due_first() -> None:
    timers: Timers[str] = Timers()
    assert timers.next() is None
    assert not timers.is_due(100.0)
    assert timers.pop(100.0) is None
    timers.set("b", 2.0)
    timers.set("a", 1.0)
    timers.set("c", 2.0)
    assert timers.next() == 1.0
    assert (timers.is_due(0.5), timers.is_due(1.0)) == (False, True)
    assert timers.pop(0.5) is None
    assert [timers.pop(2.0) for _ in range(4)] == ["a", "b", "c", None]
    assert len(timers) == 0


def test_setting_again_moves_and_cancelling_forgets() -> None:
    timers: Timers[str] = Timers()
    timers.set("a", 1.0)
    timers.set("a", 3.0)
    timers.set("b", 2.0)
    timers.cancel("b")
    timers.cancel("never set")
    assert timers.when("a") == 3.0
    assert timers.when("b") is None
    assert timers.pop(2.5) is None
    assert timers.pop(3.0) == "a"
    assert timers.next() is None


def test_moved_timers_leave_nothing_behind() -> None:
    timers: Timers[str] = Timers()
    for at in range(10_000):
        timers.set("a", float(at))
    assert len(timers._heap) < 100
    assert timers.next() == 9999.0


def test_cancelled_timers_leave_nothing_behind() -> None:
    timers: Timers[str] = Timers()
    timers.set("stays", 5.0)
    for number in range(1000):
        timers.set("a", 30.0 + number)
        timers.cancel("a")
        assert len(timers._heap) <= 140
    assert [timers.pop(2000.0), timers.pop(2000.0)] == ["stays", None]


def test_a_cancelled_key_is_not_kept_in_memory() -> None:
    timers: Timers[Owner] = Timers()
    owner = Owner()
    timers.set(owner, 9.0)
    timers.set(owner, 3.0)
    gone = weakref.ref(owner)
    timers.cancel(owner)
    del owner
    assert gone() is None
    assert timers.pop(10.0) is None


def test_moving_earlier_is_heeded_and_the_key_comes_once() -> None:
    timers: Timers[str] = Timers()
    timers.set("a", 9.0)
    timers.set("a", 3.0)
    assert timers.lower_bound() == timers.next() == 3.0
    assert [timers.pop(9.0), timers.pop(9.0)] == ["a", None]
    assert timers.lower_bound() is None


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.one_of(st.none(), st.integers(1, 20)), st.integers(0, 3)),
        max_size=60,
    )
)
def test_the_heap_agrees_with_a_sorted_list(steps: list[tuple[int, int | None, int]]) -> None:
    timers: Timers[int] = Timers()
    model: dict[int, tuple[float, int]] = {}
    now = 0.0
    for serial, (key, delay, advance) in enumerate(steps):
        if delay is None:
            timers.cancel(key)
            model.pop(key, None)
        else:
            timers.set(key, now + delay)
            model[key] = (now + delay, serial)
        assert timers.when(key) == (None if delay is None else now + delay)
        now += advance
        due = sorted((order, each) for each, order in model.items() if order[0] <= now)
        for _, each in due:
            assert timers.pop(now) == each
            del model[each]
        assert timers.pop(now) is None
        bound, first = timers.lower_bound(), timers.next()
        assert first == min((when for when, _ in model.values()), default=None)
        assert first is None or (bound is not None and bound <= first)
        assert len(timers) == len(model)


def test_what_was_moved_or_cancelled_is_not_due_although_it_stands_first() -> None:
    timers: Timers[str] = Timers()
    timers.set("a", 1.0)
    timers.set("b", 2.0)
    timers.cancel("a")
    assert timers.pop(1.5) is None
    timers.set("b", 4.0)
    assert timers.pop(3.0) is None
    assert timers.pop(4.0) == "b"
    timers.set("c", 1.0)
    timers.cancel("c")
    assert timers.pop(9.0) is None


def test_the_first_of_several_objects() -> None:
    groups: list[Timers[str]] = [Timers(), Timers(), Timers()]
    assert first_of(groups) is None
    groups[1].set("a", 2.0)
    groups[2].set("b", 1.0)
    groups[0].set("c", 3.0)
    assert first_of(groups) == first_of(reversed(groups)) == 1.0
    # What was moved or cancelled may still stand first, and counts no more.
    groups[2].set("b", 5.0)
    assert first_of(groups) == first_of(reversed(groups)) == 2.0
    groups[1].cancel("a")
    assert first_of(groups) == first_of(reversed(groups)) == 3.0
    groups[0].cancel("c")
    assert first_of(groups) == 5.0


def test_the_earliest_of_several_times() -> None:
    assert earliest() is None
    assert earliest(None, None) is None
    assert earliest(None, 3.0, 1.0, None, 2.0) == 1.0
