"""Sets of integers as sorted ranges: ids that came, ids that do not exist.

A publisher that counts up makes one range however many objects it sends, and adding the next id is
one comparison. What a publisher with holes can cost is bounded by :meth:`Ranges.limit`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

__all__ = ["Ranges"]


class Ranges:
    """Disjoint ranges that do not touch, ascending; both ends belong to them."""

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def __len__(self) -> int:
        """How many ranges."""
        return len(self._ends)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(zip(self._starts, self._ends, strict=True))

    def __contains__(self, value: int) -> bool:
        index = bisect_right(self._starts, value) - 1
        return index >= 0 and value <= self._ends[index]

    @property
    def first(self) -> int:
        """The smallest value; -1 if there is none."""
        return self._starts[0] if self._starts else -1

    @property
    def last(self) -> int:
        """The largest value; -1 if there is none."""
        return self._ends[-1] if self._ends else -1

    def add(self, value: int) -> bool:
        """Add one value; whether it is new."""
        ends = self._ends
        if ends and value == ends[-1] + 1:
            ends[-1] = value
            return True
        if value in self:
            return False
        self.add_range(value, value)
        return True

    def add_range(self, start: int, end: int) -> None:
        """Add all from ``start`` to ``end``."""
        starts, ends = self._starts, self._ends
        # Those that overlap or touch become one.
        first = bisect_left(ends, start - 1)
        behind = bisect_right(starts, end + 1)
        if first < behind:
            start = min(start, starts[first])
            end = max(end, ends[behind - 1])
        starts[first:behind] = [start]
        ends[first:behind] = [end]

    def discard(self, value: int) -> None:
        """Take one value out."""
        starts, ends = self._starts, self._ends
        index = bisect_right(starts, value) - 1
        if index < 0 or value > ends[index]:
            return
        start, end = starts[index], ends[index]
        parts = [part for part in ((start, value - 1), (value + 1, end)) if part[0] <= part[1]]
        starts[index : index + 1] = [part[0] for part in parts]
        ends[index : index + 1] = [part[1] for part in parts]

    def meets(self, start: int, end: int) -> bool:
        """Whether any value from ``start`` to ``end`` is in the set."""
        index = bisect_left(self._ends, start)
        return index < len(self._starts) and self._starts[index] <= end

    def gaps(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """What is missing between ``start`` and ``end``, ascending."""
        index = bisect_left(self._ends, start)
        while start <= end and index < len(self._starts) and self._starts[index] <= end:
            if self._starts[index] > start:
                yield start, self._starts[index] - 1
            start = self._ends[index] + 1
            index += 1
        if start <= end:
            yield start, end

    def count(self, start: int = 0) -> int:
        """How many values are not below ``start``."""
        return sum(
            end - max(first, start) + 1
            for first, end in zip(self._starts, self._ends, strict=True)
            if end >= start
        )

    def from_(self, start: int) -> int:
        """The smallest value that is not below ``start``; there must be one."""
        index = bisect_left(self._ends, start)
        return max(self._starts[index], start)

    def nth(self, index: int) -> int:
        """The value with this place in the order; there must be one."""
        for start, end in zip(self._starts, self._ends, strict=True):
            if index <= end - start:
                return start + index
            index -= end - start + 1
        raise IndexError(index)

    def union(self, other: Ranges) -> Ranges:
        """Both together, as a new set."""
        joined = Ranges()
        joined._starts, joined._ends = self._starts[:], self._ends[:]
        for start, end in other:
            joined.add_range(start, end)
        return joined

    def limit(self, count: int) -> None:
        """Have at most ``count`` ranges: the holes between the lowest ones are filled."""
        over = len(self._ends) - count
        if over > 0:
            del self._starts[1 : 1 + over]
            del self._ends[:over]

    def forget(self, count: int) -> None:
        """Have at most ``count`` ranges: the lowest ones are taken out."""
        over = len(self._ends) - count
        if over > 0:
            del self._starts[:over]
            del self._ends[:over]
