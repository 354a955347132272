"""Hours as partitions name them, and how clock errors move events between hours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from laps_analytics.lake import DataFile

__all__ = ["HOUR_US", "WATERMARK_US", "Hour", "begin_of", "hour_at", "hour_of_file", "reach"]

HOUR_US: Final = 3_600_000_000
WATERMARK_US: Final = 30 * 60 * 1_000_000
"""Time after its end at which an hour closes. Later events are late."""

Hour = tuple[str, str]
"""``dt`` and ``hour`` of a partition."""


def begin_of(hour: Hour) -> int:
    """Return the first microsecond of an hour."""
    at = datetime.strptime(f"{hour[0]} {hour[1]}", "%Y-%m-%d %H").replace(tzinfo=UTC)
    return int(at.timestamp()) * 1_000_000


def hour_at(ts_us: int) -> Hour:
    """Return the hour of a time in microseconds."""
    at = datetime.fromtimestamp(ts_us // 1_000_000, UTC)
    return f"{at:%Y-%m-%d}", f"{at:%H}"


def hour_of_file(file: DataFile) -> Hour:
    """Return the hour of a file of a table with such partitions."""
    return file.partition["dt"], file.partition["hour"]


def reach(clock: Iterable[Mapping[str, Any]]) -> dict[Hour, set[Hour]]:
    """Return, for each raw hour, the hours of its events after correcting their times."""
    found: dict[Hour, set[Hour]] = {}
    for row in clock:
        hour = (row["dt"], row["hour"])
        reached = found.setdefault(hour, {hour})
        if row["ok"]:
            reached.add(hour_at(row["first_us"] - row["offset_us"]))
            reached.add(hour_at(row["last_us"] - row["offset_us"]))
    return found
