"""How much went where: the minute is made from records, the hour from minutes, the day from hours.

Sums and sketches merge, so a rollup equals what a direct build would give. The bounds of nearly all
histograms are the usual ones: their counts are added as plain columns, which Spark compiles; others
are collected and merged.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from laps_analytics.gold.common import finish, merged, tenant_of, window
from laps_analytics.gold.dimensions import Dimensions
from laps_analytics.gold.silver import Silver
from laps_analytics.gold.tables import GOLD
from laps_wire.telemetry.histogram import QUEUE_BOUNDS_MS

__all__ = ["rolled_up", "traffic_1m"]

_KEYS: Final = ("dt", "window_start", "relay", "out_peer", "tenant")
_BUCKETS: Final = len(QUEUE_BOUNDS_MS) + 1
_UPPER: Final = (*QUEUE_BOUNDS_MS, float("inf"))


def traffic_1m(silver: Silver, days: Iterable[str], dimensions: Dimensions) -> DataFrame:
    """Traffic by minute, link or clients, and tenant."""
    wanted = tuple(days)
    usual = F.col("queue_ms.bounds_ms") == F.array(*[F.lit(bound) for bound in QUEUE_BOUNDS_MS])
    hops = silver.read("hop.stat", wanted).select(
        "dt",
        window("ts", 60).alias("window_start"),
        "relay",
        F.coalesce("out_peer", F.lit("")).alias("out_peer"),
        tenant_of(dimensions).alias("tenant"),
        *("track", "objects", "in_bytes", "out_bytes", "drops", "queue_ms"),
        F.coalesce(usual, F.lit(False)).alias("usual"),
    )
    dropped = F.expr("aggregate(map_values(drops), 0L, (sum, n) -> sum + n)")
    counts = [
        F.sum(F.when(F.col("usual"), F.get("queue_ms.counts", F.lit(index)))).alias(f"n{index}")
        for index in range(_BUCKETS)
    ]
    summed = hops.groupBy(*_KEYS).agg(
        F.sum("objects").alias("objects"),
        F.sum("in_bytes").alias("in_bytes"),
        F.sum("out_bytes").alias("out_bytes"),
        F.sum(dropped).alias("drops"),
        F.expr("flatten(collect_list(map_entries(drops)) FILTER (WHERE size(drops) > 0))").alias(
            "reasons"
        ),
        *counts,
        F.expr(
            "flatten(collect_list(zip_with(array_append(queue_ms.bounds_ms, double('infinity')),"
            " queue_ms.counts, (bound, n) -> struct(bound AS key, n AS value)))"
            " FILTER (WHERE NOT usual AND queue_ms IS NOT NULL))"
        ).alias("others"),
        F.hll_sketch_agg("track").alias("tracks_hll"),
    )
    return finish(
        summed.withColumn("drops_by", merged("reasons"))
        .withColumn("entries", F.concat(_usual_entries(), "others"))
        .withColumn("queue_counts", F.when(F.size("entries") > 0, merged("entries"))),
        GOLD["traffic_1m"],
        wanted,
    )


def _usual_entries() -> Column:
    """The summed counts of the usual bounds as entries; none if there was no such histogram."""
    entries = [
        F.struct(F.lit(bound).alias("key"), F.col(f"n{index}").alias("value"))
        for index, bound in enumerate(_UPPER)
    ]
    none = F.expr("cast(array() AS array<struct<key:double,value:bigint>>)")
    return F.when(F.col("n0").isNotNull(), F.array(*entries)).otherwise(none)


def rolled_up(lower: DataFrame, name: str) -> DataFrame:
    """The hour from minutes (``traffic_1h``), or the day from hours (``traffic_1d``)."""
    seconds = 3600 if name == "traffic_1h" else 86400
    longer = lower.withColumn("window_start", window("window_start", seconds))

    def entries(column: str) -> Column:
        return F.expr(
            f"flatten(collect_list(map_entries({column})) FILTER (WHERE {column} IS NOT NULL))"
        )

    summed = longer.groupBy(*_KEYS).agg(
        *[F.sum(column).alias(column) for column in ("objects", "in_bytes", "out_bytes", "drops")],
        entries("drops_by").alias("reasons"),
        entries("queue_counts").alias("waits"),
        F.hll_union_agg("tracks_hll").alias("tracks_hll"),
    )
    return finish(
        summed.withColumn("drops_by", merged("reasons")).withColumn(
            "queue_counts", F.when(F.size("waits") > 0, merged("waits"))
        ),
        GOLD[name],
    )
