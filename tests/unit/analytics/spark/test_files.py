from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from laps_analytics.spark.session import use_own_files

pytestmark = pytest.mark.spark


def hadoop_files(spark: SparkSession) -> Any:
    jvm: Any = spark.sparkContext._jvm
    context: Any = spark.sparkContext._jsc
    here = jvm.java.net.URI.create("file:///")
    return jvm.org.apache.hadoop.fs.FileSystem.get(here, context.hadoopConfiguration())


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_local_session_has_our_file_system_once(spark: SparkSession) -> None:
    files = hadoop_files(spark)
    assert files.getClass().getName() == "laps.Files"
    use_own_files(spark)
    assert hadoop_files(spark).equals(files)


def test_what_spark_writes_has_the_usual_modes_and_nothing_beside_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    frame = spark.range(3).selectExpr("id", "id % 2 AS part")
    frame.write.partitionBy("part").parquet(str(tmp_path / "out"))
    written = list((tmp_path / "out").rglob("*"))
    assert {path.suffix for path in written if path.is_file()} == {"", ".parquet"}
    assert {mode_of(path) for path in written if path.is_file()} == {mode_of(tmp_path / "file")}
    assert {mode_of(path) for path in written if path.is_dir()} == {mode_of(tmp_path / "folder")}


@pytest.mark.parametrize("mode", [0o640, 0o700, 0o1770])
def test_a_mode_is_set_as_it_is_asked_for(spark: SparkSession, tmp_path: Path, mode: int) -> None:
    jvm: Any = spark.sparkContext._jvm
    hadoop = jvm.org.apache.hadoop.fs
    folder = tmp_path / "folder"
    folder.mkdir()
    asked = hadoop.permission.FsPermission(format(mode, "o"))
    hadoop_files(spark).setPermission(hadoop.Path(str(folder)), asked)
    assert mode_of(folder) == mode
