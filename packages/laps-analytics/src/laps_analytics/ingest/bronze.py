"""From the inbox to ``bronze/events`` and ``bronze/quarantine``, in one pass over the lines."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from laps_analytics.errors import OutputError
from laps_analytics.ingest.hours import Hour, hour_at, hour_of_file
from laps_analytics.ingest.intake import SUFFIX
from laps_analytics.ingest.parse import SUSPECT, judge, parse
from laps_analytics.lake import Lake, write
from laps_analytics.schema import BRONZE, QUARANTINE

__all__ = ["batch_key", "lines_of", "touched_by", "write_bronze"]

_HEAD: Final = len("00000000-00000-")
_PARTITIONS: Final = ("dt", "hour", "type")


def batch_key(batch: int) -> str:
    """The name of a batch in the logs of tables."""
    return f"batch-{batch}"


def lines_of(spark: SparkSession, files: Iterable[Path]) -> DataFrame:
    """The lines of files of the inbox: ``value`` and ``source``."""
    read = spark.read.option("lineSep", "\n").text([str(file) for file in files])
    return read.select("value", source_column().alias("source"))


def source_column() -> Column:
    """The name of the source, which the name of a file of the inbox has in its middle."""
    name = "_metadata.file_name"
    return fn.expr(f"substring({name}, {_HEAD + 1}, length({name}) - {_HEAD + len(SUFFIX)})")


def write_bronze(
    lake: Lake,
    lines: DataFrame,
    *,
    batch: int,
    seen_us: int,
    stage: Path,
    progress: Callable[[str], None] = lambda _: None,
) -> None:
    r"""Commit lines to bronze as a batch: once, however often it is tried.

    ::

        lines --parse--> stage/rows/dt=.../hour=.../type=...      --------------> bronze/events
                    \--> stage/suspect --judge--> stage/judged --> no event ----> bronze/quarantine
                                                         \----> event: stage/rows

    ``bronze/events`` is last: where it has the batch, all of this is done.
    """
    table, quarantine = lake.table("bronze/events"), lake.table("bronze/quarantine")
    key = batch_key(batch)
    base = table.snapshot()
    if key in base.batches:
        return
    # Files may have been moved on already; what is left is made again.
    shutil.rmtree(stage, ignore_errors=True)
    rows, suspect, judged = stage / "rows", stage / "suspect", stage / "judged"
    parsed = parse(lines, batch=batch, seen_us=seen_us)
    _write(parsed, rows, _PARTITIONS)
    progress("parsed")
    if (rows / f"dt={SUSPECT}").exists():
        (rows / f"dt={SUSPECT}").rename(suspect)
        spark = lines.sparkSession
        _write(judge(spark.read.parquet(str(suspect))), judged, ())
        verdicts = spark.read.parquet(str(judged))
        passed = verdicts.where("value is not null").select("value", "source")
        _write(
            parse(passed, batch=batch, seen_us=seen_us, judged=True), rows, _PARTITIONS, "append"
        )
        day = hour_at(seen_us)[0]
        refused = verdicts.where("value is null").select(
            *("line", "source", "reason", "relay", "ts_us"),
            fn.lit(batch).cast("bigint").alias("batch"),
            fn.lit(seen_us).cast("bigint").alias("seen_us"),
            fn.lit(day).alias("dt"),
        )
        write(refused.select(*QUARANTINE.fieldNames()), quarantine, partition_by=("dt",), batch=key)
        progress("quarantined")
    table.commit(rows, base=base, batch=key)
    progress("bronze")


def touched_by(lake: Lake, batch: int) -> set[Hour]:
    """The hours that a batch added rows to."""
    return {hour_of_file(file) for file in lake.table("bronze/events").files_of(batch_key(batch))}


def _write(
    frame: DataFrame, to: Path, partition_by: tuple[str, ...], mode: str = "overwrite"
) -> None:
    columns = [*BRONZE.fieldNames(), "line"]
    if partition_by:
        frame = frame.select(*(name for name in columns if name in frame.columns))
        if mode == "append":
            frame = frame.drop("line")
    writer = frame.write.mode(mode).option("compression", "zstd")
    if partition_by:
        writer = writer.partitionBy(*partition_by)
    try:
        writer.parquet(str(to))
    except PySparkException as error:
        if any(word in str(error) for word in ("Mkdirs failed", "Permission denied", "No space")):
            raise OutputError(
                f"{to} cannot be written: free space or name another folder;"
                " what was taken is in the inbox, run again"
            ) from None
        raise
