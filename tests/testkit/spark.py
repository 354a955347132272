"""One Spark session for all tests: to start one costs more than most of them.

A ``conftest.py`` that imports ``spark`` has it as a fixture, and so with ``usual_spark``.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Final

import pytest
from pyspark.sql import SparkSession

from laps_analytics.spark.session import LOCAL, SessionSettings, spark_session

__all__ = ["CHEAP", "spark", "usual_spark"]

CHEAP: Final = {
    # For a few thousand rows all of this costs more than it gains: to write, compile and load code
    # for each stage or expression, to plan again after each, and to split what fits into one task.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.files.minPartitionNum": "1",
}
"""Settings of tests. What a query gives does not depend on them."""

_JAVA: Final = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    # With one compiler Java keeps 48 MB of what it compiled. Spark is more: Java would throw away,
    # interpret and compile again all the time.
    " -XX:ReservedCodeCacheSize=240m"
    # Java looks for garbage each time when classes take more than ever, from 21 MB on.
    " -XX:MetaspaceSize=256m -Xmn400m"
)
"""A compiler that starts fast, and memory that need not grow step by step."""


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
                java_options=_JAVA,
                options={
                    **CHEAP,
                    # Else each operator takes 64 MB for its few rows, and old plans are kept.
                    "spark.buffer.pageSize": "1m",
                    "spark.sql.ui.retainedExecutions": "1",
                    "spark.ui.retainedStages": "10",
                    "spark.ui.retainedJobs": "10",
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
