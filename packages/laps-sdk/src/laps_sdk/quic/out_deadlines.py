"""When streams that wait are given up. Pure.

Entries are lazy: one whose stream has left its line, or got another deadline, finds nothing to do.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from laps_sdk.quic.out_stream import EgressStream

__all__ = ["Deadlines"]


class Deadlines:
    """A heap of (deadline, order, stream)."""

    __slots__ = ("_count", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, EgressStream]] = []
        self._count = 0

    def __bool__(self) -> bool:
        return bool(self._heap)

    def __len__(self) -> int:
        return len(self._heap)

    def watch(self, stream: EgressStream, waiting: int) -> None:
        """Add a stream with a deadline; ``waiting`` streams stand in lines now."""
        heap = self._heap
        if len(heap) > 2 * waiting + 64:  # most are of streams that left long ago
            heap[:] = [entry for entry in heap if _holds(entry)]
            heapify(heap)
        if stream.deadline is not None:
            self._count += 1
            heappush(heap, (stream.deadline, self._count, stream))

    def next(self) -> float | None:
        """The earliest deadline of a stream that still waits."""
        heap = self._heap
        while heap and not _holds(heap[0]):
            heappop(heap)
        return heap[0][0] if heap else None

    def passed(self, now: float) -> list[EgressStream]:
        """Those that still wait and are late, the earliest deadline first."""
        heap = self._heap
        found: dict[EgressStream, None] = {}  # one that came back to a deadline is there twice
        while heap and heap[0][0] <= now:
            entry = heappop(heap)
            if _holds(entry):
                found[entry[2]] = None
        return list(found)

    def clear(self) -> None:
        """Forget them all."""
        self._heap.clear()


def _holds(entry: tuple[float, int, EgressStream]) -> bool:
    deadline, _, stream = entry
    return stream.place is not None and stream.deadline == deadline
