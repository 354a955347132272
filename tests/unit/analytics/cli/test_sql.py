"""What a lake can be asked is said without Spark; what it answers has the columns of its files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from laps_analytics.cli import app
from laps_analytics.cli.sql import make_views
from laps_analytics.gold.tables import GOLD
from laps_analytics.lake import spark_path
from testkit.gold_frames import DAY, lake_of, sample
from unit.analytics.gold.lakes import GoldLake


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(
        "laps_analytics.cli.sql.session_maker", lambda *_: pytest.fail("no Spark for this")
    )
    made = lake_of(tmp_path, {name: rows for name, rows in sample().items() if rows})
    staged = made.table("silver/hop_stat").staging() / f"dt={DAY}" / "hour=18"
    staged.mkdir(parents=True)
    (staged / "part-0.parquet").write_bytes(b"not looked at")
    table = made.table("silver/hop_stat")
    table.commit(staged.parent.parent, base=table.snapshot())
    return str(tmp_path)


def test_without_a_query_every_table_is_listed_with_its_question(lake: str) -> None:
    told = CliRunner().invoke(app, ["sql", "--lake", lake, "--json"], catch_exceptions=False)
    rows = [json.loads(line) for line in told.stdout.splitlines()]
    built = [name for name, some in sample().items() if some]
    assert [row["view"] for row in rows] == [
        *[f"gold_{name}" for name in GOLD if name in built],
        "silver_hop_stat",
    ]
    assert {"gold_qoe_region_1h", "gold_link_quality_1d"} < {row["view"] for row in rows}
    for row in rows[:-1]:
        assert row["answers"] == GOLD[row["view"].removeprefix("gold_")].question
        assert (row["days"], row["first"], row["last"]) == (1, DAY, DAY)
    assert rows[-1]["answers"] == "hop.stat, as relays wrote it."


def test_the_list_is_for_people_too(lake: str) -> None:
    told = CliRunner().invoke(app, ["sql", "--lake", lake], catch_exceptions=False)
    head, *lines = told.stdout.splitlines()
    assert head.split() == ["view", "days", "first", "last", "answers"]
    (line,) = [line for line in lines if line.startswith("gold_qoe_region_1d ")]
    assert line.rstrip().endswith("Was the promise to a class kept, day by day?")


@pytest.mark.spark
def test_what_is_known_of_a_table_is_what_its_files_say(
    spark: SparkSession, gold_lake: GoldLake
) -> None:
    """No file is opened for a view; who asked before has the same columns, in the same order."""
    names = ("gold/qoe_region_1d", "gold/traffic_1h", "silver/hop_stat", "silver/clock")
    views = make_views(spark, gold_lake.lake, " ".join(name.replace("/", "_") for name in names))
    assert sorted(views) == sorted(name.replace("/", "_") for name in names)
    for name in names:
        table = gold_lake.lake.table(name)
        reader = spark.read.option("basePath", spark_path(table.root)).option("mergeSchema", "true")
        said = reader.parquet(*[spark_path(table.root / path) for path in table.snapshot().files])
        seen = spark.table(name.replace("/", "_"))
        assert seen.dtypes == said.dtypes
        assert seen.count() == said.count() > 0
