"""What went over each way in five minutes: records of ``hop.stat``, read once for several tables.

Relays write a record for each way of a track every ten seconds; links, fan-out and bills need five
minutes. All columns here are plain numbers and keys, so Spark adds them up in compiled code, and
what stands on this frame no longer touches the records.
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
    """(day, window, relay, its region, track, tenant, in_peer, out_peer) to bytes and ``events``.

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
    """Relay to region, by day: the last word of the relay itself; its own name without one.

    If a relay said two at the same microsecond, the one that sorts last counts.
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
    """What came in, counted once: (window, relay, track, tenant, in_peer) to ``in_bytes``.

    A relay that sends a track on over several ways may write the bytes that it received on each of
    them. So what came in is what the way with the most of it says, in five minutes.
    """
    keys = ("dt", "window_start", "relay", "track", "tenant", "in_peer")
    by_path = paths.groupBy(*keys, "out_peer").agg(F.sum("in_bytes").alias("in_bytes"))
    return by_path.groupBy(*keys).agg(F.max("in_bytes").alias("in_bytes"))
