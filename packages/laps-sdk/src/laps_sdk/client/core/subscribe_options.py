"""What a subscription or a fetch asks for: where it starts and ends, and its SUBSCRIBE parameters.

::

    start="latest"         from the next object on                LARGEST_OBJECT
    start="next-group"     from the beginning of the next group   NEXT_GROUP_START
    start=(120, 0)         from this location on                  ABSOLUTE_START
    start=120              the same
    start=..., end=130     up to and including group 130          ABSOLUTE_RANGE
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from laps_sdk.client.core.window import WindowLimits
from laps_wire.errors import EncodeError
from laps_wire.moqt.codepoints import FilterType, GroupOrder
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.structures import Location, SubscriptionFilter
from laps_wire.moqt.versions import Draft

__all__ = [
    "LocationLike",
    "Start",
    "SubscriptionOptions",
    "fetch_end",
    "to_filter",
    "to_location",
]

LocationLike: TypeAlias = "int | tuple[int, int] | Location"
"""A group, or a group and an object."""

Start: TypeAlias = "Literal['latest', 'next-group'] | LocationLike"
"""Where a subscription starts."""

_FILTERS = {
    "latest": FilterType.LARGEST_OBJECT,
    "next-group": FilterType.NEXT_GROUP_START,
}


def to_location(value: LocationLike) -> Location:
    """Return the location; a group alone stands for its first object."""
    if isinstance(value, int):
        return Location(value, 0)
    group, object_ = value
    return Location(group, object_)


def to_filter(start: Start, end: int | None = None) -> SubscriptionFilter:
    """Return the filter of a SUBSCRIBE; ``end`` is the last group, which is delivered whole."""
    if isinstance(start, str):
        type_ = _FILTERS.get(start)
        if type_ is None:
            raise EncodeError(
                f"start {start!r}: use 'latest', 'next-group', a group, or (group, object)"
            )
        if end is None:
            return SubscriptionFilter(type_)
        raise EncodeError(f"an end (group {end}) needs a start that is a group or a location")
    location = to_location(start)
    if end is None:
        return SubscriptionFilter(FilterType.ABSOLUTE_START, location)
    return SubscriptionFilter(FilterType.ABSOLUTE_RANGE, location, end)


def fetch_end(end: LocationLike) -> Location:
    """Return the end of a FETCH as the wire has it: object plus 1, or 0 for the whole group.

    Applications name the last object that they want, or the last group.
    """
    if isinstance(end, int):
        return Location(end, 0)
    group, object_ = end
    return Location(group, object_ + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionOptions:
    """The arguments of :meth:`laps_sdk.Session.subscribe`, checked."""

    filter: SubscriptionFilter
    join: int | None = None
    """Groups before the current one to fetch first."""
    priority: int | None = None
    order: GroupOrder | None = None
    delivery_timeout: float | None = None
    wait: float = 0.0
    """Seconds to wait for a publisher."""
    follow: bool = False
    """Whether to wait for the next publisher when the current one is lost."""
    gap_after: float = 3.0
    """Seconds until objects that did not arrive, and still could, are reported as a gap."""
    limits: WindowLimits = field(default_factory=WindowLimits)

    def parameters(self, draft: Draft) -> Parameters:
        """Return the parameters of the first SUBSCRIBE."""
        timeout = self.delivery_timeout
        waits = draft is Draft.D18 and self.wait > 0
        return Parameters(
            subscription_filter=self.filter,
            subscriber_priority=self.priority,
            group_order=self.order,
            object_delivery_timeout=None if timeout is None else max(1, int(timeout * 1000)),
            rendezvous_timeout=int(self.wait * 1000) if waits else None,
        )

    def on_link(self, draft: Draft, last: Location | None) -> Parameters:
        """Return the parameters for a new link; ``last`` is the last object that arrived."""
        wanted = self.parameters(draft)
        if last is not None:
            return replace(wanted, subscription_filter=_resumed(self.filter, last))
        if self.join is not None:
            # A joining fetch joins at the largest object (moq-transport-16, 9.16.2).
            latest = SubscriptionFilter(FilterType.LARGEST_OBJECT)
            return replace(wanted, subscription_filter=latest)
        return wanted


def _resumed(wanted: SubscriptionFilter, last: Location) -> SubscriptionFilter:
    """Return the filter to continue after ``last``; objects published meanwhile are fetched."""
    if wanted.end_group is None:
        return SubscriptionFilter(FilterType.LARGEST_OBJECT)
    start = Location(last.group, last.object + 1)
    end = max(wanted.end_group, last.group)
    return SubscriptionFilter(FilterType.ABSOLUTE_RANGE, start, end)
