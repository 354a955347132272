"""Small tables without Spark: rows as plain dicts, for what fits the driver easily."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from laps_analytics.lake.table import DataFile, Snapshot, Table, writing

__all__ = ["read_rows", "row_count", "write_rows"]


def read_rows(
    table: Table,
    *,
    snapshot: Snapshot | None = None,
    where: Callable[[DataFile], bool] | None = None,
) -> list[dict[str, Any]]:
    """The rows of a table, partition columns included."""
    seen = snapshot or table.snapshot()
    rows: list[dict[str, Any]] = []
    for file in seen.files.values():
        if where is None or where(file):
            found = pq.ParquetFile(table.root / file.path).read().to_pylist()
            rows += [{**row, **file.partition} for row in found]
    return rows


def row_count(table: Table, files: Iterable[str]) -> int:
    """How many rows some files of a table have, without reading them."""
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
    """Commit rows to a table, as :func:`laps_analytics.lake.write` does with a frame."""
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
