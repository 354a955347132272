from __future__ import annotations

import pytest

from laps_sdk.client.core.numbering import Delivery, Numbering, first_group
from laps_wire.errors import StateError
from laps_wire.moqt.codepoints import FilterType
from laps_wire.moqt.parameters import NO_PARAMETERS, Parameters
from laps_wire.moqt.structures import Location, SubscriptionFilter


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


def asked(type_: FilterType, start: Location | None = None, end: int | None = None) -> Parameters:
    return Parameters(subscription_filter=SubscriptionFilter(type_, start, end))


def test_without_words_everything_is_wanted() -> None:
    delivery = Delivery.of(NO_PARAMETERS, Location(5, 5), 6)
    assert delivery == Delivery()
    assert delivery.wants(Location(0, 0))


def test_the_latest_is_the_next_object() -> None:
    delivery = Delivery.of(asked(FilterType.LARGEST_OBJECT), Location(5, 5), 6)
    assert delivery.wants(Location(5, 6))


def test_the_next_group_starts_at_its_first_object() -> None:
    delivery = Delivery.of(asked(FilterType.NEXT_GROUP_START), Location(5, 5), 6)
    assert not delivery.wants(Location(5, 6))
    assert delivery.wants(Location(6, 0))


def test_the_next_group_of_nothing_is_the_first() -> None:
    delivery = Delivery.of(asked(FilterType.NEXT_GROUP_START), None, 6)
    assert delivery.wants(Location(0, 0))


def test_a_range_has_two_ends() -> None:
    delivery = Delivery.of(asked(FilterType.ABSOLUTE_RANGE, Location(3, 2), 4), None, 0)
    assert [delivery.wants(Location(*place)) for place in [(3, 1), (3, 2), (4, 99), (5, 0)]] == [
        False,
        True,
        True,
        False,
    ]


def test_an_update_changes_only_what_it_says() -> None:
    start = Delivery.of(asked(FilterType.ABSOLUTE_START, Location(3, 0)), None, 0)
    paused = start.changed(Parameters(forward=False), None, 0)
    assert paused.start == Location(3, 0)
    assert not paused.wants(Location(4, 0))
    assert paused.changed(Parameters(forward=True), None, 0) == start
