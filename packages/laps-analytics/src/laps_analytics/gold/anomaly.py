"""What is unusual: one row for each incident, with what its series have in common.

A series is a metric of one thing (a link, a region's viewers, a relay's traffic). What is usual is
the median at the same time of the seven days before, if three of them are known, or else the median
of the day; the spread is the median distance from it (Hampel), at least a floor for each metric, so
that a series that hardly moves does not cry wolf. Unusual windows of one metric that touch each
other are one incident, over all series: an operator wants one call for one cause.

The input is other gold tables, some thousand rows for a day of a small network, so this runs on the
driver. It grows with series and windows: hundreds of relays are hundreds of thousands of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from statistics import median
from typing import Any, Final

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from laps_analytics.gold.common import FIVE_MINUTES, five_minutes
from laps_analytics.gold.tables import GOLD

__all__ = ["BEFORE", "METRICS", "Metric", "Point", "anomaly", "incidents", "series_of"]

BEFORE: Final = 7
"""Days before that tell what is usual at a time of the day."""
_ENOUGH_DAYS: Final = 3
_ENOUGH_WINDOWS: Final = 12
_Z: Final = 6.0
_SIGMA: Final = 1.4826
"""From the median distance to a standard deviation, of a normal distribution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """Something that may be unusual."""

    name: str
    table: str
    """The gold table that it is read from."""
    value: str
    dimensions: tuple[str, ...]
    seconds: int
    """Length of its windows."""
    floor: float
    """Least spread, in its own unit."""
    share: float = 0.1
    """Least spread, as a share of what is usual."""
    falls: bool = False
    """Whether too little is unusual as well."""


_VIEWERS: Final = ("region", "tenant", "class")
_LINK: Final = ("relay", "peer")

METRICS: Final = tuple(
    Metric(
        name=name,
        table=table,
        value=value,
        dimensions=names,
        seconds=seconds,
        floor=floor,
        falls=name == "traffic",
    )
    for name, table, value, names, seconds, floor in (
        ("latency", "qoe_region_1m", "latency_p95_ms", _VIEWERS, 60, 20.0),
        ("stalls", "qoe_region_1m", "stall_ratio", _VIEWERS, 60, 0.005),
        ("gaps", "qoe_region_1m", "gap_rate", _VIEWERS, 60, 0.5),
        ("loss", "link_quality_5m", "loss", _LINK, FIVE_MINUTES, 0.002),
        ("rtt", "link_quality_5m", "rtt_p50_us", _LINK, FIVE_MINUTES, 1000.0),
        ("drops", "traffic_1m", "drop_share", ("relay", "out_peer"), FIVE_MINUTES, 0.002),
        ("traffic", "traffic_1m", "out_bps", ("relay", "tenant"), FIVE_MINUTES, 1000.0),
    )
)
"""What is watched, and where it is read."""


@dataclass(frozen=True, slots=True)
class Point:
    """A window of a series."""

    at: datetime
    series: tuple[str, ...]
    value: float


@dataclass(frozen=True, slots=True)
class _Unusual:
    at: datetime
    series: tuple[str, ...]
    z: float
    value: float
    usual: float


def series_of(metric: Metric, table: DataFrame) -> DataFrame:
    """The points of a metric: (at in seconds since 1970, its dimensions, value)."""
    rows = table
    if metric.table == "traffic_1m":
        tried = F.col("objects") + F.col("drops")
        rows = table.groupBy(
            five_minutes("window_start").alias("window_start"), *metric.dimensions
        ).agg(
            (F.sum("out_bytes") * 8 / F.lit(float(FIVE_MINUTES))).alias("out_bps"),
            F.try_divide(F.sum("drops"), F.sum(tried)).alias("drop_share"),
        )
    return rows.where(F.col(metric.value).isNotNull()).select(
        # As a number: Spark hands out time stamps in the time zone of the machine.
        F.unix_seconds("window_start").alias("at"),
        *metric.dimensions,
        F.col(metric.value).cast("double").alias("value"),
    )


def incidents(metric: Metric, points: Sequence[Point], day: date) -> list[tuple[Any, ...]]:
    """The incidents of a day, as rows of the contract; ``points`` reach back for what is usual."""
    unusual = sorted(_unusual(metric, points, day), key=lambda item: (item.at, item.series))
    length = timedelta(seconds=metric.seconds)
    groups: list[list[_Unusual]] = []
    for item in unusual:
        if groups and item.at <= max(one.at for one in groups[-1]) + length:
            groups[-1].append(item)
        else:
            groups.append([item])
    today = {point.series for point in points if point.at.date() == day}
    return [_row(metric, group, today, day, length) for group in groups]


def _unusual(metric: Metric, points: Sequence[Point], day: date) -> Iterable[_Unusual]:
    by_series: dict[tuple[str, ...], list[Point]] = {}
    for point in points:
        by_series.setdefault(point.series, []).append(point)
    for series, known in by_series.items():
        today = [point for point in known if point.at.date() == day]
        before: dict[Any, list[float]] = {}
        for point in known:
            if 0 < (day - point.at.date()).days <= BEFORE:
                before.setdefault(point.at.time(), []).append(point.value)
        values = [point.value for point in today]
        for point in today:
            base = before.get(point.at.time(), [])
            if len(base) < _ENOUGH_DAYS:
                base = values if len(values) >= _ENOUGH_WINDOWS else []
            if not base:
                continue
            usual = median(base)
            spread = _SIGMA * median(abs(value - usual) for value in base)
            spread = max(spread, metric.floor, metric.share * abs(usual))
            z = (point.value - usual) / spread
            if z > _Z or (metric.falls and z < -_Z):
                yield _Unusual(point.at, series, z, point.value, usual)


def _row(
    metric: Metric,
    group: Sequence[_Unusual],
    today: set[tuple[str, ...]],
    day: date,
    length: timedelta,
) -> tuple[Any, ...]:
    peak = max(group, key=lambda item: (abs(item.z), [-ord(c) for c in "|".join(item.series)]))
    first, last = group[0].at, group[-1].at + length
    common = []
    for index, name in enumerate(metric.dimensions):
        if len({series[index] for series in today}) < 2:
            continue  # what all have in common explains nothing
        counts: dict[str, int] = {}
        for item in group:
            counts[item.series[index]] = counts.get(item.series[index], 0) + 1
        value, count = min(counts.items(), key=lambda pair: (-pair[1], pair[0]))
        if 2 * count > len(group):
            common.append((name, value, count / len(group)))
    common.sort(key=lambda entry: (-entry[2], entry[0]))
    return (
        *(str(day), f"{metric.name}@{first:%Y-%m-%dT%H:%MZ}", metric.name, first, last),
        *(len(group), len({item.series for item in group})),
        *(peak.z, peak.value, peak.usual, common[:3]),
    )


def anomaly(
    spark: SparkSession, tables: Callable[[str], DataFrame], days: Iterable[str]
) -> DataFrame:
    """``anomaly``; ``tables`` gives a gold table of the days and the seven before each."""
    wanted = [date.fromisoformat(day) for day in sorted(days)]
    rows: list[tuple[Any, ...]] = []
    for metric in METRICS:
        found = series_of(metric, tables(metric.table)).collect()
        points = [_point(metric, row) for row in found]
        for day in wanted:
            rows += incidents(metric, points, day)
    return spark.createDataFrame(rows, GOLD["anomaly"].schema())


def _point(metric: Metric, row: Row) -> Point:
    at = datetime.fromtimestamp(row["at"], UTC)
    return Point(at, tuple(row[name] for name in metric.dimensions), row["value"])
