"""One heap for the timers of all connections, and one timer of the loop below it.

QUIC moves its timers with almost every packet, mostly further away. So entries are lazy: a timer
that moves later keeps its old entry, which is put back with the new time when it comes up; one that
moves earlier gets a second entry, and the old one finds nothing to do.

Pure: times are arguments.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final, Protocol

__all__ = ["SLACK", "Timed", "Timers"]

SLACK: Final = 1e-6
"""Loops may call a little early; what is due within this is due."""


class Timed(Protocol):
    """What has a timer: two fields that belong to the heap."""

    timer: float | None
    """When it wants to be called; None: not at all."""
    timer_entry: float | None
    """The earliest entry that stands in the heap for it."""


class Timers:
    """The heap."""

    __slots__ = ("_count", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timed]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._heap)

    def set(self, owner: Timed, when: float | None) -> None:
        """Move the owner's timer; None stops it."""
        owner.timer = when
        if when is None:
            return
        entry = owner.timer_entry
        if entry is None or when < entry:
            owner.timer_entry = when
            self._count += 1
            heappush(self._heap, (when, self._count, owner))

    def next(self) -> float | None:
        """When :meth:`due` should be asked; it may turn out that nothing is due then."""
        return self._heap[0][0] if self._heap else None

    def due(self, now: float) -> list[Timed]:
        """Those whose time has come, each once; their timers are stopped."""
        heap = self._heap
        limit = now + SLACK
        found: list[Timed] = []
        while heap and heap[0][0] <= limit:
            when, _, owner = heappop(heap)
            if owner.timer_entry != when:
                continue  # an earlier entry took its place and was served
            owner.timer_entry = None
            if owner.timer is None:
                continue
            if owner.timer <= limit:
                owner.timer = None
                found.append(owner)
            else:
                self.set(owner, owner.timer)
        return found
