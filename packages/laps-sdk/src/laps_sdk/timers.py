"""Timers by key in one heap, for code that receives the time as an argument.

Most timers move often, and mostly to a later time: QUIC moves them with almost every packet. A
timer that moves later therefore keeps its place in the heap. When that place comes up, it is put
back with the new time. A timer that moves earlier gets a second place, and the first one is
emptied. An empty place holds no reference to its key, so a far timer keeps no closed connection
in memory. Once most places are empty, they are removed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any, Final, Generic, TypeVar

__all__ = ["Timers", "earliest", "first_of"]


K = TypeVar("K", bound=Hashable)

_MAX_EMPTY: Final = 64
"""So many empty places may stay, however few others there are."""


class _Place(Generic[K]):
    """One place in the heap, and when its key is due."""

    __slots__ = ("at", "key", "serial", "when")

    def __init__(self, key: K, when: float, serial: int) -> None:
        self.key: K | None = key
        self.at = when  # where it stands in the heap, at or before ``when``
        self.when = when
        self.serial = serial


class Timers(Generic[K]):
    """When each key is due. Setting a key again moves its timer.

    Keys that are due at the same time come in the order in which they were set.
    """

    __slots__ = ("_count", "_due", "_empty", "_heap")

    def __init__(self) -> None:
        self._due: dict[K, _Place[K]] = {}
        self._heap: list[tuple[float, int, _Place[K]]] = []
        self._count = 0
        self._empty = 0

    def __len__(self) -> int:
        return len(self._due)

    def set(self, key: K, when: float) -> None:
        """Let ``key`` be due at ``when``."""
        self._count = serial = self._count + 1
        place = self._due.get(key)
        if place is not None:
            if when >= place.at:
                place.when = when
                place.serial = serial
                return
            self._discard(place)
        self._due[key] = place = _Place(key, when, serial)
        heappush(self._heap, (when, serial, place))

    def cancel(self, key: K) -> None:
        """Forget ``key``; nothing if it was not set."""
        place = self._due.pop(key, None)
        if place is not None:
            self._discard(place)

    def when(self, key: K) -> float | None:
        """When ``key`` is due; None if it is not set."""
        place = self._due.get(key)
        return None if place is None else place.when

    def next(self) -> float | None:
        """When the first timer is due."""
        heap = self._heap
        while heap:
            when, serial, place = heap[0]
            if place.key is None:
                heappop(heap)
                self._empty -= 1
            elif place.serial == serial:
                return when
            else:
                place.at = place.when
                heapreplace(heap, (place.when, place.serial, place))
        return None

    def lower_bound(self) -> float | None:
        """A time before which nothing is due; cheaper than :meth:`next`."""
        return self._heap[0][0] if self._heap else None

    def is_due(self, now: float) -> bool:
        """Whether :meth:`pop` may give a key."""
        return bool(self._heap) and self._heap[0][0] <= now

    def pop(self, now: float) -> K | None:
        """Take one key that is due, the earliest first; None if there is none."""
        heap = self._heap
        # Asked for every event, mostly in vain: no timer is due before the first place.
        if not heap or heap[0][0] > now:
            return None
        when = self.next()
        if when is None or when > now:
            return None
        key = heappop(heap)[2].key
        if key is not None:  # always: next() has removed the empty places
            del self._due[key]
        return key

    def _discard(self, place: _Place[K]) -> None:
        """Empty a place; remove all empty ones once they are the majority."""
        place.key = None
        self._empty += 1
        if self._empty > _MAX_EMPTY and self._empty * 2 > len(self._heap):
            self._heap[:] = [each for each in self._heap if each[2].key is not None]
            heapify(self._heap)
            self._empty = 0


def first_of(group: Iterable[Timers[Any]], first: float | None = None) -> float | None:
    """When the first timer of several objects is due, or ``first`` if that is earlier."""
    for timers in group:
        heap = timers._heap  # noqa: SLF001 - of the same module
        # No timer is due before the first place of its heap.
        if heap and (first is None or heap[0][0] < first):
            when = timers.next()
            if when is not None and (first is None or when < first):
                first = when
    return first


def earliest(*times: float | None) -> float | None:
    """The first of several times; None if there is none."""
    first: float | None = None
    for time in times:
        if time is not None and (first is None or time < first):
            first = time
    return first
