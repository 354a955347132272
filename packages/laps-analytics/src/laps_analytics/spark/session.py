"""Create Spark sessions.

A session is local by default, with settings for one small machine. On a cluster (``master``) or
with Spark Connect (``remote``) only settings that change results are set. A master that Spark
already knows, for example from ``spark-submit --master``, is kept.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from laps_analytics.errors import StartError, UsageError
from laps_analytics.spark.launch import (
    JvmOutput,
    check_master,
    check_memory,
    check_remote,
    find_java,
    start_context,
    start_failure,
)

__all__ = [
    "LOCAL",
    "SessionSettings",
    "check_settings",
    "master_of",
    "spark_session",
    "use_fast_local_files",
]

_ALWAYS: Final[Mapping[str, str]] = {
    # Results must not depend on where the program runs.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    # Microseconds as they are; the old INT96 form is not read by everybody.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Bodies are read whole. Spark would guess columns for each file, write those, and join them
    # again for each reader.
    "spark.sql.variant.inferShreddingSchema": "false",
}

_DRIVEN: Final[Mapping[str, str]] = {
    # So that an error may name a line of Python, PySpark would ask the JVM several times more for
    # each operator of a column: four times the CPU, and a build has thousands of operators.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Classes that Spark wrote and compiled, to be used again. It keeps a hundred, and nine tables
    # have two hundred: of these each build compiled all, and Java's compiler began anew with them.
    "spark.sql.codegen.cache.maxEntries": "2000",
}
"""Settings of a session whose driver is this process. A Connect server has its own."""

LOCAL: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    # Its bars would stand between our lines.
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "512",
    # To open a file here is cheap. Spark counts 4 MB for it, as on a cluster: hundreds of small
    # files became dozens of tasks, and each task that writes leaves a file in each partition.
    "spark.sql.files.openCostInBytes": "65536",
}
"""Settings for one machine."""

_JAVA: Final = "-XX:+UseParallelGC -XX:-DontCompileHugeMethods"
"""JVM options for throughput.

They also compile the long methods that Spark generates for wide aggregates; together they save a
third of the CPU of a gold build.
"""


_FAILED: Final = (PySparkException, Py4JError, OSError)
"""Exceptions of PySpark if Spark does not start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """Settings of a Spark session."""

    master: str | None = None
    """URL of a cluster, or ``local[N]``; None: the master Spark knows, else all local cores."""
    remote: str | None = None
    """Spark Connect URL (``sc://host:port``); excludes ``master``."""
    driver_memory: str = "4g"
    java_options: str | None = None
    """Options of the driver's JVM; None for the defaults."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Spark settings that override the defaults."""


def master_of(settings: SessionSettings, environment: Mapping[str, str]) -> tuple[str, bool]:
    """Return the master and whether the session must set it.

    The session does not set a master that Spark takes from elsewhere. The name is empty if only the
    JVM of spark-submit knows it.
    """
    named = settings.master or settings.options.get("spark.master")
    if named:
        return named, True
    if submitted := _submitted(environment.get("PYSPARK_SUBMIT_ARGS", "")):
        return submitted, False
    if "PYSPARK_GATEWAY_PORT" in environment:
        return "", False
    if written := _written(environment):
        return written, False
    return "local[*]", True


def _submitted(arguments: str) -> str | None:
    """Return the master in the arguments of spark-submit; the last one wins."""
    words = shlex.split(arguments)
    found = None
    for word, after in pairwise([*words, ""]):
        if word == "--master":
            found = after
        elif word.startswith("--master="):
            found = word.removeprefix("--master=")
        elif word == "--conf" and after.startswith("spark.master=") and found is None:
            found = after.removeprefix("spark.master=")
    return found or None


def _written(environment: Mapping[str, str]) -> str | None:
    """Return the master in ``spark-defaults.conf``."""
    home = environment.get("SPARK_HOME")
    place = environment.get("SPARK_CONF_DIR") or (f"{home}/conf" if home else None)
    file = Path(place) / "spark-defaults.conf" if place else None
    if file is None or not file.is_file():
        return None
    for line in file.read_text(encoding="utf-8").splitlines():
        name, _, value = line.strip().replace("=", " ", 1).partition(" ")
        if name == "spark.master" and value.strip():
            return value.strip()
    return None


def spark_session(settings: SessionSettings | None = None) -> SparkSession:
    """Return a Spark session.

    Raises :class:`UsageError` or :class:`JavaMissingError` before Spark starts, and
    :class:`StartError` if Spark does not start.
    """
    chosen = settings or SessionSettings()
    check_settings(chosen)
    # In an environment of its own, Spark's workers would otherwise take another Python from PATH.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if chosen.remote:
        try:
            return _builder({**_ALWAYS, **chosen.options}).remote(chosen.remote).getOrCreate()
        except _FAILED as error:
            raise StartError(
                f"--remote {chosen.remote} failed: {start_failure(error, ())}"
            ) from None
    os.environ["JAVA_HOME"] = str(find_java(warn=_warn))
    session = _started(_options(chosen), chosen)
    session.sparkContext.setLogLevel("ERROR")
    if (session.sparkContext.master or "").startswith("local"):
        use_fast_local_files(session)
    return session


def check_settings(chosen: SessionSettings) -> None:
    """Raise what :func:`spark_session` would raise for its options, without starting Spark."""
    if chosen.master and chosen.remote:
        raise UsageError("--master and --remote exclude each other: give one of them")
    if chosen.remote:
        check_remote(chosen.remote)
        return
    check_memory(chosen.driver_memory)
    if named := chosen.master or chosen.options.get("spark.master"):
        check_master(named)


def _options(chosen: SessionSettings) -> dict[str, str]:
    """Return all settings of a session whose driver is this process."""
    options = dict(_DRIVEN)
    master, is_ours = master_of(chosen, os.environ)
    if is_ours:
        options["spark.master"] = master
    if master.startswith("local"):
        options["spark.driver.memory"] = chosen.driver_memory
        options["spark.driver.extraJavaOptions"] = _JAVA
        options |= LOCAL
    if chosen.java_options:
        options["spark.driver.extraJavaOptions"] = chosen.java_options
    return {**options, **_ALWAYS, **chosen.options}


def _builder(options: Mapping[str, str]) -> SparkSession.Builder:
    builder = SparkSession.builder.appName("laps-analytics")
    for name, value in options.items():
        builder = builder.config(name, value)
    return builder


def _started(options: Mapping[str, str], chosen: SessionSettings) -> SparkSession:
    """Return the session; start a JVM if there is none."""
    builder = _builder(options)
    known = {"PYSPARK_GATEWAY_PORT", "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"}
    has_jvm = SparkContext._gateway is not None or known & os.environ.keys()  # noqa: SLF001
    output = None if has_jvm else JvmOutput()
    try:
        if output is not None:
            conf = SparkConf().setAll([("spark.app.name", "laps-analytics"), *options.items()])
            start_context(conf, output)
        session = builder.getOrCreate()
    except _FAILED as error:
        # A JVM that exited has said all; one that runs still will say no more.
        ended = isinstance(error, PySparkException)
        message = start_failure(
            error, () if output is None else output.lines(10.0 if ended else 0.0)
        )
        raise StartError(f"Spark did not start: {message}{_option_hint(message, chosen)}") from None
    if output is not None:
        output.forward()
    return session


def _option_hint(message: str, chosen: SessionSettings) -> str:
    """Return a hint at the option that caused a fault; empty if unknown."""
    text = message.lower()
    if any(word in text for word in ("heap", "memory", "-xm")):
        return f" (check --memory {chosen.driver_memory})"
    return f" (check --master {chosen.master})" if chosen.master else ""


def _warn(text: str) -> None:
    sys.stderr.write(f"laps-analytics: {text}\n")


_RAW: Final = """
package laps;
public class RawFiles extends org.apache.hadoop.fs.RawLocalFileSystem {
    public void setPermission(
        org.apache.hadoop.fs.Path path, org.apache.hadoop.fs.permission.FsPermission mode
    ) throws java.io.IOException {
        if (mode.getStickyBit()) {
            super.setPermission(path, mode);
        } else {
            java.nio.file.Files.setPosixFilePermissions(
                pathToFile(path).toPath(),
                java.nio.file.attribute.PosixFilePermissions.fromString(mode.toString())
            );
        }
    }
}
"""

_FILES: Final = """
package laps;
public class Files extends org.apache.hadoop.fs.LocalFileSystem {
    public Files() {
        super(new laps.RawFiles());
        // A table takes the Parquet files alone: what is beside them was written for nothing.
        setWriteChecksum(false);
    }
}
"""


def use_fast_local_files(spark: SparkSession) -> None:
    """Make Hadoop use a file system without subprocesses for ``file:`` in a local session.

    The default one starts ``chmod`` for each file and folder, because PySpark has no native Hadoop
    library. That is four processes for a small Parquet file, and most of the CPU of a write.

    Spark's own compiler (Janino) compiles the class. Hadoop caches one file system for the process,
    so the cached one is closed and replaced.
    """
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - PySpark has no other way to Hadoop
    context: Any = spark.sparkContext._jsc  # noqa: SLF001
    hadoop = jvm.org.apache.hadoop
    here = jvm.java.net.URI.create("file:///")
    before = hadoop.fs.FileSystem.get(here, context.hadoopConfiguration())
    if before.getClass().getName() == "laps.Files":
        return
    loader = before.getClass().getClassLoader()
    for source in (_RAW, _FILES):
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(loader)
        compiler.cook(source)
        loader = compiler.getClassLoader()
    conf = hadoop.conf.Configuration(context.hadoopConfiguration())
    conf.setClassLoader(loader)
    conf.set("fs.file.impl", "laps.Files")
    before.close()
    hadoop.fs.FileSystem.get(here, conf)
