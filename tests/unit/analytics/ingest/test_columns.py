from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from laps_analytics.ingest.columns import made_once

pytestmark = pytest.mark.spark


def test_columns_are_made_once_for_a_session(spark: SparkSession) -> None:
    made: list[object] = []

    def make() -> object:
        made.append(object())
        return made[-1]

    other = spark.newSession()
    first = made_once(spark, ("x", 1), make)
    assert made_once(spark, ("x", 1), make) is first
    assert made_once(spark, ("x", 2), make) is not first
    assert made_once(other, ("x", 1), make) is not first
    assert len(made) == 3
