"""Filters and FETCH ranges, resolved to locations (moq-transport-16, 5.1.2, 9.16)."""

from __future__ import annotations

from typing import Final, NamedTuple

from laps_wire.moqt.codepoints import FilterType
from laps_wire.moqt.messages import (
    AbsoluteJoiningFetch,
    RelativeJoiningFetch,
    StandaloneFetch,
)
from laps_wire.moqt.structures import Location, SubscriptionFilter

__all__ = [
    "GROUP_END",
    "Span",
    "Window",
    "after",
    "clip",
    "joining_span",
    "standalone_span",
    "window_of",
    "wire_end",
]

GROUP_END: Final = (1 << 62) - 1
"""The object that stands for "to the end of the group"."""


class Window(NamedTuple):
    """The range of a subscription; both ends included."""

    start: Location | None
    """None: from the next object on."""
    end_group: int | None


def after(location: Location | None) -> Location:
    """Return the first location behind ``location``; (0, 0) for None."""
    if location is None:
        return Location(0, 0)
    return Location(location.group, location.object + 1)


def window_of(filter_: SubscriptionFilter | None, largest: Location | None) -> Window | None:
    """Resolve a filter to locations; None if its last group is over already.

    A subscription without a filter begins with the next object.
    """
    if filter_ is None:
        return Window(None, None)
    match filter_.type:
        case FilterType.LARGEST_OBJECT:
            return Window(after(largest), None)
        case FilterType.NEXT_GROUP_START:
            return Window(Location(0 if largest is None else largest.group + 1, 0), None)
        case _:
            end = filter_.end_group
            if end is not None and largest is not None and end < largest.group:
                return None
            return Window(filter_.start, end)


class Span(NamedTuple):
    """The range of a FETCH; both ends included."""

    start: Location
    end: Location


def standalone_span(target: StandaloneFetch) -> Span:
    """Resolve a standalone FETCH.

    The end in the message is one too large, and object 0 there means the whole group (9.16.1).
    """
    group, behind = target.end
    last = Location(group, GROUP_END if behind == 0 else behind - 1)
    return Span(target.start, last)


def joining_span(
    target: RelativeJoiningFetch | AbsoluteJoiningFetch, joining: Location | None
) -> Span | None:
    """Resolve a joining FETCH: it ends where its subscription began (9.16.2.1).

    Returns None if no object is before that.
    """
    if joining is None:
        return None
    if isinstance(target, RelativeJoiningFetch):
        first = max(joining.group - target.joining_start, 0)
    else:
        first = target.joining_start
    if first > joining.group:
        return None
    return Span(Location(first, 0), joining)


def clip(span: Span, largest: Location) -> Span | None:
    """Cut a range at the largest object; None if nothing of the range is left."""
    if span.start > largest:
        return None
    return Span(span.start, min(span.end, largest))


def wire_end(end: Location) -> Location:
    """Return the end of a range as FETCH and FETCH_OK write it."""
    if end.object >= GROUP_END:
        return Location(end.group, 0)
    return Location(end.group, end.object + 1)
