from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.client.core.backoff import Backoff


def test_delays_double_up_to_the_cap() -> None:
    backoff = Backoff(first=0.5, cap=3.0)
    assert [backoff.delay(attempt, 0.0) for attempt in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_jitter_takes_off_at_most_its_share() -> None:
    backoff = Backoff(first=1.0, spread=0.5)
    assert backoff.delay(0, 0.0) == 1.0
    assert backoff.delay(0, 1.0) == 0.5
    assert Backoff(spread=0.0).delay(2, 0.9) == 1.0


@given(st.integers(0, 10_000), st.floats(0, 1))
def test_no_delay_is_out_of_bounds(attempt: int, jitter: float) -> None:
    backoff = Backoff()
    assert 0 < backoff.delay(attempt, jitter) <= backoff.cap


@pytest.mark.parametrize(
    "bad",
    [
        {"first": 0.0},
        {"first": 2.0, "cap": 1.0},
        {"factor": 0.5},
        {"spread": 1.5},
        {"spread": -0.1},
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="wants 0 < first <= cap"):
        Backoff(**bad)
