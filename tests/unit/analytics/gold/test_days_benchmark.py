"""The benchmark of days, small: it builds what it says, and all windows give the same answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from analytics.cost_data import DAY, VIEWERS_TOO, silver
from analytics.days import FULL, Bench, table
from pyspark.sql import SparkSession

from laps_analytics.gold.silver import stored_type
from laps_analytics.lake import Lake


@pytest.mark.spark
@pytest.mark.long
def test_a_small_lake_is_measured(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake.open(tmp_path / "lake", create=True)
    tables = ("qoe_region_1m", "qoe_region_1h", "qoe_region_1d")
    figures = Bench(spark, lake, 2, 20_000, tables, times=1).run()
    assert {item["step"]: item["built"] for item in figures["steps"]} == {
        "first day, cold": 3,
        "full": 6,
        FULL: 6,
        "a new day": 3,
        "a late file": 3,
        "nothing new": 0,
    }
    assert set(figures["steps"][1]["tables"]) == set(tables)
    assert figures["full_by_new"] > 0 < figures["full_by_late"]
    assert [item["table"] for item in figures["questions"]] == ["qoe_region_1d", *tables[1::-1]]
    assert len({item["rows"] for item in figures["questions"]}) == 1
    assert figures["questions"][0]["rows"] > 0


def test_what_is_generated_has_the_columns_of_silver(tmp_path: Path) -> None:
    silver(tmp_path, 3_000, DAY, VIEWERS_TOO)
    for kind, share in VIEWERS_TOO.items():
        files = sorted((tmp_path / kind).rglob("*.parquet"))
        assert {file.parent.name for file in files} == {f"hour={hour:02}" for hour in range(24)}
        rows = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
        assert len(rows) == int(3_000 * share)
        assert {f"{row['ts']:%Y-%m-%d}" for row in rows} == {DAY}
        assert set(rows[0]) < set(stored_type(kind).fieldNames())


def test_the_table_has_ratios() -> None:
    def step(name: str, cpu: float) -> dict[str, Any]:
        return {"step": name, "built": 1, "cpu": cpu, "wall": cpu}

    shown = table(
        {
            "days": 30,
            "rows": 1000,
            "steps": [step(FULL, 120.0), step("a new day", 10.0)],
            "questions": [
                {"question": "who", "table": "qoe_region_1d", "rows": 4, "cpu": 0.5, "wall": 0.25,
                 "wall_most": 0.5}
            ],
        }
    )  # fmt: skip
    assert "| a new day | 1 | 10.0 | 10.0 | 12.0 |" in shown
    assert "| who | `qoe_region_1d` | 4 | 0.50 | 0.25 (0.50) |" in shown
