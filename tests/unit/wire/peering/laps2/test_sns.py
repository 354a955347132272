"""SNS IDs: a circle of 2**32 - 1 numbers without zero."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.errors import EncodeError, StateError
from laps_wire.peering.laps2.sns import (
    FIRST_SNS_ID,
    MAX_SNS_ID,
    NO_SNS_ID,
    is_later,
    next_free,
    successor,
)

HALF = (2**32 - 2) // 2
ids = st.integers(1, MAX_SNS_ID) | st.sampled_from([1, 2, HALF, HALF + 1, HALF + 2, MAX_SNS_ID])


def test_the_numbers_of_the_specification() -> None:
    assert (NO_SNS_ID, FIRST_SNS_ID, MAX_SNS_ID) == (0, 1, 2**32 - 1)


@pytest.mark.parametrize(
    ("sns_id", "after"),
    [(0, 1), (1, 2), (2**31, 2**31 + 1), (2**32 - 2, 2**32 - 1), (2**32 - 1, 1)],
)
def test_successor(sns_id: int, after: int) -> None:
    assert successor(sns_id) == after


@pytest.mark.parametrize("sns_id", [-1, 2**32])
def test_what_has_no_successor(sns_id: int) -> None:
    with pytest.raises(EncodeError, match="outside"):
        successor(sns_id)


@pytest.mark.parametrize(
    ("sns_id", "than", "later"),
    [
        (2, 1, True),
        (1, 2, False),
        (5, 5, False),
        (1, MAX_SNS_ID, True),  # over the end
        (MAX_SNS_ID, 1, False),
        (1 + HALF, 1, True),  # as far ahead as it gets
        (2 + HALF, 1, False),  # nearer the other way round
        (HALF, MAX_SNS_ID, True),
        (HALF + 1, MAX_SNS_ID, False),
        (1, 0, True),
        (0, 1, False),
        (0, 0, False),
    ],
)
def test_later(sns_id: int, than: int, later: bool) -> None:
    assert is_later(sns_id, than) is later


@given(ids, ids)
def test_of_two_ids_exactly_one_is_later(one: int, other: int) -> None:
    if one == other:
        assert not is_later(one, other)
    else:
        assert is_later(one, other) != is_later(other, one)


@given(ids)
def test_a_successor_is_later_and_never_zero(sns_id: int) -> None:
    assert successor(sns_id) != 0
    assert is_later(successor(sns_id), sns_id)


@given(ids, st.integers(1, HALF))
def test_any_skip_forward_up_to_half_the_circle_is_later(sns_id: int, skip: int) -> None:
    ahead = (sns_id - 1 + skip) % MAX_SNS_ID + 1
    assert is_later(ahead, sns_id)
    assert not is_later(sns_id, ahead)


def test_living_ids_are_skipped_after_a_wrap() -> None:
    assert next_free(0, ()) == 1
    assert next_free(MAX_SNS_ID - 1, {MAX_SNS_ID, 1, 2, 4}) == 3


def test_giving_up_says_so() -> None:
    with pytest.raises(StateError, match="no free SNS id within 3 after 1"):
        next_free(1, {2, 3, 4}, limit=3)
    assert next_free(1, {2, 3}, limit=3) == 4
