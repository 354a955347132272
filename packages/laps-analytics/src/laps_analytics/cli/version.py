"""``laps-analytics version``."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer

from laps_wire.telemetry.schema import VERSION

__all__ = ["show_version"]


def show_version(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show the versions of this package, of Spark, and of the telemetry that it reads."""
    rows = {name: _of(name) for name in ("laps-analytics", "laps-wire", "pyspark")}
    rows["telemetry"] = VERSION
    if as_json:
        typer.echo(json.dumps(rows))
        return
    for name, found in rows.items():
        typer.echo(f"{name:16} {found}")


def _of(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
