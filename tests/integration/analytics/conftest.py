"""One Spark session for all tests, and one lake with the telemetry of real relays."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from integration.analytics.relay_lake import RelayLake, make_relay_lake
from testkit.spark import spark, usual_spark

__all__ = ["relay_lake", "spark", "usual_spark"]


@pytest.fixture(scope="session")
def relay_lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> RelayLake:
    return make_relay_lake(spark, tmp_path_factory.mktemp("relays"))
