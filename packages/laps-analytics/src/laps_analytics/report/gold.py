"""Gold tables as the report reads them: straight from Parquet, without a session of Spark.

A report is read more often than tables are built, and a session costs half a minute. Gold is small:
it fits the memory of whoever reads the report.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from laps_analytics.errors import LakeError
from laps_analytics.gold.tables import GOLD
from laps_analytics.lake import Lake

__all__ = ["Gold", "read_gold"]

_DAY: Final = pd.Timedelta(days=1)
_HOLE: Final = pd.Timedelta(minutes=30)
_EMPTY: Final[Mapping[str, str]] = {
    "bigint": "Int64",
    "double": "float64",
    "boolean": "boolean",
    "timestamp": "datetime64[us, UTC]",
}


@dataclass(frozen=True, slots=True)
class Gold:
    """Every gold table; one that was never built has no rows."""

    tables: Mapping[str, pd.DataFrame]
    name: str = "lake"
    """Where they are from, for people."""

    def __getitem__(self, name: str) -> pd.DataFrame:
        found = self.tables.get(name)
        return empty(name) if found is None else found

    def last_day(self, name: str, column: str = "window_start") -> pd.DataFrame:
        """The rows of the day before the last one."""
        frame = self[name]
        if frame.empty:
            return frame
        return frame[frame[column] > frame[column].max() - _DAY]

    def last_stretch(self, name: str, column: str = "window_start") -> pd.DataFrame:
        """The rows at the end between which no half hour is missing, a day at most."""
        frame = self.last_day(name, column)
        if frame.empty:
            return frame
        times = frame[column].drop_duplicates().sort_values()
        holes = times[times.diff() > _HOLE]
        return frame if holes.empty else frame[frame[column] >= holes.iloc[-1]]

    def until(self) -> pd.Timestamp | None:
        """The latest time in any table; None without rows."""
        latest = [
            frame[column].max()
            for frame in self.tables.values()
            for column in ("window_start", "at", "last")
            if column in frame and not frame.empty
        ]
        return max(latest) if latest else None


def empty(name: str) -> pd.DataFrame:
    """A table without rows, by its contract."""
    return pd.DataFrame(
        {item.name: pd.Series(dtype=_EMPTY.get(item.type, "object")) for item in GOLD[name].columns}
    )


def read_gold(lake: Lake) -> Gold:
    """All gold tables of a lake; :class:`LakeError` if a file that counts cannot be read."""
    return Gold({name: _read(lake, name) for name in GOLD}, lake.root.name)


def _read(lake: Lake, name: str) -> pd.DataFrame:
    table = lake.table(f"gold/{name}")
    parts = []
    for file in table.snapshot().files.values():
        path = table.root / file.path
        try:
            # One file, not a folder of them: partitions are the log's business.
            part = pq.ParquetFile(path).read()
        except (OSError, pa.ArrowException) as error:
            raise LakeError(f"{path} cannot be read: {error}. Build the table again") from None
        for column, value in file.partition.items():
            if column not in part.column_names:
                part = part.append_column(column, pa.array([value] * len(part), pa.string()))
        parts.append(part)
    if not parts:
        return empty(name)
    whole = pa.concat_tables(parts, promote_options="permissive")
    frame = whole.to_pandas(types_mapper=_nullable, maps_as_pydicts="lossy")
    order = [item.name for item in GOLD[name].columns if item.name in frame]
    for column in order:
        if isinstance(frame[column].dtype, pd.DatetimeTZDtype):
            frame[column] = frame[column].dt.tz_convert("UTC")
    keys: list[Any] = [key for key in GOLD[name].keys if key in frame]
    return frame[order].sort_values(keys, ignore_index=True)


def _nullable(kind: pa.DataType) -> Any:
    """Whole numbers stay whole where some are null."""
    if pa.types.is_integer(kind):
        return pd.Int64Dtype()
    if pa.types.is_boolean(kind):
        return pd.BooleanDtype()
    return None
