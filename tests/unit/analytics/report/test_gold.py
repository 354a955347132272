"""One time for all chapters, few columns read, and percentiles of Spark's sketches."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import kll_sketch_agg_bigint

from laps_analytics.errors import LakeError
from laps_analytics.gold.tables import GOLD
from laps_analytics.report.build import make_report
from laps_analytics.report.chapter import Context
from laps_analytics.report.experience import blame, experience
from laps_analytics.report.gold import Gold, quantiles, read_gold, weighted
from laps_analytics.report.incidents import anomalies, convergence, loops
from laps_analytics.report.network import links
from testkit.gold_frames import kll, lake_of, sample

TIMES = ("window_start", "at", "first", "last")


def moved(rows: Iterable[dict[str, Any]], days: int) -> list[dict[str, Any]]:
    """The same rows some days later."""
    step = pd.Timedelta(days=days)
    return [
        {
            key: value + step
            if key in TIMES
            else str(date.fromisoformat(value) + step.to_pytimedelta())
            if key == "dt"
            else value
            for key, value in row.items()
        }
        for row in rows
    ]


def weeks_later() -> dict[str, Any]:
    """A lake in which everything goes on, and nothing was wrong for three weeks."""
    rows = sample()
    quiet = ("blame", "anomaly", "convergence")
    return {name: part if name in quiet else moved(part, 21) for name, part in rows.items()}


def test_culprits_of_weeks_ago_are_not_those_of_today(tmp_path: Path) -> None:
    gold = read_gold(lake_of(tmp_path / "lake", weeks_later()))
    context = Context.of(gold)
    for chapter in (blame, anomalies, convergence):
        section = chapter(context)
        assert section.paragraphs[0].startswith("Nothing since 2026-06-18.")
        assert not section.tables
    hurt = {key: answer for key, _, answer in make_report(gold).answers}["experience"]
    assert "client reports were over the limit" in hurt
    assert "blame" not in hurt
    assert "Nothing since" not in hurt


def test_the_time_that_is_asked_for_is_that_of_all_chapters(tmp_path: Path) -> None:
    lake = lake_of(tmp_path / "lake", weeks_later())
    early = Context.of(read_gold(lake, until=date(2026, 6, 20)))
    assert early.gold.until() == pd.Timestamp("2026-06-18 18:35", tz="UTC")
    assert "To blame first" in blame(early).paragraphs[0]
    whole = Context.of(read_gold(lake, since=date(2026, 6, 1)))
    assert "To blame first" in blame(whole).paragraphs[0]
    assert whole.gold.until() == pd.Timestamp("2026-07-09 18:35", tz="UTC")
    assert read_gold(lake, until=date(2026, 6, 1)).until() is None


def test_a_page_about_the_past_has_names_of_then(tmp_path: Path) -> None:
    rows = sample()
    rows["topology_snapshot"] = moved(rows["topology_snapshot"], -5)
    context = Context.of(read_gold(lake_of(tmp_path / "lake", rows)))
    assert context.places.regions["0.1:0.2"] == "us-west"


def test_loops_of_another_week_are_not_of_today() -> None:
    row = {"dt": "2026-06-01", "track": "t", "group_id": 1, "object_id": 0, "relay": "a",
           "out_peer": "b", "times": 2, "loop": True}  # fmt: skip
    frames = {name: pd.DataFrame(rows) for name, rows in sample().items() if rows}
    said = loops(Context.of(Gold({**frames, "loops_or_dups": pd.DataFrame([row])}))).paragraphs
    assert said == ("No sampled object travelled a link twice since 2026-06-01.",)


def test_the_last_stretch_ends_at_a_hole() -> None:
    times = pd.to_datetime(["2026-06-18 10:00", "2026-06-18 15:00", "2026-06-18 15:05"], utc=True)
    frames = {"link_quality_5m": pd.DataFrame({"window_start": times})}
    gold = Gold(frames)
    assert len(gold.latest_stretch("link_quality_5m")) == 2
    assert len(gold.recent("link_quality_5m")) == 3
    assert gold.latest_stretch("blame").empty
    # Whoever names a time means all of it.
    assert len(Gold(frames, since=date(2026, 6, 18)).latest_stretch("link_quality_5m")) == 3


def test_a_long_time_is_read_by_the_hour_or_the_day(tmp_path: Path) -> None:
    """Who asks for weeks is not served by thousands of minutes, and gets the same answer."""
    rows = {
        name: [row for day in range(40) for row in moved(part, day)]
        for name, part in sample().items()
        if name.startswith(("qoe_region", "link_quality"))
    }
    lake = lake_of(tmp_path / "lake", rows)
    names = ("qoe_region_1m", "qoe_region_1h", "qoe_region_1d")
    last, few = date(2026, 7, 27), date(2026, 7, 25)
    assert read_gold(lake).by_span(*names) == "qoe_region_1m"
    assert read_gold(lake, since=few).by_span(*names) == "qoe_region_1m"
    assert read_gold(lake, since=date(2026, 7, 1)).by_span(*names) == "qoe_region_1h"
    assert read_gold(lake, since=date(2026, 6, 18), until=last).by_span(*names) == "qoe_region_1d"

    week = Context.of(read_gold(lake, since=date(2026, 7, 20)))
    section = experience(week)
    assert "20.0 % of 3,200 client reports" in section.answer
    assert "half of them 230 ms or more behind live" in section.answer
    assert "in its worst hour." in links(week).paragraphs[1]
    month = Context.of(read_gold(lake, since=date(2026, 6, 18)))
    (numbers,) = links(month).tables.values()
    assert "in its worst day." in links(month).paragraphs[1]
    assert set(numbers["peak_bps"]) == {9e7}
    assert set(numbers["change_points"]) == {2 * 40}


def test_hours_that_are_not_all_there_are_not_read(tmp_path: Path) -> None:
    """As in a lake whose oldest days were built before there were any."""
    rows = {
        name: [row for day in range(6) for row in moved(part, day)]
        for name, part in sample().items()
        if name.startswith("qoe_region")
    }
    rows["qoe_region_1h"] = [row for row in rows["qoe_region_1h"] if row["dt"] > "2026-06-18"]
    gold = read_gold(lake_of(tmp_path / "lake", rows), since=date(2026, 6, 18))
    names = ("qoe_region_1m", "qoe_region_1h", "qoe_region_1d")
    assert gold.by_span(*names) == "qoe_region_1m"
    untimed = {"latency_kll": None, "latency_p50_ms": None}
    hours = [{**row, **untimed} for row in rows["qoe_region_1h"]]
    frames = {"qoe_region_1m": pd.DataFrame(hours), "qoe_region_1h": pd.DataFrame(hours)}
    told = experience(Context.of(Gold(frames, since=date(2026, 6, 18))))
    assert "400 ms or more in the worst hour" in told.answer


def test_a_month_is_that_of_the_clock() -> None:
    days = ["2026-05-31", "2026-06-01", "2026-06-18", "2026-06-19"]
    frames = {
        "usage_tenant_day": pd.DataFrame({"dt": days}),
        "blame": pd.DataFrame(sample()["blame"]),
    }
    assert Gold(frames).month("usage_tenant_day") == days[1:]
    since = Gold(frames, since=date(2026, 5, 1), until=date(2026, 6, 18))
    assert since.month("usage_tenant_day") == days[:3]
    assert Gold({}).month("usage_tenant_day") == []


def test_a_chapter_reads_its_days_and_columns_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = sample()
    for name, part in rows.items():
        rows[name] = moved(part, -60) + moved(part, -2) + part
    lake = lake_of(tmp_path / "lake", rows)
    read: list[tuple[str, str, tuple[str, ...]]] = []

    class Spy(pq.ParquetFile):  # type: ignore[misc]
        def __init__(self, path: Path) -> None:
            super().__init__(path)
            self.place = path

        def read(self, columns: list[str]) -> Any:
            table, day = self.place.parts[-3], self.place.parts[-2].removeprefix("dt=")
            read.append((table, day, tuple(columns)))
            return super().read(columns=columns)

    monkeypatch.setattr(pq, "ParquetFile", Spy)
    make_report(read_gold(lake))
    days = {(table, day) for table, day, _ in read}
    assert {day for _, day in days} == {"2026-06-16", "2026-06-18"}
    # A month for bills, and 28 days for capacity; a day for all others.
    back = {table for table, day in days if day == "2026-06-16"}
    assert back == {"usage_tenant_day", "traffic_1m"}
    heavy = {"rtt_kll", "sessions_hll", "tracks_hll", "queue_counts", "drops_by", "closed_us"}
    assert not heavy & {column for *_, columns in read for column in columns}
    assert {name for name in GOLD if rows[name]} <= {name for name, *_ in read}


def test_a_file_of_the_log_that_is_broken_is_named(tmp_path: Path) -> None:
    lake = lake_of(tmp_path / "lake", {"quality_1h": sample()["quality_1h"]})
    next((tmp_path / "lake").rglob("*.parquet")).write_bytes(b"not parquet")
    with pytest.raises(LakeError, match="build the table again"):
        make_report(read_gold(lake))


def test_all_of_a_table_is_there_too(tmp_path: Path) -> None:
    rows = sample()["blame"]
    gold = read_gold(lake_of(tmp_path / "lake", {"blame": moved(rows, -40) + rows}))
    assert len(gold["blame"]) == 2 * len(rows)
    assert list(gold["blame"]) == [item.name for item in GOLD["blame"].columns]
    assert gold["churn_1h"].empty


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
