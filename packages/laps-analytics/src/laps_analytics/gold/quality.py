"""Whether the other tables can be believed: the checks of an hour, and the gate that they make.

==============  ===========================================  =====================================
check           what is compared                             what is tolerated
==============  ===========================================  =====================================
telemetry_gap   numbers that a relay counted, and events     1 % missing
link_bytes      bytes that A sent to B, and B got from A     0.1 %, and the records at both edges
                                                             of the hour
sets            members of A's sets for B, at both ends      none, a minute after the last change
clock           how wrong a relay's clock was                60 s: corrected up to there
late            events after their window was closed         5 %
quarantine      lines that could not be read                 1 %
==============  ===========================================  =====================================

Two relays do not write at the same moment, so that what one counts before the hour the other may
count after it. That is at most the records that touch an edge of the hour, and these are added to
what is tolerated of ``link_bytes``. Links are compared only if both ends wrote telemetry.

A relay that dies takes its sets with it and says nothing more. So of each relay the sets of its
last boot count, and of two relays only those that changed after the last time that one of them said
that a session between them was over.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from laps_analytics.errors import GateError
from laps_analytics.gold.common import Keep, as_it_is, finish, five_minutes, window
from laps_analytics.gold.silver import Silver
from laps_analytics.gold.tables import GOLD
from laps_analytics.gold.ways import received
from laps_analytics.schema import event_types

__all__ = ["LIMITS", "Gate", "gate", "quality"]

LIMITS: Final = {
    "telemetry_gap": 0.01,
    "link_bytes": 0.001,
    "sets": 0.0,
    "clock": 60.0,
    "late": 0.05,
    "quarantine": 0.01,
}
"""What is tolerated, check by check."""

_KEYS: Final = ("dt", "window_start")
_HOUR: Final = 3600
_QUIET_US: Final = 60 * 1_000_000


def quality(
    silver: Silver,
    days: Iterable[str],
    quarantine: DataFrame | None = None,
    *,
    keep: Keep = as_it_is,
) -> DataFrame:
    """``quality_1h``; ``quarantine`` has the columns of ``bronze/quarantine``."""
    wanted = tuple(days)
    counted = keep(_counted(silver, wanted))
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
        parts.append(_quarantined(quarantine, counted))
    rows = reduce(lambda a, b: a.unionByName(b), parts)
    return finish(
        rows.withColumn("ok", F.col("error") <= F.col("limit")), GOLD["quality_1h"], wanted
    )


def _counted(silver: Silver, days: Sequence[str]) -> DataFrame:
    """What each relay wrote, by boot and hour: numbers, and how many, late, and by which clock."""
    every = [
        silver.read(kind, days, "hour").select(
            "dt", "ts", "relay", "boot", "event_seq", "late", "skew_us"
        )
        for kind in event_types()
    ]
    return (
        reduce(lambda a, b: a.unionByName(b), every)
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
    """Who wrote telemetry in an hour."""
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
    """Members of the sets that were changed in the hour, but not in its last minute."""
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


def _quarantined(quarantine: DataFrame, counted: DataFrame) -> DataFrame:
    """Bad lines of a relay against all of its lines, in the hour that they say, or came in."""
    at = F.timestamp_micros(F.coalesce("ts_us", "seen_us"))
    relay = F.coalesce("relay", F.lit("unknown"))
    bad = quarantine.groupBy(
        F.date_format(at, "yyyy-MM-dd").alias("dt"),
        window(at, _HOUR).alias("window_start"),
        relay.alias("subject"),
    ).agg(F.count("*").alias("bad"))
    good = counted.groupBy(*_KEYS, F.col("relay").alias("subject")).agg(
        F.sum("events").alias("good")
    )
    every = counted.groupBy(*_KEYS).agg(F.sum("events").alias("every"))
    # Of a line that does not say its relay only the share of all lines is known.
    lines = F.col("bad") + F.coalesce("good", "every", F.lit(0))
    return (
        bad.join(good, [*_KEYS, "subject"], "left")
        .join(every, [*_KEYS], "left")
        .select(
            *_KEYS,
            "subject",
            F.lit("quarantine").alias("check"),
            F.lit(0.0).alias("expected"),
            F.col("bad").cast("double").alias("seen"),
            (F.col("bad") / lines).alias("error"),
            F.lit(LIMITS["quarantine"]).alias("limit"),
        )
    )


@dataclass(frozen=True, slots=True)
class Gate:
    """Whether plans may be made from some hours."""

    hours: int
    """Hours that were checked; none is no reason to go on."""
    red: list[str]
    """Why not, worst first."""

    @property
    def open(self) -> bool:
        """Whether nothing is red."""
        return self.hours > 0 and not self.red

    def require(self) -> None:
        """Go on, or raise :class:`GateError` with the worst reasons."""
        if self.open:
            return
        if not self.hours:
            raise GateError("the quality of this data was never checked: run `build` first")
        more = f" (and {len(self.red) - 3} more)" if len(self.red) > 3 else ""
        raise GateError(f"the data-quality gate is red: {'; '.join(self.red[:3])}{more}")


def gate(rows: DataFrame) -> Gate:
    """The gate that rows of ``quality_1h`` make; choose their hours before."""
    hours = rows.select("window_start").distinct().count()
    worst = (F.col("error") - F.col("limit")) / (F.col("limit") + 1e-3)
    found = (
        rows.where("NOT ok")
        .orderBy(worst.desc(), "window_start", "check", "subject")
        .select(F.date_format("window_start", "yyyy-MM-dd HH:mm").alias("hour"), "*")
        .collect()
    )
    return Gate(
        hours,
        [
            f"{row['check']} of {row['subject']} at {row['hour']}:"
            f" {row['seen']:g} for {row['expected']:g}, off by {row['error']:.2%}"
            for row in found
        ],
    )
