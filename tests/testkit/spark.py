"""One Spark session for all tests: to start one costs more than most of them.

A ``conftest.py`` that imports ``spark`` has it as a fixture, and so with ``usual_spark``.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Final

import pytest
from pyspark.sql import SparkSession

from laps_analytics.session import LOCAL, SessionSettings, spark_session

__all__ = ["CHEAP", "spark", "usual_spark"]

CHEAP: Final = {
    # For a few thousand rows all of this costs more than it gains: to write, compile and load code
    # for each stage, to plan again after each, and to split what fits into one task.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.files.minPartitionNum": "1",
}
"""Settings of tests. What a query gives does not depend on them."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Small, with a compiler that starts fast: tests have little data."""
    place = tmp_path_factory.mktemp("spark")
    with warnings.catch_warnings():
        # Spark's own way of starting leaves files for the collector.
        warnings.simplefilter("ignore", ResourceWarning)
        session = spark_session(
            SessionSettings(
                master="local[2]",
                driver_memory="2g",
                java_options="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
                options={
                    **CHEAP,
                    "spark.sql.warehouse.dir": str(place / "warehouse"),
                    "spark.local.dir": str(place / "local"),
                },
            )
        )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def usual_spark(spark: SparkSession) -> SparkSession:
    """The same Spark with the settings that users have: compiled stages, plans that adapt."""
    session = spark.newSession()
    for name in CHEAP:
        session.conf.unset(name)
    for name, value in LOCAL.items():
        if session.conf.isModifiable(name):
            session.conf.set(name, value)
    return session
