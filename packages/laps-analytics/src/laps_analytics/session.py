"""The one place where a Spark session is made.

Local by default, with settings for one small machine; on a cluster (``master``) or over Spark
Connect (``remote``) only what the results depend on is set, and sizes are the cluster's business.
A master that Spark has already, as from ``spark-submit --master``, is left alone.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from laps_analytics.errors import UsageError
from laps_analytics.files import use_own_files
from laps_analytics.java import find_java

__all__ = ["LOCAL", "SessionSettings", "master_of", "spark_session"]

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
"""Jobs want little work, not short pauses; and Java would interpret the long methods that Spark
writes for wide aggregates. Together a third less CPU for a gold build."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """How to get a Spark session."""

    master: str | None = None
    """A cluster's URL, or ``local[N]``; None: Spark's own, or this machine, all cores."""
    remote: str | None = None
    """A Spark Connect URL (``sc://host:port``); excludes ``master``."""
    driver_memory: str = "4g"
    java_options: str | None = None
    """For the JVM of the driver; None: what is cheapest on one machine."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Spark settings that count more than ours."""


def master_of(settings: SessionSettings, environment: Mapping[str, str]) -> tuple[str, bool]:
    """The master, and whether Spark has to be told: not if it knows one from elsewhere.

    The name is empty if only the JVM of spark-submit knows it.
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
    """The master among the arguments for spark-submit; the last one counts, as it does there."""
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
    """The master in ``spark-defaults.conf``."""
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
    """The session; :class:`JavaMissingError` or :class:`UsageError` before Spark is started."""
    chosen = settings or SessionSettings()
    if chosen.master and chosen.remote:
        raise UsageError("--master and --remote exclude each other: a cluster or a Connect server")
    # In an environment of its own, Spark's workers would otherwise take another Python from PATH.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.appName("laps-analytics")
    if chosen.remote:
        builder = builder.remote(chosen.remote)
    else:
        os.environ["JAVA_HOME"] = str(find_java())
        master, is_ours = master_of(chosen, os.environ)
        if is_ours:
            builder = builder.master(master)
        if master.startswith("local"):
            builder = builder.config("spark.driver.memory", chosen.driver_memory)
            builder = builder.config("spark.driver.extraJavaOptions", _JAVA)
            for name, value in LOCAL.items():
                builder = builder.config(name, value)
        if chosen.java_options:
            builder = builder.config("spark.driver.extraJavaOptions", chosen.java_options)
    for name, value in {**_ALWAYS, **chosen.options}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    if not chosen.remote:
        session.sparkContext.setLogLevel("ERROR")
        if (session.sparkContext.master or "").startswith("local"):
            use_own_files(session)
    return session
