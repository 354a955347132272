"""The table ``track_fanout_5m``: how often bytes of a track cross regions.

The ideal is a tree that enters each region once: one copy for every other region with subscribers.
The *duplication factor* is the bytes sent between regions by that ideal. A track that passes a
third region on purpose also has a factor above 1, because those bytes are paid for too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from laps_analytics.gold.builders.common import finish
from laps_analytics.gold.builders.hops import paths_5m, received, regions
from laps_analytics.gold.dimensions import Dimensions
from laps_analytics.gold.silver import Silver
from laps_analytics.gold.tables import GOLD

__all__ = ["MAX_HOPS", "track_fanout"]

MAX_HOPS: Final = 8
"""Longest path that is followed. A longer one is a loop; see ``loops_or_dups``."""

_KEYS: Final = ("dt", "window_start", "track", "tenant")


def track_fanout(
    silver: Silver, days: Iterable[str], dimensions: Dimensions, paths: DataFrame | None = None
) -> DataFrame:
    """Build ``track_fanout_5m``; ``paths`` is the traffic by path of the days, if already built."""
    wanted = tuple(days)
    hops = paths_5m(silver, wanted, dimensions) if paths is None else paths
    where = regions(silver, wanted, hops)
    near = where.withColumnRenamed("region", "from_region")
    far = where.select("dt", F.col("relay").alias("out_peer"), F.col("region").alias("to_region"))
    out = (
        hops.groupBy(*_KEYS, "relay", "out_peer")
        .agg(F.sum("out_bytes").alias("out_bytes"))
        .join(F.broadcast(near), ["dt", "relay"], "left")
        .join(F.broadcast(far), ["dt", "out_peer"], "left")
        .withColumn("from_region", F.coalesce("from_region", "relay"))
        .withColumn("to_region", F.coalesce("to_region", "out_peer"))
        .withColumn("wan", F.expr("out_peer IS NOT NULL AND from_region <> to_region"))
    )
    origins = (
        received(hops.where("in_peer IS NULL"))
        .join(F.broadcast(near), ["dt", "relay"], "left")
        .groupBy(*_KEYS)
        .agg(
            F.min(
                F.struct(
                    (-F.col("in_bytes")).alias("order"),
                    F.col("relay").alias("origin"),
                    F.coalesce("from_region", "relay").alias("home"),
                    F.col("in_bytes").alias("track_bytes"),
                )
            ).alias("from")
        )
        .select(*_KEYS, "from.origin", "from.home", "from.track_bytes")
    )
    pairs = (
        out.where("wan")
        .groupBy(*_KEYS, F.concat_ws(">", "from_region", "to_region").alias("pair"))
        .agg(F.sum("out_bytes").alias("bytes"))
        .groupBy(*_KEYS)
        .agg(F.min(F.struct((-F.col("bytes")).alias("order"), "pair", "bytes")).alias("worst"))
    )
    serving = (F.col("out_peer").isNull()) & (F.col("out_bytes") > 0)
    tracks = out.groupBy(*_KEYS).agg(
        # A relay has one row for its clients, so it need not be told from others.
        F.count_if(serving).alias("s_relays"),
        F.collect_set(F.when(serving, F.col("from_region"))).alias("served"),
        F.size(F.collect_set("relay")).alias("relays"),
        F.coalesce(F.sum(F.expr("if(out_peer IS NULL, 0, out_bytes)")), F.lit(0)).alias(
            "link_bytes"
        ),
        F.coalesce(F.sum(F.when(F.col("wan"), F.col("out_bytes"))), F.lit(0)).alias("wan_bytes"),
        F.expr(
            "collect_list(struct(relay AS a, out_peer AS b)) FILTER (WHERE out_peer IS NOT NULL)"
        ).alias("edges"),
    )
    joined = tracks.join(origins, [*_KEYS], "left").join(pairs, [*_KEYS], "left")
    others = F.size(F.array_except("served", F.array("home")))
    return finish(
        joined.withColumn("track_bytes", F.coalesce("track_bytes", F.lit(0)))
        .withColumn("hops_max", _longest())
        .withColumn(
            "ideal_wan_bytes",
            F.when(F.col("origin").isNull(), F.lit(0)).otherwise(F.col("track_bytes") * others),
        )
        .withColumn(
            "dup_factor",
            F.when(F.col("ideal_wan_bytes") > 0, F.col("wan_bytes") / F.col("ideal_wan_bytes")),
        )
        .withColumn(
            "stress_max",
            F.when(F.col("track_bytes") > 0, F.col("worst.bytes") / F.col("track_bytes")),
        )
        .withColumn("worst_pair", F.col("worst.pair")),
        GOLD["track_fanout_5m"],
        wanted,
    )


def _longest() -> Column:
    """Return the number of links of the longest path from the origin."""
    return F.expr(
        f"""
        CASE WHEN origin IS NULL THEN NULL ELSE
        aggregate(
            sequence(1, {MAX_HOPS}),
            struct(array(origin) AS here, 0L AS depth),
            (acc, i) -> CASE
                WHEN exists(edges, e -> array_contains(acc.here, e.a)) THEN struct(
                    array_distinct(transform(
                        filter(edges, e -> array_contains(acc.here, e.a)), e -> e.b)) AS here,
                    acc.depth + 1L AS depth)
                ELSE struct(cast(array() AS array<string>) AS here, acc.depth AS depth) END,
            acc -> acc.depth)
        END
        """
    )
