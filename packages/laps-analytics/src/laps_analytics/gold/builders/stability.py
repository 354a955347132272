"""How long the network took to settle after a node went, or two relays lost each other.

Records about one node that follow within a minute are one change. What happens within a minute
after its first record is counted to it: the last change of a way, of a set, and the last report of
missing objects. Two changes in the same minute share what follows; neither looks better for it.
Both lie in the same day: a change just before midnight ends with the day.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from laps_analytics.gold.builders.common import finish
from laps_analytics.gold.silver import Silver
from laps_analytics.gold.tables import GOLD

__all__ = ["convergence"]

_MINUTE_US: Final = 60 * 1_000_000


def convergence(silver: Silver, days: Iterable[str]) -> DataFrame:
    """``convergence``."""
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
