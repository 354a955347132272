"""What the cache knows of a range: objects, places where none is, and places it knows nothing of.

::

    wanted   5:2 ---------------------------------------------------> 9:4
    plan     [ group 5, from 2 ][ group 6 ][ groups 7-8: absent ][ group 9, up to 4 ]
    group 6  objects 0 1 2 | absent 3 | unknown 4-5 | object 6 | absent from 7 on (the group's end)

An object is *absent* only if somebody said so: the group or the track ended before it, an object's
gap extension covers it, or an upstream left it out of the answer to a FETCH. All else that is not
there is *unknown*.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from laps_sdk.forwarding.cache import Cache
from laps_sdk.forwarding.group import Group
from laps_sdk.forwarding.interfaces import FetchRange
from laps_sdk.forwarding.late import merged
from laps_sdk.forwarding.ranges import Ranges
from laps_sdk.forwarding.segment import CachedObject, Segment
from laps_sdk.forwarding.track import Track
from laps_wire.moqt.codepoints import GroupOrder, ObjectStatus
from laps_wire.moqt.data.types import RangeEnd, RangeKind

__all__ = ["LAST_OBJECT", "GroupSpan", "Item", "is_covered", "items", "plan"]

LAST_OBJECT: Final = (1 << 62) - 1
"""Stands for the end of a group."""

_ABSENT: Final = RangeKind.NON_EXISTENT
_UNKNOWN: Final = RangeKind.UNKNOWN

Item: TypeAlias = CachedObject | RangeEnd
"""What an answer consists of; a range says what is up to its location, from the item before."""


class GroupSpan(NamedTuple):
    """Objects of one group that are wanted, with what is cached of it now."""

    group: Group
    start: int
    end: int
    segments: tuple[Segment, ...]

    def items(self) -> Iterator[Item]:
        """All that is known, ascending."""
        group = self.group
        pos = self.start
        wanted = [each for each in self.segments if each.ids.meets(self.start, self.end)]
        for item in merged(wanted):
            object_id = item.head.object_id
            if object_id < pos or not item.whole or item.head.status is not ObjectStatus.NORMAL:
                continue
            if object_id > self.end:
                break
            yield from _between(group, pos, object_id - 1)
            yield item
            pos = object_id + 1
        yield from _between(group, pos, self.end)

    @property
    def is_covered(self) -> bool:
        """Whether nothing of it is unknown; no object is read for that."""
        known = self.group.known_absent()
        for segment in self.segments:
            for first, last in segment.whole_ids:
                known.add_range(first, last)
        return not any(known.gaps(self.start, self.end))


Span: TypeAlias = GroupSpan | RangeEnd


def _between(group: Group, start: int, end: int) -> Iterator[RangeEnd]:
    """What is known of ids that are not cached."""
    if start > end:
        return
    absent = group.known_absent()
    pos = start
    for first, last in absent.gaps(start, end):
        if first > pos:
            yield RangeEnd(_ABSENT, group.group_id, first - 1)
        yield RangeEnd(_UNKNOWN, group.group_id, last)
        pos = last + 1
    if pos <= end:
        yield RangeEnd(_ABSENT, group.group_id, end)


def plan(now: float, cache: Cache, track: Track, wanted: FetchRange) -> list[Span]:
    """What a range consists of, in the order in which it is to be sent."""
    start, end = wanted.start, wanted.end
    spans: list[Span] = []
    ascending = wanted.order is not GroupOrder.DESCENDING
    absent = track.known_absent()
    expected = start.group
    for group_id in sorted(track.groups):
        if not start.group <= group_id <= end.group:
            continue
        group = track.groups[group_id]
        spans += _groups(absent, expected, group_id - 1, ascending)
        first = start.object if group_id == start.group else 0
        last = end.object if group_id == end.group else LAST_OBJECT
        fresh = tuple(segment for segment in group.segments if cache.is_fresh(now, segment))
        if first <= last:
            spans.append(GroupSpan(group, first, last, fresh))
        expected = group_id + 1
    spans += _groups(absent, expected, end.group, ascending)
    return spans if ascending else spans[::-1]


def _groups(absent: Ranges, start: int, end: int, ascending: bool) -> Iterator[RangeEnd]:
    """What is known of groups that have no record."""
    pos = start
    for first, last in absent.gaps(start, end):
        if first > pos:
            yield RangeEnd(_ABSENT, first - 1 if ascending else pos, LAST_OBJECT)
        yield RangeEnd(_UNKNOWN, last if ascending else first, LAST_OBJECT)
        pos = last + 1
    if pos <= end:
        yield RangeEnd(_ABSENT, end if ascending else pos, LAST_OBJECT)


def items(spans: list[Span]) -> Iterator[Item]:
    """An answer: objects, and ranges where they are needed.

    What is left out without a word does not exist; so a range that does not exist is only told
    before one that is unknown (moq-transport-16, 10.4.4.2).
    """
    held: list[RangeEnd] = []
    for span in spans:
        for item in span.items() if isinstance(span, GroupSpan) else (span,):
            if isinstance(item, RangeEnd):
                if held and held[-1].kind is item.kind:
                    held[-1] = item
                else:
                    held.append(item)
                continue
            yield from _needed(held)
            held.clear()
            yield item
    yield from _needed(held)


def _needed(held: list[RangeEnd]) -> list[RangeEnd]:
    if held and held[-1].kind is _ABSENT:
        return held[:-1]
    return held[:]


def is_covered(spans: list[Span]) -> bool:
    """Whether nothing in a plan is unknown."""
    return all(
        span.is_covered if isinstance(span, GroupSpan) else span.kind is not _UNKNOWN
        for span in spans
    )
