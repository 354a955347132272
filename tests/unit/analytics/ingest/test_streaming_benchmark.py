"""The benchmark of streams, small: it ends, and its figures are those of what it did."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest
from analytics.streaming import PARTS, Bench, Lines, kept, percentile, show
from pyspark.sql import SparkSession

from laps_analytics.lake import read_rows
from laps_wire.telemetry import load_line

pytestmark = pytest.mark.spark


@pytest.mark.long
def test_a_small_stream_is_measured(spark: SparkSession, tmp_path: Path) -> None:
    bench = Bench(tmp_path, 40, 2)
    figures = bench.run(spark, 0.5, warm=1)
    assert (figures["events"], figures["offered_per_s"]) == (80, 40)
    assert len(read_rows(bench.lake.table("silver/hop_stat"))) > 20
    assert sorted(bench.delays) == [f"telemetry-1_1-1-{n:06d}.jsonl" for n in range(2)]
    assert not bench.written
    assert 0 < figures["delay_p50_s"] <= figures["delay_p95_s"]
    assert 0 < figures["cpu_s_a_batch"] < figures["cpu_s"] + 0.1
    assert figures["kept_end"]["silver"]["files"] >= 3
    assert figures["kept_end"]["journal"]["bytes"] > 0
    assert "kept_end checkpoint" in show(figures)


def test_lines_are_events_with_numbers_of_their_own() -> None:
    made = Lines(Random(1))
    events = [
        load_line(line) for text in (made.make(300), made.make(300)) for line in text.splitlines()
    ]
    assert len({event.event_id for event in events}) == len(events) == 600
    kinds = Counter(event.type for event in events)
    assert kinds.most_common(1)[0][0] == "hop.stat"
    assert len(kinds) == 4


def test_every_file_of_a_lake_is_counted_once(tmp_path: Path) -> None:
    names = [
        *("checkpoint-1/sources/0/1", "stream-1/a.json", "_log/1.json", "inbox/a", "spool/b"),
        "stage/7/rows/dt=1/a.parquet",
    ]
    places = [f"_ingest/{name}" for name in names]
    places += ["bronze/events/dt=1/a.parquet", "silver/x/_staging/1/a.parquet"]
    places += ["bronze/events/_log/1.json", "silver/x/_log/1.sum"]
    for place in places:
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_bytes(b"four")
    found = kept(tmp_path)
    assert list(found) == list(PARTS)
    assert sum(part["files"] for part in found.values()) == len(places)
    assert sum(part["bytes"] for part in found.values()) == 4 * len(places)
    assert found["waiting"] == {"files": 3, "bytes": 12}


def test_percentiles_are_values_that_occur() -> None:
    assert [percentile([4.0, 1.0, 2.0, 3.0], share) for share in (0.0, 0.5, 0.95)] == [1, 3, 4]
