"""The whole way from files to silver, on one session."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from laps_analytics.ingest.run import ingest
from laps_analytics.lake import Lake, read, read_rows
from laps_analytics.schema import silver_type, table_name
from laps_wire.telemetry import BODIES
from testkit.telemetry_lines import BAD_LINES, START_US, lines_of, network, with_copies, with_skew

pytestmark = pytest.mark.spark

NOW_US = START_US + 20 * 60 * 1_000_000


def silver(spark: SparkSession, lake: Lake, kind: str) -> list[dict[str, object]]:
    schema = silver_type(kind).add("dt", "string").add("hour", "string")
    frame = read(spark, lake.table(f"silver/{table_name(kind)}"), schema)
    return [row.asDict(recursive=True) for row in frame.orderBy("event_id").collect()]


def test_files_to_silver(spark: SparkSession, tmp_path: Path) -> None:
    random = Random(1)
    events = network(1, seconds=300)
    events["2:2"] = with_skew(events["2:2"], 250_000)
    place = tmp_path / "telemetry"
    place.mkdir()
    for relay, mine in events.items():
        lines = with_copies(lines_of(mine), random)
        name = place / f"telemetry-{relay.replace(':', '_')}-7-000000.jsonl"
        name.write_text("\n".join(lines) + "\n")
    (place / "bad.jsonl").write_bytes(b"\n".join(BAD_LINES.values()) + b"\n\n")
    packed = gzip.compress(("\n".join(lines_of(events["3:3"])) + "\n").encode())
    (place / "cut.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    lake = Lake.open(tmp_path / "lake", create=True)
    summary = ingest(lambda: spark, lake, [place], now_us=NOW_US)
    refused = read_rows(lake.table("bronze/quarantine"))
    for want in BAD_LINES:
        if not want.startswith("body."):
            assert any(want in row["reason"] for row in refused), want
    unfit = read_rows(lake.table("silver/quarantine"))
    assert sorted(row["reason"] for row in unfit) == [
        "cache.stat: body.hit_bytes: '7' is not a long",
        "cache.stat: body.window_ms: missing, but the field is never null",
    ]
    assert (summary.unfit, summary.late, summary.quarantined) == (2, 0, len(BAD_LINES) - 1)
    for kind in BODIES:
        wanted = [event for mine in events.values() for event in mine if event.type == kind]
        assert Counter(row["event_id"] for row in silver(spark, lake, kind)) == Counter(
            event.event_id for event in wanted
        ), kind
    clocks = {row["relay"]: row for row in read_rows(lake.table("silver/clock"))}
    assert abs(clocks["2:2"]["offset_us"] - 250_000) < 1_000
    assert all(row["ok"] for row in clocks.values())
    again = ingest(lambda: spark, lake, [place], now_us=NOW_US)
    assert (again.files, again.unchanged) == (0, 6)
