"""The tables ``qoe_region_*``: experience of viewers, and limits of their class."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from laps_analytics.gold.builders.common import class_of, finish, percentile_of_sorted, tenant_of
from laps_analytics.gold.builders.rollup import longer, quantile, uniques
from laps_analytics.gold.builders.viewers import viewers
from laps_analytics.gold.dimensions import Dimensions
from laps_analytics.gold.silver import Silver
from laps_analytics.gold.tables import GOLD

__all__ = ["limit_of", "over_limit", "qoe_longer", "qoe_region"]


def limit_of(dimensions: Dimensions, name: str, service: str = "class") -> Column:
    """Return a limit of the class of service in a column; null without a class."""
    value: Column = F.lit(None).cast("double")
    for label, limits in sorted(dimensions.classes.items()):
        limit = F.lit(float(getattr(limits, name)))
        value = F.when(F.col(service) == label, limit).otherwise(value)
    return value


def over_limit(dimensions: Dimensions) -> Column:
    """Return whether a client report exceeds a limit of its class.

    The limits are those of latency, start-up and time stalled.
    """
    stalled = F.coalesce("stall_ms", F.lit(0)) > limit_of(dimensions, "stall_ratio") * F.col(
        "window_ms"
    )
    late = F.col("latency_ms") > limit_of(dimensions, "latency_ms")
    slow = F.col("startup_ms") > limit_of(dimensions, "startup_ms")
    no = F.lit(False)
    return F.coalesce(late, no) | F.coalesce(slow, no) | F.coalesce(stalled, no)


def qoe_region(silver: Silver, days: Iterable[str], dimensions: Dimensions) -> DataFrame:
    """Build ``qoe_region_1m``."""
    wanted = tuple(days)
    reports = (
        viewers(silver, wanted)
        .withColumn("class", class_of(dimensions))
        .withColumn("region", F.coalesce("region", F.lit("")))
        .withColumn("tenant", tenant_of(dimensions))
        .withColumn("session", F.concat_ws(":", "relay", "boot", "session_id"))
        .withColumn("over", over_limit(dimensions))
    )
    # Lists and a set of what a minute has. Spark's own percentiles would each count all values, and
    # its count of distinct values would make every sketch for each session first.
    lists = reports.groupBy("window_start", "region", "tenant", "class", "dt").agg(
        F.count("*").alias("reports"),
        F.size(F.collect_set("session")).alias("sessions"),
        F.hll_sketch_agg("session").alias("sessions_hll"),
        F.sort_array(F.collect_list("startup_ms")).alias("startups"),
        F.sort_array(F.collect_list("latency_ms")).alias("latencies"),
        _sketch("startup_ms").alias("startup_kll"),
        _sketch("latency_ms").alias("latency_kll"),
        F.sum("window_ms").alias("watched_ms"),
        F.coalesce(F.sum("stall_ms"), F.lit(0)).alias("stalled_ms"),
        F.sum("gaps").alias("gaps"),
        F.count_if(F.col("over")).alias("over_limit"),
    )
    rows = lists.withColumns(
        {
            "startup_p95_ms": percentile_of_sorted(0.95, "startups"),
            "latency_p50_ms": percentile_of_sorted(0.5, "latencies"),
            "latency_p95_ms": percentile_of_sorted(0.95, "latencies"),
            "latency_p99_ms": percentile_of_sorted(0.99, "latencies"),
        }
    )
    return finish(_rated(rows, dimensions), GOLD["qoe_region_1m"], wanted)


def qoe_longer(lower: DataFrame, name: str, dimensions: Dimensions) -> DataFrame:
    """Build ``qoe_region_1h`` from minutes, or ``qoe_region_1d`` from hours."""
    rows = longer(lower, name).withColumns(
        {
            "sessions": uniques("sessions_hll"),
            "startup_p95_ms": quantile("startup_kll", 0.95),
            "latency_p50_ms": quantile("latency_kll", 0.5),
            "latency_p95_ms": quantile("latency_kll", 0.95),
            "latency_p99_ms": quantile("latency_kll", 0.99),
        }
    )
    return finish(_rated(rows, dimensions), GOLD[name])


def _sketch(column: str) -> Column:
    return F.when(F.count(column) > 0, F.kll_sketch_agg_bigint(column))


def _rated(rows: DataFrame, dimensions: Dimensions) -> DataFrame:
    """Add the ratios, computed from sums."""
    allowed = limit_of(dimensions, "allowed")
    watched = F.col("watched_ms") > 0
    return rows.withColumns(
        {
            "stall_ratio": F.when(watched, F.col("stalled_ms") / F.col("watched_ms")),
            "gap_rate": F.when(watched, F.col("gaps") * F.lit(60_000.0) / F.col("watched_ms")),
            "burn": F.when(allowed > 0, F.col("over_limit") / F.col("reports") / allowed),
        }
    )
