"""Which number the next object of a publisher gets.

The first group of a publisher is the time in milliseconds, later ones follow one by one. So a
publisher that was restarted begins above everything that it has sent before, as long as it began
fewer than a thousand groups a second; subscribers and caches never see a number twice.
"""

from __future__ import annotations

from typing import Final

from laps_wire.errors import StateError
from laps_wire.moqt.structures import Location

__all__ = ["Numbering", "first_group"]

_REMEMBERED: Final = 64
"""How many groups can still get objects: several may be written side by side."""


def first_group(now: float) -> int:
    """The first group of a publisher that starts at ``now``, seconds since the Unix epoch."""
    return max(0, int(now * 1000))


class Numbering:
    """The groups and objects of one track, as its publisher counts them."""

    __slots__ = ("_first", "_newest", "_next", "largest")

    def __init__(self, first: int) -> None:
        self._first = first
        self._newest: int | None = None
        self._next: dict[int, int] = {}
        """The next object id of each group that is remembered."""
        self.largest: Location | None = None
        """The largest location that was given out."""

    @property
    def next_group(self) -> int:
        """The number that a new group would get."""
        return self._first if self._newest is None else self._newest + 1

    def begin(self, group: int | None = None) -> int:
        """Begin a group: the next one, or one with a number above all before."""
        if group is None:
            group = self.next_group
        elif self._newest is not None and group <= self._newest:
            raise StateError(f"group {group} cannot follow group {self._newest}: numbers only grow")
        self._newest = group
        self._next[group] = 0
        if len(self._next) > _REMEMBERED:
            del self._next[min(self._next)]
        return group

    def knows(self, group: int) -> bool:
        """Whether a group was begun and is not forgotten."""
        return group in self._next

    def take(self, group: int) -> Location:
        """The location of the next object of a group."""
        object_ = self._next.get(group)
        if object_ is None:
            raise StateError(f"group {group} was not begun, or is too old")
        self._next[group] = object_ + 1
        location = Location(group, object_)
        if self.largest is None or location > self.largest:
            self.largest = location
        return location
