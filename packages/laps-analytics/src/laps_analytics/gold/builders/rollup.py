"""Rollups: hours from minutes and days from hours, without reading records.

::

    records --> traffic_1m, qoe_region_1m, link_quality_5m --> *_1h --> *_1d

The contract of the longer window says how each column merges. Ratios, percentiles and unique counts
are computed again from the merged columns.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from laps_analytics.gold.builders.common import window
from laps_analytics.gold.tables import GOLD

__all__ = ["SECONDS", "longer", "quantile", "uniques"]

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
