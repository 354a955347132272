from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.client.options import Backoff, ConnectOptions
from laps_sdk.tokens.errors import TokenMalformedError
from laps_wire.errors import EncodeError


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"drafts": ()}, "one or more of moqt-18, moqt-16"),
        ({"drafts": ("moqt-16", "moq-00")}, "one or more of"),
        ({"insecure": True, "ca_file": "x"}, "omit ca_file and pin"),
        ({"timeout": 0.0}, "more than 0 seconds"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(EncodeError, match=words):
        ConnectOptions(**options)


def test_tokens() -> None:
    assert ConnectOptions().token_value() is None
    assert ConnectOptions(token="aGk_").token_value() == b"hi?"  # noqa: S106
    assert ConnectOptions(token="abc", token_type=7).token_value() == b"abc"  # noqa: S106
    with pytest.raises(TokenMalformedError, match="base64url"):
        ConnectOptions(token="no text form").token_value()  # noqa: S106
    assert ConnectOptions(token=b"abc").token_value() == b"abc"
    fresh = iter([b"one", b"two"])
    options = ConnectOptions(token=lambda: next(fresh))
    assert [options.token_value(), options.token_value()] == [b"one", b"two"]


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
    with pytest.raises(ValueError, match="must have 0 < first <= cap"):
        Backoff(**bad)
