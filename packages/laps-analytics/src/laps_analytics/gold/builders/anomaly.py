"""The table ``anomaly``: one row for each incident, with the dimensions its series share.

A series is a metric of one subject: a link, the viewers of a region, the traffic of a relay. Its
usual value is the median at the same time of the seven days before. With fewer than three such days
it is the median of the day. The spread is the median distance from it (Hampel), with a floor for
each metric, so that a steady series raises no false alarm. Adjacent unusual windows of one metric
form one incident, over all series.

All steps are frames: nothing is collected, and no Python runs for a row. A row holds at most seven
values of earlier days, and a series one list of the windows of a day.

::

    points --> with the same time of days before --> z --> unusual --> times --> incidents
                        '--> median and spread of the day --^       shared dimensions --^
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from laps_analytics.gold.builders.common import (
    FIVE_MINUTES,
    Persist,
    finish,
    five_minutes,
    unpersisted,
)
from laps_analytics.gold.tables import GOLD

__all__ = ["BEFORE", "METRICS", "Metric", "anomaly", "incidents", "series_of"]

BEFORE: Final = 7
"""Earlier days that define the usual value at a time of the day."""
_ENOUGH_DAYS: Final = 3
_ENOUGH_WINDOWS: Final = 12
_Z: Final = 6.0
_SIGMA: Final = 1.4826
"""Factor from the median distance to the standard deviation of a normal distribution."""
_DAY: Final = 86_400
_SERIES: Final = ("metric", "series", "day")
_INCIDENT: Final = ("metric", "day", "number")


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A metric that is checked for anomalies."""

    name: str
    table: str
    """Gold table that has it."""
    value: str
    dimensions: tuple[str, ...]
    seconds: int
    """Length of its windows."""
    floor: float
    """Least spread, in the unit of the metric."""
    share: float = 0.1
    """Least spread, as a share of the usual value."""
    falls: bool = False
    """Whether low values are unusual as well."""


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
"""Metrics that are checked, and their tables."""


def series_of(metric: Metric, table: DataFrame) -> DataFrame:
    """Return the points of a metric: time in seconds since 1970, series, value and parameters."""
    rows = table
    if metric.table == "traffic_1m":
        tried = F.col("objects") + F.col("drops")
        rows = table.groupBy(
            five_minutes("window_start").alias("window_start"), *metric.dimensions
        ).agg(
            (F.sum("out_bytes") * 8 / F.lit(float(FIVE_MINUTES))).alias("out_bps"),
            F.try_divide(F.sum("drops"), F.sum(tried)).alias("drop_share"),
        )
    value = F.col(metric.value).cast("double")
    return rows.where(value.isNotNull() & ~F.isnan(value)).select(
        F.lit(metric.name).alias("metric"),
        F.unix_seconds("window_start").alias("at"),
        F.array(*metric.dimensions).alias("series"),
        value.alias("value"),
        F.array(*map(F.lit, metric.dimensions)).alias("names"),
        F.lit(metric.seconds).alias("seconds"),
        F.lit(metric.floor).alias("floor"),
        F.lit(metric.share).alias("share"),
        F.lit(metric.falls).alias("falls"),
    )


def anomaly(
    tables: Callable[[str], DataFrame], days: Iterable[str], persist: Persist = unpersisted
) -> DataFrame:
    """Build ``anomaly``; ``tables`` returns a gold table of the days and the seven before each."""
    points = [series_of(metric, tables(metric.table)) for metric in METRICS]
    return incidents(reduce(DataFrame.unionByName, points), days, persist)


def incidents(points: DataFrame, days: Iterable[str], persist: Persist = unpersisted) -> DataFrame:
    """Return the incidents of some days; ``points`` include the days before."""
    seen = persist(_seen(points, days))
    found = persist(_numbered(_unusual(seen)))
    peak = F.struct("z", "value", "usual")
    # Of equal peaks the first series counts, and of two of which one begins the other the longer.
    first = F.struct(
        (-F.abs("z")).alias("z"),
        F.concat(F.array_join("series", "|"), F.lit("\U0010ffff")).alias("series"),
        F.col("at"),
    )
    whole = found.groupBy(*_INCIDENT).agg(
        F.min("at").alias("first"),
        (F.max("at") + F.first("seconds")).alias("last"),
        F.count("*").alias("windows"),
        F.count_distinct("series").alias("count"),
        F.min_by(peak, first).alias("peak"),
    )
    rows = whole.join(_common(seen, found, whole), list(_INCIDENT), "left").select(
        _date("day").alias("dt"),
        F.concat(
            "metric",
            F.lit("@"),
            F.date_format(F.timestamp_seconds("first"), "yyyy-MM-dd'T'HH:mm'Z'"),
        ).alias("incident"),
        "metric",
        F.timestamp_seconds("first").alias("first"),
        F.timestamp_seconds("last").alias("last"),
        "windows",
        F.col("count").alias("series"),
        F.col("peak.z").alias("peak_z"),
        F.col("peak.value").alias("observed"),
        F.col("peak.usual").alias("expected"),
        F.coalesce("explained", F.array()).alias("explained"),
    )
    return finish(rows, GOLD["anomaly"])


def _seen(points: DataFrame, days: Iterable[str]) -> DataFrame:
    """Return the points of the days, each with the values at the same time of earlier days."""
    start = date(1970, 1, 1)
    wanted = [(date.fromisoformat(day) - start).days for day in days]
    same_time = (
        Window.partitionBy("metric", "series", "time").orderBy("day").rangeBetween(-BEFORE, -1)
    )
    return (
        points.withColumn("day", F.floor(F.col("at") / _DAY).cast("int"))
        .withColumn("time", F.col("at") % _DAY)
        .withColumn("before", F.collect_list("value").over(same_time))
        .where(F.col("day").isin(wanted))
    )


def _unusual(seen: DataFrame) -> DataFrame:
    """Return the points far from their usual value, with ``z`` and ``usual``."""
    whole = _usual(seen.groupBy(*_SERIES).agg(F.collect_list("value").alias("base")), "base")
    of_day = whole.where(F.size("base") >= _ENOUGH_WINDOWS).select(
        *_SERIES, F.struct("usual", "distance").alias("of_day")
    )
    enough = F.size("before") >= _ENOUGH_DAYS
    found = _usual(seen, "before").join(of_day, list(_SERIES), "left")
    usual = F.when(enough, F.col("usual")).otherwise(F.col("of_day.usual"))
    distance = F.when(enough, F.col("distance")).otherwise(F.col("of_day.distance"))
    spread = F.greatest(_SIGMA * distance, "floor", F.col("share") * F.abs(usual))
    judged = found.withColumn("z", (F.col("value") - usual) / spread).withColumn("usual", usual)
    z = F.col("z")
    # Where nothing tells what is usual, there is no z.
    return judged.where((z > _Z) | (F.col("falls") & (z < -_Z))).drop("before", "of_day")


def _usual(rows: DataFrame, values: str) -> DataFrame:
    """Add the median of a list, and the median distance from it."""
    middle = rows.withColumn("usual", _median(F.col(values)))
    away = F.expr(f"transform({values}, value -> abs(value - usual))")
    return middle.withColumn("distance", _median(away))


def _median(values: Column) -> Column:
    """Return the median of a list; null if it is empty."""
    order, size = F.sort_array(values), F.size(values)
    low = F.get(order, ((size - 1) / 2).cast("int"))
    return (low + F.get(order, (size / 2).cast("int"))) / 2


def _numbered(unusual: DataFrame) -> DataFrame:
    """Add the number of the incident: adjacent times have the same one."""
    times = unusual.select("metric", "day", "at", "seconds").distinct()
    in_order = Window.partitionBy("metric", "day").orderBy("at")
    apart = F.col("at") - F.lag("at").over(in_order) > F.col("seconds")
    numbers = times.withColumn("new", F.when(apart, 1).otherwise(0)).select(
        "metric", "day", "at", F.sum("new").over(in_order).alias("number")
    )
    return unusual.join(numbers, ["metric", "day", "at"])


def _common(seen: DataFrame, found: DataFrame, whole: DataFrame) -> DataFrame:
    """Return up to three dimensions that most windows of an incident share."""
    each = F.explode(F.arrays_zip("names", "series")).alias("it")
    # What all series of the day have in common explains nothing.
    several = (
        seen.select("metric", "day", each)
        .groupBy("metric", "day", F.col("it.names").alias("dimension"))
        .agg((F.min("it.series") != F.max("it.series")).alias("several"))
        .where("several")
        .drop("several")
    )
    share = F.col("shared") / F.col("windows")
    return (
        found.select(*_INCIDENT, each)
        .groupBy(
            *_INCIDENT, F.col("it.names").alias("dimension"), F.col("it.series").alias("value")
        )
        .agg(F.count("*").alias("shared"))
        .join(several, ["metric", "day", "dimension"], "left_semi")
        .join(whole.select(*_INCIDENT, "windows"), list(_INCIDENT))
        .where(2 * F.col("shared") > F.col("windows"))
        .groupBy(*_INCIDENT)
        .agg(
            F.sort_array(
                F.collect_list(F.struct((-share).alias("order"), "dimension", "value"))
            ).alias("most")
        )
        .select(
            *_INCIDENT,
            F.expr(
                "transform(slice(most, 1, 3), it -> struct(it.dimension AS dimension,"
                " it.value AS value, -it.order AS share))"
            ).alias("explained"),
        )
    )


def _date(day: str) -> Column:
    return F.date_add(F.lit(date(1970, 1, 1)), F.col(day)).cast("string")
