"""The cache: which segments are kept, and which go first.

::

    order   oldest [ segment | segment | segment | ... ] newest      of all tracks
    track            `- bytes, objects, groups ----'                 each with its own limits

Whatever limit is reached, the oldest goes: a group as a whole, unless it is the only one of its
track, which loses its oldest segment. What is too old goes by :meth:`Cache.expire`. A track's
newest segment, with its latest object, stays longer if the age is our own limit and not the
publisher's: it is what a late subscriber to a quiet track asks for.

Every step is O(1) for each segment that goes. Its bytes go with it: answers that still read it end.
"""

from __future__ import annotations

from collections import OrderedDict
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final

from laps_sdk.forwarding.cache_figures import CacheFigures
from laps_sdk.forwarding.group import Group
from laps_sdk.forwarding.interfaces import CacheLimits
from laps_sdk.forwarding.segment import Segment

if TYPE_CHECKING:
    from laps_sdk.forwarding.track import Track

__all__ = ["SEGMENT_BYTES", "Cache"]

SEGMENT_BYTES: Final = 128 * 1024
"""A segment that is larger is closed."""
_SLICES: Final = 8
"""So many segments make up the greatest age: objects go at most that part of it too early."""


class Cache:
    """All segments of all tracks."""

    __slots__ = ("_due", "_numbers", "bytes", "figures", "limits", "order")

    def __init__(self, limits: CacheLimits) -> None:
        self.limits = limits
        self.bytes = 0
        """What all segments take."""
        self.order: OrderedDict[Segment, None] = OrderedDict()
        """All of them, oldest first."""
        self._due: list[tuple[float, int, Track]] = []
        """When each track has something that is too old: one entry for each."""
        self._numbers = count()
        self.figures = CacheFigures()

    # What comes

    def add(self, segment: Segment) -> None:
        """Begin to keep a segment; what it holds is counted by :meth:`grew`."""
        group = segment.group
        track = group.track
        if group.born is None:
            group.born = segment.born
        if not group.segments:
            track.cached_groups[group] = None
        group.segments[segment] = None
        track.cached[segment] = None
        self.order[segment] = None
        segment.expires = segment.born + self.age_of(track)
        self._arm(track)

    def grew(self, segment: Segment, objects: int) -> None:
        """Count what was appended to a segment (or cut off it), and make room for it."""
        cost = segment.memory
        track = segment.group.track
        added = cost - segment.cost
        segment.cost = cost
        self.bytes += added
        track.cached_bytes += added
        track.cached_objects += objects
        if self.bytes > self.limits.max_bytes or self._is_over(track):
            self._make_room(track)

    def is_closed(self, now: float, segment: Segment) -> bool:
        """Whether the next object should begin another segment."""
        age = self.age_of(segment.group.track)
        return segment.size >= SEGMENT_BYTES or now - segment.born > age / _SLICES

    def age_of(self, track: Track) -> float:
        """How long objects of a track are kept."""
        limit = self.limits.max_age
        return limit if track.max_age is None else min(limit, track.max_age)

    def is_fresh(self, now: float, segment: Segment) -> bool:
        """Whether a segment may still be used: a publisher's limit is kept to the moment."""
        return segment.expires > now or not self._is_strict(segment.group.track)

    def missed(self, now: float, group: Group, size: int) -> None:
        """An object of a group had to be fetched; it may have been here, and is too old now."""
        age = None if group.born is None else now - group.born
        late = age is not None and age > self.age_of(group.track)
        self.figures.missed(size, age if late else None)

    def _is_strict(self, track: Track) -> bool:
        return track.max_age is not None and track.max_age <= self.limits.max_age

    # What goes

    def remove(self, segment: Segment) -> int:
        """Forget a segment; how many bytes it took."""
        group = segment.group
        track = group.track
        del self.order[segment]
        del group.segments[segment]
        del track.cached[segment]
        if not group.segments:
            del track.cached_groups[group]
        cost = segment.cost
        self.bytes -= cost
        track.cached_bytes -= cost
        track.cached_objects -= segment.count
        segment.cost = 0
        segment.release()
        return cost

    def remove_group(self, group: Group) -> int:
        """Forget what is cached of a group."""
        return sum(self.remove(segment) for segment in tuple(group.segments))

    def purge(self, track: Track | None = None) -> int:
        """Forget everything, or everything of one track."""
        segments = self.order if track is None else track.cached
        return sum(self.remove(segment) for segment in tuple(segments))

    def set_limits(self, limits: CacheLimits, tracks: list[Track]) -> None:
        """Change the limits; what is over them goes, what is too old by the next expiry."""
        self.limits = limits
        for track in tracks:
            for segment in track.cached:
                segment.expires = segment.born + self.age_of(track)
            track.expiry = None
            self._arm(track)
            self._make_room(track)

    def _is_over(self, track: Track) -> bool:
        limits = self.limits
        return (
            track.cached_bytes > limits.max_track_bytes
            or track.cached_objects > limits.max_objects
            or len(track.cached_groups) > limits.max_groups
        )

    def _make_room(self, track: Track) -> None:
        while track.cached and self._is_over(track):
            self._remove_oldest(next(iter(track.cached_groups)))
        while self.order and self.bytes > self.limits.max_bytes:
            self._remove_oldest(next(iter(self.order)).group)

    def _remove_oldest(self, group: Group) -> None:
        if len(group.track.cached_groups) > 1:
            self.figures.evicted += self.remove_group(group)
        else:
            self.figures.evicted += self.remove(next(iter(group.segments)))

    # Age

    def expire(self, now: float) -> None:
        """Forget what is too old."""
        while self._due and self._due[0][0] <= now:
            when, _, track = heappop(self._due)
            if when == track.expiry:
                track.expiry = None
                self._expire(now, track)
                self._arm(track, behind=now)

    def _expire(self, now: float, track: Track) -> None:
        spare = not self._is_strict(track)
        while track.cached:
            segment = next(iter(track.cached))
            if segment.expires > now or (spare and len(track.cached) == 1):
                return
            self.figures.expired += self.remove(segment)

    def _arm(self, track: Track, behind: float = float("-inf")) -> None:
        """See to it that the track's oldest segment goes in time."""
        if track.expiry is None and track.cached:
            when = next(iter(track.cached)).expires
            if when > behind:
                track.expiry = when
                heappush(self._due, (when, next(self._numbers), track))

    def next_expiry(self) -> float | None:
        """When :meth:`expire` has something to do."""
        return self._due[0][0] if self._due else None
