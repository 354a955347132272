"""Options and helpers that several commands share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from datetime import date
from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from pyspark.sql import SparkSession
from rich.console import Console

from laps_analytics.errors import UsageError
from laps_analytics.spark.session import SessionSettings, check_settings, spark_session

__all__ = [
    "AsJson",
    "LakeFolder",
    "Master",
    "Memory",
    "NoProgress",
    "Remote",
    "check_days",
    "parse_day",
    "progress_printer",
    "session_maker",
]

LakeFolder: TypeAlias = Annotated[
    Path, typer.Option("--lake", help="Folder of the lake.", show_default=False)
]
Master: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--master", help="Spark cluster or local[N]; by default all cores of this machine."
    ),
]
Remote: TypeAlias = Annotated[
    str | None,
    typer.Option("--remote", help="Spark Connect server, sc://host:port; excludes --master."),
]
Memory: TypeAlias = Annotated[
    str, typer.Option("--memory", help="Memory of the Spark driver on this machine.")
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
NoProgress: TypeAlias = Annotated[bool, typer.Option("--no-progress", help="Do not show progress.")]


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


def parse_day(text: str | None, option: str) -> date | None:
    """Return the day of an option; None if it was not given."""
    if text is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{option} {text} is not a day: write it as 2026-11-17") from None


def check_days(days: Iterable[str] | None) -> None:
    """Raise :class:`UsageError` for a ``--day`` that is not a day."""
    for day in days or ():
        parse_day(day, "--day")
