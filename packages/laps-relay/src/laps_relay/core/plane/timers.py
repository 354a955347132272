"""What has to be done later: one heap for the plane.

An entry cannot be taken back; what is not wanted any more does nothing when its time comes.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

__all__ = ["Timers"]


class Timers:
    """Calls, by time."""

    __slots__ = ("_heap", "_numbers")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Callable[[float], None]]] = []
        self._numbers = count()

    def at(self, when: float, call: Callable[[float], None]) -> None:
        """Call with the time, not before ``when``."""
        heappush(self._heap, (when, next(self._numbers), call))

    def next(self) -> float | None:
        """When the first one is due."""
        return self._heap[0][0] if self._heap else None

    def run(self, now: float) -> None:
        """Call all that are due; what they add is left for the next time."""
        due = []
        while self._heap and self._heap[0][0] <= now:
            due.append(heappop(self._heap)[2])
        for call in due:
            call(now)
