"""One Spark session for all tests, and one lake: files of generated lines, with all gold built."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from xdist.remote import Producer

from laps_analytics.gold.build import build
from laps_analytics.ingest.run import ingest
from laps_analytics.lake import Lake
from testkit.commands import commands_once
from testkit.gold_files import LATER_US, NOW_US, gold_files
from testkit.spark import spark, usual_spark
from testkit.spark_apart import SparkApart
from unit.analytics.gold.lakes import DIMENSIONS, STATED_US, GoldLake, Rows, rows_of

__all__ = ["commands_once", "gold_lake", "rows", "spark", "usual_spark"]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> SparkApart:
    """With several processes, one has Spark."""
    return SparkApart(config, log)


@pytest.fixture(scope="session")
def gold_lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> GoldLake:
    """From lines to gold, as users do it: two ingests, of which the second is late, and a build."""
    folder = tmp_path_factory.mktemp("gold")
    made = gold_files()
    place = folder / "telemetry"
    place.mkdir()
    lake = Lake.open(folder / "lake", create=True)
    batches, summaries = [], []
    for now_us, files in ((NOW_US, made.files), (LATER_US, made.later)):
        for name, data in files.items():
            (place / name).write_bytes(data)
        batches.append((now_us, [place / name for name in files]))
        summaries.append(ingest(lambda: spark, lake, [place], now_us=now_us))
    build(spark, lake, dimensions=DIMENSIONS, now_us=STATED_US)
    return GoldLake(made, tuple(batches), tuple(summaries), lake)


@pytest.fixture
def rows(gold_lake: GoldLake) -> Rows:
    """A gold table as Python has it."""
    return lambda name: rows_of(gold_lake.lake, name)
