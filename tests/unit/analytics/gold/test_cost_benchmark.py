"""The benchmark of costs asks every engine the same: they must come to the same number of rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from analytics import cost_tasks
from analytics.cost import number, table
from analytics.cost_data import lines, silver
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROWS = 20_000


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cost")
    silver(folder, ROWS)
    lines(folder, 2_000)
    return folder


@pytest.fixture
def shared(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks of Spark on the session of the tests."""
    monkeypatch.setattr("laps_analytics.spark.session.spark_session", lambda _: spark)


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize(
    ("task", "engines"),
    [
        ("lines", cost_tasks.ENGINES),
        ("percentiles", cost_tasks.ENGINES),
        ("fanout", cost_tasks.ENGINES),
        pytest.param("gold", ("spark", "duckdb"), marks=pytest.mark.long),
    ],
)
def test_engines_agree(task: str, engines: tuple[str, ...], data: Path, tmp_path: Path) -> None:
    found = {}
    for engine in engines:
        out = tmp_path / engine
        out.mkdir()
        found[engine] = cost_tasks.task_of(engine, task, data, out)()
    assert found["duckdb"] > 0
    assert found == dict.fromkeys(engines, found["duckdb"])


def test_the_table_has_growth_and_ratio() -> None:
    def row(engine: str, rows: int, cpu: float) -> dict[str, Any]:
        run = {"cpu": cpu, "wall": cpu}
        return {
            "task": "gold", "engine": engine, "rows": rows, "cold": run, "warm": run, "peak_mb": 9.0
        }  # fmt: skip

    shown = table(
        [
            *(row("spark", number("1M"), 6.0), row("duckdb", number("1M"), 2.0)),
            *(row("spark", number("10M"), 33.0), {**row("pandas", 1, 1.0), "failed": "no memory"}),
        ]
    )
    assert "| gold | 1,000,000 | 3.0 |" in shown
    assert "| gold | spark | 1,000,000 | 10,000,000 | 5.5 | 3.00 |" in shown
    assert "no memory" in shown
