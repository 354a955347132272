from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from math import isclose
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DoubleType, StringType, StructField, StructType, TimestampType

from laps_analytics.gold.builders.anomaly import METRICS, Metric, incidents, series_of
from unit.analytics.gold import anomaly_model
from unit.analytics.gold.anomaly_model import Point

pytestmark = pytest.mark.spark

RTT = next(metric for metric in METRICS if metric.name == "rtt")
TRAFFIC = next(metric for metric in METRICS if metric.name == "traffic")
NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)
FIVE = timedelta(minutes=5)

Found = Mapping[str, list[tuple[Any, ...]]]
"""By the name of a case."""


def series(name: tuple[str, str], values: list[float], start: datetime = NOON) -> list[Point]:
    return [Point(start + index * FIVE, name, value) for index, value in enumerate(values)]


CALM = [80_000.0, 80_500.0] * 10
BAD = [*CALM[:10], *[300_000.0] * 3, *CALM[13:]]
TWICE = [400_000.0 if at in (3, 20) else 80_000.0 for at in range(30)]
EVENING = [80_000.0] * 12 + [300_000.0] * 4
STILL = [82_000.0 if at == 5 else 80_000.0 for at in range(20)]
FALLING = [0.0 if at == 7 else 5e6 for at in range(20)]


def any_days(rng: Random) -> list[Point]:
    """Series that come and go, holes, equal values, history of some days."""
    points = []
    for name in (("a", "b"), ("a", "c"), ("ab", "b"), ("c", "b"), ("c", "d")):
        days = rng.sample(range(1, 10), rng.randrange(7))
        for back in (0, *days):
            start = NOON - timedelta(days=back)
            values = [80_000.0 + rng.choice([0, 500, 900]) for _ in range(60)]
            for _ in range(0 if back else 5):
                values[rng.randrange(60)] = rng.choice([0.0, 2e5, 4e5])
            for at, value in enumerate(values):
                if rng.random() > 0.1:
                    points.append(Point(start + at * FIVE, name, value))
    return points


RNG = Random(5)
CASES: Mapping[str, tuple[Metric, Sequence[Point]]] = {
    "one cause": (
        RTT,
        [
            *series(("a", "b"), BAD),
            *series(("c", "b"), BAD),
            *series(("a", "c"), CALM),
            *series(("c", "a"), CALM),
        ],
    ),
    "two times": (RTT, [*series(("a", "b"), TWICE), *series(("a", "c"), [80_000.0] * 30)]),
    "every day": (
        RTT,
        [
            point
            for back in range(4)
            for point in series(("a", "b"), EVENING, NOON - timedelta(days=back))
        ],
    ),
    "one evening": (RTT, series(("a", "b"), EVENING)),
    "hardly moves": (RTT, series(("a", "b"), STILL)),
    "too little": (TRAFFIC, series(("a", "t"), FALLING)),
    "a short way": (RTT, series(("a", "b"), FALLING)),
    "a few windows": (RTT, series(("a", "b"), [1.0, 1.0, 9e9])),
    "any round trips": (RTT, any_days(RNG)),
    "any traffic": (TRAFFIC, any_days(RNG)),
}
"""Each is a metric of its own, and metrics do not touch each other: one query is for all."""


def named(case: str) -> Metric:
    """The metric of a case, as if its points were rows of a table that needs no sums."""
    return replace(CASES[case][0], name=case, table="any")


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> Found:
    """The incidents of the day of :data:`NOON`, as rows of the contract; all times are UTC."""
    frames = []
    for case, (_, points) in CASES.items():
        metric = named(case)
        table = StructType(
            [
                StructField("window_start", TimestampType()),
                *(StructField(name, StringType()) for name in metric.dimensions),
                StructField(metric.value, DoubleType()),
            ]
        )
        frame = spark.createDataFrame(
            [(point.at, *point.series, point.value) for point in points], table
        )
        frames.append(series_of(metric, frame))
    seen = reduce(DataFrame.unionByName, frames).cache()
    assert seen.count() == sum(len(points) for _, points in CASES.values())
    rows: dict[str, list[tuple[Any, ...]]] = {case: [] for case in CASES}
    for row in incidents(seen, ["2026-11-17"], DataFrame.cache).orderBy("first").collect():
        rows[row["metric"]].append(
            (
                *row[:3],
                *(at.astimezone(UTC) for at in row[3:5]),
                *row[5:-1],
                [tuple(part) for part in row[-1]],
            )
        )
    return rows


def test_one_incident_for_one_cause(found: Found) -> None:
    (row,) = found["one cause"]
    dt, name, metric, first, last, windows, count, peak_z, observed, expected, explained = row
    assert (dt, name, metric) == ("2026-11-17", "one cause@2026-11-17T12:50Z", "one cause")
    assert (first, last) == (NOON + 10 * FIVE, NOON + 13 * FIVE)
    assert (windows, count) == (6, 2)
    assert peak_z > 6
    assert (observed, expected) == (300_000.0, 80_500.0)
    assert explained == [("peer", "b", 1.0)]  # neither relay has more than half of it


def test_two_times_are_two_incidents(found: Found) -> None:
    rows = found["two times"]
    assert [row[1] for row in rows] == [
        "two times@2026-11-17T12:15Z",
        "two times@2026-11-17T13:40Z",
    ]
    assert rows[0][-1] == [("peer", "b", 1.0)]  # all have the same relay: that explains nothing


def test_what_every_day_brings_is_usual(found: Found) -> None:
    assert found["every day"] == []
    # Without the days before it is not.
    assert len(found["one evening"]) == 1


def test_a_series_that_hardly_moves_does_not_cry_wolf(found: Found) -> None:
    assert found["hardly moves"] == []


def test_too_little_traffic_is_unusual_too_but_a_short_way_is_not(found: Found) -> None:
    (row,) = found["too little"]
    assert row[7] < -6
    assert found["a short way"] == []


def test_from_a_few_windows_nothing_is_said(found: Found) -> None:
    assert found["a few windows"] == []


@pytest.mark.parametrize("case", ["any round trips", "any traffic"])
def test_frames_say_what_plain_python_says(found: Found, case: str) -> None:
    ours = found[case]
    theirs = anomaly_model.incidents(named(case), CASES[case][1], NOON.date())
    assert len(ours) == len(theirs) > 2
    for one, other in zip(ours, theirs, strict=True):
        assert one[:7] == other[:7]
        assert all(map(isclose, one[7:10], other[7:10]))
        assert one[10] == other[10]
