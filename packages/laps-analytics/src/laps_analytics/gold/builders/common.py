"""Functions that builders share: windows, percentiles, tenants, classes, contracts, rollups.

A rollup makes hours from minutes and days from hours, without reading records:

::

    records --> traffic_1m, qoe_region_1m, link_quality_5m --> *_1h --> *_1d

The contract of the longer window says how each column merges. Ratios, percentiles and unique counts
are computed again from the merged columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from laps_analytics.gold.dimensions import Dimensions
from laps_analytics.gold.tables import GOLD, GoldTable

__all__ = [
    "FIVE_MINUTES",
    "SECONDS",
    "Persist",
    "class_of",
    "finish",
    "five_minutes",
    "longer",
    "merged",
    "percentile",
    "percentile_of_sorted",
    "quantile",
    "tenant_of",
    "uniques",
    "unpersisted",
    "window",
]

Persist: TypeAlias = Callable[[DataFrame], DataFrame]
"""Caches a frame that is used several times, or returns it unchanged."""


def unpersisted(frame: DataFrame) -> DataFrame:
    """Return the frame unchanged; Spark computes it for each use."""
    return frame


FIVE_MINUTES: Final = 300
"""Length of the usual window, in seconds."""


def window(ts: Column | str, seconds: int) -> Column:
    """Return the begin of the window of a time stamp."""
    micros = F.unix_micros(F.col(ts) if isinstance(ts, str) else ts)
    return F.timestamp_micros(micros - micros % (seconds * 1_000_000))


def five_minutes(ts: Column | str = "ts") -> Column:
    """Return the begin of the five-minute window of a time stamp."""
    return window(ts, FIVE_MINUTES)


def percentile(share: float, column: str, where: str | None = None) -> Column:
    """Return the exact percentile: the first value with ``share`` of all at or below it."""
    only = f" FILTER (WHERE {where})" if where else ""
    text = f"percentile_disc({share}) WITHIN GROUP (ORDER BY {column}){only}"
    return F.expr(text).cast("bigint")


def percentile_of_sorted(share: float, values: str) -> Column:
    """Return the exact percentile of a sorted array; null if the array is empty.

    Several percentiles can share one array. Each :func:`percentile` counts the values again.
    """
    place = f"cast(ceil({share}D * size({values})) AS int)"
    return F.expr(f"get({values}, greatest({place}, 1) - 1)")


def _facts(names: dict[str, str]) -> Column | None:
    if not names:
        return None
    pairs = [F.lit(part) for item in sorted(names.items()) for part in item]
    return F.create_map(*pairs)


def tenant_of(dimensions: Dimensions, track: str = "track") -> Column:
    """Return the tenant of an event: its own, or that of its track; empty if neither has one."""
    known = _facts({name: f.tenant for name, f in dimensions.tracks.items() if f.tenant})
    if known is None:
        return F.coalesce(F.col("tenant"), F.lit(""))
    return F.coalesce(F.col("tenant"), known[F.col(track)], F.lit(""))


def class_of(dimensions: Dimensions, track: str = "track") -> Column:
    """Return the class of service of a track; empty if it has none."""
    known = _facts({name: f.service for name, f in dimensions.tracks.items() if f.service})
    if known is None:
        return F.lit("")
    return F.coalesce(known[F.col(track)], F.lit(""))


def merged(entries: str) -> Column:
    """Return a map from an array of entries: values added up by key, keys ascending."""
    return F.expr(
        f"map_from_entries(transform(array_sort(array_distinct(transform({entries}, e -> e.key))),"
        f" k -> struct(k AS key, aggregate(filter({entries}, e -> e.key = k), 0L,"
        f" (sum, e) -> sum + e.value) AS value)))"
    )


def finish(frame: DataFrame, table: GoldTable, days: Iterable[str] | None = None) -> DataFrame:
    """Return the columns of the contract, in order and cast to its types; only rows of ``days``."""
    columns = [
        F.col(field.name).cast(field.dataType).alias(field.name) for field in table.schema().fields
    ]
    wanted = frame if days is None else frame.where(F.col("dt").isin(sorted(days)))
    return wanted.select(*columns)


# Rollups

SECONDS: Final = {"1h": 3600, "1d": 86_400}
"""Length of the longer windows, by the suffix of a table's name."""


def longer(lower: DataFrame, name: str, **more: Column) -> DataFrame:
    """Return the rows of ``name`` with its merged columns, and the aggregates in ``more``."""
    contract = GOLD[name]
    # The time first: where Spark sorts, it compares this number and seldom what follows.
    keys = sorted(contract.keys, key=lambda key: (key != "window_start", key == "dt"))
    return (
        lower.withColumn("window_start", window("window_start", SECONDS[name.rpartition("_")[2]]))
        .groupBy(*keys)
        .agg(
            *[_merged(item.name, item.merge) for item in contract.columns if item.merge],
            *[column.alias(alias) for alias, column in more.items()],
        )
    )


def _merged(name: str, how: str) -> Column:
    if how == "kll":
        # Of nothing but nulls Spark would make a sketch of nothing, which has no percentile.
        return F.when(F.count(name) > 0, F.kll_merge_agg_bigint(name)).alias(name)
    merge = {"sum": F.sum, "max": F.max, "hll": F.hll_union_agg}[how]
    return merge(name).alias(name)


def quantile(sketch: str, share: float) -> Column:
    """Return a percentile of a KLL sketch of integers; null without a sketch."""
    return F.kll_sketch_get_quantile_bigint(sketch, F.lit(share))


def uniques(sketch: str) -> Column:
    """Return the number of distinct values in an HLL sketch."""
    return F.hll_sketch_estimate(sketch)
