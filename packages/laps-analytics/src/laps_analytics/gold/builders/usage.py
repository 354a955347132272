"""The table ``usage_tenant_day``: usage of tenants, with versions.

A day that changed gets a new version; rows are never rewritten. The bytes of a tenant are those of
``hop.stat``, each counted in one column: to clients, between relays, or from publishers.
:func:`reconcile` compares their sums with the counters of the relays.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from laps_analytics.gold.builders.common import FIVE_MINUTES, finish, percentile, tenant_of, window
from laps_analytics.gold.builders.traffic import paths_5m, received
from laps_analytics.gold.builders.viewers import by_relays
from laps_analytics.gold.dimensions import Dimensions
from laps_analytics.gold.silver import Silver
from laps_analytics.gold.tables import GOLD

__all__ = ["MUST_BE_EQUAL", "latest", "reconcile", "restated", "usage_tenant"]

MUST_BE_EQUAL: Final = frozenset({"usage to hop.stat", "relay to hop.stat"})
"""Checks of :func:`reconcile` that must be exact."""

_NUMBERS: Final = (
    *("in_bytes", "out_bytes", "link_bytes", "watched_ms", "peak_sessions", "p95_bps", "events"),
)
"""Columns of a version. If none of them changed there is no new version."""


def usage_tenant(
    silver: Silver,
    days: Iterable[str],
    dimensions: Dimensions,
    *,
    now_us: int,
    paths: DataFrame | None = None,
) -> DataFrame:
    """Build ``usage_tenant_day`` of the current data, as version 1.

    :func:`restated` sets the real version. ``paths`` is the traffic by path of the days, if already
    built.
    """
    wanted = tuple(days)
    hops = paths_5m(silver, wanted, dimensions) if paths is None else paths
    reports = (
        by_relays(silver.read("client.report", wanted))
        .withColumn("tenant", tenant_of(dimensions))
        .withColumn("minute", window("ts", 60))
    )
    to_clients = F.when(F.col("out_peer").isNull(), F.col("out_bytes")).otherwise(F.lit(0))
    windows = hops.groupBy("dt", "tenant", "window_start").agg(
        F.sum(to_clients).alias("out_bytes"),
        F.sum(F.col("out_bytes") - to_clients).alias("link_bytes"),
        F.sum("events").alias("events"),
    )
    sent = windows.groupBy("dt", "tenant").agg(
        F.sum("out_bytes").alias("out_bytes"),
        F.sum("link_bytes").alias("link_bytes"),
        F.sum("events").alias("events"),
        # Of the windows with traffic; a whole number, so that the value is one that occurs.
        percentile(0.95, "out_bytes", where="out_bytes > 0").alias("p95_bytes"),
    )
    came = (
        received(hops.where("in_peer IS NULL"))
        .groupBy("dt", "tenant")
        .agg(F.sum("in_bytes").alias("in_bytes"))
    )
    watched = (
        reports.groupBy("dt", "tenant", "minute")
        .agg(
            F.sum("window_ms").alias("watched_ms"),
            F.count_distinct("relay", "boot", "session_id").alias("sessions"),
            F.count("*").alias("events"),
        )
        .groupBy("dt", "tenant")
        .agg(
            F.sum("watched_ms").alias("watched_ms"),
            F.max("sessions").alias("peak_sessions"),
            F.sum("events").alias("reports"),
        )
    )
    joined = sent.join(came, ["dt", "tenant"], "left").join(watched, ["dt", "tenant"], "outer")

    def number(name: str) -> Column:
        return F.coalesce(F.col(name), F.lit(0))

    return finish(
        joined.select(
            *("dt", "tenant"),
            F.lit(1).alias("version"),
            *[
                number(name).alias(name)
                for name in ("in_bytes", "out_bytes", "link_bytes", "watched_ms", "peak_sessions")
            ],
            (number("p95_bytes") * 8 / F.lit(float(FIVE_MINUTES))).alias("p95_bps"),
            (number("events") + number("reports")).alias("events"),
            F.lit(now_us).alias("closed_us"),
        ),
        GOLD["usage_tenant_day"],
        wanted,
    )


def restated(now: DataFrame, before: DataFrame, *, now_us: int) -> DataFrame:
    """Return the rows to add: the next version of each day that changed.

    A tenant without usage left in a day gets a version with zeros, which replaces the earlier one.
    """
    keys = ["dt", "tenant"]
    last = before.groupBy(*keys).agg(F.max(F.struct("version", *_NUMBERS)).alias("last"))
    both = now.drop("version", "closed_us").join(last, keys, "outer")
    for name in _NUMBERS:
        both = both.withColumn(name, F.coalesce(F.col(name), F.lit(0)))
    differs = [F.col(name) != F.col(f"last.{name}") for name in _NUMBERS]
    changed = F.col("last").isNull() | reduce(Column.__or__, differs)
    return finish(
        both.where(changed)
        .withColumn("version", F.coalesce(F.col("last.version"), F.lit(0)) + 1)
        .withColumn("closed_us", F.lit(now_us)),
        GOLD["usage_tenant_day"],
    )


def latest(usage: DataFrame) -> DataFrame:
    """Return the last version of each day and tenant."""
    keys = ["dt", "tenant"]
    rest = [name for name in usage.columns if name not in {*keys, "version"}]
    last = usage.groupBy(*keys).agg(F.max(F.struct("version", *rest)).alias("last"))
    return last.select(*keys, "last.*").select(*usage.columns)


def reconcile(silver: Silver, days: Iterable[str], usage: DataFrame, day: DataFrame) -> DataFrame:
    """Compare bills and counters of relays: (dt, check, subject, billed, counted, equal).

    ``usage`` is ``usage_tenant_day``, ``day`` is ``traffic_1d``. The first two checks must be equal
    to the byte. The third compares with the transport, which also counts its own framing and is
    written when a session ends. It is shown only.
    """
    wanted = tuple(days)
    hops = silver.read("hop.stat", wanted)
    closed = silver.read("session.close", wanted).where("kind = 'client'")
    every, relay = F.lit("all relays").alias("subject"), F.col("relay").alias("subject")
    keys = ["dt", "subject"]

    def counted(frame: DataFrame, subject: Column) -> DataFrame:
        return frame.groupBy("dt", subject).agg(F.sum("out_bytes").alias("counted"))

    def billed(frame: DataFrame, subject: Column, total: Column) -> DataFrame:
        chosen = frame.where(F.col("dt").isin(sorted(wanted)))
        return chosen.groupBy("dt", subject).agg(F.sum(total).alias("billed"))

    out = F.col("out_bytes")
    all_of = billed(latest(usage), every, out + F.col("link_bytes"))
    checks = {
        "usage to hop.stat": all_of.join(counted(hops, every), keys, "outer"),
        "relay to hop.stat": billed(day, relay, out).join(counted(hops, relay), keys, "outer"),
        "clients to session.close": billed(hops.where("out_peer IS NULL"), relay, out).join(
            counted(closed, relay), keys
        ),
    }
    rows = [frame.withColumn("check", F.lit(name)) for name, frame in checks.items()]
    return (
        reduce(DataFrame.unionByName, rows)
        .select(
            *("dt", "check", "subject"),
            *[F.coalesce(F.col(name), F.lit(0)).alias(name) for name in ("billed", "counted")],
        )
        .withColumn("equal", F.col("billed") == F.col("counted"))
    )
