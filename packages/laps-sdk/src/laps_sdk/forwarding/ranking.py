"""Which N tracks rank highest: what a Top-N subscriber gets (docs/spec/top-n.md).

::

    values     17   12   12    9 |  9    3         N = 4
    members     A    C    D    B |  E    F         E equals B and stays out: it came later

A member keeps its place until another track's value is larger by more than a margin, so equal
values never change places and near ones do so only as often as the margin lets them.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

__all__ = ["Change", "Ranking"]


class Change(NamedTuple):
    """Who came into the top and who fell out of it; each is one track at most."""

    entered: int | None = None
    left: int | None = None


class Ranking:
    """The top of a set of tracks, kept as values change."""

    __slots__ = ("_floor", "_heap", "_margin", "_members", "_size", "_values")

    def __init__(self, size: int, margin: int = 0) -> None:
        self._size = size
        self._margin = margin
        self._values: dict[int, int] = {}
        self._members: dict[int, None] = {}
        self._heap: list[tuple[int, int]] = []
        """(-value, track) of those outside, and of others: an entry counts if it is still true."""
        self._floor: list[tuple[int, int]] = []
        """(value, -track) of members, and of others: likewise."""

    def __len__(self) -> int:
        """How many tracks there are, in the top or not."""
        return len(self._values)

    def __contains__(self, track: int) -> bool:
        return track in self._values

    @property
    def size(self) -> int:
        """N."""
        return self._size

    @property
    def members(self) -> tuple[int, ...]:
        """The tracks in the top, the highest first; of equals the older one."""
        return tuple(sorted(self._members, key=lambda track: (-self._values[track], track)))

    def in_top(self, track: int) -> bool:
        """Whether a track is in the top."""
        return track in self._members

    def update(self, track: int, value: int) -> Change:
        """Note a track's value, be it new or not."""
        self._values[track] = value
        if track in self._members:
            self._enter(track)
            return self._challenge()
        heappush(self._heap, (-value, track))
        self._prune()
        if len(self._members) < self._size:
            self._enter(track)
            return Change(entered=track)
        return self._challenge()

    def remove(self, track: int) -> Change:
        """Forget a track; the best of the others takes its place."""
        if self._values.pop(track, None) is None:
            return Change()
        if track not in self._members:
            return Change()
        del self._members[track]
        best = self._best()
        if best is None:
            return Change(left=track)
        self._enter(best)
        return Change(entered=best, left=track)

    def _enter(self, track: int) -> None:
        """Have a track in the top, with the value that it has now."""
        self._members[track] = None
        heappush(self._floor, (self._values[track], -track))
        if len(self._floor) > 2 * len(self._members) + 64:
            self._floor = sorted((self._values[each], -each) for each in self._members)

    def _challenge(self) -> Change:
        """Let the best of those outside take the place of the worst inside, if it is better."""
        best = self._best()
        if best is None or not self._members:
            return Change()
        # Of equal members the youngest goes.
        worst = self._worst()
        if self._values[best] <= self._values[worst] + self._margin:
            return Change()
        del self._members[worst]
        self._enter(best)
        heappush(self._heap, (-self._values[worst], worst))
        return Change(entered=best, left=worst)

    def _worst(self) -> int:
        """The worst track inside; there is one."""
        floor = self._floor
        while -floor[0][1] not in self._members or self._values[-floor[0][1]] != floor[0][0]:
            heappop(floor)
        return -floor[0][1]

    def _best(self) -> int | None:
        """The best track outside."""
        heap = self._heap
        while heap:
            value, track = heap[0]
            if track not in self._members and self._values.get(track) == -value:
                return track
            heappop(heap)
        return None

    def _prune(self) -> None:
        """Entries that are not true any more must not fill the memory."""
        if len(self._heap) > 2 * len(self._values) + 64:
            outside = (item for item in self._values.items() if item[0] not in self._members)
            self._heap = sorted((-value, track) for track, value in outside)
