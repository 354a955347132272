"""The tables ``convergence``, ``churn_1h`` and ``loops_or_dups``.

``convergence`` is the time that the network needs to settle after a node left, or after two relays
lost their session. Records about one node within a minute of each other are one change. The last
route change, set change and report of missing objects within a minute after its first record belong
to it. Two changes in the same minute share these records. A change just before midnight ends with
the day.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from laps_analytics.gold.builders.common import finish, window
from laps_analytics.gold.silver import Silver
from laps_analytics.gold.tables import GOLD

__all__ = ["churn", "convergence", "loops_or_dups"]

_MINUTE_US: Final = 60 * 1_000_000


def convergence(silver: Silver, days: Iterable[str]) -> DataFrame:
    """Build ``convergence``."""
    wanted = tuple(days)
    micros = F.unix_micros("ts").alias("us")
    gone = silver.read("node.wd", wanted).select(
        "dt", micros, "relay", F.col("node_id").alias("node")
    )
    lost = (
        silver.read("session.close", wanted)
        .where("kind = 'peer' AND peer IS NOT NULL")
        .select("dt", micros, "relay", F.col("peer").alias("node"))
    )
    of_node = Window.partitionBy("dt", "node").orderBy("us")
    begins = F.coalesce(F.col("us") - F.lag("us").over(of_node) > _MINUTE_US, F.lit(True))
    changes = (
        gone.unionByName(lost)
        .withColumn("begins", begins.cast("int"))
        .withColumn("change", F.sum("begins").over(of_node))
        .groupBy("dt", "node", "change")
        .agg(
            F.min("us").alias("begin"),
            F.max("us").alias("end"),
            F.count_distinct("relay").alias("relays"),
        )
        .withColumn("minute", F.floor(F.col("begin") / _MINUTE_US))
    )
    followers = (
        silver.read("route.change", wanted)
        .select("dt", micros, F.lit("rib").alias("what"))
        .unionByName(
            silver.read("sns.adv", wanted).select("dt", micros, F.lit("fib").alias("what"))
        )
        .unionByName(
            silver.read("client.report", wanted)
            .where("gaps > 0")
            .select("dt", micros, F.lit("gap").alias("what"))
        )
    )
    # What follows within a minute lies in the same minute or the next: that is what joins them.
    minute = F.floor(F.col("us") / _MINUTE_US)
    reached = followers.withColumn("minute", F.explode(F.array(minute, minute - 1)))
    after = (F.col("us") >= F.col("begin")) & (F.col("us") < F.col("begin") + _MINUTE_US)
    last = (
        changes.select("dt", "node", "begin", "minute")
        .join(reached, ["dt", "minute"])
        .where(after)
        .groupBy("dt", "node", "begin")
        .agg(
            *[
                F.max(F.when(F.col("what") == what, F.col("us"))).alias(what)
                for what in ("rib", "fib", "gap")
            ]
        )
    )

    def ms(column: str) -> Column:
        return (F.col(column) - F.col("begin")) / F.lit(1000.0)

    return finish(
        changes.join(last, ["dt", "node", "begin"], "left").select(
            "dt",
            F.timestamp_micros("begin").alias("at"),
            *("node", "relays"),
            ms("end").alias("detect_ms"),
            ms("rib").alias("rib_ms"),
            ms("fib").alias("fib_ms"),
            ms("gap").alias("last_gap_ms"),
        ),
        GOLD["convergence"],
        wanted,
    )


_RETURN_US: Final = 60 * 1_000_000
"""Longest time from an unsubscribe to the next subscribe that counts as a flap."""
_DAMP: Final = 5
"""Flaps in an hour from which damping is beneficial."""


def churn(silver: Silver, days: Iterable[str]) -> DataFrame:
    """Build ``churn_1h``: subscribes, unsubscribes and flaps of each subscriber."""
    wanted = tuple(days)
    names = ("dt", "ts", "boot", "event_seq", "relay", "track", "source_node")
    came = silver.read("sub.adv", wanted, "hour").select(
        *names, F.lit(True).alias("came"), F.lit(False).alias("delayed")
    )
    went = silver.read("sub.wd", wanted, "hour").select(
        *names, F.lit(False).alias("came"), "delayed"
    )
    same = Window.partitionBy("relay", "track", "source_node").orderBy("ts", "boot", "event_seq")
    soon = F.unix_micros("ts") - F.unix_micros(F.lag("ts").over(same)) <= _RETURN_US
    events = came.unionByName(went).withColumn(
        "flap",
        F.coalesce(F.col("came") & ~F.lag("came").over(same) & soon, F.lit(False)),
    )
    rows = events.groupBy(
        "dt", window("ts", 3600).alias("window_start"), "relay", "track", "source_node"
    ).agg(
        F.count_if(F.col("came")).alias("subscribes"),
        F.count_if(~F.col("came")).alias("unsubscribes"),
        F.count_if(~F.col("came") & F.col("delayed")).alias("held_back"),
        F.count_if(F.col("flap")).alias("flaps"),
    )
    return finish(rows.withColumn("damp", F.col("flaps") >= _DAMP), GOLD["churn_1h"], wanted)


def loops_or_dups(silver: Silver, days: Iterable[str]) -> DataFrame:
    """Build ``loops_or_dups``: objects that travelled a link twice or came back."""
    wanted = tuple(days)
    object_of = ("dt", "track", "group_id", "object_id", "relay")
    samples = silver.read("delivery.sample", wanted).where(
        "group_id IS NOT NULL AND object_id IS NOT NULL"
    )
    sent = (
        samples.where("out_peer IS NOT NULL")
        .groupBy(*object_of, "out_peer")
        .agg(F.count("*").alias("times"))
    )
    came = (
        samples.where("in_peer IS NOT NULL")
        .groupBy(*object_of)
        .agg(F.collect_set("in_peer").alias("senders"))
    )
    rows = sent.join(came, [*object_of], "left").withColumn(
        "loop", F.coalesce(F.array_contains("senders", F.col("out_peer")), F.lit(False))
    )
    return finish(rows.where("loop OR times > 1"), GOLD["loops_or_dups"], wanted)
