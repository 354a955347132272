"""The numbers of a publisher's objects, and which of them its receiver wants.

The first group of a publisher is the time in milliseconds; later groups follow one by one. A
restarted publisher therefore begins above everything it sent before, as long as it began fewer
than a thousand groups a second. Subscribers and caches never see a number twice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from laps_wire.errors import StateError
from laps_wire.moqt.codepoints import FilterType
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.structures import Location, SubscriptionFilter

__all__ = ["Delivery", "Numbering", "first_group"]

_REMEMBERED: Final = 64
"""How many groups can still get objects: several may be written in parallel."""


def first_group(now: float) -> int:
    """Return the first group of a publisher that starts at ``now``, seconds since the epoch."""
    return max(0, int(now * 1000))


class Numbering:
    """Numbers the groups and objects of one track."""

    __slots__ = ("_first", "_newest", "_next", "largest")

    def __init__(self, first: int) -> None:
        self._first = first
        self._newest: int | None = None
        self._next: dict[int, int] = {}
        """The next object id of each group that is remembered."""
        self.largest: Location | None = None
        """The largest location that was assigned."""

    @property
    def next_group(self) -> int:
        """The number that a new group would get."""
        return self._first if self._newest is None else self._newest + 1

    def begin(self, group: int | None = None) -> int:
        """Begin the next group, or ``group``, whose number must be above all before."""
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
        """Return whether a group was begun and is still remembered."""
        return group in self._next

    def take(self, group: int) -> Location:
        """Assign the location of the next object of a group."""
        object_ = self._next.get(group)
        if object_ is None:
            raise StateError(f"group {group} was not begun, or is too old")
        self._next[group] = object_ + 1
        location = Location(group, object_)
        if self.largest is None or location > self.largest:
            self.largest = location
        return location


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """The filter and forward state of the one subscription to a published track."""

    forward: bool = True
    start: Location | None = None
    """Nothing before this location; None: from the next object on."""
    end_group: int | None = None
    """Nothing after this group."""

    @classmethod
    def of(cls, parameters: Parameters, largest: Location | None, next_group: int) -> Delivery:
        """Read the parameters of SUBSCRIBE or PUBLISH_OK (moq-transport-16, 5.1.2)."""
        return cls().changed(parameters, largest, next_group)

    def changed(
        self, parameters: Parameters, largest: Location | None, next_group: int
    ) -> Delivery:
        """Return a copy with the parameters of an update; absent parameters keep their values."""
        delivery = self
        if parameters.forward is not None:
            delivery = replace(delivery, forward=parameters.forward)
        if parameters.subscription_filter is not None:
            start, end_group = _range(parameters.subscription_filter, largest, next_group)
            delivery = replace(delivery, start=start, end_group=end_group)
        return delivery

    def wants(self, location: Location) -> bool:
        """Return whether the object at this location is to be sent."""
        return (
            self.forward
            and (self.start is None or location >= self.start)
            and (self.end_group is None or location.group <= self.end_group)
        )


def _range(
    wanted: SubscriptionFilter, largest: Location | None, next_group: int
) -> tuple[Location | None, int | None]:
    match wanted.type:
        case FilterType.NEXT_GROUP_START:
            # Without an object there is no group to be in the middle of.
            return (None if largest is None else Location(next_group, 0)), None
        case FilterType.LARGEST_OBJECT:
            return None, None
        case _:
            return wanted.start, wanted.end_group
