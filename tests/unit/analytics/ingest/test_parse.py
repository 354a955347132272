"""What lines become is in test_run; here: what it costs to ask again."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from laps_analytics.ingest.parse import parse
from testkit.telemetry_lines import lines_of, network

pytestmark = pytest.mark.spark


def test_no_code_is_compiled_for_a_batch_that_differs_by_its_number(spark: SparkSession) -> None:
    given = [(line, "a.jsonl") for line in lines_of(network(seconds=10)["1:1"])[:5]]
    lines = spark.createDataFrame(given, "value string, source string")
    jvm: Any = spark.sparkContext._jvm
    metrics = jvm.org.apache.spark.metrics.source.CodegenMetrics

    def compiled() -> int:
        return int(metrics.METRIC_COMPILATION_TIME().getCount())

    before = compiled()
    first = parse(lines, batch=1, seen_us=10).drop("body").collect()
    once = compiled()
    second = parse(lines, batch=22, seen_us=2_000).drop("body").collect()
    assert before < once == compiled()
    assert {(row["batch"], row["seen_us"]) for row in first} == {(1, 10)}
    assert {(row["batch"], row["seen_us"]) for row in second} == {(22, 2_000)}
