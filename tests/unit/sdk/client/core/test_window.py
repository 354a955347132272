from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.client.core.window import Verdict, Window, WindowLimits


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
