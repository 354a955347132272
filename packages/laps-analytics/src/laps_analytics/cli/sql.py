"""``laps-analytics sql``."""

from __future__ import annotations

import csv
import json
import sys
from enum import StrEnum
from typing import Annotated, Any

import typer
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table as TextTable

from laps_analytics.cli.common import LakeFolder, Master, Memory, Remote, session_maker
from laps_analytics.errors import UsageError
from laps_analytics.lake import Lake, spark_path
from laps_analytics.report.cells import guarded

__all__ = ["Form", "ask", "make_views"]


class Form(StrEnum):
    """How rows are printed."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


def ask(
    query: Annotated[str, typer.Argument(help="A query of Spark SQL.", show_default=False)],
    lake: LakeFolder,
    form: Annotated[Form, typer.Option("--format", help="How rows are printed.")] = Form.TABLE,
    as_json: Annotated[bool, typer.Option("--json", help="Same as --format json.")] = False,
    limit: Annotated[int, typer.Option("--limit", help="Most rows; 0: all.", min=0)] = 1000,
    master: Master = None,
    remote: Remote = None,
    memory: Memory = "4g",
) -> None:
    """Ask a lake. Each table is a view: silver/hop_stat is silver_hop_stat."""
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
    _print(Form.JSON if as_json else form, names, rows)


def make_views(spark: SparkSession, lake: Lake, query: str) -> list[str]:
    """A temporary view of each table that a query names, as it is now; their names.

    A view is a job over all files of its table, so the others are left out. A query without any
    name of a table, such as ``SHOW VIEWS``, or one that puts names together, has all of them.
    """
    tables = {
        name.replace("/", "_"): lake.table(name)
        for name in lake.tables()
        if not name.startswith("_")
    }
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
        reader.option("mergeSchema", "true").parquet(*paths).createOrReplaceTempView(view)
        names.append(view)
    return names


def _print(form: Form, names: list[str], rows: list[list[Any]]) -> None:
    if form is Form.JSON:
        for row in rows:
            typer.echo(json.dumps(dict(zip(names, row, strict=True)), default=_plain))
    elif form is Form.CSV:
        writer = csv.writer(sys.stdout)
        writer.writerow([guarded(name) for name in names])
        # Only what was text is guarded: a list or a number says what it is.
        writer.writerows(
            [guarded(value) if isinstance(value, str) else _cell(value) for value in row]
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
