"""Percentiles of Spark's sketches, read without Spark."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import kll_sketch_agg_bigint

from laps_analytics.errors import LakeError
from laps_analytics.report.kll import quantiles, weighted
from testkit.gold_frames import kll


def test_what_was_kept_is_read() -> None:
    assert weighted(kll([])) == ([], [])
    assert weighted(kll([7])) == ([7], [1])
    assert weighted(kll([1, 2, 3])) == ([1, 2, 3], [1, 1, 1])


def test_sketches_are_merged_by_weight() -> None:
    assert quantiles([kll([1, 2]), kll([3, 4])], (0.5, 1.0)) == [2.0, 4.0]
    assert quantiles([kll([])], (0.5,)) is None


def test_what_is_no_sketch_is_refused() -> None:
    with pytest.raises(LakeError, match="not a KLL"):
        weighted(b"\x02\x01\x07\x00\x00\x00\x00\x00")
    with pytest.raises(LakeError, match="truncated"):
        weighted(kll([1, 2, 3])[:10])


@pytest.mark.spark
def test_spark_means_the_same(spark: SparkSession) -> None:
    rng = random.Random(5)
    parts = {0: [], 1: [9], 2: [rng.randrange(1000) for _ in range(50)]}
    parts[3] = [rng.randrange(100_000) for _ in range(20_000)]
    rows = [(part, value) for part, values in parts.items() for value in values]
    frame = spark.createDataFrame(rows, "part bigint, value bigint")
    made = {
        row.part: bytes(row.kll)
        for row in frame.groupBy("part").agg(kll_sketch_agg_bigint("value").alias("kll")).collect()
    }
    assert weighted(made[1]) == ([9], [1])
    for part, sketch in made.items():
        values, weights = weighted(sketch)
        assert sum(weights) == len(parts[part])
        assert set(values) <= set(parts[part])
    both = [made[2], made[3]]
    exact = sorted(parts[2] + parts[3])
    for share in (0.5, 0.95, 0.99):
        found = quantiles(both, (share,))
        assert found is not None
        rank = sum(value <= found[0] for value in exact) / len(exact)
        assert abs(rank - share) < 0.02
