"""The table ``blame``: the publisher, relay, link or client that delayed a slow delivery.

::

    publisher_us      in_us   out_us            in_us   out_us         latency of the viewer
         |--publisher--|--relay--|-----link------|--relay--|------client------|

A delivery is one object at one relay with clients. Its path is followed back over ``in_peer`` to
the relay of the publisher; a path with a missing record is left out. Stamps are corrected by the
clock error of each relay. The usual time of each part is the median of the track in that hour.

A delivery is slow if it exceeds the limit of its class, or without a class the 95th percentile of
the track in that hour. The part with the largest excess over its usual time is to blame. A constant
clock error is also in the usual time, so it cancels out.

Viewers have no stamps. A report over the limit is attributed to the client if the excess beyond the
relay is larger than the excess before it in the same minute. The relay is that of the viewer,
wherever the report was sent (:mod:`.viewers`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from laps_analytics.gold.builders.common import (
    Persist,
    class_of,
    finish,
    percentile,
    unpersisted,
    window,
)
from laps_analytics.gold.builders.fanout import MAX_HOPS
from laps_analytics.gold.builders.qoe import limit_of
from laps_analytics.gold.builders.viewers import viewers
from laps_analytics.gold.dimensions import Dimensions
from laps_analytics.gold.silver import Silver
from laps_analytics.gold.tables import GOLD

__all__ = ["blame"]

_MINUTE: Final = ("dt", "minute", "track")
_HOUR: Final = ("dt", "hour_start", "track")


def blame(
    silver: Silver, days: Iterable[str], dimensions: Dimensions, *, persist: Persist = unpersisted
) -> DataFrame:
    """Build ``blame``."""
    wanted = tuple(days)
    paths = persist(_paths(silver, wanted))
    slow = _judged(paths, "total", dimensions)
    named = (
        slow.select(*_MINUTE, "hour_start", "delivery", F.explode("parts").alias("p"))
        .select(*_MINUTE, "hour_start", "delivery", "p.*")
        .join(_usual(paths), [*_HOUR, "part", "relay", "peer"])
        .groupBy(*_MINUTE, "delivery")
        .agg(
            F.min(
                F.struct((F.col("usual") - F.col("took")).alias("order"), "part", "relay", "peer")
            ).alias("worst")
        )
        .select(*_MINUTE, "worst.part", "worst.relay", "worst.peer", -F.col("worst.order"))
        .toDF(*_MINUTE, "part", "relay", "peer", "excess")
    )
    every = persist(named.unionByName(_clients(silver, wanted, paths, dimensions)))
    rows = every.groupBy(*_MINUTE, "part", "relay", "peer").agg(
        F.count("*").alias("objects"), (F.avg("excess") / 1000.0).alias("excess_ms")
    )
    totals = every.groupBy(*_MINUTE).agg(F.count("*").alias("slow"))
    return finish(
        rows.join(totals, [*_MINUTE])
        .withColumn("share", F.col("objects") / F.col("slow"))
        .withColumnRenamed("minute", "window_start"),
        GOLD["blame"],
        wanted,
    )


def _paths(silver: Silver, days: tuple[str, ...]) -> DataFrame:
    """Return every delivery with a complete path: its parts and its total time."""
    samples = (
        silver.read("delivery.sample", days, "hour")
        .where("group_id IS NOT NULL AND object_id IS NOT NULL")
        .select(
            *("track", "group_id", "object_id"),
            F.struct(
                (F.col("out_us") - F.col("skew_us")).alias("sent"),
                (F.col("in_us") - F.col("skew_us")).alias("came"),
                *("relay", "in_peer", "out_peer", "event_id", "publisher_us", "ts", "dt"),
            ).alias("row"),
        )
    )
    found = (
        samples.groupBy("track", "group_id", "object_id")
        .agg(F.array_sort(F.collect_list("row")).alias("rows"))
        .withColumn("d", F.explode(F.expr("filter(rows, r -> r.out_peer IS NULL)")))
        .withColumn("way", F.expr(_WALK))
        .where("way.cur.in_peer IS NULL")
    )
    begin = F.coalesce("way.cur.publisher_us", "way.cur.came")
    publisher = F.expr(
        "CASE WHEN way.cur.publisher_us IS NULL THEN slice(way.parts, 1, 0) ELSE array("
        "named_struct('part', 'publisher', 'relay', '', 'peer', '',"
        " 'took', way.cur.came - way.cur.publisher_us)) END"
    )
    return found.select(
        F.col("d.dt").alias("dt"),
        window(F.col("d.ts"), 60).alias("minute"),
        window(F.col("d.ts"), 3600).alias("hour_start"),
        "track",
        F.col("d.relay").alias("at_relay"),
        F.col("d.event_id").alias("delivery"),
        (F.col("d.sent") - begin).alias("total"),
        F.concat("way.parts", publisher).alias("parts"),
    )


_WALK: Final = f"""
aggregate(
    sequence(1, {MAX_HOPS}),
    named_struct('cur', d, 'parts', array(
        named_struct('part', 'relay', 'relay', d.relay, 'peer', '', 'took', d.sent - d.came))),
    (acc, i) -> coalesce(
        get(transform(
            slice(filter(rows, q ->
                q.relay = acc.cur.in_peer AND q.out_peer = acc.cur.relay), 1, 1),
            q -> named_struct('cur', q, 'parts', concat(acc.parts, array(
                named_struct('part', 'link', 'relay', q.relay, 'peer', acc.cur.relay,
                    'took', acc.cur.came - q.sent),
                named_struct('part', 'relay', 'relay', q.relay, 'peer', '',
                    'took', q.sent - q.came))))), 0),
        acc))
"""
"""Follow a path back over ``in_peer``: the record of the relay before, and its two parts."""


def _judged(rows: DataFrame, took: str, dimensions: Dimensions) -> DataFrame:
    """Return the slow rows: over the limit of the class, or over the p95 of the hour."""
    usual = rows.groupBy(*_HOUR).agg(percentile(0.95, took).alias("p95"))
    limit = F.coalesce(limit_of(dimensions, "latency_ms") * 1000, F.col("p95"))
    return (
        rows.withColumn("class", class_of(dimensions))
        .join(usual, [*_HOUR])
        .where(F.col(took) > limit)
        .drop("class", "p95")
    )


def _usual(paths: DataFrame) -> DataFrame:
    return (
        paths.select(*_HOUR, F.explode("parts").alias("p"))
        .groupBy(*_HOUR, *[F.col(f"p.{name}").alias(name) for name in ("part", "relay", "peer")])
        .agg(percentile(0.5, "p.took").alias("usual"))
    )


def _clients(
    silver: Silver, days: tuple[str, ...], paths: DataFrame, dimensions: Dimensions
) -> DataFrame:
    """Return the reports over the limit that are attributed to the client."""
    network = paths.groupBy(*_MINUTE, F.col("at_relay").alias("relay")).agg(
        percentile(0.5, "total").alias("network")
    )
    reports = (
        viewers(silver, days)
        .where("track IS NOT NULL AND latency_ms IS NOT NULL")
        .select(
            "dt",
            F.col("window_start").alias("minute"),
            window("ts", 3600).alias("hour_start"),
            *("track", "relay"),
            (F.col("latency_ms") * 1000).alias("latency"),
        )
        .join(network, [*_MINUTE, "relay"])
        .withColumn("beyond", F.col("latency") - F.col("network"))
    )
    usual = reports.groupBy(*_HOUR, "relay").agg(
        percentile(0.5, "beyond").alias("usual_beyond"),
        percentile(0.5, "network").alias("usual_network"),
    )
    excess: Column = F.col("beyond") - F.col("usual_beyond")
    return (
        _judged(reports, "latency", dimensions)
        .join(usual, [*_HOUR, "relay"])
        .where((excess > 0) & (excess > F.col("network") - F.col("usual_network")))
        .select(
            *_MINUTE,
            F.lit("client").alias("part"),
            "relay",
            F.lit("").alias("peer"),
            excess.alias("excess"),
        )
    )
