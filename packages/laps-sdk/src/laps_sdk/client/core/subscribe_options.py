"""What a subscription or a fetch asks for, and how much its receive queue holds.

The options say where it starts and ends, and give the parameters of SUBSCRIBE::

    start="latest"         from the next object on                LARGEST_OBJECT
    start="next-group"     from the beginning of the next group   NEXT_GROUP_START
    start=(120, 0)         from this location on                  ABSOLUTE_START
    start=120              the same
    start=..., end=130     up to and including group 130          ABSOLUTE_RANGE

A :class:`Window` has the fill level of a queue, and decides about the next object::

    queued bytes or objects
      hard   -----------------------------  above it: the newest object is dropped, and counted
      high   -------  pause reading ------
      low    -------  resume reading -----
      0

QUIC's flow control holds the sender back while reading is paused: what waits in the queue gives
the sender no credit. Streams within the credit already granted still arrive, at most the window of
the connection, and all of them are taken. The hard limit is only for what no credit bounds:
datagrams, transports that cannot withhold credit, and live objects that wait for a fetch. With
``drop`` reading never pauses: above the high mark the oldest object is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, Literal, TypeAlias

from laps_wire.errors import EncodeError
from laps_wire.moqt.codepoints import FilterType, GroupOrder
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.structures import Location, SubscriptionFilter
from laps_wire.moqt.versions import Draft

__all__ = [
    "LocationLike",
    "Start",
    "SubscriptionOptions",
    "Verdict",
    "Window",
    "WindowLimits",
    "fetch_end",
    "to_filter",
    "to_location",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowLimits:
    """How much a queue holds."""

    max_bytes: int = 16 * 1024 * 1024
    max_objects: int = 4096
    hard_factor: int = 4
    """The hard limit is this multiple of the limits, for a sender that cannot be held back."""
    drop: bool = False
    """Drop the oldest object above the limits instead of holding the sender back."""


_OBJECT_BYTES: Final = 512
"""About the memory of an object besides its payload."""


class Verdict(Enum):
    """What to do with an object that arrived."""

    TAKE = "take"
    DROP_NEWEST = "drop the newest"
    DROP_OLDEST = "drop the oldest, then take"


class Window:
    """Counts the objects and bytes of one receive queue; it does not hold them."""

    __slots__ = ("_limits", "bytes", "dropped", "dropped_bytes", "objects", "paused")

    def __init__(self, limits: WindowLimits) -> None:
        self._limits = limits
        self.objects = 0
        self.bytes = 0
        self.dropped = 0
        """Objects that were dropped for want of room."""
        self.dropped_bytes = 0
        self.paused = False
        """Whether reading should be paused now."""

    @property
    def unread(self) -> int:
        """About the bytes that the queue holds in memory."""
        return self.bytes + self.objects * _OBJECT_BYTES

    def judge(self, size: int, *, credited: bool = False) -> Verdict:
        """Decide about an object of ``size`` bytes. Ask again after DROP_OLDEST.

        ``credited``: it was sent with credit, of which there is no more while the queue is full.
        """
        limits = self._limits
        if limits.drop:
            full = self.objects >= limits.max_objects or self.bytes + size > limits.max_bytes
            return Verdict.DROP_OLDEST if full and self.objects else Verdict.TAKE
        if credited:
            return Verdict.TAKE
        factor = limits.hard_factor
        if self.objects >= limits.max_objects * factor or (
            self.objects and self.bytes + size > limits.max_bytes * factor
        ):
            return Verdict.DROP_NEWEST
        return Verdict.TAKE

    def take(self, size: int) -> None:
        """Count an object that enters the queue."""
        self.objects += 1
        self.bytes += size
        limits = self._limits
        if not limits.drop and (
            self.objects >= limits.max_objects or self.bytes >= limits.max_bytes
        ):
            self.paused = True

    def give(self, size: int) -> bool:
        """Count an object that leaves the queue; True if reading is to be resumed."""
        self.objects -= 1
        self.bytes -= size
        limits = self._limits
        if (
            self.paused
            and self.objects <= limits.max_objects // 2
            and self.bytes <= limits.max_bytes // 2
        ):
            self.paused = False
            return True
        return False

    def drop(self, size: int) -> None:
        """Count an object that was dropped, before or after it was in the queue."""
        self.dropped += 1
        self.dropped_bytes += size


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
