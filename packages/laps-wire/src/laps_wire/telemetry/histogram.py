"""Histograms with their own bucket bounds: self-describing, and mergeable by adding counts.

::

    bounds_ms    1      2      5         counts[0]  values <= 1
    counts     3 |  0 |  7 |  1          counts[1]  1 < values <= 2
                                         counts[3]  values > 5

Percentiles of a sum of histograms are as good as those of each, which averages of percentiles are
not; that is why a relay ships buckets and no p95.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil, isfinite
from typing import Annotated, Final

from laps_wire.errors import EncodeError
from laps_wire.telemetry.schema import Column

__all__ = ["AGE_BOUNDS_MS", "MAX_BUCKETS", "QUEUE_BOUNDS_MS", "MsHistogram"]

QUEUE_BOUNDS_MS: Final = (
    *(0.1, 0.2, 0.5),
    *(1.0, 2.0, 5.0),
    *(10.0, 20.0, 50.0),
    *(100.0, 200.0, 500.0),
    *(1000.0, 2000.0, 5000.0),
)
"""The bounds for time in a queue: 1, 2, 5 in every decade from 100 us to the usual object TTL."""

AGE_BOUNDS_MS: Final = (
    *(500.0, 1000.0, 2000.0, 5000.0),
    *(10_000.0, 30_000.0, 60_000.0),
    *(120_000.0, 300_000.0, 600_000.0),
)
"""The bounds for ages of what a cache keeps: each is a time for which it could be kept."""

MAX_BUCKETS: Final = 256
"""More buckets than this are refused: a record of a bulk event stays small."""


@dataclass(frozen=True, slots=True)
class MsHistogram:
    """How many values, in milliseconds, fell between bounds."""

    bounds_ms: Annotated[
        tuple[float, ...], Column("Upper bound of each bucket but the last, ascending.")
    ]
    counts: Annotated[
        tuple[int, ...], Column("Values in each bucket; the last holds all above the last bound.")
    ]
    sum_ms: Annotated[float, Column("Sum of all values.")]
    max_ms: Annotated[float | None, Column("Largest value; null if there is none.")] = None
    extra: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        bounds, counts = self.bounds_ms, self.counts
        if len(counts) != len(bounds) + 1 or len(counts) > MAX_BUCKETS:
            raise EncodeError(
                f"{len(counts)} counts for {len(bounds)} bounds: one more count than bounds"
                f" belongs there, and at most {MAX_BUCKETS}"
            )
        if any(low >= high for low, high in pairwise(bounds)):
            raise EncodeError("the bounds of a histogram must ascend")
        if any(count < 0 for count in counts):
            raise EncodeError("a count of a histogram is negative")

    @classmethod
    def of(
        cls, values_ms: Iterable[float], bounds_ms: tuple[float, ...] = QUEUE_BOUNDS_MS
    ) -> MsHistogram:
        """Count ``values_ms`` into buckets."""
        counts = [0] * (len(bounds_ms) + 1)
        total, largest = 0.0, None
        for value in values_ms:
            if not isfinite(value):
                raise EncodeError(f"{value} is not a finite number of milliseconds")
            counts[bisect_left(bounds_ms, value)] += 1
            total += value
            largest = value if largest is None else max(largest, value)
        return cls(bounds_ms, tuple(counts), total, largest)

    @property
    def count(self) -> int:
        """How many values there are."""
        return sum(self.counts)

    def merge(self, other: MsHistogram) -> MsHistogram:
        """Both together; their bounds must be the same."""
        if self.bounds_ms != other.bounds_ms:
            raise EncodeError("histograms with different bounds do not add up")
        counts = tuple(a + b for a, b in zip(self.counts, other.counts, strict=True))
        largest = max((m for m in (self.max_ms, other.max_ms) if m is not None), default=None)
        return MsHistogram(self.bounds_ms, counts, self.sum_ms + other.sum_ms, largest)

    def quantile_ms(self, q: float) -> float | None:
        """An upper bound of the value below which the part ``q`` (0 to 1) lies; None if empty."""
        if not 0 <= q <= 1:
            raise EncodeError(f"quantile {q} is outside 0..1")
        rank, seen = max(1, ceil(q * self.count)), 0
        for bound, count in zip(self.bounds_ms, self.counts, strict=False):
            seen += count
            if seen >= rank:
                return bound if self.max_ms is None else min(bound, self.max_ms)
        return self.max_ms
