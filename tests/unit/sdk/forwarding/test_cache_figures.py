from __future__ import annotations

from laps_sdk.forwarding.cache import Ages, CacheFigures
from laps_wire.telemetry import AGE_BOUNDS_MS


def test_bytes_by_age() -> None:
    ages = Ages()
    assert ages.histogram().max_ms is None
    for age, size in ((0.2, 10), (0.5, 5), (0.6, 7), (9999.0, 1), (-1.0, 2)):
        ages.add(age, size)
    histogram = ages.histogram()
    assert histogram.bounds_ms == AGE_BOUNDS_MS
    assert (histogram.counts[0], histogram.counts[1], histogram.counts[-1]) == (17, 7, 1)
    assert (ages.bytes, histogram.count, histogram.max_ms) == (25, 25, 9_999_000.0)
    assert histogram.sum_ms == 2000 + 2500 + 4200 + 9_999_000


def test_sums_begin_anew_when_they_are_taken() -> None:
    figures = CacheFigures()
    assert figures.take().is_idle
    figures.hit(1.0, 10)
    figures.missed(20)
    figures.missed(30, 90.0)
    figures.expired += 40
    figures.evicted += 50
    taken = figures.take()
    assert not taken.is_idle
    assert (taken.hits.bytes, taken.late.bytes, taken.missed) == (10, 30, 50)
    assert (taken.expired, taken.evicted) == (40, 50)
    assert figures.take().is_idle
