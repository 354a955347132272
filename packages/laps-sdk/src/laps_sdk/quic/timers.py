"""One heap for the timers of all connections, and one timer of the loop below it.

QUIC moves its timers with almost every packet, mostly further away. So entries are lazy: a timer
that moves later keeps its old entry, which is put back with the new time when it comes up; one that
moves earlier gets a second entry. The old one is emptied: an entry for a time far away must not
keep a connection in memory that is over. Once most entries are empty, they are swept out.

Pure: times are arguments.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final, Protocol

__all__ = ["SLACK", "Entry", "Timed", "Timers"]

SLACK: Final = 1e-6
"""Loops may call a little early; what is due within this is due."""


_SWEEP: Final = 64
"""Empty entries that are never worth a sweep."""


class Entry:
    """One in the heap; without an owner, it stands for nothing."""

    __slots__ = ("owner", "when")

    def __init__(self, when: float, owner: Timed) -> None:
        self.when = when
        self.owner: Timed | None = owner


class Timed(Protocol):
    """What has a timer: two fields that belong to the heap."""

    timer: float | None
    """When it wants to be called; None: not at all."""
    timer_entry: Entry | None
    """The one that stands in the heap for it."""


class Timers:
    """The heap."""

    __slots__ = ("_count", "_empty", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Entry]] = []
        self._count = 0
        self._empty = 0

    def __len__(self) -> int:
        return len(self._heap)

    def set(self, owner: Timed, when: float | None) -> None:
        """Move the owner's timer; None stops it."""
        owner.timer = when
        if when is None:
            return
        entry = owner.timer_entry
        if entry is None or when < entry.when:
            if entry is not None:
                self._discard(entry)
            self._count += 1
            owner.timer_entry = entry = Entry(when, owner)
            heappush(self._heap, (when, self._count, entry))

    def forget(self, owner: Timed) -> None:
        """The owner is over: nothing here refers to it any more."""
        owner.timer = None
        entry, owner.timer_entry = owner.timer_entry, None
        if entry is not None:
            self._discard(entry)

    def next(self) -> float | None:
        """When :meth:`due` should be asked; it may turn out that nothing is due then."""
        return self._heap[0][0] if self._heap else None

    def due(self, now: float) -> list[Timed]:
        """Those whose time has come, each once; their timers are stopped."""
        heap = self._heap
        limit = now + SLACK
        found: list[Timed] = []
        while heap and heap[0][0] <= limit:
            owner = heappop(heap)[2].owner
            if owner is None:
                self._empty -= 1
                continue
            owner.timer_entry = None
            if owner.timer is None:
                continue
            if owner.timer <= limit:
                owner.timer = None
                found.append(owner)
            else:
                self.set(owner, owner.timer)
        return found

    def _discard(self, entry: Entry) -> None:
        entry.owner = None
        self._empty += 1
        if self._empty > _SWEEP and self._empty * 2 > len(self._heap):
            self._heap[:] = [each for each in self._heap if each[2].owner is not None]
            heapify(self._heap)
            self._empty = 0
