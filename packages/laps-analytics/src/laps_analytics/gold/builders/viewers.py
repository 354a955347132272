"""The tables ``qoe_region_*`` and ``blame``: the experience of viewers, and its causes.

**Reports** (:func:`viewers`) count each viewer once. A relay reports on each client, and a player
may report as well. In a minute in which the player reports, its reports replace those of the relay.
Start-up is reported once for each session: if the player reports it, the value of the relay is
dropped for the day.

A report that a player posted elsewhere carries the name of the collector, and a ``session_id`` that
begins with :data:`POSTED`. If the player gave its relay the same playback id, both have its hash.
The report is then assigned to the session of the viewer at that relay; of several sessions in a
day, to the nearest in time. Bills use the reports of relays only, so a player cannot change them.

**Blame** names the publisher, relay, link or client that delayed a slow delivery:

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
wherever the report was sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from laps_analytics.gold.builders.common import (
    Persist,
    class_of,
    finish,
    longer,
    percentile,
    percentile_of_sorted,
    quantile,
    tenant_of,
    uniques,
    unpersisted,
    window,
)
from laps_analytics.gold.builders.traffic import MAX_HOPS
from laps_analytics.gold.dimensions import Dimensions
from laps_analytics.gold.silver import Silver
from laps_analytics.gold.tables import GOLD

__all__ = [
    "POSTED",
    "blame",
    "by_relays",
    "qoe_longer",
    "qoe_region",
    "viewers",
]

# Reports

POSTED: Final = "posted:"
"""Prefix of the session of a report that was posted."""

_SESSION: Final = ("dt", "relay", "boot", "session_id")
_PLACE: Final = ("region", "tenant", "track")
_PLAYER: Final = "measured_by = 'player'"


def by_relays(reports: DataFrame) -> DataFrame:
    """Return the reports that relays measured; before telemetry 1.4 these are all."""
    return reports.where(f"NOT coalesce({_PLAYER}, false)")


def _placed(reports: DataFrame) -> DataFrame:
    """Assign posted reports to the session that a relay has for their player."""
    posted = f"{_PLAYER} AND session_id LIKE '{POSTED}%'"
    sessions = (
        by_relays(reports)
        .where("player_session IS NOT NULL")
        .groupBy(*_SESSION, "player_session")
        .agg(
            F.min("window_start").alias("first"),
            F.max("window_start").alias("last"),
            F.max("region").alias("region"),
            F.max("tenant").alias("tenant"),
            F.max_by("track", "window_start").alias("track"),
        )
        .groupBy("dt", "player_session")
        .agg(F.collect_list(F.struct("first", "last", *_SESSION[1:], *_PLACE)).alias("sessions"))
    )
    # The nearest in time, then by name: structs are compared from the left.
    apart = (
        "greatest(unix_micros(s.first) - unix_micros(window_start),"
        " unix_micros(window_start) - unix_micros(s.last), 0L)"
    )
    parts = ", ".join(f"s.{name}" for name in (*_SESSION[1:], *_PLACE))
    near = F.expr(f"array_min(transform(sessions, s -> struct({apart} AS apart, {parts})))")
    found = (
        reports.where(posted)
        .join(sessions, ["dt", "player_session"], "left")
        .withColumn("near", near)
        .withColumns({name: F.coalesce(f"near.{name}", name) for name in _SESSION[1:]})
        .withColumns({name: F.coalesce(name, f"near.{name}") for name in ("tenant", "track")})
        .withColumn("region", F.coalesce("near.region", "region"))
    )
    others = reports.where(f"NOT coalesce({posted}, false)")
    return others.unionByName(found.select(*reports.columns))


def viewers(silver: Silver, days: Iterable[str]) -> DataFrame:
    """Return ``client.report`` with each viewer once, and its minute in ``window_start``."""
    said = silver.read("client.report", days).withColumn("window_start", window("ts", 60))
    reports = _placed(said)
    # A session in the order of its minutes answers both questions: sorted once, nothing is joined.
    session = Window.partitionBy(*_SESSION).orderBy("window_start")
    minute = session.rangeBetween(Window.currentRow, Window.currentRow)
    day = session.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    player = F.coalesce(F.expr(_PLAYER), F.lit(False))
    seen = reports.withColumns(
        {
            "reported": F.bool_or(player).over(minute),
            "told": F.bool_or(player & F.col("startup_ms").isNotNull()).over(day),
        }
    )
    mine = player | ~F.col("told")
    return (
        seen.where(player | ~F.col("reported"))
        .withColumn("startup_ms", F.when(mine, F.col("startup_ms")))
        .select(*reports.columns)
    )


# Experience


def _limit_of(dimensions: Dimensions, name: str, service: str = "class") -> Column:
    """Return a limit of the class of service in a column; null without a class."""
    value: Column = F.lit(None).cast("double")
    for label, limits in sorted(dimensions.classes.items()):
        limit = F.lit(float(getattr(limits, name)))
        value = F.when(F.col(service) == label, limit).otherwise(value)
    return value


def _over_limit(dimensions: Dimensions) -> Column:
    """Return whether a client report exceeds a limit of its class.

    The limits are those of latency, start-up and time stalled.
    """
    stalled = F.coalesce("stall_ms", F.lit(0)) > _limit_of(dimensions, "stall_ratio") * F.col(
        "window_ms"
    )
    late = F.col("latency_ms") > _limit_of(dimensions, "latency_ms")
    slow = F.col("startup_ms") > _limit_of(dimensions, "startup_ms")
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
        .withColumn("over", _over_limit(dimensions))
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
    allowed = _limit_of(dimensions, "allowed")
    watched = F.col("watched_ms") > 0
    return rows.withColumns(
        {
            "stall_ratio": F.when(watched, F.col("stalled_ms") / F.col("watched_ms")),
            "gap_rate": F.when(watched, F.col("gaps") * F.lit(60_000.0) / F.col("watched_ms")),
            "burn": F.when(allowed > 0, F.col("over_limit") / F.col("reports") / allowed),
        }
    )


# Blame

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
    limit = F.coalesce(_limit_of(dimensions, "latency_ms") * 1000, F.col("p95"))
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
