"""Gold tables for the report, read from Parquet without a Spark session.

A session takes half a minute to start. Only the columns and days that a chapter needs are read; the
log says which file holds which day.

All chapters cover the same time, which ends with the newest row of any table. Otherwise a table
that has rows only during faults would show an old fault as current.

:func:`quantiles` computes percentiles of merged KLL sketches in Spark's format (Apache
DataSketches, longs). A sketch keeps some of the values; a value kept at level *n* stands for 2**n
values. Sketches merge by concatenating their values with these weights. The mean of their
percentiles would be wrong.

::

    0 preInts | 1 version | 2 family 15 | 3 flags | 4-5 k | 6 m | 7 0
    flags: 1 empty, 4 a single item (preInts 2, the item at 8)
    else preInts 5: 8-15 n | 16-17 min k | 18 levels | 19 0 | 20.. levels as int32 each: where a
    level begins | least item | greatest item | items
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date
from typing import Any, Final, Protocol

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from laps_analytics.errors import LakeError
from laps_analytics.gold.tables import GOLD
from laps_analytics.lake import Lake

__all__ = ["Gold", "Tables", "quantiles", "read_gold", "weighted"]

# Sketches

_FAMILY: Final = 15
_EMPTY_FLAG: Final = 1
_SINGLE: Final = 4
_HEAD: Final = 8


def weighted(sketch: bytes) -> tuple[list[int], list[int]]:
    """Return the values of a sketch and their weights.

    Raises :class:`LakeError` if it is not a sketch.
    """
    try:
        if sketch[2] != _FAMILY:
            raise LakeError(f"not a KLL sketch (family {sketch[2]}): build the table again")
        flags = sketch[3]
        if flags & _EMPTY_FLAG:
            return [], []
        if flags & _SINGLE:
            return [struct.unpack_from("<q", sketch, _HEAD)[0]], [1]
        count = sketch[18]
        levels = [*struct.unpack_from(f"<{count}i", sketch, 20)]
        at = 20 + 4 * count + 16
        kept = (len(sketch) - at) // 8
        values = list(struct.unpack_from(f"<{kept}q", sketch, at))
    except (IndexError, struct.error):
        raise LakeError("a KLL sketch is truncated: build the table again") from None
    # Items are packed from where the lowest level begins.
    ends = [begin - levels[0] for begin in levels[1:]] + [kept]
    begins = [begin - levels[0] for begin in levels]
    weights = [0] * kept
    for level, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        weights[begin:end] = [1 << level] * (end - begin)
    return values, weights


def quantiles(sketches: Iterable[bytes], shares: Iterable[float]) -> list[float] | None:
    """Return the percentiles of merged sketches; None without values."""
    values: list[int] = []
    weights: list[int] = []
    for sketch in sketches:
        some, their = weighted(sketch)
        values += some
        weights += their
    if not values:
        return None
    order = np.argsort(values, kind="stable")
    sums = np.cumsum(np.asarray(weights)[order])
    total = int(sums[-1])
    return [
        float(values[order[min(len(values) - 1, int(np.searchsorted(sums, share * total)))]])
        for share in shares
    ]


# Tables

_DAY: Final = pd.Timedelta(days=1)
_MAX_GAP: Final = pd.Timedelta(minutes=30)
_LONG: Final = (3, 31)
"""Days from which the tables of hours and of days are read."""
_TIMES: Final = ("window_start", "at", "last")
_EMPTY: Final[Mapping[str, str]] = {
    "bigint": "Int64",
    "double": "float64",
    "boolean": "boolean",
    "timestamp": "datetime64[us, UTC]",
}

Where = Mapping[str, Collection[str]]
"""Column to the selected values."""


class Tables(Protocol):
    """Source of rows."""

    def days(self, name: str) -> list[str]:
        """Return the days of a table, oldest first."""

    def read(
        self, name: str, columns: Sequence[str], days: Collection[str], where: Where
    ) -> pd.DataFrame:
        """Return some columns of some days of a table."""


class Gold:
    """All gold tables, and the time of the report. A table that was never built has no rows."""

    def __init__(
        self,
        tables: Tables | Mapping[str, pd.DataFrame],
        name: str = "lake",
        *,
        since: date | None = None,
        until: date | None = None,
    ) -> None:
        """``name`` is shown to readers; ``since`` and ``until`` are the first and the last day."""
        self._tables: Tables = _Frames(tables) if isinstance(tables, Mapping) else tables
        self.name = name
        self.since = since
        self._last = None if until is None else until.isoformat()
        self._clock: pd.Timestamp | None = None

    def __getitem__(self, name: str) -> pd.DataFrame:
        """Return a whole table."""
        return self._read(name, _columns(name), self._tables.days(name))

    def until(self) -> pd.Timestamp | None:
        """Return the time of the report: the latest time in any table; None without rows."""
        if self._clock is None:
            days = {day for name in GOLD for day in self._days(name)}
            for day in sorted(days, reverse=True):
                found = [
                    frame[column].max()
                    for name in GOLD
                    for column in _TIMES
                    if column in _columns(name) and day in self._tables.days(name)
                    if not (frame := self._read(name, (column,), (day,))).empty
                ]
                if found:
                    self._clock = max(found)
                    break
        return self._clock

    def begin(self, days: int = 1) -> pd.Timestamp | None:
        """Return the begin of the report, or of a chapter that looks back some days."""
        if self.since is not None:
            return pd.Timestamp(self.since, tz="UTC")
        clock = self.until()
        return None if clock is None else clock - days * _DAY

    def span_us(self) -> tuple[int, int] | None:
        """Return begin and end of the report in microseconds; None without rows.

        The last day counts as a whole, because responses of relays may be newer than gold.
        """
        clock, begin = self.until(), self.begin()
        if clock is None or begin is None:
            return None
        last = clock.normalize() + _DAY
        return int(begin.value // 1000), int(last.value // 1000)

    def recent(
        self,
        name: str,
        columns: Sequence[str] = (),
        *,
        at: str = "window_start",
    ) -> pd.DataFrame:
        """Return the rows of the last day, or of the selected time."""
        begin, clock = self.begin(), self.until()
        if begin is None or clock is None:
            return empty(name, columns)
        frame = self._read(name, columns, self.days(name))
        if at == "dt":
            return frame
        asked = frame[at] >= begin if self.since is not None else frame[at] > begin
        return frame[asked & (frame[at] <= clock)]

    def latest_stretch(self, name: str, columns: Sequence[str] = ()) -> pd.DataFrame:
        """Return the latest rows without a gap of half an hour, at most of a day."""
        frame = self.recent(name, columns)
        if frame.empty or self.since is not None:
            return frame
        times = frame["window_start"].drop_duplicates().sort_values()
        holes = times[times.diff() > _MAX_GAP]
        return frame if holes.empty else frame[frame["window_start"] >= holes.iloc[-1]]

    def days(self, name: str, back: int = 1) -> list[str]:
        """Return the days of a table for a chapter that looks back some days."""
        begin, clock = self.begin(back), self.until()
        if begin is None or clock is None:
            return []
        return [day for day in self._days(name) if begin.date() <= date.fromisoformat(day)]

    def by_span(self, *names: str) -> str:
        """Return the table with the window length that suits the selected time.

        ``names`` have longer and longer windows: hours from three days on, days from a month on. A
        table is used only if it has all days.
        """
        shortest, *others = names
        days = self.days(shortest)
        chosen = shortest
        for name, least in zip(others, _LONG, strict=True):
            if len(days) > least and set(days) <= set(self.days(name)):
                chosen = name
        return chosen

    def month(self, name: str) -> list[str]:
        """Return the days of a table in the current month, or in the selected time."""
        clock = self.until()
        if clock is None:
            return []
        first = clock.date().replace(day=1) if self.since is None else self.since
        return [day for day in self._days(name) if date.fromisoformat(day) >= first]

    def of_days(
        self,
        name: str,
        columns: Sequence[str] = (),
        *,
        days: Collection[str],
        where: Where | None = None,
    ) -> pd.DataFrame:
        """Return some columns of some days, filtered by ``where``."""
        return self._read(name, columns, days, where or {})

    def all_days(self, name: str) -> list[str]:
        """Return all days of a table, oldest first."""
        return self._tables.days(name)

    def last_seen(self, name: str) -> str | None:
        """Return the newest day of a table within the selected time; None without rows."""
        return next(reversed(self._days(name)), None)

    def _days(self, name: str) -> list[str]:
        return [day for day in self._tables.days(name) if self._last is None or day <= self._last]

    def _read(
        self, name: str, columns: Sequence[str], days: Collection[str], where: Where | None = None
    ) -> pd.DataFrame:
        wanted = tuple(columns) or _columns(name)
        return self._tables.read(name, wanted, days, where or {}) if days else empty(name, wanted)


def _columns(name: str) -> tuple[str, ...]:
    return tuple(item.name for item in GOLD[name].columns)


def empty(name: str, columns: Sequence[str] = ()) -> pd.DataFrame:
    """Return a table without rows, by its contract."""
    return pd.DataFrame(
        {
            item.name: pd.Series(dtype=_EMPTY.get(item.type, "object"))
            for item in GOLD[name].columns
            if not columns or item.name in columns
        }
    )


def read_gold(lake: Lake, *, since: date | None = None, until: date | None = None) -> Gold:
    """Return the gold tables of a lake.

    Reading raises :class:`LakeError` if a file cannot be read.
    """
    return Gold(_Files(lake), lake.root.name, since=since, until=until)


class _Files:
    """Tables of a lake."""

    def __init__(self, lake: Lake) -> None:
        self._tables = {name: lake.table(f"gold/{name}") for name in GOLD}
        # One look at each log: all chapters are of the same version.
        self._seen = {name: table.snapshot() for name, table in self._tables.items()}

    def days(self, name: str) -> list[str]:
        return sorted(day for (day,) in self._seen[name].partitions("dt"))

    def read(
        self, name: str, columns: Sequence[str], days: Collection[str], where: Where
    ) -> pd.DataFrame:
        parts = [
            _file(self._tables[name].root / file.path, columns, file.partition, where)
            for file in self._seen[name].files.values()
            if file.partition["dt"] in days
        ]
        if not parts:
            return empty(name, columns)
        whole = pa.concat_tables(parts, promote_options="permissive")
        frame = whole.to_pandas(types_mapper=_nullable, maps_as_pydicts="lossy")
        order = [item for item in columns if item in frame]
        for column in order:
            if isinstance(frame[column].dtype, pd.DatetimeTZDtype):
                frame[column] = frame[column].dt.tz_convert("UTC")
        keys: list[Any] = [key for key in GOLD[name].keys if key in order]
        return frame[order].sort_values(keys, ignore_index=True) if keys else frame[order]


def _file(
    path: Any, columns: Iterable[str], partition: Mapping[str, str], where: Where
) -> pa.Table:
    wanted = {*columns, *where}
    try:
        # One file, not a folder of them: partitions are the log's business.
        file = pq.ParquetFile(path)
        part = file.read(columns=[name for name in file.schema_arrow.names if name in wanted])
    except (OSError, pa.ArrowException) as error:
        raise LakeError(f"{path} cannot be read: {error}; build the table again") from None
    for column, values in where.items():
        part = part.filter(pc.is_in(part[column], value_set=pa.array(sorted(values), pa.string())))
    for column, value in partition.items():
        if column in wanted and column not in part.column_names:
            part = part.append_column(column, pa.array([value] * len(part), pa.string()))
    return part


class _Frames:
    """Tables as frames."""

    def __init__(self, frames: Mapping[str, pd.DataFrame]) -> None:
        self._frames = {name: _with_days(frame) for name, frame in frames.items()}

    def days(self, name: str) -> list[str]:
        frame = self._frames.get(name)
        return [] if frame is None or frame.empty else sorted(set(frame["dt"]))

    def read(
        self, name: str, columns: Sequence[str], days: Collection[str], where: Where
    ) -> pd.DataFrame:
        frame = self._frames[name]
        chosen = frame["dt"].isin(list(days))
        for column, values in where.items():
            chosen &= frame[column].isin(list(values))
        return frame.loc[chosen, [column for column in columns if column in frame]]


def _with_days(frame: pd.DataFrame) -> pd.DataFrame:
    if "dt" in frame or frame.empty:
        return frame
    at = next(column for column in _TIMES if column in frame)
    return frame.assign(dt=frame[at].dt.strftime("%Y-%m-%d"))


def _nullable(kind: pa.DataType) -> Any:
    """Map types so that integers stay integers if some are null."""
    if pa.types.is_integer(kind):
        return pd.Int64Dtype()
    if pa.types.is_boolean(kind):
        return pd.BooleanDtype()
    return None
