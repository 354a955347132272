"""One lake for all tests of gold: silver from generated lines, and every gold table built once."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from laps_analytics.gold.build import build
from laps_analytics.lake import Lake
from testkit.gold_world import world
from unit.analytics.gold.lakes import DIMENSIONS, NOW_US, Rows, Scene, fill, rows_of


@pytest.fixture(scope="session")
def scene(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Scene:
    folder = tmp_path_factory.mktemp("gold")
    made = world()
    lines = folder / "lines.jsonl"
    lines.write_text("\n".join(made.lines))
    lake = Lake.open(folder / "lake", create=True)
    fill(lake, made.lines, made.late)
    build(spark, lake, dimensions=DIMENSIONS, now_us=NOW_US)
    return Scene(made, lines, lake)


@pytest.fixture
def rows(scene: Scene) -> Rows:
    return lambda name: rows_of(scene.lake, name)
