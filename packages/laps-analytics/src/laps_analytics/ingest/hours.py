"""Hours as partitions name them, and what the clock of a relay does to the hour of its events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from laps_analytics.lake import DataFile

__all__ = ["HOUR_US", "WATERMARK_US", "Hour", "begin_of", "hour_at", "hour_of_file", "reach"]

HOUR_US: Final = 3_600_000_000
WATERMARK_US: Final = 30 * 60 * 1_000_000
"""How long after its end an hour is over. What comes to it then is late."""

Hour = tuple[str, str]
"""``dt`` and ``hour`` of a partition."""


def begin_of(hour: Hour) -> int:
    """The first microsecond of an hour."""
    at = datetime.strptime(f"{hour[0]} {hour[1]}", "%Y-%m-%d %H").replace(tzinfo=UTC)
    return int(at.timestamp()) * 1_000_000


def hour_at(ts_us: int) -> Hour:
    """The hour of a time."""
    at = datetime.fromtimestamp(ts_us // 1_000_000, UTC)
    return f"{at:%Y-%m-%d}", f"{at:%H}"


def hour_of_file(file: DataFile) -> Hour:
    """The hour of a file of a table with such partitions."""
    return file.partition["dt"], file.partition["hour"]


def reach(clock: Iterable[Mapping[str, Any]]) -> dict[Hour, set[Hour]]:
    """Which hours the events of an hour lie in once their times are corrected, by raw hour."""
    found: dict[Hour, set[Hour]] = {}
    for row in clock:
        hour = (row["dt"], row["hour"])
        reached = found.setdefault(hour, {hour})
        if row["ok"]:
            reached.add(hour_at(row["first_us"] - row["offset_us"]))
            reached.add(hour_at(row["last_us"] - row["offset_us"]))
    return found
