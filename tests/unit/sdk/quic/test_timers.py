from __future__ import annotations

import weakref

from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.quic.timers import Entry, Timers


class Owner:
    def __init__(self) -> None:
        self.timer: float | None = None
        self.timer_entry: Entry | None = None


def test_what_is_due_comes_once_in_order() -> None:
    timers = Timers()
    late, early, never = Owner(), Owner(), Owner()
    timers.set(late, 2.0)
    timers.set(early, 1.0)
    timers.set(never, 3.0)
    timers.set(never, None)
    assert timers.next() == 1.0
    assert timers.due(0.5) == []
    assert timers.due(5.0) == [early, late]
    assert timers.due(5.0) == []
    assert timers.next() is None


def test_moving_later_keeps_one_entry() -> None:
    timers = Timers()
    owner = Owner()
    for when in range(1, 100):
        timers.set(owner, float(when))
    assert len(timers) == 1
    assert timers.due(50.0) == []
    assert timers.next() == 99.0
    assert timers.due(99.0) == [owner]


def test_moving_earlier_is_heeded_and_the_old_entry_finds_nothing() -> None:
    timers = Timers()
    owner = Owner()
    timers.set(owner, 9.0)
    timers.set(owner, 3.0)
    assert timers.next() == 3.0
    assert timers.due(3.0) == [owner]
    assert timers.due(9.0) == []


def test_what_is_over_is_not_kept_in_memory() -> None:
    timers = Timers()
    owner = Owner()
    timers.set(owner, 9.0)
    timers.set(owner, 3.0)
    gone = weakref.ref(owner)
    timers.forget(owner)
    timers.forget(owner)
    del owner
    assert gone() is None
    assert timers.due(10.0) == []


def test_empty_entries_are_swept_out() -> None:
    timers = Timers()
    stays = Owner()
    timers.set(stays, 5.0)
    for number in range(1000):
        owner = Owner()
        timers.set(owner, 30.0 + number)
        timers.forget(owner)
        assert len(timers) <= 140
    assert timers.due(2000.0) == [stays]


def test_a_loop_that_calls_a_little_early_is_served() -> None:
    timers = Timers()
    owner = Owner()
    timers.set(owner, 1.0)
    assert timers.due(1.0 - 1e-9) == [owner]


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.one_of(st.none(), st.integers(1, 20)), st.integers(0, 3)),
        max_size=40,
    )
)
def test_the_heap_agrees_with_a_list(steps: list[tuple[int, int | None, int]]) -> None:
    timers = Timers()
    owners = [Owner() for _ in range(5)]
    wanted: dict[int, float | None] = {}
    now = 0.0
    for index, delay, advance in steps:
        when = None if delay is None else now + delay
        timers.set(owners[index], when)
        wanted[index] = when
        now += advance
        due = {i for i, w in wanted.items() if w is not None and w <= now}
        assert {owners.index(owner) for owner in timers.due(now)} == due  # type: ignore[arg-type]  # all are owners
        for i in due:
            wanted[i] = None
        following = [w for w in wanted.values() if w is not None]
        if following:
            at = timers.next()
            assert at is not None
            assert at <= min(following)
