"""Violations of peers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from laps_relay.network.adjacency import MAX_VIOLATIONS, PERIOD, ViolationCounter


def test_more_than_a_number_within_a_minute_are_too_many() -> None:
    lies = ViolationCounter()
    assert [lies.add(0.0, 1) for _ in range(MAX_VIOLATIONS + 2)] == [False] * MAX_VIOLATIONS + [
        True
    ] * 2
    assert not lies.add(0.0, 2)
    lies.forget(1)
    lies.forget(1)
    assert not lies.add(0.0, 1)


@given(st.lists(st.floats(0, 2 * PERIOD), max_size=80).map(sorted))
def test_what_is_long_ago_does_not_count(times: list[float]) -> None:
    lies = ViolationCounter()
    for at, now in enumerate(times):
        recent = [time for time in times[: at + 1] if time > now - PERIOD]
        assert lies.add(now, 1) == (len(recent) > MAX_VIOLATIONS)
