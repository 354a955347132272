"""The table ``quality_1h``: checks of the telemetry of each hour.

==============  ===========================================  =====================================
check           what is compared                             tolerance
==============  ===========================================  =====================================
telemetry_gap   event numbers of a relay, and its events     1 % missing
link_bytes      bytes that A sent to B, and B got from A     0.1 %, and the records at both edges
                                                             of the hour
sets            members of A's sets for B, at both ends      none, a minute after the last change
clock           clock error of a relay                       60 s: corrected up to there
late            events after their window had closed         5 %
quarantine      lines that could not be read                 1 %
unfit           events with an invalid body or clock         1 %
silent          peers that measured a relay, and its events  none without events
==============  ===========================================  =====================================

Two relays do not write at the same moment. A byte may count before the hour at one end and after it
at the other. So the records at the edges of the hour are added to the tolerance of ``link_bytes``.
Links are compared only if both ends wrote telemetry.

A relay that dies cannot withdraw its sets. So only the sets of its last boot count, and of two
relays only those that changed after their last session was closed.

A relay is silent if peers measured it for a minute or longer in the hour and it has no usable
event. Only relays that ever wrote telemetry are checked; others, such as those in C++, never do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from laps_analytics.gold.builders.common import Persist, finish, five_minutes, unpersisted, window
from laps_analytics.gold.builders.traffic import received
from laps_analytics.gold.silver import Silver
from laps_analytics.gold.tables import GOLD
from laps_analytics.schema import event_types

__all__ = ["LIMITS", "quality"]

LIMITS: Final = {
    "telemetry_gap": 0.01,
    "link_bytes": 0.001,
    "sets": 0.0,
    "clock": 60.0,
    "late": 0.05,
    "quarantine": 0.01,
    "unfit": 0.01,
    "silent": 0.0,
}
"""Tolerance of each check."""

_KEYS: Final = ("dt", "window_start")
_HOUR: Final = 3600
_QUIET_US: Final = 60 * 1_000_000


def quality(
    silver: Silver,
    days: Iterable[str],
    quarantine: DataFrame | None = None,
    *,
    unfit: DataFrame | None = None,
    clocks: DataFrame | None = None,
    persist: Persist = unpersisted,
) -> DataFrame:
    """Build ``quality_1h``.

    ``quarantine`` has the columns of ``bronze/quarantine``, ``unfit`` those of
    ``silver/quarantine``, ``clocks`` those of ``silver/clock``.
    """
    wanted = tuple(days)
    counted = persist(_counted(silver, wanted))
    parts = [
        _gaps(counted),
        _link_bytes(silver, wanted, counted),
        _sets(silver, wanted, counted),
        counted.groupBy(*_KEYS, F.col("relay").alias("subject")).agg(
            F.lit("clock").alias("check"),
            F.lit(0.0).alias("expected"),
            (F.max("skew") / 1e6).alias("seen"),
            (F.max("skew") / 1e6).alias("error"),
            F.lit(LIMITS["clock"]).alias("limit"),
        ),
        counted.groupBy(*_KEYS, F.col("relay").alias("subject")).agg(
            F.lit("late").alias("check"),
            F.lit(0.0).alias("expected"),
            F.sum("late").cast("double").alias("seen"),
            (F.sum("late") / F.sum("events")).alias("error"),
            F.lit(LIMITS["late"]).alias("limit"),
        ),
    ]
    if quarantine is not None:
        at = F.timestamp_micros(F.coalesce("ts_us", "seen_us"))
        parts.append(_refused("quarantine", quarantine, at, counted))
    if unfit is not None:
        parts.append(_refused("unfit", unfit, F.timestamp_micros("ts_us"), counted))
    if clocks is not None:
        parts.append(_silent(silver, wanted, clocks, counted))
    rows = reduce(lambda a, b: a.unionByName(b), parts)
    return finish(
        rows.withColumn("ok", F.col("error") <= F.col("limit")), GOLD["quality_1h"], wanted
    )


def _counted(silver: Silver, days: Sequence[str]) -> DataFrame:
    """Return event numbers, counts, late events and clock errors by relay, boot and hour."""
    return (
        silver.read_envelopes(event_types(), days, "hour")
        .groupBy("dt", window("ts", _HOUR).alias("window_start"), "relay", "boot")
        .agg(
            F.min("event_seq").alias("first"),
            F.max("event_seq").alias("last"),
            F.count("*").alias("events"),
            F.count_if(F.col("late")).alias("late"),
            F.max(F.abs("skew_us")).alias("skew"),
        )
    )


def _gaps(counted: DataFrame) -> DataFrame:
    before = (
        Window.partitionBy("relay", "boot")
        .orderBy("window_start")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    # The hour before tells where the numbers went on; without one they begin with the first seen.
    begin = F.coalesce(F.max("last").over(before), F.col("first") - 1)
    numbered = counted.withColumn("numbers", F.greatest(F.col("last") - begin, F.lit(0)))
    summed = numbered.groupBy(*_KEYS, F.col("relay").alias("subject")).agg(
        F.sum("numbers").alias("expected"), F.sum("events").alias("seen")
    )
    missing = F.greatest(F.col("expected") - F.col("seen"), F.lit(0))
    return summed.select(
        *_KEYS,
        "subject",
        F.lit("telemetry_gap").alias("check"),
        F.col("expected").cast("double").alias("expected"),
        F.col("seen").cast("double").alias("seen"),
        F.when(F.col("expected") > 0, missing / F.col("expected"))
        .otherwise(F.lit(0.0))
        .alias("error"),
        F.lit(LIMITS["telemetry_gap"]).alias("limit"),
    )


def _writers(counted: DataFrame, name: str) -> DataFrame:
    """Return the relays that wrote telemetry in an hour."""
    return counted.select(*_KEYS, F.col("relay").alias(name)).distinct()


def _link_bytes(silver: Silver, days: Sequence[str], counted: DataFrame) -> DataFrame:
    hops = silver.read("hop.stat", days)
    hour = window("ts", _HOUR)
    reach = F.col("window_ms") * 1000
    into = F.unix_micros("ts") - F.unix_micros(hour)
    at_edge = (into < reach) | (into + reach > _HOUR * 1_000_000)
    sent = (
        hops.where("out_peer IS NOT NULL")
        .groupBy(
            "dt",
            hour.alias("window_start"),
            F.col("relay").alias("a"),
            F.col("out_peer").alias("b"),
        )
        .agg(
            F.sum("out_bytes").alias("out"),
            F.sum(F.when(at_edge, F.col("out_bytes")).otherwise(F.lit(0))).alias("edge"),
        )
    )
    # In bytes of five minutes are counted once, whatever the ways out: see received().
    came = (
        received(
            hops.where("in_peer IS NOT NULL")
            .withColumn("tenant", F.coalesce("tenant", F.lit("")))
            .withColumn("window_start", five_minutes())
        )
        .groupBy(
            "dt",
            window("window_start", _HOUR).alias("window_start"),
            F.col("in_peer").alias("a"),
            F.col("relay").alias("b"),
        )
        .agg(F.sum("in_bytes").alias("in"))
    )
    both = (
        sent.join(came, [*_KEYS, "a", "b"], "outer")
        .join(_writers(counted, "a"), [*_KEYS, "a"])
        .join(_writers(counted, "b"), [*_KEYS, "b"])
    )
    out, seen = F.coalesce("out", F.lit(0)), F.coalesce("in", F.lit(0))
    most = F.greatest(out, seen)
    return both.select(
        *_KEYS,
        F.concat_ws(">", "a", "b").alias("subject"),
        F.lit("link_bytes").alias("check"),
        out.cast("double").alias("expected"),
        seen.cast("double").alias("seen"),
        F.when(most > 0, F.abs(out - seen) / most).otherwise(F.lit(0.0)).alias("error"),
        (
            F.lit(LIMITS["link_bytes"])
            + F.when(most > 0, F.coalesce("edge", F.lit(0)) / most).otherwise(F.lit(0.0))
        ).alias("limit"),
    )


def _sets(silver: Silver, days: Sequence[str], counted: DataFrame) -> DataFrame:
    """Compare the members of sets that changed in the hour, except in its last minute."""
    names = ("relay", "boot", "session_id")
    hour = window("ts", _HOUR).alias("window_start")
    boots = counted.groupBy(*_KEYS, "relay").agg(F.max("boot").alias("boot"))
    pair = (F.least("a", "b").alias("one"), F.greatest("a", "b").alias("other"))
    over = (
        silver.read("session.close", days)
        .where("peer IS NOT NULL")
        .select("dt", hour, "ts", F.col("relay").alias("a"), F.col("peer").alias("b"))
        .groupBy(*_KEYS, *pair)
        .agg(F.max("ts").alias("over"))
    )
    peers = reduce(
        lambda a, b: a.unionByName(b),
        [
            silver.read(kind, days).where("peer IS NOT NULL").select("dt", *names, "peer")
            for kind in ("session.open", "session.close", "quic.sample")
        ],
    ).distinct()
    columns = ("dt", "ts", "event_seq", *names, "sns_id", "direction")
    said = (
        silver.read("sns.adv", days)
        .select(*columns, "members")
        .unionByName(silver.read("sns.wd", days).select(*columns, F.lit(0).alias("members")))
        .join(peers, ["dt", *names])
        .withColumn("window_start", hour)
        .join(boots, [*_KEYS, "relay", "boot"])
    )
    outward = F.col("direction") == "out"
    last = (
        said.groupBy(
            *_KEYS,
            F.when(outward, F.col("relay")).otherwise(F.col("peer")).alias("a"),
            F.when(outward, F.col("peer")).otherwise(F.col("relay")).alias("b"),
            "sns_id",
        )
        .agg(
            F.max(F.when(outward, F.struct("ts", "event_seq", "members"))).alias("out"),
            F.max(F.when(~outward, F.struct("ts", "event_seq", "members"))).alias("in"),
            F.max("ts").alias("at"),
        )
        .where(F.unix_micros("at") % (_HOUR * 1_000_000) < _HOUR * 1_000_000 - _QUIET_US)
        .join(_writers(counted, "a"), [*_KEYS, "a"])
        .join(_writers(counted, "b"), [*_KEYS, "b"])
        .select("*", *pair)
        .join(over, [*_KEYS, "one", "other"], "left")
        .where("over IS NULL OR at > over")
    )

    def members(side: str) -> Column:
        return F.coalesce(F.col(f"{side}.members"), F.lit(0))

    unlike = F.abs(members("out") - members("in"))
    summed = last.groupBy(*_KEYS, F.concat_ws(">", "a", "b").alias("subject")).agg(
        F.sum(members("out")).alias("out"),
        F.sum(members("in")).alias("in"),
        F.sum(unlike).alias("unlike"),
    )
    return summed.select(
        *_KEYS,
        "subject",
        F.lit("sets").alias("check"),
        F.col("out").cast("double").alias("expected"),
        F.col("in").cast("double").alias("seen"),
        (F.col("unlike") / F.greatest("out", "in", F.lit(1))).alias("error"),
        F.lit(LIMITS["sets"]).alias("limit"),
    )


def _refused(check: str, rows: DataFrame, at: Column, counted: DataFrame) -> DataFrame:
    """Compare the refused rows of a relay with all its rows, in the hour of their stamps."""
    bad = rows.groupBy(
        F.date_format(at, "yyyy-MM-dd").alias("dt"),
        window(at, _HOUR).alias("window_start"),
        F.coalesce("relay", F.lit("unknown")).alias("subject"),
    ).agg(F.count("*").alias("bad"))
    good = counted.groupBy(*_KEYS, F.col("relay").alias("subject")).agg(
        F.sum("events").alias("good")
    )
    every = counted.groupBy(*_KEYS).agg(F.sum("events").alias("every"))
    # Of a line that does not say its relay only the share of all lines is known.
    mine = F.when(F.col("subject") == "unknown", F.col("every")).otherwise(F.col("good"))
    return (
        bad.join(good, [*_KEYS, "subject"], "left")
        .join(every, [*_KEYS], "left")
        .select(
            *_KEYS,
            "subject",
            F.lit(check).alias("check"),
            F.lit(0.0).alias("expected"),
            F.col("bad").cast("double").alias("seen"),
            (F.col("bad") / (F.col("bad") + F.coalesce(mine, F.lit(0)))).alias("error"),
            F.lit(LIMITS[check]).alias("limit"),
        )
    )


def _silent(
    silver: Silver, days: Sequence[str], clocks: DataFrame, counted: DataFrame
) -> DataFrame:
    """Compare the number of peers that measured a relay with the number of its own events."""
    measured = (
        silver.read("quic.sample", days)
        .where("peer IS NOT NULL")
        .groupBy("dt", window("ts", _HOUR).alias("window_start"), F.col("peer").alias("subject"))
        .agg(
            F.count_distinct("relay").alias("peers"),
            (F.unix_micros(F.max("ts")) - F.unix_micros(F.min("ts"))).alias("span"),
        )
        # A relay that has just died is measured until its peers notice.
        .where(F.col("span") >= _QUIET_US)
    )
    writers = clocks.select(F.col("relay").alias("subject")).distinct()
    wrote = counted.groupBy(*_KEYS, F.col("relay").alias("subject")).agg(
        F.sum("events").alias("events")
    )
    return (
        measured.join(writers, "subject")
        .join(wrote, [*_KEYS, "subject"], "left")
        .select(
            *_KEYS,
            "subject",
            F.lit("silent").alias("check"),
            F.col("peers").cast("double").alias("expected"),
            F.coalesce("events", F.lit(0)).cast("double").alias("seen"),
            F.when(F.col("events") > 0, 0.0).otherwise(1.0).alias("error"),
            F.lit(LIMITS["silent"]).alias("limit"),
        )
    )
