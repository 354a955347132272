"""What a build and an ingest do when days are removed: gold that cannot be built again stays."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from laps_analytics.cli import app
from laps_analytics.errors import UsageError
from laps_analytics.gold.build import build
from laps_analytics.gold.tables import GOLD
from laps_analytics.ingest.hours import hour_at
from laps_analytics.ingest.journal import Journal
from laps_analytics.ingest.run import Summary, ingest
from laps_analytics.ingest.stream import follow
from laps_analytics.lake import Lake, horizon_of, read_rows
from laps_analytics.retention import Periods, retain, retain_locked
from laps_wire.telemetry import dump_line
from testkit.gold_files import LATER_US
from testkit.gold_world import DAYS
from unit.analytics.gold.lakes import DIMENSIONS, GoldLake, rows_of

pytestmark = pytest.mark.spark

DAY_US = 86_400_000_000
AFTER_US = LATER_US + 2 * DAY_US
"""Of three days with telemetry the last is two days ago."""
SHORT = Periods(bronze=2, silver=2)


@pytest.fixture
def copy(gold_lake: GoldLake, tmp_path: Path) -> Lake:
    """The same lake, to be changed."""
    shutil.copytree(gold_lake.lake.root, tmp_path / "lake")
    return Lake.open(tmp_path / "lake")


def versions(lake: Lake) -> dict[str, int]:
    return {name: lake.table(f"gold/{name}").snapshot().version for name in GOLD}


def put(folder: Path, gold_lake: GoldLake, number: int, days: tuple[str, ...] = DAYS) -> None:
    """A file with an event of each day that nobody has seen, of soon after midnight or midday."""
    folder.mkdir(exist_ok=True)
    lines = []
    for day in days:
        event = next(
            event
            for event in gold_lake.files.events
            if (event.type, event.relay) == ("cache.stat", "e0:1")
            and hour_at(event.ts_us)[0] == day
        )
        lines.append(dump_line(replace(event, event_id=f"e0:1:{event.boot}:{900_000 + number}")))
    (folder / f"{number}.jsonl").write_text("\n".join(lines) + "\n")


def test_gold_stays_as_it_is_when_its_silver_goes(
    spark: SparkSession, gold_lake: GoldLake, copy: Lake, tmp_path: Path
) -> None:
    before = {name: rows_of(copy, name) for name in GOLD}
    done = retain(copy, SHORT, now_us=AFTER_US, readers_s=-1.0)
    assert done.kept == ()
    assert horizon_of(copy).silver == DAYS[2]
    # Neither the days that are gone, nor the one that looks back at them.
    assert not [item for item in build(spark, copy, dimensions=DIMENSIONS) if item.days]
    with pytest.raises(UsageError, match=f"the silver tables of {DAYS[0]} were removed"):
        build(spark, copy, [DAYS[0]], dimensions=DIMENSIONS)
    # Not even if all is to be built again; days that are there are, of course.
    tables = ["cache_eff_1h", "churn_1h"]
    again = build(spark, copy, dimensions=DIMENSIONS, tables=tables, again=True)
    assert [item.days for item in again] == [(DAYS[2],)] * 2
    assert {name: rows_of(copy, name) for name in GOLD} == before

    steps = versions(copy)
    put(tmp_path / "in", gold_lake, 1)
    summary = ingest(lambda: spark, copy, [tmp_path / "in"], now_us=AFTER_US)
    assert (summary.events, summary.quarantined, summary.hours) == (0, 3, [])
    reason = f"too late: events before {DAYS[2]} 02:00 were removed"
    assert summary.reasons == {reason: 3}
    refused = read_rows(copy.table("bronze/quarantine"))
    mine = [row for row in refused if row["reason"] == reason]
    assert {(row["relay"], row["source"]) for row in mine} == {("e0:1", "1.jsonl")}
    lines = (tmp_path / "in" / "1.jsonl").read_text().splitlines()
    kept = {row["ts_us"]: json.loads(row["line"]) for row in mine}
    assert kept == {plain["ts_us"]: plain for plain in map(json.loads, lines)}
    build(spark, copy, dimensions=DIMENSIONS)
    assert versions(copy) == steps


def test_a_clock_before_2020_is_broken_and_not_late(
    spark: SparkSession, gold_lake: GoldLake, copy: Lake, tmp_path: Path
) -> None:
    retain(copy, SHORT, now_us=AFTER_US)
    (tmp_path / "in").mkdir()
    old = next(event for event in gold_lake.files.events if event.type == "cache.stat")
    line = dump_line(replace(old, ts_us=5, event_id=f"{old.relay}:{old.boot}:900000"))
    (tmp_path / "in" / "a.jsonl").write_text(f"{line}\n")
    summary = ingest(lambda: spark, copy, [tmp_path / "in"], now_us=AFTER_US)
    assert (summary.quarantined, summary.broken_clocks) == (0, [old.relay])


@pytest.mark.long
def test_a_stream_removes_days_itself(
    spark: SparkSession, gold_lake: GoldLake, tmp_path: Path
) -> None:
    """After the first batch of a day; what comes then is too late."""
    place, lake = tmp_path / "in", Lake.open(tmp_path / "lake", create=True)
    put(place, gold_lake, 1, DAYS[1:])
    now = [LATER_US]
    refused: list[int] = []

    def report(summary: Summary) -> None:
        refused.append(summary.quarantined)
        put(place, gold_lake, 1 + len(refused), DAYS[1:])

    def each_day(journal: Journal) -> None:
        periods = Periods(bronze=1, silver=1)
        retain_locked(lake, journal, periods, now_us=now[0], any_built=True)
        now[0] = LATER_US + DAY_US

    follow(spark, lake, [place], rounds=3, now_us=lambda: now[0], report=report, each_day=each_day)
    # After the first batch all before 02:00 of the second day is gone, and so on.
    assert refused == [0, 1, 2]
    days = {dt for (dt,) in lake.table("bronze/events").snapshot().partitions("dt")}
    assert days == {DAYS[2]}


def test_bills_of_days_that_are_gone_are_shown(
    spark: SparkSession, copy: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laps_analytics.cli.gold.session_maker", lambda *_: lambda: spark)
    retain(copy, SHORT, now_us=AFTER_US)
    words = ["bill", "--lake", str(copy.root), "--tenant", "acme"]
    told = CliRunner().invoke(app, words, catch_exceptions=False)
    assert [line.split()[0] for line in told.stdout.splitlines()[1:]] == list(DAYS)
    assert {line.split()[0] for line in told.stderr.splitlines()} == {DAYS[2]}
