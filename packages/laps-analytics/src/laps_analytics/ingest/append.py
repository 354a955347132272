r"""Silver while an hour is still open: only what is new is added.

To make an hour again for each batch of a stream would cost more with each minute of the hour. So
the rows of a batch are added, and the hour is made as a whole once, when it is over
(:mod:`laps_analytics.ingest.rebuild`). Until then its clocks are those of the last whole hour, and
events that these would move to another hour wait.

Each event is still there once. Relays number their events, so one with a number above all that were
seen of its boot is new; that is nearly all of them. Only the others are looked up in bronze::

    number > highest of relay and boot?  --yes--> new
                     \--no, or unknown--> in bronze, of a batch before?  --no--> new (it was late)

What is kept between batches is one number and one time for each relay and boot, and for two hours
only. A boot that is forgotten is unknown: what comes of it then is looked up. That is rare, since
no hour is open for longer: an event comes to an open hour at most 1.5 h after its time, and its
first copy came at most 1000 s before its time (else its clock is broken, and silver has neither).
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
"""``relay:boot`` to the highest number that was seen, and to when that was."""

BOOT_TTL_US: Final = 2 * HOUR_US
"""For how long a boot is known that says nothing."""

_THREADS: Final = 3
"""Tables that are written at once: small jobs wait more than they work."""
_FEW: Final = 64
"""Relays that are looked up one after the other."""
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
    """Add the rows of a batch to silver; what is known of boots after it."""
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
    """Boots with a number that need not be new, or of which nothing is known (any more)."""
    found = []
    for (relay, boot), (lowest, _) in numbers.items():
        name = f"{relay}:{boot}"
        if name not in boots or lowest <= boots[name][0]:
            found.append(name)
    return sorted(found)


def updated_boots(boots: Boots, facts: Facts, now_us: int) -> dict[str, tuple[int, int]]:
    """What is known after a batch, without boots that said nothing for long."""
    after = {name: (top, at) for name, (top, at) in boots.items() if now_us - at < BOOT_TTL_US}
    for mine in facts.numbers.values():
        for (relay, boot), (_, highest) in mine.items():
            name = f"{relay}:{boot}"
            top, _ = after.get(name) or boots.get(name) or (highest, 0)
            after[name] = (max(highest, top), now_us)
    return after


def _clock(lake: Lake, facts: Facts, now_us: int) -> list[dict[str, Any]]:
    """The clocks of a batch: the last that are known, if they are not plainly broken."""
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
    """Rows of relays whose clock is not broken, and what :func:`with_clock` says of them.

    To join with the clocks is a job of its own, so where they are few, and of one hour, they are a
    constant: as text, since that is no part of the code that Spark compiles.
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
