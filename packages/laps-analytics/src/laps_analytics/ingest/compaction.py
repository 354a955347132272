r"""What keeps a lake small while a stream goes on, between its batches.

::

    batch, batch, batch --> small files of an open hour --many?--> one of them for each partition
    an hour is over     --> silver is made as a whole; bronze: its small files become one
    an hour later       --> files that were taken out, and old entries of logs, are removed

Nothing here belongs to a batch. Rows do not change, a commit is there or not, and what is not done
because the process is killed is done after the next batch: hours that are over wait in the journal.
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
"""Bytes of a file that is merged with others no more."""
_HOURLY: Final = StructType([StructField("dt", StringType()), StructField("hour", StringType())])


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepLimits:
    """How much may lie about."""

    open_files: int = 64
    """Small files of a partition while its hour is open."""
    closed_files: int = 4
    """The same when it is over; late events come in small files again."""
    look_every: int = 16
    """Batches between looks for small files."""
    readers_s: float = 3600.0
    """For how long a file that was taken out stays for those who read it."""
    renew_every: int = 256
    """Micro-batches after which a stream has a new checkpoint."""


def needs_compaction(
    files: Iterable[DataFile], limit: Callable[[DataFile], int | None]
) -> list[DataFile]:
    """The small files of partitions that have more of them than the limit, if there is one."""
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
    """After a batch that made some hours whole: merge and remove what is due; files merged."""
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
    """Merge small files of some hours, in bronze and in silver; how many there were."""

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
    """Remove what no reader needs; with ``deep`` also what killed writers left in tables."""
    for name in lake.tables():
        if name.startswith(("bronze/", "silver/")):
            table = lake.table(name)
            table.sweep(older_than=limits.readers_s)
            if deep:
                table.vacuum(older_than=limits.readers_s)
    journal.sweep(older_than=limits.readers_s)
