"""The tables ``link_quality_*`` and ``path_stretch``.

Transports count from the opening of their session. A window adds the difference to the sample
before, if that is at most an hour old. The first known sample of a session adds nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from laps_analytics.gold.builders.common import (
    FIVE_MINUTES,
    Persist,
    finish,
    five_minutes,
    percentile,
    percentile_of_sorted,
    unpersisted,
    window,
)
from laps_analytics.gold.builders.hops import paths_5m
from laps_analytics.gold.builders.rollup import SECONDS, longer, quantile
from laps_analytics.gold.dimensions import Dimensions
from laps_analytics.gold.silver import Silver
from laps_analytics.gold.tables import GOLD

__all__ = ["link_quality", "links_longer", "path_stretch"]

_HOUR: Final = 3600
_MARGIN: Final = 0.1
"""Share beyond the range of the hour before from which a median is a change."""
_ENOUGH: Final = 6
"""Earlier windows needed to detect a change."""


def link_quality(silver: Silver, days: Iterable[str], paths: DataFrame | None = None) -> DataFrame:
    """Build ``link_quality_5m``; ``paths`` is the traffic by path of the days, if already built."""
    wanted = tuple(days)
    if paths is None:
        paths = paths_5m(silver, wanted, Dimensions())
    session = Window.partitionBy("relay", "boot", "session_id").orderBy("ts", "event_seq")
    recent = F.unix_micros("ts") - F.unix_micros(F.lag("ts").over(session)) <= _HOUR * 1_000_000

    def gained(column: str) -> Column:
        difference = F.col(column) - F.lag(column).over(session)
        # A counter that fell belongs to a transport that began again.
        return F.when(recent & (difference >= 0), difference).otherwise(F.lit(0))

    samples = (
        silver.read("quic.sample", wanted, "hour")
        .where("peer IS NOT NULL")
        .select(
            "dt",
            five_minutes().alias("window_start"),
            *("relay", "peer", "srtt_us", "rttvar_us"),
            gained("sent_packets").alias("sent"),
            gained("lost_packets").alias("lost"),
            F.lit(None).cast("bigint").alias("out_bytes"),
        )
    )
    nothing = F.lit(None).cast("bigint")
    # Added up before they meet the samples: what follows keeps lists, and costs more for each row.
    bytes_sent = (
        paths.where("out_peer IS NOT NULL")
        .groupBy("dt", "window_start", "relay", F.col("out_peer").alias("peer"))
        .agg(F.sum("out_bytes").alias("out_bytes"))
        .select(
            *("dt", "window_start", "relay", "peer"),
            *[nothing.alias(name) for name in ("srtt_us", "rttvar_us", "sent", "lost")],
            "out_bytes",
        )
    )
    rows = (
        samples.unionByName(bytes_sent)
        .groupBy("window_start", "relay", "peer", "dt")
        .agg(
            F.sort_array(F.collect_list("srtt_us")).alias("rtts"),
            F.kll_sketch_agg_bigint("srtt_us").alias("kll"),
            F.avg("rttvar_us").alias("jitter_us"),
            F.coalesce(F.sum("sent"), F.lit(0)).alias("sent_packets"),
            F.coalesce(F.sum("lost"), F.lit(0)).alias("lost_packets"),
            F.coalesce(F.sum("out_bytes"), F.lit(0)).alias("out_bytes"),
        )
        .withColumns(
            {
                "samples": F.size("rtts").cast("bigint"),
                "rtt_p50_us": percentile_of_sorted(0.5, "rtts"),
                "rtt_p95_us": percentile_of_sorted(0.95, "rtts"),
            }
        )
        .drop("rtts")
    )
    hour = (
        Window.partitionBy("relay", "peer")
        .orderBy(F.unix_seconds("window_start"))
        .rangeBetween(-_HOUR, -FIVE_MINUTES)
    )
    low, high = F.min("rtt_p50_us").over(hour), F.max("rtt_p50_us").over(hour)
    median = F.col("rtt_p50_us")
    left = (median > high * (1 + _MARGIN)) | (median < low * (1 - _MARGIN))
    enough = F.count("rtt_p50_us").over(hour) >= _ENOUGH
    return finish(
        _rated(rows, FIVE_MINUTES)
        .withColumn("rtt_kll", F.when(F.col("samples") > 0, F.col("kll")))
        .withColumn("change_point", F.coalesce(left & enough, F.lit(False))),
        GOLD["link_quality_5m"],
        wanted,
    )


def links_longer(lower: DataFrame, name: str) -> DataFrame:
    """Build ``link_quality_1h`` from five minutes, or ``link_quality_1d`` from hours."""
    if name == "link_quality_1h":
        lower = lower.withColumns(
            {
                "peak_bps": F.col("rate_bps"),
                "change_points": F.col("change_point").cast("bigint"),
            }
        )
    # A mean of samples; where there are none it is null. What they add up to was whole numbers: as
    # such, the order in which Spark adds them up does not show.
    total = F.round(F.col("jitter_us") * F.col("samples")).cast("bigint")
    rows = longer(lower, name, jitter_us=F.try_divide(F.sum(total), F.sum("samples")))
    return finish(
        _rated(rows, SECONDS[name.rpartition("_")[2]]).withColumns(
            {"rtt_p50_us": quantile("rtt_kll", 0.5), "rtt_p95_us": quantile("rtt_kll", 0.95)}
        ),
        GOLD[name],
    )


def _rated(rows: DataFrame, seconds: int) -> DataFrame:
    """Add the ratios, computed from sums."""
    sent = F.col("sent_packets")
    return rows.withColumns(
        {
            "loss": F.when(sent > 0, F.col("lost_packets") / sent),
            "rate_bps": F.col("out_bytes") * 8 / F.lit(float(seconds)),
        }
    )


def path_stretch(
    silver: Silver, days: Iterable[str], *, persist: Persist = unpersisted
) -> DataFrame:
    """Build ``path_stretch``: the path in use against the best of one or two links."""
    wanted = tuple(days)
    keys = ("dt", "window_start")
    in_use = (
        silver.read("node.adv", wanted)
        .where("best AND node_id <> relay AND sum_srtt_us > 0")
        .groupBy("dt", window("ts", _HOUR).alias("window_start"), "relay", "node_id")
        .agg(F.max(F.struct("ts", "event_seq", "sum_srtt_us")).alias("last"))
        .select(*keys, "relay", F.col("node_id").alias("node"), "last.sum_srtt_us")
    )
    # A round trip is as long from either end, so both ends' samples are one link's.
    link = persist(
        silver.read("quic.sample", wanted)
        .where("peer IS NOT NULL AND peer <> relay")
        .groupBy(
            "dt",
            window("ts", _HOUR).alias("window_start"),
            F.least("relay", "peer").alias("a"),
            F.greatest("relay", "peer").alias("b"),
        )
        .agg(percentile(0.5, "srtt_us").alias("rtt"))
    )
    back = link.select(*keys, F.col("b").alias("a"), F.col("a").alias("b"), "rtt")
    links = link.unionByName(back)
    direct = links.select(
        *keys, F.col("a").alias("relay"), F.col("b").alias("node"), "rtt", F.lit("").alias("over")
    )
    first = links.select(*keys, F.col("a").alias("relay"), F.col("b").alias("over"), "rtt")
    second = links.select(
        *keys, F.col("a").alias("over"), F.col("b").alias("node"), F.col("rtt").alias("rest")
    )
    by_two = (
        first.join(second, [*keys, "over"])
        .where("relay <> node")
        .select(*keys, "relay", "node", (F.col("rtt") + F.col("rest")).alias("rtt"), "over")
    )
    best = (
        direct.unionByName(by_two)
        .groupBy(*keys, "relay", "node")
        .agg(F.min(F.struct("rtt", "over")).alias("best"))
    )
    return finish(
        in_use.join(best, [*keys, "relay", "node"]).select(
            *keys,
            *("relay", "node"),
            F.col("sum_srtt_us").alias("actual_us"),
            F.col("best.rtt").alias("best_us"),
            F.col("best.over").alias("best_over"),
            F.when(F.col("best.rtt") > 0, F.col("sum_srtt_us") / F.col("best.rtt")).alias(
                "stretch"
            ),
        ),
        GOLD["path_stretch"],
        wanted,
    )
