r"""Rebuild hours of silver from bronze.

::

    hours of bronze with new rows --> silver/clock of these hours --> silver tables of these hours
                                                \-- and of a neighbour that corrected times reach

An hour of silver is built from all of its bronze rows and replaces the old one. So the result does
not depend on the number or order of batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import reduce
from typing import Final

import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import ArrayType, LongType, StructField, StructType

from laps_analytics.ingest.clock import clock_rows, link_rows, relay_rows
from laps_analytics.ingest.hours import (
    HOUR_US,
    WATERMARK_US,
    Hour,
    begin_of,
    hour_at,
    hour_of_file,
    reach,
)
from laps_analytics.ingest.schema_check import is_whole, shape_fits
from laps_analytics.ingest.silver import deduplicated, typed, unfit, with_clock
from laps_analytics.lake import (
    DataFile,
    Lake,
    Snapshot,
    Table,
    read,
    read_rows,
    row_count,
    write,
    write_rows,
)
from laps_analytics.schema import (
    BRONZE,
    CLOCK,
    UNFIT,
    body_type,
    event_types,
    silver_type,
    table_name,
)

__all__ = ["CLOCK_WITH_BATCH", "Rebuilt", "bad_shapes", "is_over", "rebuild"]

_THREADS: Final = 3
"""Number of tables written at the same time."""
CLOCK_WITH_BATCH: Final = StructType([*CLOCK.fields, StructField("hour_batch", LongType())])


@dataclass(slots=True)
class Rebuilt:
    """Result of a rebuild."""

    hours: set[Hour] = field(default_factory=set)
    rows: dict[str, int] = field(default_factory=dict)
    """Silver rows, by event type."""
    copies: int = 0
    """Bronze rows of these hours that are in no silver table."""
    late: int = 0
    unfit: int = 0
    broken: list[str] = field(default_factory=list)
    """Relays with a broken clock."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """Input and output of a rebuild."""

    spark: SparkSession
    lake: Lake
    events: Snapshot
    key: str
    touched: frozenset[Hour]
    """Bronze hours that changed."""
    hours: frozenset[Hour]
    """Silver hours to rebuild."""
    needed: frozenset[Hour]
    """Bronze hours that they are built from."""
    clock: DataFrame
    kinds: Mapping[str, tuple[str, ...]]
    """Event types of these hours to their invalid shapes."""

    def bronze(self, kind: str, hours: frozenset[Hour]) -> DataFrame:
        """Return the bronze rows of a type in some hours."""
        return read(
            self.spark,
            self.lake.table("bronze/events"),
            BRONZE,
            snapshot=self.events,
            where=lambda file: file.partition["type"] == kind and hour_of_file(file) in hours,
        )

    def fits(self, kind: str) -> Column:
        """Return whether the shape of a body is valid."""
        bad = self.kinds.get(kind, ())
        return ~fn.coalesce(fn.col("shape").isin(*bad), fn.lit(False)) if bad else fn.lit(True)


def rebuild(
    spark: SparkSession,
    lake: Lake,
    touched: set[Hour],
    *,
    batch: int,
    progress: Callable[[str], None] = lambda _: None,
) -> Rebuilt:
    """Rebuild the silver partitions of some hours. Repeating it for the same batch does nothing."""
    if not touched:
        return Rebuilt()
    key = f"whole-{batch}"
    events = lake.table("bronze/events").snapshot()
    hours = _make_clock(spark, lake, events, touched, key=key)
    progress("clock")
    clock = lake.table("silver/clock").snapshot()
    near = {hour for each in hours for hour in _neighbours(each)} | hours
    rows = read_rows(
        lake.table("silver/clock"), snapshot=clock, where=lambda file: hour_of_file(file) in near
    )
    needed = {hour for hour, reached in reach(rows).items() if reached & hours} | touched
    first: dict[Hour, int] = {}
    for row in rows:
        hour = (row["dt"], row["hour"])
        first[hour] = min(row["first_batch"], first.get(hour, row["first_batch"]))
    for row in rows:
        row["hour_batch"] = first[row["dt"], row["hour"]]
    frame = spark.createDataFrame(
        [tuple(row[name] for name in CLOCK_WITH_BATCH.fieldNames()) for row in rows],
        CLOCK_WITH_BATCH,
    )
    known = set(event_types())
    kinds = bad_shapes(
        spark,
        lake,
        events,
        (
            file
            for file in events.files.values()
            if file.partition["type"] in known and hour_of_file(file) in needed
        ),
    )
    plan = _Plan(
        *(spark, lake, events, key),
        *(frozenset(touched), frozenset(hours), frozenset(needed)),
        *(frame, kinds),
    )
    broken = {row["relay"] for row in rows if not row["ok"] and (row["dt"], row["hour"]) in needed}
    result = Rebuilt(hours=hours, broken=sorted(broken))
    suspect_kinds = {kind for kind, bad in kinds.items() if bad or _has_inside(kind)}

    def one(kind: str) -> tuple[str, dict[str, int]]:
        seen = _write_type(plan, kind)
        progress(f"silver/{table_name(kind)}")
        return kind, seen

    with ThreadPoolExecutor(_THREADS) as pool:
        for kind, seen in pool.map(one, sorted({*kinds, *_stale(lake, hours)})):
            result.rows[kind] = seen["rows"]
            result.late += seen["late"]
    wanted = sorted(set(kinds) if broken else suspect_kinds & set(kinds))
    result.unfit = _write_unfit(plan, wanted, sorted(broken))
    progress("silver/quarantine")
    here = [
        file.path
        for file in events.files.values()
        if file.partition["type"] in known and hour_of_file(file) in hours
    ]
    came = row_count(lake.table("bronze/events"), here)
    result.copies = max(0, came - sum(result.rows.values()) - result.unfit)
    return result


def is_over(hour: Hour, now_us: int) -> bool:
    """Return whether an hour is closed at a time."""
    return begin_of(hour) + HOUR_US + WATERMARK_US <= now_us


def _neighbours(hour: Hour) -> set[Hour]:
    begin = begin_of(hour)
    return {hour_at(max(begin - 1, 0)), hour_at(begin + HOUR_US)}


def _make_clock(
    spark: SparkSession,
    lake: Lake,
    events: Snapshot,
    touched: set[Hour],
    *,
    key: str,
) -> set[Hour]:
    """Commit the clocks of the hours.

    Returns the silver hours that their events fall into, or fell into before.
    """
    table = lake.table("silver/clock")
    before = table.snapshot()
    if key in before.batches:
        return {(dt, hour) for dt, hour in before.meta["reached"]}

    def bronze(kind: str | None = None) -> DataFrame:
        return read(
            spark,
            lake.table("bronze/events"),
            BRONZE,
            snapshot=events,
            where=lambda file: (
                hour_of_file(file) in touched and kind in (None, file.partition["type"])
            ),
        )

    relays = [row.asDict() for row in relay_rows(bronze()).collect()]
    links = [
        row.asDict()
        for row in link_rows(bronze("delivery.sample"), bronze("quic.sample")).collect()
    ]
    new = clock_rows(relays, links)
    old = read_rows(table, snapshot=before, where=lambda file: hour_of_file(file) in touched)
    hours = set(touched).union(*reach(new).values(), *reach(old).values())
    write_rows(
        new,
        CLOCK,
        table,
        partition_by=("dt", "hour"),
        replace=[{"dt": dt, "hour": hour} for dt, hour in touched],
        batch=key,
        meta={"reached": sorted(hours)},
    )
    return hours


def bad_shapes(
    spark: SparkSession, lake: Lake, events: Snapshot, files: Iterable[DataFile]
) -> dict[str, tuple[str, ...]]:
    """Return the event types of some bronze files, each with its invalid shapes."""
    files = list(files)
    chosen = {file.path for file in files}
    found: dict[str, list[str]] = {file.partition["type"]: [] for file in files}
    shapes = read(
        spark,
        lake.table("bronze/events"),
        BRONZE,
        snapshot=events,
        where=lambda file: file.path in chosen,
    )
    for row in shapes.select("type", "shape").distinct().toLocalIterator():
        if not shape_fits(row["type"], row["shape"]):
            found[row["type"]].append(row["shape"])
    return {kind: tuple(sorted(bad)) for kind, bad in found.items()}


def _stale(lake: Lake, hours: set[Hour]) -> set[str]:
    """Return the types whose silver tables have rows in some hours, which a rebuild replaces."""
    return {
        kind
        for kind in event_types()
        if lake.table(f"silver/{table_name(kind)}").snapshot().partitions("dt", "hour") & hours
    }


def _write_type(plan: _Plan, kind: str) -> dict[str, int]:
    """Rebuild the partitions of one table unless the batch did so, and return the row counts."""
    table = plan.lake.table(f"silver/{table_name(kind)}")
    if plan.key in table.snapshot().batches:
        return _counted(table, plan.key)
    # Before copies are dropped: a body that does not fit must not stand in for one that does.
    rows = deduplicated(plan.bronze(kind, plan.needed).where(plan.fits(kind)))
    rows = with_clock(rows, plan.clock).where("ok")
    inside = fn.concat_ws("/", "dt", "hour").isin(*(f"{dt}/{hour}" for dt, hour in plan.hours))
    out = typed(rows, kind).where(fn.col("whole") & inside)
    columns = [item.name for item in silver_type(kind)]
    write(
        out.select(*columns, "dt", "hour"),
        table,
        partition_by=("dt", "hour"),
        replace=[{"dt": dt, "hour": hour} for dt, hour in plan.hours],
        batch=plan.key,
    )
    return _counted(table, plan.key)


def _counted(table: Table, key: str) -> dict[str, int]:
    """Return the number of rows of a batch, and how many of them are late."""
    paths = [file.path for file in table.files_of(key)]
    late = 0
    for path in paths:
        found = pq.ParquetFile(table.root / path).read(columns=["late"])
        late += pc.sum(found["late"]).as_py() or 0
    return {"rows": row_count(table, paths), "late": late}


def _has_inside(kind: str) -> bool:
    """Return whether a body has arrays or structs, whose faults a shape does not show."""
    return any(isinstance(item.dataType, ArrayType | StructType) for item in body_type(kind))


def _write_unfit(plan: _Plan, kinds: list[str], broken: list[str]) -> int:
    """Rebuild ``silver/quarantine`` of the hours, and return its number of rows there."""
    table = plan.lake.table("silver/quarantine")
    replace = [{"dt": dt, "hour": hour} for dt, hour in plan.touched]
    if kinds:
        frames = []
        strange = fn.col("relay").isin(*broken) if broken else fn.lit(False)
        for kind in kinds:
            body = fn.try_variant_get("body", "$", body_type(kind).simpleString()).alias("_body")
            rows = plan.bronze(kind, plan.touched).select("*", body)
            fits = plan.fits(kind) & is_whole(kind, "_body")
            # Nearly all rows are good: they go before anything is joined or sorted.
            frames.append(rows.withColumn("_fits", fits).where(~fits | strange).drop("_body"))
        found = with_clock(reduce(DataFrame.unionByName, frames), plan.clock)
        bad = unfit(
            deduplicated(found.where(~(fn.col("ok") & fn.col("_fits"))).drop("_fits"), "type")
        )
        write(bad, table, partition_by=("dt", "hour"), replace=replace, batch=plan.key)
    else:
        before = table.snapshot()
        if before.partitions("dt", "hour") & plan.touched:
            write_rows([], UNFIT, table, replace=replace, batch=plan.key)
    after = table.snapshot()
    return row_count(
        table, [f.path for f in after.files.values() if hour_of_file(f) in plan.touched]
    )
