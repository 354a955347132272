from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from laps_analytics.errors import UsageError
from laps_analytics.gold.contract import sql_type
from laps_analytics.gold.tables import GOLD
from laps_analytics.session import SessionSettings, spark_session

pytestmark = pytest.mark.spark


def test_a_session_counts_in_utc(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_a_cluster_and_a_connect_server_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="exclude each other"):
        spark_session(SessionSettings(master="local[1]", remote="sc://127.0.0.1:1"))


@pytest.mark.parametrize("name", GOLD)
def test_contracts_write_types_as_spark_reads_them(spark: SparkSession, name: str) -> None:
    for item in GOLD[name].columns:
        row = StructType.fromDDL(f"x {item.type}")
        assert isinstance(row, StructType)
        assert row["x"].dataType == sql_type(item.type)
