from __future__ import annotations

import pytest

from laps_sdk.client.core.subscribe_options import fetch_end, to_filter, to_location
from laps_wire.errors import EncodeError
from laps_wire.moqt.codepoints import FilterType
from laps_wire.moqt.structures import Location, SubscriptionFilter


def test_words_and_numbers() -> None:
    assert to_filter("latest") == SubscriptionFilter(FilterType.LARGEST_OBJECT)
    assert to_filter("next-group") == SubscriptionFilter(FilterType.NEXT_GROUP_START)
    start = SubscriptionFilter(FilterType.ABSOLUTE_START, Location(7, 0))
    assert to_filter(7) == to_filter((7, 0)) == to_filter(Location(7, 0)) == start
    whole = SubscriptionFilter(FilterType.ABSOLUTE_RANGE, Location(7, 2), 9)
    assert to_filter((7, 2), 9) == whole


def test_what_cannot_be_meant_is_refused() -> None:
    with pytest.raises(EncodeError, match="use 'latest', 'next-group'"):
        to_filter("now")  # type: ignore[arg-type] # that is the point
    with pytest.raises(EncodeError, match="needs a start"):
        to_filter("latest", 5)
    with pytest.raises(EncodeError, match="before"):
        to_filter(7, 6)


def test_ends_of_a_fetch_name_what_is_wanted_last() -> None:
    assert to_location(5) == Location(5, 0)
    assert fetch_end(5) == Location(5, 0)
    assert fetch_end((5, 3)) == fetch_end(Location(5, 3)) == Location(5, 4)
