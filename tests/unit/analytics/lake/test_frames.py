from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

from laps_analytics.lake import Lake, Table, compact, read, spark_path, write

pytestmark = pytest.mark.spark

SCHEMA = StructType([StructField("n", LongType()), StructField("dt", StringType())])


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Lake.open(tmp_path / "lake", create=True).table("gold/numbers")


def frame(spark: SparkSession, *rows: tuple[int, str]) -> DataFrame:
    return spark.createDataFrame(list(rows), SCHEMA)


def rows(spark: SparkSession, table: Table) -> list[tuple[int, str]]:
    return sorted((row.n, row.dt) for row in read(spark, table, SCHEMA).collect())


def test_a_table_without_commits_is_empty(spark: SparkSession, table: Table) -> None:
    found = read(spark, table, SCHEMA)
    assert (found.schema, found.count()) == (SCHEMA, 0)


def test_rows_are_added_or_take_the_place_of_partitions(spark: SparkSession, table: Table) -> None:
    write(frame(spark, (1, "a"), (2, "b")), table, partition_by=("dt",))
    write(frame(spark, (3, "a")), table, partition_by=("dt",), batch="x")
    assert write(frame(spark, (3, "a")), table, partition_by=("dt",), batch="x") == 2
    assert rows(spark, table) == [(1, "a"), (2, "b"), (3, "a")]
    write(frame(spark, (4, "a")), table, partition_by=("dt",), replace=[{"dt": "a"}])
    assert rows(spark, table) == [(2, "b"), (4, "a")]
    only = read(spark, table, SCHEMA, where=lambda file: file.partition["dt"] == "b")
    assert [row.n for row in only.collect()] == [2]
    write(frame(spark), table, partition_by=("dt",), replace=[{}])
    assert rows(spark, table) == []


def test_many_files_become_one_for_each_partition(spark: SparkSession, table: Table) -> None:
    for number in range(3):
        write(frame(spark, (number, "a"), (9, "b")), table, partition_by=("dt",))
    before, seen = rows(spark, table), table.snapshot()
    some = [file for file in seen.files.values() if file.partition["dt"] == "a"]
    assert compact(spark, table, SCHEMA, some, partition_by=("dt",)) == 4
    after = table.snapshot()
    assert rows(spark, table) == before
    assert sorted(file.partition["dt"] for file in after.files.values()) == ["a", "b", "b", "b"]
    # Who began before still reads the many.
    assert all((table.root / path).exists() for path in seen.files)
    assert not list((table.root / "_staging").iterdir())


def test_who_is_killed_while_files_become_one_loses_nothing(
    spark: SparkSession, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        write(frame(spark, (number, "a")), table, partition_by=("dt",))
    before = rows(spark, table)

    def killed(*_: object, **__: object) -> int:
        raise KeyboardInterrupt

    files = table.snapshot().files.values()
    with monkeypatch.context() as patch:
        patch.setattr(Table, "commit", killed)
        with pytest.raises(KeyboardInterrupt):
            compact(spark, table, SCHEMA, files, partition_by=("dt",))
    assert (table.snapshot().version, rows(spark, table)) == (3, before)
    compact(spark, table, SCHEMA, files, partition_by=("dt",))
    assert (len(table.snapshot().files), rows(spark, table)) == (1, before)


def test_spark_is_told_of_whole_places(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its working directory is not ours, as with Connect, and its files may lie elsewhere."""
    monkeypatch.chdir(tmp_path)
    assert spark_path(Path("a b/c%20d")) == f"file://{tmp_path}/a b/c%20d"
    session = spark.newSession()
    session.conf.set("fs.defaultFS", "hdfs://nobody.invalid:8020")
    table = Lake.open(Path("a lake"), create=True).table("gold/numbers")
    for number in range(2):
        write(frame(session, (number, "a")), table, partition_by=("dt",))
    files = table.snapshot().files.values()
    compact(session, table, SCHEMA, files, partition_by=("dt",))
    assert rows(session, table) == [(0, "a"), (1, "a")]
    assert len(list((tmp_path / "a lake").rglob("*.parquet"))) == 3
