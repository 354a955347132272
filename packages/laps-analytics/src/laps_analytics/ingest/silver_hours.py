r"""Write hours of silver: rebuild them from bronze, or append a batch to an open hour.

::

    hours of bronze with new rows --> silver/clock of these hours --> silver tables of these hours
                                                \-- and of a neighbour that corrected times reach

**Rebuild.** An hour of silver is built from all of its bronze rows and replaces the old one. So the
result does not depend on the number or order of batches.

**Append.** Rebuilding an hour for each batch of a stream would cost more with each minute. So rows
are appended, and the hour is rebuilt once when it is over. Until then it uses the clock errors of
the last complete hour. Events that would move to another hour wait for the rebuild.

Each event is stored once. Relays number their events, so a number above all earlier ones of the
boot is new. Only other events are looked up in bronze:

::

    number > highest of relay and boot?  --yes--> new
                     \--no, or unknown--> in bronze, in an earlier batch?  --no--> new (it was late)

Between batches, ingest keeps one number and one time for each relay and boot, for two hours. Events
of an unknown boot are looked up in bronze. That is rare: an event reaches an open hour at most 1.5
h after its time. Its first copy came at most 1000 s before its time; otherwise the clock is broken,
and silver holds neither.

:class:`Facts` summarises a batch from a few columns of its files. A micro-batch has few rows, and
reading these columns with PyArrow costs less than three Spark jobs.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import ArrayType, LongType, StructField, StructType

from laps_analytics.ingest.bronze import batch_key
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
from laps_analytics.ingest.silver import (
    deduplicated,
    is_whole,
    shape_fits,
    typed,
    unfit,
    with_clock,
)
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

__all__ = [
    "BOOT_TTL_US",
    "Boots",
    "Facts",
    "append",
    "facts_of",
    "is_over",
    "maybe_seen",
    "rebuild",
    "updated_boots",
]

# Rebuild

_THREADS: Final = 3
"""Number of tables written at the same time."""
_CLOCK_WITH_BATCH: Final = StructType([*CLOCK.fields, StructField("hour_batch", LongType())])


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
        [tuple(row[name] for name in _CLOCK_WITH_BATCH.fieldNames()) for row in rows],
        _CLOCK_WITH_BATCH,
    )
    known = set(event_types())
    kinds = _bad_shapes(
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


def _bad_shapes(
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


# Summary of a batch

Boot = tuple[str, int]
"""A relay and one of its boots. Event numbers are unique within a boot."""

_COLUMNS: Final = ("relay", "boot", "event_seq", "ts_us", "shape", "batch", "seen_us")


@dataclass(slots=True)
class Facts:
    """Summary of the events of a batch."""

    numbers: dict[str, dict[Boot, tuple[int, int]]] = field(default_factory=dict)
    """Lowest and highest event number, by type and boot."""
    shapes: dict[str, set[str]] = field(default_factory=dict)
    """Shapes of bodies, by type."""
    copied: set[str] = field(default_factory=set)
    """Types with duplicates within the batch."""
    relays: list[dict[str, Any]] = field(default_factory=list)
    """One row for each relay and hour, as :func:`laps_analytics.ingest.clock.relay_rows` has it."""


def facts_of(table: Table, files: Iterable[DataFile]) -> Facts:
    """Return the summary of some files of ``bronze/events``."""
    found = Facts()
    kinds: defaultdict[str, list[DataFile]] = defaultdict(list)
    for file in files:
        kinds[file.partition["type"]].append(file)
    relays: dict[tuple[Hour, str], dict[str, Any]] = {}
    for kind, mine in sorted(kinds.items()):
        parts = []
        for file in mine:
            part = pq.ParquetFile(table.root / file.path).read(columns=list(_COLUMNS))
            _add_relays(relays, hour_of_file(file), part)
            parts.append(part)
        rows = pa.concat_tables(parts)
        found.shapes[kind] = set(rows["shape"].unique().to_pylist())
        numbers = rows.group_by(["relay", "boot"]).aggregate(
            [(("event_seq"), how) for how in ("min", "max", "count", "count_distinct")]
        )
        found.numbers[kind] = {}
        for row in numbers.to_pylist():
            span = row["event_seq_min"], row["event_seq_max"]
            found.numbers[kind][row["relay"], row["boot"]] = span
            if row["event_seq_count"] > row["event_seq_count_distinct"]:
                found.copied.add(kind)
    found.relays = list(relays.values())
    return found


def _add_relays(relays: dict[tuple[Hour, str], dict[str, Any]], hour: Hour, part: pa.Table) -> None:
    ahead = pa.compute.subtract(part["ts_us"], part["seen_us"])
    asked = [("ts_us", "count"), ("ts_us", "min"), ("ts_us", "max"), ("batch", "min")]
    rows = part.append_column("ahead", ahead).group_by(["relay"])
    rows = rows.aggregate([*asked, ("ahead", "max")])
    for row in rows.to_pylist():
        new = {
            "dt": hour[0],
            "hour": hour[1],
            "relay": row["relay"],
            "events": row["ts_us_count"],
            "first_us": row["ts_us_min"],
            "last_us": row["ts_us_max"],
            "first_batch": row["batch_min"],
            "ahead_us": row["ahead_max"],
        }
        old = relays.setdefault((hour, row["relay"]), new)
        if old is not new:
            _merge(old, new)


def _merge(old: dict[str, Any], new: Mapping[str, Any]) -> None:
    old["events"] += new["events"]
    for name in ("first_us", "first_batch"):
        old[name] = min(old[name], new[name])
    for name in ("last_us", "ahead_us"):
        old[name] = max(old[name], new[name])


# Append

Boots = Mapping[str, tuple[int, int]]
"""``relay:boot`` to the highest event number, and to the time of the last event."""

BOOT_TTL_US: Final = 2 * HOUR_US
"""Time after which a boot without events is forgotten."""
_FEW: Final = 64
"""Most relays whose offsets become a constant instead of a join."""
_IN_SAME_HOUR: Final = f"(ts_us - offset_us) div {HOUR_US} = ts_us div {HOUR_US}"
"""Whether an event stays in its hour when its time is corrected."""


def append(
    spark: Callable[[], SparkSession],
    lake: Lake,
    hours: set[Hour],
    boots: Boots,
    *,
    batch: int,
    now_us: int,
) -> dict[str, tuple[int, int]]:
    """Add the rows of a batch to silver, and return the state of the boots after it."""
    table = lake.table("bronze/events")
    known = set(event_types())
    files = [
        file
        for file in table.files_of(batch_key(batch))
        if file.partition["type"] in known and hour_of_file(file) in hours
    ]
    if not files:
        return updated_boots(boots, Facts(), now_us)
    session = spark()
    facts = facts_of(table, files)
    key = f"part-{batch}"
    chosen = {file.path for file in files}
    before = [
        file
        for file in table.snapshot().files.values()
        if hour_of_file(file) in hours and file.path not in chosen
    ]
    clock = _clock(lake, facts, now_us)

    def bronze(among: Iterable[DataFile], kind: str) -> DataFrame:
        mine = {file.path: file for file in among if file.partition["type"] == kind}
        return read(session, table, BRONZE, snapshot=Snapshot(0, mine))

    def add(kind: str) -> None:
        target = lake.table(f"silver/{table_name(kind)}")
        if key in target.snapshot().batches:
            return
        rows = bronze(files, kind)
        if bad := [shape for shape in facts.shapes[kind] if not shape_fits(kind, shape)]:
            rows = rows.where(~fn.coalesce(fn.col("shape").isin(*bad), fn.lit(False)))
        if kind in facts.copied:
            rows = deduplicated(rows)
        names = maybe_seen(facts.numbers[kind], boots)
        if names and any(file.partition["type"] == kind for file in before):
            seen = bronze(before, kind).where(fn.concat_ws(":", "relay", "boot").isin(names))
            rows = rows.join(seen.select("event_id"), "event_id", "left_anti")
        good = typed(_with_corrected_time(rows, clock).where(_IN_SAME_HOUR), kind).where("whole")
        columns = [item.name for item in silver_type(kind)]
        mine = {hour_of_file(file) for file in files if file.partition["type"] == kind}
        if len(mine) == 1:
            into = dict(zip(("dt", "hour"), mine.pop(), strict=True))
            write(good.select(*columns), target, into=into, batch=key)
        else:
            good = good.select(*columns, "dt", "hour")
            write(good, target, partition_by=("dt", "hour"), batch=key)

    with ThreadPoolExecutor(_THREADS) as pool:
        for _ in pool.map(add, sorted(facts.numbers)):
            pass
    return updated_boots(boots, facts, now_us)


def maybe_seen(numbers: Mapping[Boot, tuple[int, int]], boots: Boots) -> list[str]:
    """Return the boots with a number that may be a duplicate, and the unknown boots."""
    found = []
    for (relay, boot), (lowest, _) in numbers.items():
        name = f"{relay}:{boot}"
        if name not in boots or lowest <= boots[name][0]:
            found.append(name)
    return sorted(found)


def updated_boots(boots: Boots, facts: Facts, now_us: int) -> dict[str, tuple[int, int]]:
    """Return the state of the boots after a batch, without boots that have expired."""
    after = {name: (top, at) for name, (top, at) in boots.items() if now_us - at < BOOT_TTL_US}
    for mine in facts.numbers.values():
        for (relay, boot), (_, highest) in mine.items():
            name = f"{relay}:{boot}"
            top, _ = after.get(name) or boots.get(name) or (highest, 0)
            after[name] = (max(highest, top), now_us)
    return after


def _clock(lake: Lake, facts: Facts, now_us: int) -> list[dict[str, Any]]:
    """Return the clock rows of a batch, with the last known offsets of the relays."""
    last: dict[str, Mapping[str, Any]] = {}
    table = lake.table("silver/clock")
    snapshot = table.snapshot()
    # Not of the future, where broken clocks are.
    latest = hour_at(now_us)
    newest = sorted(hour for hour in snapshot.partitions("dt", "hour") if hour <= latest)[-2:]
    for row in read_rows(table, snapshot=snapshot, where=lambda file: hour_of_file(file) in newest):
        before = last.get(row["relay"])
        if before is None or (before["dt"], before["hour"]) < (row["dt"], row["hour"]):
            last[row["relay"]] = row
    rows = clock_rows(facts.relays, [])
    for row in rows:
        if row["relay"] in last and row["ok"]:
            row["offset_us"] = last[row["relay"]]["offset_us"]
            row["ok"] = last[row["relay"]]["ok"]
        row["hour_batch"] = None
    return rows


def _with_corrected_time(rows: DataFrame, clock: list[dict[str, Any]]) -> DataFrame:
    """Return the rows of relays without a broken clock, with the columns of :func:`with_clock`.

    A join with the clocks is a job of its own. The offsets of few relays in one hour are a JSON
    constant instead; text is not part of the code that Spark compiles.
    """
    if len({(row["dt"], row["hour"]) for row in clock}) > 1 or len(clock) > _FEW:
        known = [tuple(row[name] for name in _CLOCK_WITH_BATCH.fieldNames()) for row in clock]
        frame = rows.sparkSession.createDataFrame(known, _CLOCK_WITH_BATCH)
        return with_clock(rows, frame).where("ok")
    offsets = json.dumps({row["relay"]: row["offset_us"] for row in clock if row["ok"]})
    offset = fn.from_json(fn.lit(offsets), "map<string,bigint>")[fn.col("relay")]
    rows = rows.select(
        "*", offset.alias("offset_us"), fn.lit(None).cast("bigint").alias("hour_batch")
    )
    return rows.where("offset_us is not null")
