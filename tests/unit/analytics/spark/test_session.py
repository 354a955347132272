from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from laps_analytics.errors import UsageError
from laps_analytics.gold.tables import GOLD, sql_type
from laps_analytics.spark.launch import find_java
from laps_analytics.spark.session import (
    SessionSettings,
    master_of,
    spark_session,
    use_fast_local_files,
)

pytestmark = pytest.mark.spark


def test_a_session_counts_in_utc(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_operators_of_columns_are_not_asked_where_they_stand(spark: SparkSession) -> None:
    assert spark.conf.get("spark.python.sql.dataFrameDebugging.enabled") == "false"


def test_compiled_classes_of_all_tables_are_kept(spark: SparkSession) -> None:
    """Spark keeps a hundred, and a build has some hundred: each would be compiled for each day."""
    assert int(spark.conf.get("spark.sql.codegen.cache.maxEntries") or 0) >= 1000


def test_a_cluster_and_a_connect_server_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="exclude each other"):
        spark_session(SessionSettings(master="local[1]", remote="sc://127.0.0.1:1"))


@pytest.mark.parametrize(
    ("settings", "environment", "want"),
    [
        (SessionSettings(), {}, ("local[*]", True)),
        (SessionSettings(master="spark://a:1"), {}, ("spark://a:1", True)),
        (SessionSettings(options={"spark.master": "yarn"}), {}, ("yarn", True)),
        # Under spark-submit its JVM is there already, and only it knows.
        (SessionSettings(), {"PYSPARK_GATEWAY_PORT": "1"}, ("", False)),
        (
            SessionSettings(master="spark://a:1"),
            {"PYSPARK_GATEWAY_PORT": "1", "PYSPARK_SUBMIT_ARGS": "--master yarn pyspark-shell"},
            ("spark://a:1", True),
        ),
        (
            SessionSettings(),
            {"PYSPARK_SUBMIT_ARGS": "--executor-memory 1g --master 'local[3]' pyspark-shell"},
            ("local[3]", False),
        ),
        (SessionSettings(), {"PYSPARK_SUBMIT_ARGS": "--master=yarn x"}, ("yarn", False)),
        (
            SessionSettings(),
            {"PYSPARK_SUBMIT_ARGS": "--conf a=b --conf spark.master=yarn x"},
            ("yarn", False),
        ),
        (SessionSettings(), {"PYSPARK_SUBMIT_ARGS": "pyspark-shell"}, ("local[*]", True)),
    ],
)
def test_a_master_that_spark_has_already_is_left_alone(
    settings: SessionSettings, environment: dict[str, str], want: tuple[str, bool]
) -> None:
    assert master_of(settings, environment) == want


@pytest.mark.parametrize("line", ["spark.master  spark://b:2", "spark.master=spark://b:2 "])
def test_so_is_one_of_the_defaults_file(tmp_path: Path, line: str) -> None:
    (tmp_path / "conf").mkdir()
    for environment in ({"SPARK_HOME": str(tmp_path)}, {"SPARK_CONF_DIR": str(tmp_path / "conf")}):
        assert master_of(SessionSettings(), environment) == ("local[*]", True)
    (tmp_path / "conf" / "spark-defaults.conf").write_text(f"# ours\nspark.x 1\n{line}\n")
    for environment in ({"SPARK_HOME": str(tmp_path)}, {"SPARK_CONF_DIR": str(tmp_path / "conf")}):
        assert master_of(SessionSettings(), environment) == ("spark://b:2", False)


@pytest.mark.long
def test_the_master_of_spark_submit_need_not_be_named_twice(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from laps_analytics.spark.session import spark_session\n"
        "print('master', spark_session().sparkContext.master)\n"
    )
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    ended = subprocess.run(
        [submit, "--master", "local[1]", program],
        env={**os.environ, "JAVA_HOME": str(find_java()), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "master local[1]" in ended.stdout.splitlines(), ended.stderr[-2000:]


@pytest.mark.parametrize("name", GOLD)
def test_contracts_write_types_as_spark_reads_them(spark: SparkSession, name: str) -> None:
    for item in GOLD[name].columns:
        row = StructType.fromDDL(f"x {item.type}")
        assert isinstance(row, StructType)
        assert row["x"].dataType == sql_type(item.type)


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
    use_fast_local_files(spark)
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
