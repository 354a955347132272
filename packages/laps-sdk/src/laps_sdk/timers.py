"""Timers of a core that is told the time: one heap, a key for each timer."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Generic, TypeVar

__all__ = ["Timers", "earliest", "first_of"]


K = TypeVar("K", bound=Hashable)


class Timers(Generic[K]):
    """When each key is due. Setting a key again moves it; taking it out costs nothing."""

    __slots__ = ("_due", "_heap", "_serial")

    def __init__(self) -> None:
        self._due: dict[K, tuple[float, int]] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._serial = count()

    def __len__(self) -> int:
        return len(self._due)

    def set(self, key: K, when: float) -> None:
        """Let ``key`` be due at ``when``."""
        serial = next(self._serial)
        self._due[key] = (when, serial)
        heappush(self._heap, (when, serial, key))
        if len(self._heap) > 2 * len(self._due) + 64:
            # Entries that were moved or cancelled must not fill the memory.
            self._heap = [(when, serial, key) for key, (when, serial) in self._due.items()]
            heapify(self._heap)

    def cancel(self, key: K) -> None:
        """Forget ``key``; nothing if it was not set."""
        self._due.pop(key, None)

    def when(self, key: K) -> float | None:
        """When ``key`` is due."""
        entry = self._due.get(key)
        return None if entry is None else entry[0]

    def next(self) -> float | None:
        """When the first timer is due."""
        heap = self._heap
        if not heap:
            return None
        due = self._due
        while heap:
            when, serial, key = heap[0]
            entry = due.get(key)
            if entry is not None and entry[1] == serial:
                return when
            heappop(heap)
        return None

    def is_due(self, now: float) -> bool:
        """Whether :meth:`pop` may give a key."""
        return bool(self._heap) and self._heap[0][0] <= now

    def pop(self, now: float) -> K | None:
        """Take one key that is due, the earliest first; None if there is none."""
        heap = self._heap
        # Asked for every event, mostly in vain: what stands first is the earliest, moved or not.
        if not heap or heap[0][0] > now:
            return None
        when = self.next()
        if when is None or when > now:
            return None
        key = heappop(self._heap)[2]
        del self._due[key]
        return key


def first_of(group: Iterable[Timers[Any]], first: float | None = None) -> float | None:
    """When the first timer of several objects is due: what asks all of them after every event.

    ``first`` is another time to be considered.
    """
    for timers in group:
        heap = timers._heap  # noqa: SLF001 - of the same module
        # What stands first is the earliest, moved or not.
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
