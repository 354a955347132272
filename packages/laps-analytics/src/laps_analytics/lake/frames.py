"""Tables of a lake as Spark data frames; small tables also as rows, without Spark.

:func:`batches` and :func:`summed` read columns of large tables in batches and aggregate them, in
bounded memory and without Spark.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from laps_analytics.errors import OutputError
from laps_analytics.lake.table import DataFile, Snapshot, Table, writing

__all__ = [
    "batches",
    "between",
    "compact",
    "read",
    "read_rows",
    "row_count",
    "spark_path",
    "summed",
    "write",
    "write_rows",
]

_LARGE: Final = 128 << 20
"""Target size of a compacted file, in bytes."""


def spark_path(path: Path) -> str:
    """Return the absolute path of a file or folder with its scheme.

    A Spark Connect server has its own working directory. A cluster may have another default file
    system.
    """
    return f"file://{path.absolute()}"


def read(
    spark: SparkSession,
    table: Table,
    schema: StructType,
    *,
    snapshot: Snapshot | None = None,
    where: Callable[[DataFile], bool] | None = None,
) -> DataFrame:
    """Return the rows of a table, with its partition columns if ``schema`` has them.

    ``where`` selects files by their partition before Spark reads them. A table without files gives
    an empty frame.
    """
    seen = snapshot or table.snapshot()
    files = [file for file in seen.files.values() if where is None or where(file)]
    if not files:
        return spark.createDataFrame([], schema)
    paths = [spark_path(table.root / file.path) for file in files]
    return spark.read.schema(schema).option("basePath", spark_path(table.root)).parquet(*paths)


def write(
    frame: DataFrame,
    table: Table,
    *,
    partition_by: tuple[str, ...] = (),
    into: Mapping[str, str] | None = None,
    replace: Iterable[Mapping[str, str]] | None = None,
    batch: str | None = None,
    meta: Mapping[str, Any] | None = None,
) -> int:
    """Commit a frame to a table and return the new version.

    Rows are added, or replace the partitions that ``replace`` names; an empty mapping names all
    partitions. A run that replaces partitions can be repeated with the same result. ``into`` is the
    partition of all rows if the frame lacks its columns; Spark then needs no sort.
    """
    base = table.snapshot()
    if batch is not None and batch in base.batches:
        return base.batches[batch]
    old = [
        file.path
        for file in base.files.values()
        if any(part.items() <= file.partition.items() for part in replace or ())
    ]
    staged = table.staging()
    writer = frame.write.option("compression", "zstd")
    if partition_by:
        writer = writer.partitionBy(*partition_by)
    parts = [f"{name}={quote(value, safe='')}" for name, value in (into or {}).items()]
    try:
        writer.parquet(spark_path(staged.joinpath(*parts)))
    except PySparkException as error:
        if "Mkdirs failed" in str(error) or "Permission denied" in str(error):
            raise OutputError(
                f"{table.root} cannot be written: name another folder; existing data did not change"
            ) from None
        raise
    try:
        return table.commit(staged, base=base, remove=old, batch=batch, meta=meta)
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def compact(
    spark: SparkSession,
    table: Table,
    schema: StructType,
    files: Collection[DataFile],
    *,
    partition_by: tuple[str, ...],
) -> int:
    """Replace many files of each partition by one, and return the new version.

    Rows do not change. Readers see either the old files or the new one. A killed process leaves a
    file that is not in the log.
    """
    base = table.snapshot()
    chosen = {file.path for file in files}
    rows = read(spark, table, schema, snapshot=base, where=lambda file: file.path in chosen)
    tasks = 1 + sum(file.bytes for file in files) // _LARGE
    staged = table.staging()
    try:
        writer = rows.coalesce(tasks).write.option("compression", "zstd")
        writer.partitionBy(*partition_by).parquet(spark_path(staged))
        return table.commit(staged, base=base, remove=chosen)
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def read_rows(
    table: Table,
    *,
    snapshot: Snapshot | None = None,
    where: Callable[[DataFile], bool] | None = None,
) -> list[dict[str, Any]]:
    """Return the rows of a table, partition columns included."""
    seen = snapshot or table.snapshot()
    rows: list[dict[str, Any]] = []
    for file in seen.files.values():
        if where is None or where(file):
            found = pq.ParquetFile(table.root / file.path).read().to_pylist()
            rows += [{**row, **file.partition} for row in found]
    return rows


def row_count(table: Table, files: Iterable[str]) -> int:
    """Return the number of rows of some files, from their metadata."""
    return sum(pq.read_metadata(table.root / path).num_rows for path in files)


def write_rows(
    rows: Sequence[Mapping[str, Any]],
    schema: StructType,
    table: Table,
    *,
    partition_by: tuple[str, ...] = (),
    replace: Iterable[Mapping[str, str]] | None = None,
    batch: str | None = None,
    meta: Mapping[str, Any] | None = None,
) -> int:
    """Commit rows to a table, as :func:`write` does with a frame."""
    base = table.snapshot()
    if batch is not None and batch in base.batches:
        return base.batches[batch]
    parts: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        parts.setdefault(tuple(row[name] for name in partition_by), []).append(row)
    kept = StructType([f for f in schema.fields if f.name not in partition_by])
    stored = to_arrow_schema(kept, timezone="UTC")
    old = [
        file.path
        for file in base.files.values()
        if any(part.items() <= file.partition.items() for part in replace or ())
    ]
    staged = table.staging()
    try:
        with writing(table.root):
            staged.mkdir(parents=True)
            for values, members in sorted(parts.items()):
                folder = staged
                for name, value in zip(partition_by, values, strict=True):
                    folder /= f"{name}={quote(value, safe='')}"
                folder.mkdir(parents=True, exist_ok=True)
                plain = [{f.name: row[f.name] for f in stored} for row in members]
                data = pa.Table.from_pylist(plain, schema=stored)
                pq.write_table(data, folder / "rows.parquet", compression="zstd")
        return table.commit(staged, base=base, remove=old, batch=batch, meta=meta)
    finally:
        shutil.rmtree(staged, ignore_errors=True)


# Columns in batches

_ROWS: Final = 65_536
"""Rows of a batch."""
_TOGETHER: Final = 1_000_000
"""Number of partial sums that are merged at once."""


def batches(
    table: Table,
    columns: Sequence[str],
    *,
    where: Callable[[DataFile], bool] | None = None,
    times: Sequence[str] = (),
) -> Iterator[pa.Table]:
    """Yield some columns of a table; those in ``times`` as microseconds since 1970."""
    for file in table.snapshot().files.values():
        if where is None or where(file):
            yield from _rows(table, file, columns, times)


def _rows(
    table: Table, file: DataFile, columns: Sequence[str], times: Sequence[str]
) -> Iterator[pa.Table]:
    for batch in pq.ParquetFile(table.root / file.path).iter_batches(
        batch_size=_ROWS, columns=list(columns)
    ):
        found = pa.Table.from_batches([batch])
        for name in set(columns) - set(found.column_names):
            # Files of before a word was added to telemetry do not have it.
            found = found.append_column(name, pa.nulls(found.num_rows, pa.string()))
        for name in times:
            at = found.schema.get_field_index(name)
            found = found.set_column(at, name, _micros(found[name]))
        yield found


def _micros(column: Any) -> Any:
    """Return time stamps as microseconds since 1970."""
    zone = column.type.tz
    return column.cast(pa.timestamp("us", tz=zone)).cast(pa.int64())


def between(rows: pa.Table, column: str, first: int, last: int) -> pa.Table:
    """Return the rows whose value lies in a range, both ends included."""
    return rows.filter(
        pc.and_(pc.greater_equal(rows[column], first), pc.less_equal(rows[column], last))
    )


def summed(
    parts: Iterator[pa.Table],
    keys: Sequence[str],
    sums: Sequence[str],
    *,
    how: str = "sum",
    most: int | None = None,
    fault: Callable[[int], Exception] = lambda count: MemoryError(str(count)),
) -> pa.Table | None:
    """Return one row for each key with aggregates of some columns; None without rows.

    ``how`` is the aggregate: sum, min or max. Raises the result of ``fault`` if there are more than
    ``most`` keys.
    """
    waiting: list[pa.Table] = []
    count = 0
    for part in parts:
        waiting.append(_grouped(part, keys, sums, how))
        count += waiting[-1].num_rows
        if count > _TOGETHER:
            waiting = [_grouped(pa.concat_tables(waiting), keys, sums, how)]
            count = waiting[0].num_rows
            if most is not None and count > most:
                raise fault(count)
    if not waiting:
        return None
    found = _grouped(pa.concat_tables(waiting), keys, sums, how)
    if most is not None and found.num_rows > most:
        raise fault(found.num_rows)
    return found


def _grouped(rows: pa.Table, keys: Sequence[str], sums: Sequence[str], how: str) -> pa.Table:
    # One thread: the order of a sum is part of its last digit.
    found = rows.group_by(list(keys), use_threads=False).aggregate([(name, how) for name in sums])
    plain = {f"{name}_{how}": name for name in sums}
    return found.rename_columns([plain.get(name, name) for name in found.column_names])
