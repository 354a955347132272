"""The clock of each relay in each hour: ``silver/clock``.

Only the events stamped in an hour decide about its clocks. So the same events give the same clocks,
in any order and any number of batches.

A clock is broken, and silver drops the events of that hour, in four cases:

- it shows a year before 2020, as after a start without a battery;
- it was ahead of the local clock by more than :data:`LIMIT_US` when the file was read;
- it differs from its peers by more than that;
- the relay and its peers stamped objects of the same link, and no object has both stamps, although
  other relays have such pairs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from laps_analytics.ingest.offsets import Link, Offset, solve

__all__ = ["LIMIT_US", "OLDEST_US", "clock_rows", "link_rows", "relay_rows"]

LIMIT_US: Final = 1_000_000_000
"""Largest clock error, 1000 s; NTP gives up at the same value."""
OLDEST_US: Final = 1_577_836_800_000_000
"""Start of 2020."""
_FEW: Final = 20
"""Least number of stamps for the check that some of them have a partner."""
_DAY_US: Final = 86_400_000_000


def relay_rows(bronze: DataFrame) -> DataFrame:
    """Return one row for each relay and hour: number of events, first and last time."""
    return bronze.groupBy("dt", "hour", "relay").agg(
        fn.count("*").alias("events"),
        fn.min("ts_us").alias("first_us"),
        fn.max("ts_us").alias("last_us"),
        fn.min("batch").alias("first_batch"),
        fn.max(fn.col("ts_us") - fn.col("seen_us")).alias("ahead_us"),
    )


def link_rows(samples: DataFrame, quic: DataFrame) -> DataFrame:
    """Return one row for each direction of a link and hour: stamps of both ends, and pairs.

    ``samples`` and ``quic`` are bronze rows of delivery.sample and quic.sample.
    """

    def field(name: str, kind: str) -> Any:
        return fn.try_variant_get("body", f"$.{name}", kind).alias(name)

    stamps = samples.select(
        *("dt", "hour", "relay"),
        *(field(name, "string") for name in ("track", "in_peer", "out_peer")),
        *(field(name, "bigint") for name in ("group_id", "object_id", "in_us", "out_us")),
    )
    key = ["dt", "hour", "sender", "receiver", "track", "group_id", "object_id"]
    sent = (
        stamps.where("out_peer is not null")
        .withColumnsRenamed({"relay": "sender", "out_peer": "receiver"})
        .groupBy(*key)
        .agg(fn.min("out_us").alias("out_us"))
    )
    came = (
        stamps.where("in_peer is not null")
        .withColumnsRenamed({"relay": "receiver", "in_peer": "sender"})
        .groupBy(*key)
        .agg(fn.min("in_us").alias("in_us"))
    )
    took = fn.col("in_us") - fn.col("out_us")
    both = (
        sent.join(came, key, "full_outer")
        .withColumn("took", fn.when(fn.abs(took) <= _DAY_US, took))
        .groupBy("dt", "hour", "sender", "receiver")
        .agg(
            fn.count("out_us").alias("sent"),
            fn.count("in_us").alias("came"),
            fn.count("took").alias("pairs"),
            # Not the very least: one wrong stamp must not decide.
            fn.expr("percentile_approx(took, 0.05, 200)").alias("least_us"),
        )
    )
    rtt = quic.select("dt", "hour", "relay", field("peer", "string"), field("min_rtt_us", "bigint"))
    ends = rtt.where("peer is not null").select(
        "dt",
        "hour",
        fn.least("relay", "peer").alias("low"),
        fn.greatest("relay", "peer").alias("high"),
        "min_rtt_us",
    )
    least = ends.groupBy("dt", "hour", "low", "high").agg(fn.min("min_rtt_us").alias("rtt_us"))
    return (
        both.withColumn("low", fn.least("sender", "receiver"))
        .withColumn("high", fn.greatest("sender", "receiver"))
        .join(fn.broadcast(least), ["dt", "hour", "low", "high"], "left")
        .drop("low", "high")
    )


def clock_rows(
    relays: Iterable[Mapping[str, Any]], links: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the rows of ``silver/clock``. They are few, so no Spark job computes them."""
    by_hour: defaultdict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for link in links:
        by_hour[link["dt"], link["hour"]].append(link)
    solved = {
        hour: solve(
            Link(link["sender"], link["receiver"], link["least_us"], link["pairs"], link["rtt_us"])
            for link in rows
            if link["pairs"]
        )
        for hour, rows in by_hour.items()
    }
    unpaired = {hour: _unpaired_relays(rows) for hour, rows in by_hour.items()}
    out = []
    for row in relays:
        hour = (row["dt"], row["hour"])
        offset = solved.get(hour, {}).get(row["relay"], Offset(0, 0))
        reason = _reason(row, offset, row["relay"] in unpaired.get(hour, ()))
        out.append(
            {
                "relay": row["relay"],
                "offset_us": offset.offset_us,
                "pairs": offset.pairs,
                "ok": reason is None,
                "reason": reason,
                "events": row["events"],
                "first_us": row["first_us"],
                "last_us": row["last_us"],
                "first_batch": row["first_batch"],
                "dt": row["dt"],
                "hour": row["hour"],
            }
        )
    return sorted(out, key=lambda item: (item["dt"], item["hour"], item["relay"]))


def _reason(row: Mapping[str, Any], offset: Offset, unpaired_relay: bool) -> str | None:
    if row["first_us"] < OLDEST_US:
        year = datetime.fromtimestamp(row["first_us"] / 1e6, UTC).year
        return f"the clock of the relay is broken: it says {year}"
    if row["ahead_us"] > LIMIT_US:
        return f"the clock of the relay is broken: it was {row['ahead_us'] // 1_000_000} s ahead"
    if abs(offset.offset_us) > LIMIT_US:
        off = offset.offset_us // 1_000_000
        return f"the clock of the relay is broken: it is {off} s off its peers"
    if unpaired_relay:
        return "the clock of the relay is broken: no object is stamped by it and a peer"
    return None


def _unpaired_relays(links: list[Mapping[str, Any]]) -> set[str]:
    """Return relays that share links but no stamped object with a peer, if most others do."""
    chances: defaultdict[str, int] = defaultdict(int)
    pairs: defaultdict[str, int] = defaultdict(int)
    for link in links:
        for relay in (link["sender"], link["receiver"]):
            chances[relay] += min(link["sent"], link["came"])
            pairs[relay] += link["pairs"]
    able = [relay for relay, count in chances.items() if count >= _FEW]
    alone = {relay for relay in able if not pairs[relay]}
    # If most have no partner, relays sample different objects, and that says nothing.
    return alone if 2 * len(alone) < len(able) else set()
