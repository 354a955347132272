"""Who comes and goes: subscribes that return soon cost the network twice for nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from laps_analytics.gold.builders.common import finish, window
from laps_analytics.gold.silver import Silver
from laps_analytics.gold.tables import GOLD

__all__ = ["churn"]

_RETURN_US: Final = 60 * 1_000_000
"""A subscribe so soon after an unsubscribe of the same is a flap."""
_DAMP: Final = 5
"""Flaps in an hour from which damping would pay."""


def churn(silver: Silver, days: Iterable[str]) -> DataFrame:
    """``churn_1h``."""
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
