"""Longer windows stand on shorter ones and on nothing else; what nobody measured stays unknown."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from laps_analytics.gold.build import read_gold
from laps_analytics.gold.builders.common import SECONDS
from laps_analytics.gold.builders.network import links_longer
from laps_analytics.gold.builders.traffic import traffic_longer
from laps_analytics.gold.recipes import RECIPES
from laps_analytics.gold.tables import LINK_QUALITY, QOE, TRAFFIC, GoldTable
from testkit.gold_world import DAYS
from unit.analytics.gold.lakes import GoldLake

STEPS = [step for family in (TRAFFIC, LINK_QUALITY, QOE) for step in pairwise(family)]


@pytest.mark.parametrize(("lower", "upper"), STEPS, ids=lambda table: table.name)
def test_a_longer_window_is_made_from_the_shorter_one_and_never_from_records(
    lower: GoldTable, upper: GoldTable
) -> None:
    recipe = RECIPES[upper.name]
    assert (recipe.silver, recipe.gold) == ({}, {lower.name: 1})
    assert upper.name.rpartition("_")[2] in SECONDS
    assert upper.keys == lower.keys
    # A sketch that would not merge, or a sum that would not add up, is a column too much.
    merges = {item.name: item.merge for item in upper.columns}
    assert all(merges[name] for name in merges if name.endswith(("_kll", "_hll", "_bytes", "_ms"))
               and "_p" not in name)  # fmt: skip
    for item in upper.columns:
        assert (item.merge == "kll") == item.name.endswith("_kll")
        assert (item.merge == "hll") == item.name.endswith("_hll")


@pytest.mark.spark
def test_a_link_that_nobody_measured_has_bytes_and_no_round_trip(
    spark: SparkSession, gold_lake: GoldLake
) -> None:
    """Spark would make a sketch of nothing, and fail to tell its median."""
    five = read_gold(spark, gold_lake.lake, "link_quality_5m", [DAYS[0]]).limit(3)
    bare = five.withColumns(
        {
            "window_start": F.lit(f"{DAYS[0]} 12:05:00").cast("timestamp"),
            **{name: F.lit("x") for name in ("relay", "peer")},
            **{name: F.lit(0).cast("bigint") for name in ("samples", "sent_packets")},
            "rtt_kll": F.lit(None).cast("binary"),
            "jitter_us": F.lit(None).cast("double"),
            "out_bytes": F.lit(900).cast("bigint"),
            "rate_bps": F.lit(24.0),
            "change_point": F.lit(True),
        }
    )
    (row,) = links_longer(bare, "link_quality_1h").collect()
    assert (row.samples, row.rtt_kll, row.rtt_p50_us, row.jitter_us, row.loss) == (0, *[None] * 4)
    assert (row.out_bytes, row.rate_bps, row.peak_bps, row.change_points) == (2700, 6.0, 24.0, 3)
    assert f"{row.window_start:%H:%M}" == "12:00"


@pytest.mark.spark
def test_no_code_is_compiled_for_another_day(
    usual_spark: SparkSession, gold_lake: GoldLake
) -> None:
    """A lambda of PySpark has a new name each time, and what was compiled is not found by it."""
    spark = usual_spark
    jvm: Any = spark.sparkContext._jvm
    metrics = jvm.org.apache.spark.metrics.source.CodegenMetrics

    def compiled() -> int:
        return int(metrics.METRIC_COMPILATION_TIME().getCount())

    def hours(day: str) -> int:
        minutes = read_gold(spark, gold_lake.lake, "traffic_1m", [day])
        return len(traffic_longer(minutes, "traffic_1h").collect())

    assert hours(DAYS[0])
    before = compiled()
    assert hours(DAYS[1])
    assert compiled() == before
