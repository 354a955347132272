"""Timers of a core that is told the time: one heap, a key for each timer."""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Generic, TypeVar

__all__ = ["Timers"]


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
        while heap and self._due.get(heap[0][2]) != heap[0][:2]:
            heappop(heap)
        return heap[0][0] if heap else None

    def pop(self, now: float) -> K | None:
        """Take one key that is due, the earliest first; None if there is none."""
        when = self.next()
        if when is None or when > now:
            return None
        key = heappop(self._heap)[2]
        del self._due[key]
        return key
