from __future__ import annotations

from laps_sdk.client.core.delivery import Delivery
from laps_wire.moqt.codepoints import FilterType
from laps_wire.moqt.parameters import NO_PARAMETERS, Parameters
from laps_wire.moqt.structures import Location, SubscriptionFilter


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
