"""The ``laps-analytics`` command: one module for each group of subcommands.

::

    main -> app -+-> demo                          a synthetic network from telemetry to plan
                 +-> ingest, retain                telemetry into a lake; old days out of it
                 +-> build, report, bill           gold tables, and what they answer
                 +-> sql                           tables, by queries
                 +-> plan                          make, sign and measure plans
                 +-> explain, diff, what-if        decisions of plans

``common`` has the options that several commands share. :func:`main` turns an
:class:`AnalyticsError` into one line on standard error and an exit code. Nothing imports this room.
"""

from __future__ import annotations

import json
import os
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from laps_analytics.cli.demo import demo
from laps_analytics.cli.explain import show_diff, show_explanation, show_what_if
from laps_analytics.cli.gold import build_gold, report, show_bill
from laps_analytics.cli.ingest import ingest_files, retain_days
from laps_analytics.cli.plan import plan_app
from laps_analytics.cli.sql import run_sql
from laps_analytics.errors import AnalyticsError
from laps_analytics.spark.launch import fault_of_workers
from laps_wire.telemetry.schema import VERSION

__all__ = ["app", "main", "show_version"]


def show_version(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Show the versions of laps-analytics, laps-wire, PySpark and the telemetry schema."""
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


app = typer.Typer(
    name="laps-analytics",
    help="Tables, reports and plans from the telemetry of relays, on Spark.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)
app.command("demo")(demo)
app.command("ingest")(ingest_files)
app.command("build")(build_gold)
app.command("report")(report)
app.command("sql")(run_sql)
app.command("bill")(show_bill)
app.add_typer(plan_app, name="plan")
app.command("explain")(show_explanation)
app.command("diff")(show_diff)
app.command("what-if")(show_what_if)
app.command("retain")(retain_days)
app.command("version")(show_version)


def main() -> None:
    """Run the command; print an :class:`AnalyticsError` as one line and exit with its code."""
    # PySpark gives times in the zone of the process, whatever the session's is.
    os.environ["TZ"] = "UTC"
    time.tzset()
    try:
        app()
    except AnalyticsError as error:
        sys.stderr.write(f"laps-analytics: {error}\n")
        sys.exit(error.exit_code)
    except (PySparkException, Py4JJavaError) as error:
        if (fault := fault_of_workers(str(error))) is None:
            raise
        sys.stderr.write(f"laps-analytics: {fault}\n")
        sys.exit(1)
