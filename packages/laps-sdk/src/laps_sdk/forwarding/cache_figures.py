"""What a cache did since somebody looked: what it gave, what it had not, what it forgot and why.

Ages say what another limit would bring. With one of T everything would be given that was asked for
at an age of at most T: what is given now (``hits``), and what was there once and is too old
(``late``).
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from laps_wire.telemetry import AGE_BOUNDS_MS, MsHistogram

__all__ = ["Ages", "CacheFigures", "CacheTraffic"]


class Ages:
    """Bytes by their age."""

    __slots__ = ("_counts", "_oldest", "_sum", "bytes")

    def __init__(self) -> None:
        self._counts = [0] * (len(AGE_BOUNDS_MS) + 1)
        self._sum = 0.0
        self._oldest: float | None = None
        self.bytes = 0

    def add(self, age: float, size: int) -> None:
        """So many bytes, so many seconds old."""
        milliseconds = max(0.0, age * 1000)
        self._counts[bisect_left(AGE_BOUNDS_MS, milliseconds)] += size
        self._sum += milliseconds * size
        self._oldest = max(milliseconds, self._oldest or 0.0)
        self.bytes += size

    def histogram(self) -> MsHistogram:
        """As telemetry has it; its counts are bytes."""
        return MsHistogram(AGE_BOUNDS_MS, tuple(self._counts), self._sum, self._oldest)


class CacheTraffic(NamedTuple):
    """Of a time."""

    hits: Ages
    late: Ages
    missed: int
    """Bytes that were asked for and had to be fetched, too old ones among them."""
    expired: int
    evicted: int

    @property
    def is_idle(self) -> bool:
        """Whether nothing happened."""
        return not (self.hits.bytes or self.missed or self.expired or self.evicted)


class CacheFigures:
    """Sums since they were taken last."""

    __slots__ = ("_hits", "_late", "_missed", "evicted", "expired")

    def __init__(self) -> None:
        self._hits = Ages()
        self._late = Ages()
        self._missed = 0
        self.expired = 0
        self.evicted = 0

    def hit(self, age: float, size: int) -> None:
        """Bytes were given."""
        self._hits.add(age, size)

    def missed(self, size: int, age: float | None = None) -> None:
        """Bytes had to be fetched; with an age if they were here once and are too old."""
        self._missed += size
        if age is not None:
            self._late.add(age, size)

    def take(self) -> CacheTraffic:
        """The sums, once: they begin anew."""
        taken = CacheTraffic(self._hits, self._late, self._missed, self.expired, self.evicted)
        self._hits, self._late = Ages(), Ages()
        self._missed = self.expired = self.evicted = 0
        return taken
