"""The command ``laps-analytics sql``."""

from __future__ import annotations

import csv
import json
import sys
from enum import StrEnum
from typing import Annotated, Any, Final

import typer
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import DateType, IntegerType, StructField, StructType
from rich.console import Console
from rich.table import Table as TextTable

from laps_analytics.cli.common import LakeFolder, Master, Memory, Remote, session_maker
from laps_analytics.errors import UsageError
from laps_analytics.gold.silver import stored_type
from laps_analytics.gold.tables import GOLD
from laps_analytics.lake import Lake, spark_path
from laps_analytics.report.cells import escape_formula
from laps_analytics.schema import event_types, table_name

__all__ = ["OutputFormat", "listing", "make_views", "run_sql"]

_DESCRIPTIONS: Final = {
    "bronze/events": "Every event as it came, copies too.",
    "bronze/qlog": "Traces of connections (qlog, mlog).",
    "bronze/quarantine": "Lines that are no events, and why.",
    "silver/clock": "How wrong each relay's clock was, by the hour.",
    "silver/quarantine": "Events that cannot be used, and why.",
}
"""Descriptions of tables that are neither gold tables nor silver tables of one event type."""


class OutputFormat(StrEnum):
    """Output format of rows."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


def run_sql(
    lake: LakeFolder,
    query: Annotated[
        str | None,
        typer.Argument(
            help="A Spark SQL query; without one, the tables are listed.", show_default=False
        ),
    ] = None,
    output: Annotated[
        OutputFormat,
        typer.Option(
            "--format", metavar="FORMAT", help="Output format of the rows: table, csv or json."
        ),
    ] = OutputFormat.TABLE,
    as_json: Annotated[bool, typer.Option("--json", help="Same as --format json.")] = False,
    limit: Annotated[
        int, typer.Option("--limit", help="Maximum number of rows; 0 for all.", min=0)
    ] = 1000,
    master: Master = None,
    remote: Remote = None,
    memory: Memory = "4g",
) -> None:
    """Run a Spark SQL query on a lake, or list its tables.

    Each table is a view: the table silver/hop_stat is the view silver_hop_stat.
    """
    shown = OutputFormat.JSON if as_json else output
    if query is None:
        _print(shown, *listing(Lake.open(lake)))
        return
    maker = session_maker(master, remote, memory)
    place = Lake.open(lake)
    spark = maker()
    make_views(spark, place, query)
    try:
        frame = spark.sql(query)
        names = frame.columns
        rows = [list(row) for row in (frame.limit(limit) if limit else frame).collect()]
    except PySparkException as error:
        first = " ".join(str(error).split("\n\n")[0].split("\n")[0].split())
        raise UsageError(f"the query failed: {first}") from None
    _print(shown, names, rows)


def listing(lake: Lake) -> tuple[list[str], list[list[Any]]]:
    """Return column names and one row for each table: view, days and question. Needs no Spark."""
    kinds = {f"silver/{table_name(kind)}": kind for kind in event_types()}
    # Answers first; then what they are made from.
    what = {
        **{f"gold/{name}": table.question for name, table in GOLD.items()},
        **{name: f"{kind}, as relays wrote it." for name, kind in kinds.items()},
        **_DESCRIPTIONS,
    }
    there = _tables(lake)
    rows: list[list[Any]] = []
    for name in [*filter(there.__contains__, what), *sorted(set(there) - what.keys())]:
        days = sorted(day for (day,) in lake.table(name).snapshot().partitions("dt"))
        if days:
            rows.append([_view(name), len(days), days[0], days[-1], what.get(name, "")])
    return ["view", "days", "first", "last", "answers"], rows


def _tables(lake: Lake) -> list[str]:
    return [name for name in lake.tables() if not name.startswith("_")]


def _view(table: str) -> str:
    return table.replace("/", "_")


def make_views(spark: SparkSession, lake: Lake, query: str) -> list[str]:
    """Create a temporary view of each table that a query names, and return the names of the views.

    A view opens the files of its table, so other tables get none. If a query names no table (``SHOW
    VIEWS``) or builds names at run time (``IDENTIFIER``), every table gets a view.
    """
    tables = {_view(name): lake.table(name) for name in _tables(lake)}
    text = query.lower()
    named = [view for view in tables if view in text]
    names = []
    for view in named if named and "identifier" not in text else tables:
        table = tables[view]
        files = table.snapshot().files
        if not files:
            continue
        paths = [spark_path(table.root / path) for path in files]
        reader = spark.read.option("basePath", spark_path(table.root))
        if (schema := _schema(table.name)) is None:
            reader = reader.option("mergeSchema", "true")
        else:
            reader = reader.schema(schema)
        reader.parquet(*paths).createOrReplaceTempView(view)
        names.append(view)
    return names


def _schema(table: str) -> StructType | None:
    """Return the schema of a table by its contract; None if Spark has to read it from the files.

    Reading it from the files takes a Spark job. ``dt`` is a date and ``hour`` is a number, as Spark
    infers them from the names of folders.
    """
    layer, _, name = table.partition("/")
    kinds = {table_name(kind): kind for kind in event_types()}
    if layer == "gold" and name in GOLD:
        known = GOLD[name].schema()
    elif layer == "silver" and name in kinds:
        known = stored_type(kinds[name])
    else:
        return None
    folders = {"dt": DateType(), "hour": IntegerType()}
    return StructType(
        [StructField(item.name, folders.get(item.name, item.dataType)) for item in known.fields]
    )


def _print(output: OutputFormat, names: list[str], rows: list[list[Any]]) -> None:
    if output is OutputFormat.JSON:
        for row in rows:
            typer.echo(json.dumps(dict(zip(names, row, strict=True)), default=_plain))
    elif output is OutputFormat.CSV:
        writer = csv.writer(sys.stdout)
        writer.writerow([escape_formula(name) for name in names])
        # Only what was text is guarded: a list or a number says what it is.
        writer.writerows(
            [escape_formula(value) if isinstance(value, str) else _cell(value) for value in row]
            for row in rows
        )
    else:
        table = TextTable(*names, box=None, pad_edge=False)
        for row in rows:
            table.add_row(*(_cell(value) for value in row))
        Console(width=None if sys.stdout.isatty() else 250, markup=False).print(table)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else _text(value)


def _text(value: Any) -> str:
    if isinstance(value, bool | int | float):
        return str(value)
    return json.dumps(value, default=_plain) if isinstance(value, list | dict) else str(value)


def _plain(value: Any) -> Any:
    if hasattr(value, "asDict"):
        return value.asDict(recursive=True)
    return value.hex() if isinstance(value, bytes | bytearray) else str(value)
