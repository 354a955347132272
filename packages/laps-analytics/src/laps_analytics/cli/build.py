"""The command ``laps-analytics build``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from laps_analytics.cli.common import (
    AsJson,
    LakeFolder,
    Master,
    Memory,
    NoProgress,
    Remote,
    check_days,
    progress_printer,
    session_maker,
)
from laps_analytics.errors import UsageError
from laps_analytics.gold.build import Built, build, to_build
from laps_analytics.gold.dimensions import Dimensions
from laps_analytics.lake import Lake

__all__ = ["Days", "build_gold"]

Days: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--day", help="A day, yyyy-mm-dd; repeatable.", show_default=False),
]
DimensionFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--dimensions",
        help="Classes, tenants and capacities (TOML or CSV); by default those of the last build.",
        show_default=False,
    ),
]


def build_gold(
    lake: LakeFolder,
    *,
    day: Days = None,
    every_day: Annotated[
        bool,
        typer.Option("--all", help="Every day of the lake; this is the default without --day."),
    ] = False,
    table: Annotated[
        list[str] | None,
        typer.Option("--table", help="Only this table; repeatable.", show_default=False),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Also build days whose input did not change.")
    ] = False,
    dimensions: DimensionFile = None,
    master: Master = None,
    remote: Remote = None,
    memory: Memory = "4g",
    as_json: AsJson = False,
    no_progress: NoProgress = False,
) -> None:
    """Build gold tables from silver tables, for the days whose input changed."""
    if every_day and day:
        raise UsageError("--all and --day exclude each other: give one of them")
    check_days(day)
    maker, progress = session_maker(master, remote, memory), progress_printer(no_progress)
    place = Lake.open(lake)
    facts = None if dimensions is None else Dimensions.read(dimensions)
    # Before Spark is started, which takes a while.
    if not to_build(place, day or None, table)[0]:
        raise UsageError(f"{lake} has no telemetry: run `laps-analytics ingest` first")
    done = build(
        maker(),
        place,
        day or None,
        dimensions=facts,
        tables=table,
        again=again,
        progress=lambda name, step, steps: progress(f"{step}/{steps} {name}".rstrip()),
    )
    typer.echo(json.dumps([_plain(item) for item in done]) if as_json else _text(done))


def _plain(item: Built) -> dict[str, Any]:
    return {
        "table": item.table,
        "days": list(item.days),
        "seconds": round(item.seconds, 3),
        "version": item.version,
    }


def _text(done: list[Built]) -> str:
    lines = []
    for item in done:
        count = len(item.days)
        days = "as it was"
        if count:
            span = item.days[0] if count == 1 else f"{item.days[0]} to {item.days[-1]}"
            days = f"{count} day{'s' if count > 1 else ''} built, {span}, {item.seconds:.1f} s"
        lines.append(f"{item.table:18} {days}")
    return "\n".join(lines)
