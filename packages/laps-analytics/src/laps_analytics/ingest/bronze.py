"""Write the lines of the inbox to ``bronze/events`` and ``bronze/quarantine`` in one pass."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from laps_analytics.errors import OutputError
from laps_analytics.ingest.clock import OLDEST_US
from laps_analytics.ingest.hours import Hour, hour_at, hour_of_file
from laps_analytics.ingest.intake import SUFFIX
from laps_analytics.ingest.parse import SUSPECT, judge, parse
from laps_analytics.lake import Lake, horizon_of, spark_path, write
from laps_analytics.schema import BRONZE, QUARANTINE

__all__ = ["batch_key", "expired_key", "hours_of_batch", "lines_of", "write_bronze"]

_HEAD: Final = len("00000000-00000-")
_PARTITIONS: Final = ("dt", "hour", "type")
_OLDEST: Final = hour_at(OLDEST_US)


def batch_key(batch: int) -> str:
    """Return the name of a batch in the logs of tables."""
    return f"batch-{batch}"


def expired_key(batch: int) -> str:
    """Return the name of the part of a batch that belongs to removed days."""
    return f"expired-{batch}"


def lines_of(spark: SparkSession, files: Iterable[Path]) -> DataFrame:
    """Return the lines of files of the inbox, as columns ``value`` and ``source``."""
    read = spark.read.option("lineSep", "\n").text([spark_path(file) for file in files])
    return read.select("value", source_column().alias("source"))


def source_column() -> Column:
    """Return the name of the source, which is part of the name of a file in the inbox."""
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
    r"""Commit lines to bronze as a batch. Repeating it does nothing.

    ::

        lines --parse--> stage/rows/dt=.../hour=.../type=...      --------------> bronze/events
                    \--> stage/suspect --judge--> stage/judged --> no event ----> bronze/quarantine
                                                         \----> event: stage/rows
        stage/rows of hours that were removed ---------> stage/expired ---------> bronze/quarantine

    ``bronze/events`` is committed last: if it has the batch, all steps are done.
    """
    table = lake.table("bronze/events")
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
        _write(judge(spark.read.parquet(spark_path(suspect))), judged, ())
        verdicts = spark.read.parquet(spark_path(judged))
        passed = verdicts.where("value is not null").select("value", "source")
        _write(
            parse(passed, batch=batch, seen_us=seen_us, judged=True), rows, _PARTITIONS, "append"
        )
        refused = verdicts.where("value is null")
        _quarantine(refused, lake, key, batch=batch, seen_us=seen_us)
        progress("quarantined")
    if first := horizon_of(lake).accepted_from:
        _refuse_expired(lines.sparkSession, lake, stage, first, batch=batch, seen_us=seen_us)
    table.commit(rows, base=base, batch=key)
    progress("bronze")


def _quarantine(refused: DataFrame, lake: Lake, key: str, *, batch: int, seen_us: int) -> None:
    """Commit refused lines with their reasons."""
    rows = refused.select(
        *("line", "source", "reason", "relay", "ts_us"),
        fn.lit(batch).cast("bigint").alias("batch"),
        fn.lit(seen_us).cast("bigint").alias("seen_us"),
        fn.lit(hour_at(seen_us)[0]).alias("dt"),
    )
    table = lake.table("bronze/quarantine")
    write(rows.select(*QUARANTINE.fieldNames()), table, partition_by=("dt",), batch=key)


def _refuse_expired(
    spark: SparkSession, lake: Lake, stage: Path, first: Hour, *, batch: int, seen_us: int
) -> None:
    """Quarantine events of hours before ``first``, whose other events were removed.

    Otherwise silver and gold would be rebuilt from these events alone. A clock before 2020 is
    broken, not late; its events go to ``silver/quarantine`` as usual.
    """
    expired = stage / "expired"
    for folder in sorted((stage / "rows").glob("dt=*/hour=*")):
        hour = (folder.parent.name.removeprefix("dt="), folder.name.removeprefix("hour="))
        if _OLDEST <= hour < first:
            (expired / folder.parent.name).mkdir(parents=True, exist_ok=True)
            folder.rename(expired / folder.parent.name / folder.name)
    if not expired.exists():
        return
    place = spark_path(expired)
    rows = spark.read.schema(BRONZE).option("basePath", place).parquet(place)
    names = ("v", "event_id", "ts_us", "relay", "boot", "type", "tenant", "region", "body")
    reason = f"too late: events before {first[0]} {first[1]}:00 were removed"
    refused = rows.withColumn("line", fn.to_json(fn.struct(*names)))
    refused = refused.withColumn("reason", fn.lit(reason))
    _quarantine(refused, lake, expired_key(batch), batch=batch, seen_us=seen_us)


def hours_of_batch(lake: Lake, batch: int) -> set[Hour]:
    """Return the hours that a batch added rows to."""
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
        writer.parquet(spark_path(to))
    except PySparkException as error:
        if any(word in str(error) for word in ("Mkdirs failed", "Permission denied", "No space")):
            raise OutputError(
                f"{to} cannot be written: free space or name another folder, then run again;"
                " the inbox keeps all lines"
            ) from None
        raise
