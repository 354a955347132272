"""Which objects of a track have arrived, which have not, and which came twice.

Objects of several groups and subgroups arrive side by side, so a number that is missing now may
still be under way. A group is *settled* when none of its streams is open any more and either its
end is known or a later group has begun::

    group 7   0 1 2 . 4 5            settled: 3 is missing        -> Gap 7:3 .. 7:3
    group 8   (never seen)           known when 9 is settled      -> Gap 8:0 .. 8:ANY
    group 9   0 1 2 3                settled
    group 10  0 1                    open

A publisher may say that numbers do not exist (PRIOR_GROUP_ID_GAP, PRIOR_OBJECT_ID_GAP, ranges in a
fetch): those count as arrived. Only so many groups are remembered; the oldest is settled when there
are more.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from enum import Enum
from typing import Final

from laps_wire.moqt.structures import Location

__all__ = ["ANY_OBJECT", "Gap", "GapCause", "Progress"]

ANY_OBJECT: Final = (1 << 62) - 1
"""In the last location of a gap: up to the end of the group, wherever that is."""


class GapCause(Enum):
    """Why objects are not there."""

    MISSING = "missing"
    """Numbers were skipped. The publisher or a relay dropped them, or they never existed."""
    RECONNECTED = "reconnected"
    """They were published while there was no connection, and no cache had them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Objects that did not arrive, both ends included."""

    first: Location
    last: Location
    """Its object is :data:`ANY_OBJECT` if whole groups are missing."""
    cause: GapCause = GapCause.MISSING

    @property
    def objects(self) -> int | None:
        """How many; None if nobody knows."""
        if self.first.group != self.last.group or self.last.object == ANY_OBJECT:
            return None
        return self.last.object - self.first.object + 1

    def __str__(self) -> str:
        last = "end" if self.last.object == ANY_OBJECT else str(self.last.object)
        start = f"{self.first.group}:{self.first.object}"
        return f"{start} to {self.last.group}:{last} {self.cause.value}"


class _Group:
    """One group: spans of ids that are accounted for, [first, last], ascending and apart."""

    __slots__ = ("complete", "settled", "spans", "streams")

    def __init__(self) -> None:
        self.spans: list[tuple[int, int]] = []
        self.streams = 0
        self.complete = False
        """Whether its end is known."""
        self.settled = False

    def add(self, first: int, last: int) -> bool:
        """Account for ids; False if all of them were known."""
        spans = self.spans
        index = bisect_left(spans, (first,))
        if index and spans[index - 1][1] >= first - 1:
            index -= 1
        if index < len(spans) and spans[index][0] <= first and last <= spans[index][1]:
            return False
        stop = index
        while stop < len(spans) and spans[stop][0] <= last + 1:
            first = min(first, spans[stop][0])
            last = max(last, spans[stop][1])
            stop += 1
        spans[index:stop] = [(first, last)]
        return True

    def missing(self) -> list[tuple[int, int]]:
        """The ids between spans."""
        return [
            (before[1] + 1, after[0] - 1)
            for before, after in zip(self.spans, self.spans[1:], strict=False)
        ]


class Progress:
    """The bookkeeping of one subscription or fetch."""

    __slots__ = ("_gaps", "_groups", "_held", "_max_groups", "_skipped", "largest")

    def __init__(self, *, max_groups: int = 64) -> None:
        self._max_groups = max_groups
        self._groups: dict[int, _Group] = {}
        self._skipped: list[tuple[int, int, int]] = []
        """Groups that were jumped over: first, last, and the one that showed it."""
        self._gaps: list[Gap] = []
        self._held = False
        self.largest: Location | None = None
        """The largest location that arrived."""

    # What arrives

    def note(self, location: Location, *, group_gap: int = 0, object_gap: int = 0) -> bool:
        """An object arrived; False if it had arrived before.

        ``group_gap`` and ``object_gap`` are how many numbers before it do not exist.
        """
        group_id, object_id = location
        group = self._open(group_id)
        new = group.add(object_id, object_id)
        if object_gap:
            group.add(max(0, object_id - object_gap), object_id)
        if group_gap:
            self._unskip(max(0, group_id - group_gap), group_id - 1)
        if self.largest is None or location > self.largest:
            self.largest = location
        return new

    def account(self, first: Location, last: Location) -> None:
        """Everything from ``first`` to ``last`` is accounted for, though it did not arrive."""
        self._open(first.group)
        self._open(last.group)
        for group_id in list(self._groups):
            if first.group <= group_id <= last.group:
                start = first.object if group_id == first.group else 0
                stop = last.object if group_id == last.group else ANY_OBJECT
                self._groups[group_id].add(start, stop)
        self._unskip(first.group, last.group)

    def _open(self, group_id: int) -> _Group:
        group = self._groups.get(group_id)
        if group is not None:
            return group
        if self._groups:
            newest = max(self._groups)
            if group_id > newest + 1:
                self._skipped.append((newest + 1, group_id - 1, group_id))
        group = self._groups[group_id] = _Group()
        if len(self._groups) > 1 and group_id > min(self._groups):
            # A subscription may begin in the middle of its first group, not of later ones.
            group.spans.append((-1, -1))
        self._unskip(group_id, group_id)
        self._sweep()
        return group

    def _unskip(self, first: int, last: int) -> None:
        left: list[tuple[int, int, int]] = []
        for low, high, shown_by in self._skipped:
            if high < first or last < low:
                left.append((low, high, shown_by))
                continue
            if low < first:
                left.append((low, first - 1, shown_by))
            if last < high:
                left.append((last + 1, high, shown_by))
        self._skipped = left

    # Streams

    def stream_opened(self, group_id: int) -> None:
        """A stream of a group began: the group is not settled before it ends."""
        self._open(group_id).streams += 1

    def stream_closed(self, group_id: int) -> None:
        """... and ended, in whatever way."""
        group = self._groups.get(group_id)
        if group is not None and group.streams:
            group.streams -= 1
            self._sweep()

    def streams_lost(self) -> None:
        """The connection is gone, and with it every stream that was open."""
        for group in self._groups.values():
            group.streams = 0
        if self._groups:
            self._sweep()

    def complete(self, group_id: int, last: int | None = None) -> None:
        """The end of a group is known; ``last`` is its last object, if the end says so."""
        group = self._open(group_id)
        group.complete = True
        if last is not None and group.spans and last > group.spans[-1][1]:
            group.add(last + 1, last + 1)
        self._sweep()

    # What is missing

    def hold(self) -> None:
        """What seems to be missing is being fetched: settle nothing until :meth:`release`."""
        self._held = True

    def release(self) -> None:
        """Undo :meth:`hold`."""
        self._held = False
        if self._groups:
            self._sweep()

    def take_gaps(self) -> list[Gap]:
        """Gaps that have become known; taken once."""
        gaps, self._gaps = self._gaps, []
        return gaps

    def finish(self) -> None:
        """Nothing more will come: settle everything."""
        for group_id in sorted(self._groups):
            self._settle(group_id)

    def _sweep(self) -> None:
        newest = max(self._groups)
        for group_id in sorted(self._groups):
            group = self._groups[group_id]
            over = not group.streams and (group.complete or group_id < newest)
            if over and not group.settled and not self._held:
                self._settle(group_id)
        while len(self._groups) > self._max_groups:
            oldest = min(self._groups)
            self._settle(oldest)
            del self._groups[oldest]

    def _settle(self, group_id: int) -> None:
        group = self._groups[group_id]
        if group.settled:
            return
        group.settled = True
        skipped = [item for item in self._skipped if item[2] <= group_id]
        self._skipped = [item for item in self._skipped if item[2] > group_id]
        for low, high, _ in skipped:
            self._gaps.append(Gap(first=Location(low, 0), last=Location(high, ANY_OBJECT)))
        for first, last in group.missing():
            self._gaps.append(Gap(first=Location(group_id, first), last=Location(group_id, last)))
