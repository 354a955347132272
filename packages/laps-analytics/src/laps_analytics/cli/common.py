"""Options and helpers that several commands share."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from pyspark.sql import SparkSession
from rich.console import Console

from laps_analytics.spark.session import SessionSettings, check_settings, spark_session

__all__ = [
    "AsJson",
    "LakeFolder",
    "Master",
    "Memory",
    "NoProgress",
    "Remote",
    "progress_printer",
    "session_maker",
]

LakeFolder: TypeAlias = Annotated[
    Path, typer.Option("--lake", help="Folder of the tables.", show_default=False)
]
Master: TypeAlias = Annotated[
    str | None,
    typer.Option("--master", help="Spark cluster, or local[N].  [default: this machine]"),
]
Remote: TypeAlias = Annotated[
    str | None, typer.Option("--remote", help="Spark Connect server, sc://host:port.")
]
Memory: TypeAlias = Annotated[
    str, typer.Option("--memory", help="Memory of Spark on this machine.")
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="One JSON object.")]
NoProgress: TypeAlias = Annotated[
    bool, typer.Option("--no-progress", help="Do not show progress on a terminal.")
]


def session_maker(
    master: str | None, remote: str | None, memory: str
) -> Callable[[], SparkSession]:
    """Return a function that returns the Spark session and starts Spark at its first call.

    Raises :class:`UsageError` for wrong options, before anything starts.
    """
    # A server of Connect shows no bars here, and would say that this cannot be set.
    options = {} if remote else {"spark.ui.showConsoleProgress": "false"}
    settings = SessionSettings(master=master, remote=remote, driver_memory=memory, options=options)
    check_settings(settings)
    made: list[SparkSession] = []

    def get() -> SparkSession:
        if not made:
            made.append(spark_session(settings))
        return made[0]

    return get


def progress_printer(no_progress: bool) -> Callable[[str], None]:
    """Return a function that prints progress on a terminal, and does nothing elsewhere."""
    if no_progress or not sys.stderr.isatty():
        return lambda _: None
    console = Console(stderr=True)
    return lambda step: console.print(f"[dim]{step}[/dim]")
