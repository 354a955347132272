from __future__ import annotations

import pytest

from laps_sdk.client.core.numbering import Numbering, first_group
from laps_wire.errors import StateError
from laps_wire.moqt.structures import Location


def test_the_first_group_is_the_clock_in_milliseconds() -> None:
    assert first_group(1_700_000_000.1234) == 1_700_000_000_123
    assert first_group(-1.0) == 0


def test_groups_and_objects_follow_one_another() -> None:
    numbers = Numbering(10)
    assert numbers.next_group == 10
    assert numbers.largest is None
    group = numbers.begin()
    assert [numbers.take(group), numbers.take(group)] == [Location(10, 0), Location(10, 1)]
    assert numbers.next_group == 11
    assert numbers.take(numbers.begin()) == Location(11, 0)


def test_several_groups_are_counted_side_by_side() -> None:
    numbers = Numbering(0)
    first, second = numbers.begin(), numbers.begin()
    numbers.take(second)
    assert numbers.take(first) == Location(0, 0)
    assert numbers.largest == Location(1, 0)


def test_a_group_may_be_named_if_it_is_new() -> None:
    numbers = Numbering(5)
    assert numbers.begin(3) == 3  # nothing was written: any number may be the first
    assert numbers.begin(7) == 7
    for old in (7, 6):
        with pytest.raises(StateError, match="numbers only grow"):
            numbers.begin(old)


def test_old_groups_are_forgotten() -> None:
    numbers = Numbering(0)
    for _ in range(65):
        numbers.begin()
    assert not numbers.knows(0)
    assert numbers.knows(1)
    with pytest.raises(StateError, match="too old"):
        numbers.take(0)
