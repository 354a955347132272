"""Whether a cache is worth its memory, and what keeping things longer or shorter would bring.

The curve needs ages: of what was hit, and of what was asked for after its time was over. With a ttl
of T a request would have been a hit if it came at an age of at most T. Both histograms count bytes,
so at the ttl in use the curve meets the hit rate.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from laps_analytics.gold.builders.common import finish, merged, window
from laps_analytics.gold.silver import Silver
from laps_analytics.gold.tables import GOLD

__all__ = ["cache_eff"]


def _ages(column: str) -> Column:
    """The buckets of a histogram as (bound, bytes); what is older than the last bound is left."""
    return F.expr(
        f"CASE WHEN {column} IS NULL THEN"
        f" cast(array() AS array<struct<key:double,value:bigint>>) ELSE"
        f" transform({column}.bounds_ms, (b, i) -> struct(b AS key, {column}.counts[i] AS value))"
        f" END"
    )


def cache_eff(silver: Silver, days: Iterable[str]) -> DataFrame:
    """``cache_eff_1h``."""
    wanted = tuple(days)
    rows = (
        silver.read("cache.stat", wanted)
        .withColumn("ages", F.concat(_ages("hit_age_ms"), _ages("late_age_ms")))
        .groupBy("dt", window("ts", 3600).alias("window_start"), "relay")
        .agg(
            *[
                F.sum(name).alias(name)
                for name in (
                    *("hit_bytes", "miss_bytes", "expired_bytes", "evicted_bytes", "fetch_joins"),
                )
            ],
            F.max("stored_bytes").alias("stored_bytes"),
            F.flatten(F.collect_list("ages")).alias("entries"),
        )
    )
    asked = F.col("hit_bytes") + F.col("miss_bytes")
    curve = F.expr(
        # Whole milliseconds: the key of the contract is one.
        "map_from_entries(transform(filter(map_entries(by_age), e -> e.key = floor(e.key)),"
        " e -> struct("
        "cast(e.key AS bigint) AS key,"
        " aggregate(filter(map_entries(by_age), o -> o.key <= e.key), 0L, (s, o) -> s + o.value)"
        " / (hit_bytes + miss_bytes) AS value)))"
    )
    return finish(
        rows.withColumn("by_age", merged("entries"))
        .withColumn("hit_rate", F.when(asked > 0, F.col("hit_bytes") / asked))
        .withColumn("would_hit", F.when((asked > 0) & (F.size("by_age") > 0), curve)),
        GOLD["cache_eff_1h"],
        wanted,
    )
