"""The hour from minutes and the day from hours: sums add up, sketches merge, records are not read.

::

    records --> traffic_1m, qoe_region_1m, link_quality_5m --> *_1h --> *_1d

One piece of code for all of them. The contract of the longer window says of each column how it
merges; what is a ratio, a percentile or a count of uniques is made again from what was merged, by
the same functions as in the shortest window where these are sums.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from laps_analytics.gold.builders.common import window
from laps_analytics.gold.tables import GOLD

__all__ = ["SECONDS", "longer", "quantile", "uniques"]

SECONDS: Final = {"1h": 3600, "1d": 86_400}
"""Length of the longer windows, by the end of a table's name."""


def longer(lower: DataFrame, name: str, **more: Column) -> DataFrame:
    """The rows of ``name`` as far as columns merge by themselves, and ``more`` that is counted."""
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
    """A percentile of a KLL sketch of whole numbers; null without one."""
    return F.kll_sketch_get_quantile_bigint(sketch, F.lit(share))


def uniques(sketch: str) -> Column:
    """How many there are in an HLL sketch."""
    return F.hll_sketch_estimate(sketch)
