"""Filters and FETCH ranges."""

from __future__ import annotations

import pytest

from laps_sdk.edge.ranges import (
    GROUP_END,
    Span,
    Window,
    after,
    clip,
    joining_span,
    standalone_span,
    window_of,
    wire_end,
)
from laps_wire.moqt.codepoints import FilterType
from laps_wire.moqt.messages import AbsoluteJoiningFetch, RelativeJoiningFetch, StandaloneFetch
from laps_wire.moqt.structures import Location, SubscriptionFilter
from testkit.edge_net import TRACK

LARGEST = Location(7, 3)


@pytest.mark.parametrize(
    ("wanted", "largest", "window"),
    [
        (None, LARGEST, Window(None, None)),
        (SubscriptionFilter(FilterType.LARGEST_OBJECT), LARGEST, Window(Location(7, 4), None)),
        (SubscriptionFilter(FilterType.LARGEST_OBJECT), None, Window(Location(0, 0), None)),
        (SubscriptionFilter(FilterType.NEXT_GROUP_START), LARGEST, Window(Location(8, 0), None)),
        (SubscriptionFilter(FilterType.NEXT_GROUP_START), None, Window(Location(0, 0), None)),
        (
            SubscriptionFilter(FilterType.ABSOLUTE_START, Location(2, 1)),
            LARGEST,
            Window(Location(2, 1), None),
        ),
        (
            SubscriptionFilter(FilterType.ABSOLUTE_RANGE, Location(2, 1), 7),
            LARGEST,
            Window(Location(2, 1), 7),
        ),
        (
            SubscriptionFilter(FilterType.ABSOLUTE_RANGE, Location(2, 1), 4),
            None,
            Window(Location(2, 1), 4),
        ),
        (SubscriptionFilter(FilterType.ABSOLUTE_RANGE, Location(2, 1), 6), LARGEST, None),
    ],
)
def test_window(
    wanted: SubscriptionFilter | None, largest: Location | None, window: Window | None
) -> None:
    assert window_of(wanted, largest) == window


def test_after() -> None:
    assert after(None) == Location(0, 0)
    assert after(LARGEST) == Location(7, 4)


def test_standalone() -> None:
    start = Location(1, 2)
    whole = StandaloneFetch(TRACK, start, Location(3, 0))
    assert standalone_span(whole) == Span(start, Location(3, GROUP_END))
    part = StandaloneFetch(TRACK, start, Location(3, 5))
    assert standalone_span(part) == Span(start, Location(3, 4))


def test_joining() -> None:
    assert joining_span(RelativeJoiningFetch(0, 2), LARGEST) == Span(Location(5, 0), LARGEST)
    assert joining_span(RelativeJoiningFetch(0, 99), LARGEST) == Span(Location(0, 0), LARGEST)
    assert joining_span(AbsoluteJoiningFetch(0, 6), LARGEST) == Span(Location(6, 0), LARGEST)
    assert joining_span(AbsoluteJoiningFetch(0, 8), LARGEST) is None
    assert joining_span(RelativeJoiningFetch(0, 2), None) is None


def test_clip() -> None:
    whole = Span(Location(1, 0), Location(9, GROUP_END))
    assert clip(whole, LARGEST) == Span(Location(1, 0), LARGEST)
    assert clip(Span(Location(1, 0), Location(2, 2)), LARGEST) == Span(
        Location(1, 0), Location(2, 2)
    )
    assert clip(Span(Location(7, 4), Location(8, 0)), LARGEST) is None


def test_wire_end() -> None:
    assert wire_end(Location(3, GROUP_END)) == Location(3, 0)
    assert wire_end(Location(3, 4)) == Location(3, 5)
