"""Gold tables as the report reads them: straight from Parquet, without a session of Spark.

A report is read more often than tables are built, and a session costs half a minute. Of each table
only the columns and days that a chapter asks for are read: the log says which file holds which day.

All chapters look at the same time: it ends with the newest row of any table, and not with the last
one of each. A table that has rows only when something is wrong would else tell of last month as if
it were today.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date
from typing import Any, Final, Protocol

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from laps_analytics.errors import LakeError
from laps_analytics.gold.tables import GOLD
from laps_analytics.lake import Lake

__all__ = ["Gold", "Tables", "read_gold"]

_DAY: Final = pd.Timedelta(days=1)
_MAX_GAP: Final = pd.Timedelta(minutes=30)
_LONG: Final = (3, 31)
"""Days beyond which hours are read, and days."""
_TIMES: Final = ("window_start", "at", "last")
_EMPTY: Final[Mapping[str, str]] = {
    "bigint": "Int64",
    "double": "float64",
    "boolean": "boolean",
    "timestamp": "datetime64[us, UTC]",
}

Where = Mapping[str, Collection[str]]
"""Columns to the values that are wanted."""


class Tables(Protocol):
    """Where rows come from."""

    def days(self, name: str) -> list[str]:
        """The days that a table has rows of, oldest first."""

    def read(
        self, name: str, columns: Sequence[str], days: Collection[str], where: Where
    ) -> pd.DataFrame:
        """Some columns of some days of a table."""


class Gold:
    """Every gold table, and the time that a report is about; a table never built has no rows."""

    def __init__(
        self,
        tables: Tables | Mapping[str, pd.DataFrame],
        name: str = "lake",
        *,
        since: date | None = None,
        until: date | None = None,
    ) -> None:
        """``name`` is for people; ``since`` and ``until`` are the first and the last day."""
        self._tables: Tables = _Frames(tables) if isinstance(tables, Mapping) else tables
        self.name = name
        self.since = since
        self._last = None if until is None else until.isoformat()
        self._clock: pd.Timestamp | None = None

    def __getitem__(self, name: str) -> pd.DataFrame:
        """All of a table."""
        return self._read(name, _columns(name), self._tables.days(name))

    def until(self) -> pd.Timestamp | None:
        """The clock of the page: the latest time in any table; None without rows."""
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
        """Since when a chapter counts that looks back some days, if nothing else was asked for."""
        if self.since is not None:
            return pd.Timestamp(self.since, tz="UTC")
        clock = self.until()
        return None if clock is None else clock - days * _DAY

    def span_us(self) -> tuple[int, int] | None:
        """The time of the page in microseconds: to the end of its last day; None without rows.

        What relays say may be newer than the newest row of gold, so the whole day counts.
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
        """The rows of the day before the clock of the page, or of the time that was asked for."""
        begin, clock = self.begin(), self.until()
        if begin is None or clock is None:
            return empty(name, columns)
        frame = self._read(name, columns, self.days(name))
        if at == "dt":
            return frame
        asked = frame[at] >= begin if self.since is not None else frame[at] > begin
        return frame[asked & (frame[at] <= clock)]

    def latest_stretch(self, name: str, columns: Sequence[str] = ()) -> pd.DataFrame:
        """The rows at the end between which no half hour is missing, a day at most."""
        frame = self.recent(name, columns)
        if frame.empty or self.since is not None:
            return frame
        times = frame["window_start"].drop_duplicates().sort_values()
        holes = times[times.diff() > _MAX_GAP]
        return frame if holes.empty else frame[frame["window_start"] >= holes.iloc[-1]]

    def days(self, name: str, back: int = 1) -> list[str]:
        """The days of a table that a chapter reads that looks back some days."""
        begin, clock = self.begin(back), self.until()
        if begin is None or clock is None:
            return []
        return [day for day in self._days(name) if begin.date() <= date.fromisoformat(day)]

    def by_span(self, *names: str) -> str:
        """Which of some tables to read, whose windows are longer and longer, for the time asked.

        Hours where that is more than three days, and days for more than a month: thousands of
        points of a line say no more than hundreds. Only if they have all the days: of before there
        was such a table it has none.
        """
        shortest, *others = names
        days = self.days(shortest)
        chosen = shortest
        for name, least in zip(others, _LONG, strict=True):
            if len(days) > least and set(days) <= set(self.days(name)):
                chosen = name
        return chosen

    def month(self, name: str) -> list[str]:
        """The days of a table in the month of the clock, or in the time that was asked for."""
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
        """Some columns of some days, and of some values."""
        return self._read(name, columns, days, where or {})

    def all_days(self, name: str) -> list[str]:
        """The days that a table has rows of, oldest first."""
        return self._tables.days(name)

    def last_seen(self, name: str) -> str | None:
        """The newest day of a table, up to the last one that was asked for; None without rows."""
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
    """A table without rows, by its contract."""
    return pd.DataFrame(
        {
            item.name: pd.Series(dtype=_EMPTY.get(item.type, "object"))
            for item in GOLD[name].columns
            if not columns or item.name in columns
        }
    )


def read_gold(lake: Lake, *, since: date | None = None, until: date | None = None) -> Gold:
    """The gold tables of a lake; :class:`LakeError` if a file that counts cannot be read."""
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
        raise LakeError(f"{path} cannot be read: {error}. Build the table again") from None
    for column, values in where.items():
        part = part.filter(pc.is_in(part[column], value_set=pa.array(sorted(values), pa.string())))
    for column, value in partition.items():
        if column in wanted and column not in part.column_names:
            part = part.append_column(column, pa.array([value] * len(part), pa.string()))
    return part


class _Frames:
    """Tables that somebody has already."""

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
    """Whole numbers stay whole where some are null."""
    if pa.types.is_integer(kind):
        return pd.Int64Dtype()
    if pa.types.is_boolean(kind):
        return pd.BooleanDtype()
    return None
