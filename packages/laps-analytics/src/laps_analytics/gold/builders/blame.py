"""Whose fault it is that something was slow: the publisher, a relay, a link, or what is beyond.

::

    publisher_us      in_us   out_us            in_us   out_us         what the viewer sees
         |--publisher--|--relay--|-----link------|--relay--|------client------|

A delivery is one object at one relay with clients. Its way is followed back over ``in_peer`` to the
relay of the publisher; a way with a record missing is not judged. Stamps are corrected by the
error of each relay's clock. Each part has a usual time: the median of the track in that hour. A
delivery is slow if it took longer than its class promises, or, without a class, than 95 % of the
deliveries of the track in that hour; the part with the largest excess over its usual time is to
blame. What is wrong with a clock by a constant is in the usual time too, and takes no part.

Viewers have no stamps. A report over the limit is the client's (its network, its player) if the
latency is in excess by more beyond the relay than before it, in the same minute. The relay is the
one that the viewer is at, wherever its report was sent (:mod:`.viewers`).
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
    """``blame``."""
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
    """Every delivery whose whole way is known: its parts, and its time in all."""
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
"""Back over ``in_peer``: the first record of the relay before, and the two parts that it adds."""


def _judged(rows: DataFrame, took: str, dimensions: Dimensions) -> DataFrame:
    """Those that took too long: over the limit of the class, or over the hour's p95."""
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
    """Reports over the limit for which the time beyond the relay is to blame."""
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
