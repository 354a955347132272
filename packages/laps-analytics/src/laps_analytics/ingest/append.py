r"""Append the rows of a batch to an open hour of silver.

Rebuilding an hour for each batch of a stream would cost more with each minute. So rows are
appended, and the hour is rebuilt once when it is over (:mod:`laps_analytics.ingest.rebuild`). Until
then it uses the clock errors of the last complete hour. Events that would move to another hour wait
for the rebuild.

Each event is stored once. Relays number their events, so a number above all earlier ones of the
boot is new. Only other events are looked up in bronze:

::

    number > highest of relay and boot?  --yes--> new
                     \--no, or unknown--> in bronze, in an earlier batch?  --no--> new (it was late)

Between batches, ingest keeps one number and one time for each relay and boot, for two hours. Events
of an unknown boot are looked up in bronze. That is rare: an event reaches an open hour at most 1.5
h after its time. Its first copy came at most 1000 s before its time; otherwise the clock is broken,
and silver holds neither.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from laps_analytics.ingest.bronze import batch_key
from laps_analytics.ingest.clock import clock_rows
from laps_analytics.ingest.facts import Boot, Facts, facts_of
from laps_analytics.ingest.hours import HOUR_US, Hour, hour_at, hour_of_file
from laps_analytics.ingest.rebuild import CLOCK_WITH_BATCH
from laps_analytics.ingest.schema_check import shape_fits
from laps_analytics.ingest.silver import deduplicated, typed, with_clock
from laps_analytics.lake import DataFile, Lake, Snapshot, read, read_rows, write
from laps_analytics.schema import BRONZE, event_types, silver_type, table_name

__all__ = ["BOOT_TTL_US", "Boots", "append", "maybe_seen", "updated_boots"]

Boots = Mapping[str, tuple[int, int]]
"""``relay:boot`` to the highest event number, and to the time of the last event."""

BOOT_TTL_US: Final = 2 * HOUR_US
"""Time after which a boot without events is forgotten."""

_THREADS: Final = 3
"""Number of tables written at the same time."""
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
        known = [tuple(row[name] for name in CLOCK_WITH_BATCH.fieldNames()) for row in clock]
        frame = rows.sparkSession.createDataFrame(known, CLOCK_WITH_BATCH)
        return with_clock(rows, frame).where("ok")
    offsets = json.dumps({row["relay"]: row["offset_us"] for row in clock if row["ok"]})
    offset = fn.from_json(fn.lit(offsets), "map<string,bigint>")[fn.col("relay")]
    rows = rows.select(
        "*", offset.alias("offset_us"), fn.lit(None).cast("bigint").alias("hour_batch")
    )
    return rows.where("offset_us is not null")
