"""Traffic by path in five minutes, from ``hop.stat``; shared by several tables.

Relays write a record for each path of a track every ten seconds. Links, fan-out and bills need five
minutes. All columns are numbers and keys, so Spark adds them up in compiled code, and the tables
above do not read the records again.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from laps_analytics.gold.builders.common import five_minutes, tenant_of
from laps_analytics.gold.dimensions import Dimensions
from laps_analytics.gold.silver import Silver

__all__ = ["paths_5m", "received", "regions"]


def paths_5m(silver: Silver, days: Iterable[str], dimensions: Dimensions) -> DataFrame:
    """Return bytes and ``events`` by day, window, relay, region, track, tenant, in_peer, out_peer.

    ``last`` is the time of the last record.
    """
    return (
        silver.read("hop.stat", days)
        .groupBy(
            five_minutes().alias("window_start"),
            *("dt", "relay", "region", "track", tenant_of(dimensions).alias("tenant")),
            *("in_peer", "out_peer"),
        )
        .agg(
            F.sum("in_bytes").alias("in_bytes"),
            F.sum("out_bytes").alias("out_bytes"),
            F.count("*").alias("events"),
            F.max("ts").alias("last"),
        )
    )


def regions(silver: Silver, days: Iterable[str], paths: DataFrame) -> DataFrame:
    """Return the region of each relay by day: the last one it reported, else its own name.

    If a relay reported two at the same microsecond, the one that sorts last counts.
    """
    wanted = tuple(days)
    keys = ("dt", "relay", "region")
    # The times by region first: a number is added up without sorting, a record would not be.
    parts = [
        paths.groupBy(*keys).agg(F.max("last").alias("last")),
        *(
            silver.read(kind, wanted).groupBy(*keys).agg(F.max("ts").alias("last"))
            for kind in ("quic.sample", "node.adv")
        ),
    ]
    said = F.when(F.col("region").isNotNull(), F.struct("last", "region"))
    found = (
        reduce(DataFrame.unionByName, parts).groupBy("dt", "relay").agg(F.max(said).alias("last"))
    )
    return found.select("dt", "relay", F.coalesce("last.region", "relay").alias("region"))


def received(paths: DataFrame) -> DataFrame:
    """Return received bytes by window, relay, track, tenant and in_peer, counted once.

    A relay that forwards a track over several paths may report the received bytes on each of them.
    So the path with the most bytes counts.
    """
    keys = ("dt", "window_start", "relay", "track", "tenant", "in_peer")
    by_path = paths.groupBy(*keys, "out_peer").agg(F.sum("in_bytes").alias("in_bytes"))
    return by_path.groupBy(*keys).agg(F.max("in_bytes").alias("in_bytes"))
