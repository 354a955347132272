"""Merge small files and delete unused ones between the batches of a stream.

::

    batch, batch, batch --> small files of an open hour --too many?--> one for each partition
    hour is over        --> silver is rebuilt; the small files of bronze become one
    an hour later       --> removed files and old log entries are deleted

Compaction does not change rows and is not part of a batch. Work that a killed process left is done
after the next batch: the journal lists the hours that are over.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from laps_analytics.ingest.hours import Hour, hour_of_file
from laps_analytics.ingest.journal import Journal
from laps_analytics.lake import DataFile, Lake, compact
from laps_analytics.schema import BRONZE, QLOG, QUARANTINE, event_types, silver_type, table_name

__all__ = [
    "UpkeepLimits",
    "compact_after_batch",
    "compact_hours",
    "needs_compaction",
    "remove_unused",
]

_SMALL: Final = 32 << 20
"""Size below which a file is merged with others, in bytes."""
_HOURLY: Final = StructType([StructField("dt", StringType()), StructField("hour", StringType())])


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepLimits:
    """Limits of small files and of removed files."""

    open_files: int = 64
    """Most small files of a partition while its hour is open."""
    closed_files: int = 4
    """Most small files when the hour is over. Late events add small files again."""
    look_every: int = 16
    """Batches between two searches for small files."""
    readers_s: float = 3600.0
    """Seconds for which a removed file stays on disk for its readers."""
    renew_every: int = 256
    """Micro-batches after which a stream starts a new checkpoint."""


def needs_compaction(
    files: Iterable[DataFile], limit: Callable[[DataFile], int | None]
) -> list[DataFile]:
    """Return the small files of partitions that have more of them than ``limit`` allows."""
    parts: defaultdict[tuple[str, ...], list[DataFile]] = defaultdict(list)
    for file in files:
        if file.bytes < _SMALL and limit(file) is not None:
            parts[tuple(file.partition.values())].append(file)
    return [
        file for small in parts.values() if len(small) > (limit(small[0]) or 0) for file in small
    ]


def compact_after_batch(
    spark: Callable[[], SparkSession],
    lake: Lake,
    journal: Journal,
    limits: UpkeepLimits,
    *,
    batch: int,
    made: set[Hour],
) -> int:
    """Merge and delete files that are due, and return the number of merged files.

    ``made`` are the hours that the batch rebuilt.
    """
    closed: set[Hour] = {(dt, hour) for dt, hour in journal.state.get("closed", ())}
    found = 0
    if closed or batch % limits.look_every == 0:
        still = {(dt, hour) for dt, hour in journal.state.get("dirty", ())}
        found = compact_hours(spark, lake, still | closed | made, closed, limits)
    if closed:
        journal.note(closed=None)
    if made:
        remove_unused(lake, journal, limits)
    return found


def compact_hours(
    spark: Callable[[], SparkSession],
    lake: Lake,
    hours: set[Hour],
    closed: set[Hour],
    limits: UpkeepLimits,
) -> int:
    """Merge small files of some hours in bronze and silver, and return their number."""

    def is_open(file: DataFile) -> int | None:
        return limits.open_files if hour_of_file(file) in hours else None

    def in_bronze(file: DataFile) -> int | None:
        return limits.closed_files if hour_of_file(file) in closed else is_open(file)

    def merge(
        name: str, schema: StructType, by: tuple[str, ...], limit: Callable[[DataFile], int | None]
    ) -> int:
        table = lake.table(name)
        if many := needs_compaction(table.snapshot().files.values(), limit):
            compact(spark(), table, schema, many, partition_by=by)
        return len(many)

    found = merge("bronze/events", BRONZE, ("dt", "hour", "type"), in_bronze)
    for name, schema in (("bronze/quarantine", QUARANTINE), ("bronze/qlog", QLOG)):
        found += merge(name, schema, ("dt",), lambda _: limits.open_files)
    for kind in event_types():
        # An hour of silver that is over was made as a whole: it is not crowded.
        schema = StructType([*silver_type(kind).fields, *_HOURLY.fields])
        found += merge(f"silver/{table_name(kind)}", schema, ("dt", "hour"), is_open)
    return found


def remove_unused(
    lake: Lake, journal: Journal, limits: UpkeepLimits, *, deep: bool = False
) -> None:
    """Delete files that no reader needs; with ``deep``, also those of killed writers."""
    for name in lake.tables():
        if name.startswith(("bronze/", "silver/")):
            table = lake.table(name)
            table.sweep(older_than=limits.readers_s)
            if deep:
                table.vacuum(older_than=limits.readers_s)
    journal.sweep(older_than=limits.readers_s)
