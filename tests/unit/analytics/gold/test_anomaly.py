from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from math import isclose
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import DoubleType, StringType, StructField, StructType, TimestampType

from laps_analytics.gold.anomaly import METRICS, Metric, incidents, series_of
from unit.analytics.gold import anomaly_model
from unit.analytics.gold.anomaly_model import Point

pytestmark = pytest.mark.spark

RTT = next(metric for metric in METRICS if metric.name == "rtt")
TRAFFIC = next(metric for metric in METRICS if metric.name == "traffic")
NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)
FIVE = timedelta(minutes=5)

Found = Callable[[Metric, Sequence[Point]], list[tuple[Any, ...]]]


@pytest.fixture
def found(spark: SparkSession) -> Found:
    """The incidents of the day of :data:`NOON`, as rows of the contract; all times are UTC."""

    def rows(metric: Metric, points: Sequence[Point]) -> list[tuple[Any, ...]]:
        table = StructType(
            [
                StructField("window_start", TimestampType()),
                *(StructField(name, StringType()) for name in metric.dimensions),
                StructField(metric.value, DoubleType()),
            ]
        )
        # The points of any metric, as if they were rows of a table that needs no sums.
        plain = Metric(
            name=metric.name,
            table="any",
            value=metric.value,
            dimensions=metric.dimensions,
            seconds=metric.seconds,
            floor=metric.floor,
            falls=metric.falls,
        )
        frame = spark.createDataFrame(
            [(point.at, *point.series, point.value) for point in points], table
        )
        answer = incidents(series_of(plain, frame), ["2026-11-17"]).orderBy("first").collect()
        return [
            (
                *row[:3],
                *(at.astimezone(UTC) for at in row[3:5]),
                *row[5:-1],
                [tuple(part) for part in row[-1]],
            )
            for row in answer
        ]

    return rows


def series(name: tuple[str, str], values: list[float], start: datetime = NOON) -> list[Point]:
    return [Point(start + index * FIVE, name, value) for index, value in enumerate(values)]


def test_one_incident_for_one_cause(found: Found) -> None:
    calm = [80_000.0, 80_500.0] * 10
    bad = [*calm[:10], *[300_000.0] * 3, *calm[13:]]
    points = [
        *series(("a", "b"), bad),
        *series(("c", "b"), bad),
        *series(("a", "c"), calm),
        *series(("c", "a"), calm),
    ]
    (row,) = found(RTT, points)
    dt, name, metric, first, last, windows, count, peak_z, observed, expected, explained = row
    assert (dt, name, metric) == ("2026-11-17", "rtt@2026-11-17T12:50Z", "rtt")
    assert (first, last) == (NOON + 10 * FIVE, NOON + 13 * FIVE)
    assert (windows, count) == (6, 2)
    assert peak_z > 6
    assert (observed, expected) == (300_000.0, 80_500.0)
    assert explained == [("peer", "b", 1.0)]  # neither relay has more than half of it


def test_two_times_are_two_incidents(found: Found) -> None:
    values = [80_000.0] * 30
    values[3] = values[20] = 400_000.0
    points = [*series(("a", "b"), values), *series(("a", "c"), [80_000.0] * 30)]
    rows = found(RTT, points)
    assert [row[1] for row in rows] == ["rtt@2026-11-17T12:15Z", "rtt@2026-11-17T13:40Z"]
    assert rows[0][-1] == [("peer", "b", 1.0)]  # all have the same relay: that explains nothing


def test_what_every_day_brings_is_usual(found: Found) -> None:
    evening = [80_000.0] * 12 + [300_000.0] * 4
    days = [NOON - timedelta(days=back) for back in range(4)]
    points = [point for day in days for point in series(("a", "b"), evening, day)]
    assert found(RTT, points) == []
    # Without the days before it is not.
    assert len(found(RTT, series(("a", "b"), evening))) == 1


def test_a_series_that_hardly_moves_does_not_cry_wolf(found: Found) -> None:
    values = [80_000.0] * 20
    values[5] = 82_000.0
    assert found(RTT, series(("a", "b"), values)) == []


def test_too_little_traffic_is_unusual_too_but_a_short_way_is_not(found: Found) -> None:
    values = [5e6] * 20
    values[7] = 0.0
    (row,) = found(TRAFFIC, series(("a", "t"), values))
    assert row[7] < -6
    assert found(RTT, series(("a", "b"), values)) == []


def test_from_a_few_windows_nothing_is_said(found: Found) -> None:
    assert found(RTT, series(("a", "b"), [1.0, 1.0, 9e9])) == []


def test_frames_say_what_plain_python_says(found: Found) -> None:
    """Series that come and go, holes, equal values, history of some days."""
    dice = Random(5)
    for metric in (RTT, TRAFFIC):
        points = []
        for name in (("a", "b"), ("a", "c"), ("ab", "b"), ("c", "b"), ("c", "d")):
            days = dice.sample(range(1, 10), dice.randrange(7))
            for back in (0, *days):
                start = NOON - timedelta(days=back)
                values = [80_000.0 + dice.choice([0, 500, 900]) for _ in range(60)]
                for _ in range(0 if back else 5):
                    values[dice.randrange(60)] = dice.choice([0.0, 2e5, 4e5])
                for at, value in enumerate(values):
                    if dice.random() > 0.1:
                        points.append(Point(start + at * FIVE, name, value))
        ours = found(metric, points)
        theirs = anomaly_model.incidents(metric, points, NOON.date())
        assert len(ours) == len(theirs) > 2
        for one, other in zip(ours, theirs, strict=True):
            assert one[:7] == other[:7]
            assert all(map(isclose, one[7:10], other[7:10]))
            assert one[10] == other[10]
