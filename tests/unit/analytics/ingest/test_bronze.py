"""What lines become is in test_run; here: what Python says of them, and what asking again costs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from laps_analytics.ingest.bronze import MAX_TS_US, cached_columns, parse, verdict
from testkit.telemetry_book import as_others_write, lines_of
from testkit.telemetry_lines import BAD_LINES, START_US, network

LINE = lines_of(network(seconds=10)["1:1"])[0]


@pytest.mark.parametrize("reason", list(BAD_LINES))
def test_a_line_that_is_no_event_is_kept_with_its_reason(reason: str) -> None:
    found = verdict(BAD_LINES[reason] + b" ")
    assert "value" not in found
    assert reason in found["reason"]
    assert found["line"] == BAD_LINES[reason].decode(errors="backslashreplace")


def test_lines_of_other_writers_are_written_our_way() -> None:
    assert verdict(as_others_write(LINE).encode()) == {"value": LINE}


def test_a_line_of_another_relay_than_the_file_is_refused() -> None:
    own = changed(relay="0.1:0.1", event_id="0.1:0.1:7:1")
    for name in ("telemetry-0.1_0.1-7-000001.jsonl", "0.1_0.1-7-000001.jsonl", "mine.jsonl", ""):
        assert "value" in verdict(own, name)
    found = verdict(own, "telemetry-0.9_0.1-7-000001.jsonl")
    assert "the file is of 0.9:0.1, not of 0.1:0.1" in found["reason"]
    assert found["relay"] == "0.9:0.1"  # who wrote it answers for it


def changed(**fields: Any) -> bytes:
    return json.dumps({**json.loads(LINE), **fields}).encode()


@pytest.mark.parametrize(
    ("line", "reason", "relay", "ts_us"),
    [
        (changed(ts_us=-1), "-1 is no time of this age", "1:1", -1),
        (changed(ts_us=MAX_TS_US + 1), "is no time of this age", "1:1", MAX_TS_US + 1),
        (changed(event_id=f"1:1:7:{2**63}"), "does not fit 64 bits", "1:1", START_US + 1),
        # What a line says of itself is noted as far as it makes sense.
        (changed(v="2.0", relay="a\nb"), "version 2.0", None, START_US + 1),
        (changed(v="2.0", relay=7, ts_us=True), "is not a", None, None),
        (changed(v="2.0", ts_us=2**70), "does not fit", "1:1", None),
    ],
)
def test_what_has_no_place_in_a_table_is_refused(
    line: bytes, reason: str, relay: str | None, ts_us: int | None
) -> None:
    found = verdict(line)
    assert reason in found["reason"]
    assert (found["relay"], found["ts_us"]) == (relay, ts_us)


@pytest.mark.spark
def test_no_code_is_compiled_for_a_batch_that_differs_by_its_number(
    usual_spark: SparkSession,
) -> None:
    spark = usual_spark
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


@pytest.mark.spark
def test_columns_are_made_once_for_a_session(spark: SparkSession) -> None:
    made: list[object] = []

    def make() -> object:
        made.append(object())
        return made[-1]

    other = spark.newSession()
    first = cached_columns(spark, ("x", 1), make)
    assert cached_columns(spark, ("x", 1), make) is first
    assert cached_columns(spark, ("x", 2), make) is not first
    assert cached_columns(other, ("x", 1), make) is not first
    assert len(made) == 3
