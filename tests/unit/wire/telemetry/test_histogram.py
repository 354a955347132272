"""Histograms: buckets, merging, quantiles."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.errors import EncodeError
from laps_wire.telemetry.histogram import MAX_BUCKETS, QUEUE_BOUNDS_MS, MsHistogram

waits = st.lists(st.floats(0, 20_000), max_size=30)


def test_values_fall_into_buckets() -> None:
    histogram = MsHistogram.of([0.5, 1, 1.5, 3, 5, 6], (1.0, 2.0, 5.0))
    assert histogram.counts == (2, 1, 2, 1)  # a bound belongs to its bucket
    assert (histogram.count, histogram.sum_ms, histogram.max_ms) == (6, 17.0, 6)
    empty = MsHistogram.of([])
    assert empty.bounds_ms == QUEUE_BOUNDS_MS
    assert (empty.count, empty.max_ms, empty.quantile_ms(0.5)) == (0, None, None)


def test_quantiles_are_upper_bounds() -> None:
    histogram = MsHistogram.of([0.5, 1, 1.5, 3, 4.5, 6], (1.0, 2.0, 5.0))
    quantiles = [histogram.quantile_ms(q) for q in (0, 1 / 3, 0.5, 0.8, 1)]
    assert quantiles == [1.0, 1.0, 2.0, 5.0, 6]
    # The largest value is a better bound than the bucket's own.
    assert MsHistogram.of([1.2], (1.0, 2.0)).quantile_ms(0.99) == 1.2
    assert MsHistogram((1.0, 2.0), (0, 1, 0), 1.2).quantile_ms(0.99) == 2.0


@given(waits.filter(bool), st.floats(0, 1))
def test_no_quantile_is_too_small(values: list[float], q: float) -> None:
    rank = max(1, math.ceil(q * len(values)))
    exact = sorted(values)[rank - 1]
    found = MsHistogram.of(values).quantile_ms(q)
    assert found is not None
    assert exact <= found <= max(values)


@given(waits, waits)
def test_merging_is_counting_together(some: list[float], more: list[float]) -> None:
    merged = MsHistogram.of(some).merge(MsHistogram.of(more))
    together = MsHistogram.of(some + more)
    assert merged.counts == together.counts
    assert merged.max_ms == together.max_ms
    assert merged.sum_ms == pytest.approx(together.sum_ms)


def test_different_bounds_do_not_add_up() -> None:
    with pytest.raises(EncodeError, match="different bounds"):
        MsHistogram.of([1], (1.0,)).merge(MsHistogram.of([1], (2.0,)))


@pytest.mark.parametrize(
    ("bounds", "counts", "reason"),
    [
        ((1.0,), (1,), "1 counts for 1 bounds"),
        ((), (), "0 counts for 0 bounds"),
        ((1.0, 1.0), (0, 0, 0), "must ascend"),
        ((2.0, 1.0), (0, 0, 0), "must ascend"),
        ((1.0,), (0, -1), "negative"),
        (tuple(map(float, range(MAX_BUCKETS))), (0,) * (MAX_BUCKETS + 1), "at most 256"),
    ],
)
def test_buckets_that_make_no_sense(
    bounds: tuple[float, ...], counts: tuple[int, ...], reason: str
) -> None:
    with pytest.raises(EncodeError, match=reason):
        MsHistogram(bounds, counts, 0.0)


def test_the_most_buckets() -> None:
    bounds = tuple(map(float, range(MAX_BUCKETS - 1)))
    assert MsHistogram(bounds, (0,) * MAX_BUCKETS, 0.0).count == 0


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_values_are_finite(bad: float) -> None:
    with pytest.raises(EncodeError, match="not a finite number"):
        MsHistogram.of([bad])


@pytest.mark.parametrize("q", [-0.1, 1.1, math.nan])
def test_a_quantile_is_a_share(q: float) -> None:
    with pytest.raises(EncodeError, match=r"outside 0\.\.1"):
        MsHistogram.of([1]).quantile_ms(q)
