"""Read columns of tables in batches and aggregate them, in bounded memory and without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from laps_analytics.lake.table import DataFile, Table

__all__ = ["batches", "between", "micros", "summed"]

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
            found = found.set_column(at, name, micros(found[name]))
        yield found


def micros(column: Any) -> Any:
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
