"""Which objects of a track have arrived, which are missing, and which arrived twice.

Objects of several groups and subgroups arrive in parallel, so a missing number may still be in
flight. A group is *over* when it has no open stream and either its end is known or a later group
has begun. Streams can overtake each other, so another stream of the group may still arrive. The
group is *settled* when it has been over for ``late`` seconds; its missing objects are then gaps::

    group 7   0 1 2 . 4 5            over, then settled: 3 is missing   -> Gap 7:3 .. 7:3
    group 8   (never seen)           settled ``late`` after 9 is over    -> Gap 8:0 .. 8:ANY
    group 9   0 1 2 3                over
    group 10  0 1                    open
    group 11  0 1 2 (reset)          over, then settled: the tail is missing   -> Gap 11:3 .. 11:ANY

When the connection or the subscription ends, missing objects are gaps at once. An object that
arrives after its gap was reported is late: it is delivered, and counted.

A publisher can declare numbers as non-existent (PRIOR_GROUP_ID_GAP, PRIOR_OBJECT_ID_GAP, ranges in
a fetch); they count as arrived. The number of remembered groups is limited: settled groups are
forgotten first, others only beyond a higher limit.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import Final

from laps_wire.moqt.structures import Location

__all__ = ["ANY_OBJECT", "Gap", "GapCause", "Progress"]

ANY_OBJECT: Final = (1 << 62) - 1
"""The object id in the last location of a gap that ends with its group."""
_PATIENT: Final = 16
"""The factor of the limit for groups that are not settled."""


class GapCause(Enum):
    """Why objects are missing."""

    MISSING = "missing"
    """The publisher or a relay dropped the objects, or they never existed."""
    RECONNECTED = "reconnected"
    """The objects were published while the session was disconnected, and no cache had them."""
    DROPPED = "dropped"
    """The objects arrived, and were dropped because the application read too slowly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A range of objects that did not arrive, both ends included.

    It is reported when the objects can no longer arrive, or are late.
    """

    first: Location
    last: Location
    """The last location; its object is :data:`ANY_OBJECT` if whole groups are missing."""
    cause: GapCause = GapCause.MISSING

    @property
    def objects(self) -> int | None:
        """The number of objects; None if it is unknown."""
        if self.first.group != self.last.group or self.last.object == ANY_OBJECT:
            return None
        return self.last.object - self.first.object + 1

    def __str__(self) -> str:
        last = "end" if self.last.object == ANY_OBJECT else str(self.last.object)
        start = f"{self.first.group}:{self.first.object}"
        return f"{start} to {self.last.group}:{last} {self.cause.value}"


class _Group:
    """One group: disjoint, ascending spans [first, last] of object ids that are accounted for."""

    __slots__ = ("complete", "cut", "lacks", "late", "open", "settled", "spans", "tail")

    def __init__(self) -> None:
        self.spans: list[tuple[int, int]] = []
        self.open: list[int | None] = []
        """The subgroups of its open streams."""
        self.cut: set[int | None] = set()
        """Subgroups whose streams ended without FIN: what follows in them is unknown."""
        self.tail: int | None = None
        """From which object on the rest of the group was reported."""
        self.complete = False
        """Whether the end of the group is known."""
        self.settled = False
        """Whether the gaps of the group were reported."""
        self.lacks = False
        """Whether the report had any gap."""
        self.late = False
        """Whether the whole group was reported as missing and then arrived."""

    def add(self, first: int, last: int) -> bool:
        """Account for object ids; False if all of them were known."""
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
        """The missing object ids between the spans, and behind them if the group was cut."""
        found = [
            (before[1] + 1, after[0] - 1)
            for before, after in zip(self.spans, self.spans[1:], strict=False)
        ]
        if self.cut and not self.complete:
            found.append((self.spans[-1][1] + 1 if self.spans else 0, ANY_OBJECT))
        return found


class _Skip:
    """Groups that were skipped."""

    __slots__ = ("first", "last", "shown_by", "since")

    def __init__(self, first: int, last: int, shown_by: int, since: float | None = None) -> None:
        self.first = first
        self.last = last
        self.shown_by = shown_by
        """The group that arrived after the skipped ones."""
        self.since = since
        """When that group or a later one was over; None: it is not, or set at the next look.
        """

    def without(self, first: int, last: int) -> list[_Skip]:
        """What is left of it without these groups."""
        if self.last < first or last < self.first:
            return [self]
        pieces = ((self.first, first - 1), (last + 1, self.last))
        return [_Skip(low, high, self.shown_by, self.since) for low, high in pieces if low <= high]


class Progress:
    """Tracks the received objects of one subscription or fetch."""

    __slots__ = (
        "_forgotten",
        "_gaps",
        "_groups",
        "_held",
        "_late",
        "_max_groups",
        "_new",
        "_over",
        "_skipped",
        "_told",
        "due",
        "largest",
        "late",
    )

    def __init__(self, *, max_groups: int = 64, late: float = 0.0) -> None:
        self._max_groups = max_groups
        self._late = late
        self._groups: dict[int, _Group] = {}
        self._skipped: list[_Skip] = []
        self._over: dict[int, float | None] = {}
        """Groups that are over but not settled, with their times; None: set at the next look."""
        self._new = False
        """Whether a group has become over since the last look."""
        self.due: float | None = None
        """When :meth:`take_gaps` can return more without new objects; None: never."""
        self._told: deque[tuple[int, int]] = deque(maxlen=max_groups)
        """Groups that were reported as missing: first, last."""
        self._forgotten = -1
        """The newest group that was forgotten."""
        self._gaps: list[Gap] = []
        self._held = False
        self.largest: Location | None = None
        """The largest location that arrived."""
        self.late = 0
        """Objects that arrived after they were reported as missing."""

    # What arrives

    def note(self, location: Location, *, group_gap: int = 0, object_gap: int = 0) -> bool:
        """Note an object that arrived; return False if it had arrived before.

        ``group_gap`` and ``object_gap`` count the non-existent numbers before it.
        """
        group_id, object_id = location
        group = self._open(group_id)
        behind = (
            group.late
            or (group.lacks and object_id < group.spans[-1][1])
            or (group.tail is not None and object_id >= group.tail)
        )
        new = group.add(object_id, object_id)
        if new and behind:
            self.late += 1
        if object_gap:
            group.add(max(0, object_id - object_gap), object_id)
        if group_gap:
            self._unskip(max(0, group_id - group_gap), group_id - 1)
        if self.largest is None or location > self.largest:
            self.largest = location
        return new

    def account(self, first: Location, last: Location) -> None:
        """Account for all objects from ``first`` to ``last``, which will not arrive."""
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
                self._skipped.append(_Skip(newest + 1, group_id - 1, group_id))
        group = self._groups[group_id] = _Group()
        group.late = any(first <= group_id <= last for first, last in self._told)
        # The objects of a forgotten group are unknown, so it has no gaps.
        skipped = any(skip.first <= group_id <= skip.last for skip in self._skipped)
        group.settled = group_id <= self._forgotten and not skipped
        if len(self._groups) > 1 and group_id > min(self._groups):
            # A subscription may begin in the middle of its first group, not of later ones.
            group.spans.append((-1, -1))
        self._unskip(group_id, group_id)
        self._sweep()
        return group

    def _unskip(self, first: int, last: int) -> None:
        if self._skipped:
            self._skipped = [piece for skip in self._skipped for piece in skip.without(first, last)]

    # Streams

    def stream_opened(self, group_id: int, subgroup_id: int | None = None) -> None:
        """Note a stream of a group; the group is not settled before the stream ends."""
        self._open(group_id).open.append(subgroup_id)
        self._over.pop(group_id, None)

    def stream_closed(self, group_id: int, subgroup_id: int | None = None, *, fin: bool) -> None:
        """Note the end of a stream: by FIN, or by a reset, behind which objects are missing."""
        group = self._groups.get(group_id)
        if group is None or subgroup_id not in group.open:
            return
        group.open.remove(subgroup_id)
        if fin:
            group.cut.discard(subgroup_id)
        else:
            group.cut.add(subgroup_id)
        self._sweep()

    def streams_lost(self) -> None:
        """Settle all groups: the connection and its streams are lost."""
        for group in self._groups.values():
            group.cut.update(group.open)
            group.open.clear()
        if self._groups:
            self._sweep()
            self._over = dict.fromkeys(self._over, -inf)
            self._new = True
            for skip in self._skipped:
                skip.since = -inf if self._is_shown(skip) else skip.since

    def complete(self, group_id: int, last: int | None = None) -> None:
        """Note the end of a group; ``last`` is its last object, if known."""
        group = self._open(group_id)
        group.complete = True
        if last is not None and group.spans and last > group.spans[-1][1]:
            group.add(last + 1, last + 1)
        self._sweep()

    def fetched(self, first: int, last: int) -> None:
        """Note that nothing more of these groups exists: a fetch went past them."""
        for group_id, group in self._groups.items():
            if first <= group_id <= last:
                group.complete = True

    # What is missing

    def hold(self) -> None:
        """Settle nothing until :meth:`release`, while missing objects are fetched."""
        self._held = True
        self.due = None

    def release(self) -> None:
        """Settle groups again after :meth:`hold`."""
        self._held = False
        self._new = True
        if self._groups:
            self._sweep()

    def take_gaps(self, now: float) -> list[Gap]:
        """Return the new gaps, each once."""
        if not self._held and (self._new or (self.due is not None and self.due <= now)):
            self._look(now)
        gaps, self._gaps = self._gaps, []
        return gaps

    def finish(self) -> None:
        """Settle everything: no more objects will arrive."""
        for skip in self._skipped:
            self._tell(skip)
        self._skipped = []
        for group_id in sorted(self._groups):
            self._settle(group_id)

    def _look(self, now: float) -> None:
        """Settle the groups that are complete or have been over for long enough."""
        self._new = False
        waiting: list[float] = []
        left: list[_Skip] = []
        for skip in self._skipped:
            if skip.since is None and self._is_shown(skip):
                skip.since = now
            if skip.since is not None and skip.since + self._late <= now:
                self._tell(skip)
                continue
            left.append(skip)
            if skip.since is not None:
                waiting.append(skip.since)
        self._skipped = left
        for group_id, known in sorted(self._over.items()):
            self._over[group_id] = since = now if known is None else known
            if since + self._late <= now or not self._groups[group_id].missing():
                self._settle(group_id)
            else:
                waiting.append(since)
        self.due = min(waiting) + self._late if waiting else None

    def _is_shown(self, skip: _Skip) -> bool:
        """Return whether a group after the skipped ones is over."""
        return any(
            group_id >= skip.shown_by and (group.settled or group_id in self._over)
            for group_id, group in self._groups.items()
        )

    def _tell(self, skip: _Skip) -> None:
        self._told.append((skip.first, skip.last))
        first, last = Location(skip.first, 0), Location(skip.last, ANY_OBJECT)
        self._gaps.append(Gap(first=first, last=last))

    def _sweep(self) -> None:
        newest = max(self._groups)
        for group_id in sorted(self._groups):
            group = self._groups[group_id]
            over = not group.open and (group.complete or group_id < newest)
            if over and not group.settled and group_id not in self._over:
                self._over[group_id] = None
                self._new = True
        while len(self._groups) > self._max_groups:
            settled = (each for each in sorted(self._groups) if self._groups[each].settled)
            oldest = next(settled, newest)
            if len(self._groups) > _PATIENT * self._max_groups:
                oldest = min(self._groups)
            if oldest == newest:
                return
            self._settle(oldest)
            self._forgotten = max(self._forgotten, oldest)
            del self._groups[oldest]

    def _settle(self, group_id: int) -> None:
        self._over.pop(group_id, None)
        group = self._groups[group_id]
        if group.settled:
            return
        group.settled = True
        for first, last in group.missing():
            if last == ANY_OBJECT:
                group.tail = first
            else:
                group.lacks = True
            self._gaps.append(Gap(first=Location(group_id, first), last=Location(group_id, last)))
