"""The tables ``traffic_*``, ``cache_eff_1h`` and ``track_fanout_5m``.

**Paths.** Relays write a ``hop.stat`` for each path of a track every ten seconds. Links, fan-out
and bills need five minutes: :func:`paths_5m`. All columns are numbers and keys, so Spark adds them
up in compiled code, and the tables above do not read the records again.

**Traffic and caches.** Sums and sketches merge, so a rollup equals a direct build. Nearly all
histograms have the usual bounds, and few records have drops. So records are first added up by track
as plain columns in compiled code. Only the result is processed with lists and sketches.

**Fan-out**: how often bytes of a track cross regions. The ideal is a tree that enters each region
once: one copy for every other region with subscribers. The *duplication factor* is the bytes sent
between regions by that ideal. A track that passes a third region on purpose also has a factor above
1, because those bytes are paid for too.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from laps_analytics.gold.builders.common import (
    finish,
    five_minutes,
    longer,
    merged,
    tenant_of,
    window,
)
from laps_analytics.gold.dimensions import Dimensions
from laps_analytics.gold.silver import Silver
from laps_analytics.gold.tables import GOLD
from laps_wire.telemetry.histogram import QUEUE_BOUNDS_MS

__all__ = [
    "MAX_HOPS",
    "cache_eff",
    "paths_5m",
    "received",
    "track_fanout",
    "traffic_1m",
    "traffic_longer",
]


# Paths


def paths_5m(silver: Silver, days: Iterable[str], dimensions: Dimensions) -> DataFrame:
    """Return bytes and ``events`` by day, window, relay, region, track, tenant, in_peer, out_peer.

    ``last`` is the time of the last record.
    """
    return (
        silver.read("hop.stat", days)
        .groupBy(
            five_minutes().alias("window_start"),
            *("dt", "relay", "region", "track", tenant_of(dimensions).alias("tenant")),
            *("in_peer", "out_peer"),
        )
        .agg(
            F.sum("in_bytes").alias("in_bytes"),
            F.sum("out_bytes").alias("out_bytes"),
            F.count("*").alias("events"),
            F.max("ts").alias("last"),
        )
    )


def _regions(silver: Silver, days: Iterable[str], paths: DataFrame) -> DataFrame:
    """Return the region of each relay by day: the last one it reported, else its own name.

    If a relay reported two at the same microsecond, the one that sorts last counts.
    """
    wanted = tuple(days)
    keys = ("dt", "relay", "region")
    # The times by region first: a number is added up without sorting, a record would not be.
    parts = [
        paths.groupBy(*keys).agg(F.max("last").alias("last")),
        *(
            silver.read(kind, wanted).groupBy(*keys).agg(F.max("ts").alias("last"))
            for kind in ("quic.sample", "node.adv")
        ),
    ]
    said = F.when(F.col("region").isNotNull(), F.struct("last", "region"))
    found = (
        reduce(DataFrame.unionByName, parts).groupBy("dt", "relay").agg(F.max(said).alias("last"))
    )
    return found.select("dt", "relay", F.coalesce("last.region", "relay").alias("region"))


def received(paths: DataFrame) -> DataFrame:
    """Return received bytes by window, relay, track, tenant and in_peer, counted once.

    A relay that forwards a track over several paths may report the received bytes on each of them.
    So the path with the most bytes counts.
    """
    keys = ("dt", "window_start", "relay", "track", "tenant", "in_peer")
    by_path = paths.groupBy(*keys, "out_peer").agg(F.sum("in_bytes").alias("in_bytes"))
    return by_path.groupBy(*keys).agg(F.max("in_bytes").alias("in_bytes"))


# Traffic and caches

_LINK_KEYS: Final = ("window_start", "relay", "out_peer", "tenant", "dt")
"""Grouping keys. The time comes first: Spark sorts by it and seldom compares the others."""
_BUCKETS: Final = len(QUEUE_BOUNDS_MS) + 1
_UPPER: Final = (*QUEUE_BOUNDS_MS, float("inf"))


def traffic_1m(silver: Silver, days: Iterable[str], dimensions: Dimensions) -> DataFrame:
    """Build ``traffic_1m``: traffic by minute, link or clients, and tenant."""
    wanted = tuple(days)
    usual = F.col("queue_ms.bounds_ms") == F.array(*[F.lit(bound) for bound in QUEUE_BOUNDS_MS])
    hops = silver.read("hop.stat", wanted).select(
        window("ts", 60).alias("window_start"),
        *("dt", "relay", "track", "objects", "in_bytes", "out_bytes", "drops", "queue_ms"),
        F.coalesce("out_peer", F.lit("")).alias("out_peer"),
        tenant_of(dimensions).alias("tenant"),
        F.coalesce(usual, F.lit(False)).alias("usual"),
    )
    # Few records have drops or other bounds. Theirs are keys, so that all that is left are numbers.
    # No lambda here: Spark would write out each record before it adds it up.
    rare = "if(NOT usual, queue_ms.{}, NULL)"
    odd = {
        "reasons": F.expr("if(size(drops) > 0, map_entries(drops), NULL)"),
        "bounds": F.expr(rare.format("bounds_ms")),
        "waits": F.expr(rare.format("counts")),
    }
    counts = [
        F.sum(F.when(F.col("usual"), F.get("queue_ms.counts", F.lit(index)))).alias(f"n{index}")
        for index in range(_BUCKETS)
    ]
    by_track = (
        hops.withColumns(odd)
        .groupBy(*_LINK_KEYS, "track", *odd)
        .agg(
            *[F.sum(name).alias(name) for name in ("objects", "in_bytes", "out_bytes")],
            *counts,
            F.count("*").alias("times"),
        )
    )
    dropped = "if(reasons IS NULL, 0L, times * aggregate(reasons, 0L, (sum, e) -> sum + e.value))"
    summed = by_track.groupBy(*_LINK_KEYS).agg(
        *[F.sum(name).alias(name) for name in ("objects", "in_bytes", "out_bytes")],
        F.sum(F.expr(dropped)).alias("drops"),
        F.expr(
            "flatten(collect_list(transform(reasons,"
            " e -> struct(e.key AS key, e.value * times AS value)))"
            " FILTER (WHERE reasons IS NOT NULL))"
        ).alias("reasons"),
        F.expr(
            "flatten(collect_list(zip_with(array_append(bounds, double('infinity')), waits,"
            " (bound, n) -> struct(bound AS key, n * times AS value)))"
            " FILTER (WHERE bounds IS NOT NULL))"
        ).alias("others"),
        *[F.sum(f"n{index}").alias(f"n{index}") for index in range(_BUCKETS)],
        F.hll_sketch_agg("track").alias("tracks_hll"),
    )
    return finish(
        _with_queues(summed).withColumn("drops_by", _reasons()),
        GOLD["traffic_1m"],
        wanted,
    )


def _double(bound: float) -> str:
    """Return a bound as a SQL literal."""
    return "double('infinity')" if bound == float("inf") else f"{bound}D"


def _reasons() -> Column:
    """Return the drops by reason. Most rows have none, so the merge is skipped for them."""
    nothing = F.expr("cast(map() AS map<string,bigint>)")
    return F.when(F.size("reasons") > 0, merged("reasons")).otherwise(nothing)


def _with_queues(summed: DataFrame) -> DataFrame:
    """Add ``queue_counts``, from sums by usual bound (n0, n1, ...) and the entries of ``others``.

    Spark does not compile the merge of entries, so only rows with unusual bounds do it.
    """
    sums = [F.col(f"n{index}") for index in range(_BUCKETS)]
    usual = F.map_from_arrays(F.array(*map(F.lit, _UPPER)), F.array(*sums))
    entries = ", ".join(
        f"struct({_double(bound)} AS key, n{index} AS value)" for index, bound in enumerate(_UPPER)
    )
    # A sum that is null was in no histogram: then the bounds were not the usual ones.
    plain = (F.size("others") == 0) & reduce(Column.__and__, [one.isNotNull() for one in sums])
    some = (F.size("others") > 0) | F.coalesce(*sums).isNotNull()
    every = F.expr(f"concat(filter(array({entries}), e -> e.value IS NOT NULL), others)")
    return summed.withColumn("entries", F.when(some & ~plain, every)).withColumn(
        "queue_counts", F.when(plain, usual).when(some, merged("entries"))
    )


def traffic_longer(lower: DataFrame, name: str) -> DataFrame:
    """Build ``traffic_1h`` from minutes, or ``traffic_1d`` from hours."""
    known = ", ".join(map(_double, _UPPER))
    summed = longer(
        lower,
        name,
        reasons=F.expr(
            "flatten(collect_list(map_entries(drops_by)) FILTER (WHERE size(drops_by) > 0))"
        ),
        others=F.expr(
            f"flatten(collect_list(filter(map_entries(queue_counts), e -> e.key NOT IN ({known})))"
            f" FILTER (WHERE NOT map_keys(queue_counts) <=> array({known})))"
        ),
        **{
            f"n{index}": F.sum(F.try_element_at("queue_counts", F.lit(bound)))
            for index, bound in enumerate(_UPPER)
        },
    )
    return finish(_with_queues(summed).withColumn("drops_by", _reasons()), GOLD[name])


def _ages(column: str) -> Column:
    """Return the buckets of a histogram as (bound, bytes), without the last open one."""
    return F.expr(
        f"CASE WHEN {column} IS NULL THEN"
        f" cast(array() AS array<struct<key:double,value:bigint>>) ELSE"
        f" transform({column}.bounds_ms, (b, i) -> struct(b AS key, {column}.counts[i] AS value))"
        f" END"
    )


def cache_eff(silver: Silver, days: Iterable[str]) -> DataFrame:
    """Build ``cache_eff_1h``: hits of a cache, and the hits that another ttl would have had.

    The curve needs the ages of hits and of requests for expired objects. With a ttl of T a request
    is a hit if the age is at most T. Both histograms count bytes, so at the ttl in use the curve
    equals the hit rate.
    """
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


# Fan-out

MAX_HOPS: Final = 8
"""Longest path that is followed. A longer one is a loop; see ``loops_or_dups``."""

_TRACK_KEYS: Final = ("dt", "window_start", "track", "tenant")


def track_fanout(
    silver: Silver, days: Iterable[str], dimensions: Dimensions, paths: DataFrame | None = None
) -> DataFrame:
    """Build ``track_fanout_5m``; ``paths`` is the traffic by path of the days, if already built."""
    wanted = tuple(days)
    hops = paths_5m(silver, wanted, dimensions) if paths is None else paths
    where = _regions(silver, wanted, hops)
    near = where.withColumnRenamed("region", "from_region")
    far = where.select("dt", F.col("relay").alias("out_peer"), F.col("region").alias("to_region"))
    out = (
        hops.groupBy(*_TRACK_KEYS, "relay", "out_peer")
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
        .groupBy(*_TRACK_KEYS)
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
        .select(*_TRACK_KEYS, "from.origin", "from.home", "from.track_bytes")
    )
    pairs = (
        out.where("wan")
        .groupBy(*_TRACK_KEYS, F.concat_ws(">", "from_region", "to_region").alias("pair"))
        .agg(F.sum("out_bytes").alias("bytes"))
        .groupBy(*_TRACK_KEYS)
        .agg(F.min(F.struct((-F.col("bytes")).alias("order"), "pair", "bytes")).alias("worst"))
    )
    serving = (F.col("out_peer").isNull()) & (F.col("out_bytes") > 0)
    tracks = out.groupBy(*_TRACK_KEYS).agg(
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
    joined = tracks.join(origins, [*_TRACK_KEYS], "left").join(pairs, [*_TRACK_KEYS], "left")
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
