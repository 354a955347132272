r"""Silver while an hour is still open: only what is new is added.

To make an hour again for each batch of a stream would cost more with each minute of the hour. So
the rows of a batch are added, and the hour is made as a whole once, when it is over
(:mod:`laps_analytics.ingest.rebuild`). Until then its clocks are those of the last whole hour, and
events that these would move to another hour wait.

Each event is still there once. Relays number their events, so one with a number above all that were
seen of its boot is new; that is nearly all of them. Only the others are looked up in bronze::

    number > highest of relay and boot?  --yes--> new
                     \--no--> in bronze, of a batch before?  --no--> new (it was late)

What is kept between batches is one number for each relay and boot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import LongType, StringType, StructField, StructType

from laps_analytics.ingest.bronze import batch_key
from laps_analytics.ingest.clock import clock_rows, relay_rows
from laps_analytics.ingest.hours import HOUR_US, Hour, hour_of_file
from laps_analytics.ingest.rebuild import PLACED, bad_shapes
from laps_analytics.ingest.silver import once, placed, typed
from laps_analytics.lake import DataFile, Lake, read, read_rows, write
from laps_analytics.schema import BRONZE, event_types, silver_type, table_name

__all__ = ["append", "is_new"]

_SEQS: Final = StructType(
    [
        StructField("relay", StringType()),
        StructField("boot", LongType()),
        StructField("highest", LongType()),
    ]
)

_STAYS: Final = f"(ts_us - offset_us) div {HOUR_US} = ts_us div {HOUR_US}"
"""Whether an event stays in its hour when its time is corrected."""


def append(
    spark: Callable[[], SparkSession],
    lake: Lake,
    hours: set[Hour],
    seqs: Mapping[str, int],
    *,
    batch: int,
) -> dict[str, int]:
    """Add the rows of a batch to silver; the highest numbers seen, ``relay:boot`` to number."""
    table = lake.table("bronze/events")
    known = set(event_types())
    files = [
        file
        for file in table.files_of(batch_key(batch))
        if file.partition["type"] in known and hour_of_file(file) in hours
    ]
    if not files:
        return dict(seqs)
    session = spark()
    events = table.snapshot()
    key = f"part-{batch}"
    chosen = {file.path for file in files}

    def bronze(kind: str | None, *, before: bool = False) -> DataFrame:
        def is_wanted(file: DataFile) -> bool:
            if kind not in {None, file.partition["type"]}:
                return False
            if before:
                return file.path not in chosen and hour_of_file(file) in hours
            return file.path in chosen

        return read(session, table, BRONZE, snapshot=events, where=is_wanted)

    mine = bronze(None)
    tops = mine.groupBy("relay", "boot").agg(fn.max("event_seq"), fn.min("event_seq")).collect()
    after = dict(seqs)
    overlap = False
    for relay, boot, highest, lowest in tops:
        name = f"{relay}:{boot}"
        overlap |= lowest <= seqs.get(name, -1)
        after[name] = max(highest, seqs.get(name, -1))
    clock = _clock(session, lake, mine)
    shapes = bad_shapes(session, lake, events, files)
    for kind, bad in shapes.items():
        target = lake.table(f"silver/{table_name(kind)}")
        if key in target.snapshot().batches:
            continue
        rows = bronze(kind)
        if bad:
            rows = rows.where(~fn.coalesce(fn.col("shape").isin(*bad), fn.lit(False)))
        rows = once(rows)
        if overlap:
            rows = is_new(rows, _frame(session, seqs), bronze(kind, before=True))
        rows = placed(rows, clock).where("ok").where(_STAYS)
        good = typed(rows, kind).where("whole")
        columns = [item.name for item in silver_type(kind)]
        write(good.select(*columns, "dt", "hour"), target, partition_by=("dt", "hour"), batch=key)
    return after


def is_new(rows: DataFrame, seqs: DataFrame, seen: DataFrame) -> DataFrame:
    """The rows that are not among those of before."""
    marked = rows.join(fn.broadcast(seqs), ["relay", "boot"], "left")
    above = fn.coalesce(fn.col("event_seq") > fn.col("highest"), fn.lit(True))
    fresh = marked.where(above)
    doubtful = marked.where(~above).join(seen.select("event_id"), "event_id", "left_anti")
    return fresh.unionByName(doubtful).drop("highest")


def _frame(spark: SparkSession, seqs: Mapping[str, int]) -> DataFrame:
    rows: list[tuple[Any, ...]] = []
    for name, highest in seqs.items():
        relay, _, boot = name.rpartition(":")
        rows.append((relay, int(boot), highest))
    return spark.createDataFrame(rows, _SEQS)


def _clock(spark: SparkSession, lake: Lake, mine: DataFrame) -> DataFrame:
    """The clocks of a batch: the last that are known, if they are not plainly broken."""
    last: dict[str, Mapping[str, Any]] = {}
    table = lake.table("silver/clock")
    snapshot = table.snapshot()
    newest = sorted(snapshot.partitions("dt", "hour"))[-2:]
    for row in read_rows(table, snapshot=snapshot, where=lambda file: hour_of_file(file) in newest):
        before = last.get(row["relay"])
        if before is None or (before["dt"], before["hour"]) < (row["dt"], row["hour"]):
            last[row["relay"]] = row
    rows = clock_rows([row.asDict() for row in relay_rows(mine).collect()], [])
    for row in rows:
        if row["relay"] in last and row["ok"]:
            row["offset_us"] = last[row["relay"]]["offset_us"]
            row["ok"] = last[row["relay"]]["ok"]
        row["hour_batch"] = None
    return spark.createDataFrame(
        [tuple(row[name] for name in PLACED.fieldNames()) for row in rows], PLACED
    )
