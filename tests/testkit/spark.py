"""One Spark session for all tests: to start one costs more than most of them.

A ``conftest.py`` that imports ``spark`` has it as a fixture.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from laps_analytics.session import SessionSettings, spark_session


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
                    "spark.sql.shuffle.partitions": "2",
                    "spark.sql.warehouse.dir": str(place / "warehouse"),
                    "spark.local.dir": str(place / "local"),
                },
            )
        )
    yield session
    session.stop()
