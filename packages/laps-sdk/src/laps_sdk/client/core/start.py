"""Where a subscription starts and ends, as applications say it and as the wire wants it.

::

    start="latest"         from the next object on                LARGEST_OBJECT
    start="next-group"     from the beginning of the next group   NEXT_GROUP_START
    start=(120, 0)         from this location on                  ABSOLUTE_START
    start=120              the same
    start=..., end=130     up to and with group 130               ABSOLUTE_RANGE
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from laps_wire.errors import EncodeError
from laps_wire.moqt.codepoints import FilterType
from laps_wire.moqt.structures import Location, SubscriptionFilter

__all__ = ["LocationLike", "Start", "fetch_end", "to_filter", "to_location"]

LocationLike: TypeAlias = "int | tuple[int, int] | Location"
"""A group, or a group and an object."""

Start: TypeAlias = "Literal['latest', 'next-group'] | LocationLike"
"""Where a subscription starts."""

_WORDS = {
    "latest": FilterType.LARGEST_OBJECT,
    "next-group": FilterType.NEXT_GROUP_START,
}


def to_location(value: LocationLike) -> Location:
    """A group alone stands for its first object."""
    if isinstance(value, int):
        return Location(value, 0)
    group, object_ = value
    return Location(group, object_)


def to_filter(start: Start, end: int | None = None) -> SubscriptionFilter:
    """The filter of a SUBSCRIBE; ``end`` is the last group, which is delivered whole."""
    if isinstance(start, str):
        type_ = _WORDS.get(start)
        if type_ is None:
            raise EncodeError(
                f"start {start!r}: wants 'latest', 'next-group', a group, or (group, object)"
            )
        if end is None:
            return SubscriptionFilter(type_)
        raise EncodeError(f"an end (group {end}) needs a start that is a group or a location")
    location = to_location(start)
    if end is None:
        return SubscriptionFilter(FilterType.ABSOLUTE_START, location)
    return SubscriptionFilter(FilterType.ABSOLUTE_RANGE, location, end)


def fetch_end(end: LocationLike) -> Location:
    """The end of a FETCH as the wire has it: its object plus 1, or 0 for the whole group.

    Applications name the last object that they want, or the last group.
    """
    if isinstance(end, int):
        return Location(end, 0)
    group, object_ = end
    return Location(group, object_ + 1)
