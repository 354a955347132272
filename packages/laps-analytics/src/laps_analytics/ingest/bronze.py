r"""Parse the lines of the inbox, and write ``bronze/events`` and ``bronze/quarantine`` in one pass.

Spark expressions parse lines into rows. Suspect lines are checked in Python:

::

    line --from_json--> envelope + body (VARIANT)
      |                   \-- does the line begin with the envelope, serialised again? --> valid
      \-- anything else: suspect --load_line--> valid, or quarantined with its reason

``laps_wire`` writes the fields of an envelope in one order and without blanks. If a line begins
with the serialised envelope, each value has the right type and no field occurs twice. ``from_json``
alone would read ``"relay":9`` as text and take the last of two equal fields. Lines of other writers
are suspect; :func:`judge` accepts them more slowly.

The name of a file contains its relay (``telemetry-0.1_0.7-1-000001.jsonl``). A line of another
relay in such a file is refused, so that a relay cannot write events of others.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Hashable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, cast
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import LongType, StringType, StructField, StructType, VariantType

from laps_analytics.errors import OutputError
from laps_analytics.ingest.clock import OLDEST_US
from laps_analytics.ingest.hours import Hour, hour_at, hour_of_file
from laps_analytics.ingest.intake import SUFFIX
from laps_analytics.lake import Lake, horizon_of, spark_path, write
from laps_analytics.schema import BRONZE, QUARANTINE
from laps_wire.telemetry import MAX_DEPTH, MAX_LINE, TelemetryError, dump_line, load_line
from laps_wire.telemetry.schema import VERSION, version_key

__all__ = [
    "MAX_TS_US",
    "SUSPECT",
    "batch_key",
    "cached_columns",
    "day_of",
    "expired_key",
    "hour_of",
    "hours_of_batch",
    "judge",
    "lines_of",
    "parse",
    "verdict",
    "write_bronze",
]

# Lines into rows

_RAW: Final = StructType(
    [
        *(StructField(name, StringType()) for name in ("v", "event_id")),
        StructField("ts_us", LongType()),
        StructField("relay", StringType()),
        StructField("boot", LongType()),
        *(StructField(name, StringType()) for name in ("type", "tenant", "region")),
        StructField("body", VariantType()),
        StructField("unread", StringType()),
    ]
)
_VERSIONS: Final = tuple(f"1.{minor}" for minor in range(version_key(VERSION)[1] + 1))
_OPTIONS: Final = {
    "columnNameOfCorruptRecord": "unread",
    "allowNonNumericNumbers": "false",
    "mode": "PERMISSIVE",
}

_NAMED: Final = r"^(?:telemetry-)?([0-9]+\.[0-9]+_[0-9]+\.[0-9]+)-"
"""Beginning of a file name that contains a relay."""

MAX_TS_US: Final = 7_258_118_400_000_000
"""End of the 22nd century. Later times are invalid; years of five digits break dates."""


_T = TypeVar("_T")

_MADE: WeakKeyDictionary[SparkSession, dict[Hashable, Any]] = WeakKeyDictionary()


def cached_columns(session: SparkSession, key: Hashable, make: Callable[[], _T]) -> _T:
    """Return the result of ``make``, cached for the session and the key.

    Each part of an expression in Python is a call to the JVM, and a body has hundreds. A stream
    uses the same expressions for each batch.
    """
    mine = _MADE.setdefault(session, {})
    if key not in mine:
        mine[key] = make()
    return cast("_T", mine[key])


def parse(lines: DataFrame, *, batch: int, seen_us: int, judged: bool = False) -> DataFrame:
    """Return rows of ``bronze/events``, and a column ``line`` that is null if the row is valid.

    ``lines`` has the columns ``value`` and ``source``. Blank lines are left out. With ``judged``
    all lines count as valid.
    """
    steps = cached_columns(lines.sparkSession, ("parse", judged), lambda: _steps(judged=judged))
    rows = lines.where(steps.filled)
    for columns in steps.selects:
        rows = rows.select(*columns)
    same = _constant(batch).alias("batch"), _constant(seen_us).alias("seen_us")
    return rows.select(*steps.first, *same, *steps.last)


class _Steps(NamedTuple):
    """Columns of :func:`parse`, without those that differ between batches."""

    filled: Column
    selects: list[list[Column]]
    first: list[Column]
    last: list[Column]


def _steps(*, judged: bool) -> _Steps:
    line = [fn.col("value"), fn.col("source")]
    prefix = fn.concat(fn.col("relay"), fn.lit(":"), fn.col("boot").cast("string"), fn.lit(":"))
    number = fn.expr("substring(event_id, length(relay) + length(cast(boot as string)) + 3)")
    sound = fn.lit(True) if judged else fn.coalesce(_is_sound(prefix, number), fn.lit(False))
    event_seq = number.try_cast("bigint").alias("event_seq")

    def if_sound(name: str) -> Column:
        return fn.when(fn.col("sound"), fn.col(name)).alias(name)

    def part(name: str, column: Column) -> Column:
        return fn.coalesce(fn.when(fn.col("sound"), column), fn.lit(SUSPECT)).alias(name)

    names = ("v", "event_id", "relay", "boot", "event_seq", "ts_us", "tenant", "region")
    return _Steps(
        fn.trim("value") != "",
        [
            [*line, fn.from_json("value", _RAW, _OPTIONS).alias("e")],
            [*line, fn.col("e.*")],
            [fn.col("*"), event_seq, fn.schema_of_variant("body").alias("shape")],
            [fn.col("*"), sound.alias("sound")],
        ],
        [*(if_sound(name) for name in (*names, "body", "shape")), fn.col("source")],
        [
            fn.when(~fn.col("sound"), fn.col("value").cast("binary")).alias("line"),
            part("dt", day_of("ts_us")),
            part("hour", hour_of("ts_us")),
            part("type", fn.col("type")),
        ],
    )


def _constant(number: int) -> Column:
    """Return a column with the same number in all rows, without compiling new code for it.

    A literal number is part of the generated code, so each batch would be compiled again. A text
    that depends on a row is not.
    """
    return fn.concat(fn.lit(str(number)), fn.left("source", fn.lit(0))).cast("bigint")


SUSPECT: Final = "suspect"
"""Partition of rows that are not valid."""


def day_of(ts_us: str) -> Column:
    """Return the day of a time in microseconds as partitions name it; faster than formatting."""
    return fn.expr(f"cast(date_from_unix_date(cast({ts_us} div 86400000000 as int)) as string)")


def hour_of(ts_us: str) -> Column:
    """Return the hour of a time in microseconds as partitions name it."""
    return fn.expr(f"lpad(cast(({ts_us} div 3600000000) % 24 as string), 2, '0')")


def _is_sound(prefix: Column, number: Column) -> Column:
    value = fn.col("value")
    writer = fn.regexp_extract("source", _NAMED, 1)
    begin = fn.concat(
        *(fn.lit('{"v":"'), fn.col("v"), fn.lit('","event_id":"'), fn.col("event_id")),
        *(fn.lit('","ts_us":'), fn.col("ts_us").cast("string")),
        *(
            fn.lit(',"relay":"'),
            fn.col("relay"),
            fn.lit('","boot":'),
            fn.col("boot").cast("string"),
        ),
        *(fn.lit(',"type":"'), fn.col("type"), fn.lit('",')),
    )
    return (
        fn.col("unread").isNull()
        & fn.col("body").isNotNull()
        & (fn.col("v").isin(*_VERSIONS) | fn.col("v").rlike(r"^1\.(0|[1-9][0-9]{0,8})$"))
        & value.startswith(begin)
        & ((writer == "") | (writer == fn.replace("relay", fn.lit(":"), fn.lit("_"))))
        & fn.col("event_id").startswith(prefix)
        & (fn.col("event_seq").cast("string") == number)
        & (fn.col("event_seq") >= 0)
        & (fn.col("tenant").isNull() | value.contains('"tenant":"'))
        & (fn.col("region").isNull() | value.contains('"region":"'))
        & fn.col("shape").startswith("OBJECT<")
        # No deeper than laps_wire reads; where that is not plain, it counts itself.
        & (fn.length("shape") - fn.length(fn.replace("shape", fn.lit("<"))) < MAX_DEPTH)
        & fn.col("ts_us").between(0, MAX_TS_US)
        & (fn.length(value) <= MAX_LINE)
        # Half a surrogate pair is not text, and Java would quietly make it a question mark.
        & ~value.contains("\\ud")
        & ~value.contains("\\uD")
        & fn.is_valid_utf8(value)
    )


_JUDGED: Final = "value string, source string, line string, reason string, relay string, ts_us long"


def judge(suspects: DataFrame) -> DataFrame:
    """Check suspect lines with ``laps_wire``: ``value`` for an event, else ``reason``.

    ``suspects`` has the columns ``line`` and ``source``.
    """
    return suspects.select("line", "source").mapInArrow(_judge, _JUDGED)


def _judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = [
            {"source": row["source"], **verdict(bytes(row["line"]), row["source"])}
            for row in batch.to_pylist()
        ]
        yield pa.RecordBatch.from_pylist(
            rows,
            schema=pa.schema(
                [
                    *((name, pa.string()) for name in ("value", "source", "line", "reason")),
                    ("relay", pa.string()),
                    ("ts_us", pa.int64()),
                ]
            ),
        )


def verdict(line: bytes, source: str = "") -> dict[str, Any]:
    """Check a line with ``laps_wire``; return it serialised again, or the reason against it."""
    stripped = line.strip()
    named = re.match(_NAMED, source)
    writer = named[1].replace("_", ":") if named else None
    try:
        event = load_line(stripped)
        if event.seq >= 2**63:
            raise TelemetryError("the number of the event does not fit 64 bits", where="event_id")
        if not 0 <= event.ts_us <= MAX_TS_US:
            raise TelemetryError(f"{event.ts_us} is no time of this age", where="ts_us")
        if writer is not None and event.relay != writer:
            raise TelemetryError(f"the file is of {writer}, not of {event.relay}", where="relay")
        # Written our way it is sound to the expressions above.
        return {"value": dump_line(event)}
    except TelemetryError as error:
        return {
            "line": stripped.decode(errors="backslashreplace"),
            "reason": str(error),
            **_hints(stripped),
            **({} if writer is None else {"relay": writer}),
        }


def _hints(line: bytes) -> dict[str, Any]:
    """Return the relay and the time of an invalid line, if it has them."""
    if len(line) > MAX_LINE:
        return {}
    try:
        plain = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(plain, dict):
        return {}
    relay, ts_us = plain.get("relay"), plain.get("ts_us")
    fits = isinstance(ts_us, int) and not isinstance(ts_us, bool) and -(2**63) <= ts_us < 2**63
    return {
        "relay": relay if isinstance(relay, str) and relay.isprintable() else None,
        "ts_us": ts_us if fits else None,
    }


# Tables

_HEAD: Final = len("00000000-00000-")
_PARTITIONS: Final = ("dt", "hour", "type")
_OLDEST: Final = hour_at(OLDEST_US)


def batch_key(batch: int) -> str:
    """Return the name of a batch in the logs of tables."""
    return f"batch-{batch}"


def expired_key(batch: int) -> str:
    """Return the name of the part of a batch that belongs to removed days."""
    return f"expired-{batch}"


def lines_of(spark: SparkSession, files: Iterable[Path]) -> DataFrame:
    """Return the lines of files of the inbox, as columns ``value`` and ``source``."""
    read = spark.read.option("lineSep", "\n").text([spark_path(file) for file in files])
    return read.select("value", source_column().alias("source"))


def source_column() -> Column:
    """Return the name of the source, which is part of the name of a file in the inbox."""
    name = "_metadata.file_name"
    return fn.expr(f"substring({name}, {_HEAD + 1}, length({name}) - {_HEAD + len(SUFFIX)})")


def write_bronze(
    lake: Lake,
    lines: DataFrame,
    *,
    batch: int,
    seen_us: int,
    stage: Path,
    progress: Callable[[str], None] = lambda _: None,
) -> None:
    r"""Commit lines to bronze as a batch. Repeating it does nothing.

    ::

        lines --parse--> stage/rows/dt=.../hour=.../type=...      --------------> bronze/events
                    \--> stage/suspect --judge--> stage/judged --> no event ----> bronze/quarantine
                                                         \----> event: stage/rows
        stage/rows of hours that were removed ---------> stage/expired ---------> bronze/quarantine

    ``bronze/events`` is committed last: if it has the batch, all steps are done.
    """
    table = lake.table("bronze/events")
    key = batch_key(batch)
    base = table.snapshot()
    if key in base.batches:
        return
    # Files may have been moved on already; what is left is made again.
    shutil.rmtree(stage, ignore_errors=True)
    rows, suspect, judged = stage / "rows", stage / "suspect", stage / "judged"
    parsed = parse(lines, batch=batch, seen_us=seen_us)
    _write(parsed, rows, _PARTITIONS)
    progress("parsed")
    if (rows / f"dt={SUSPECT}").exists():
        (rows / f"dt={SUSPECT}").rename(suspect)
        spark = lines.sparkSession
        _write(judge(spark.read.parquet(spark_path(suspect))), judged, ())
        verdicts = spark.read.parquet(spark_path(judged))
        passed = verdicts.where("value is not null").select("value", "source")
        _write(
            parse(passed, batch=batch, seen_us=seen_us, judged=True), rows, _PARTITIONS, "append"
        )
        refused = verdicts.where("value is null")
        _quarantine(refused, lake, key, batch=batch, seen_us=seen_us)
        progress("quarantined")
    if first := horizon_of(lake).accepted_from:
        _refuse_expired(lines.sparkSession, lake, stage, first, batch=batch, seen_us=seen_us)
    table.commit(rows, base=base, batch=key)
    progress("bronze")


def _quarantine(refused: DataFrame, lake: Lake, key: str, *, batch: int, seen_us: int) -> None:
    """Commit refused lines with their reasons."""
    rows = refused.select(
        *("line", "source", "reason", "relay", "ts_us"),
        fn.lit(batch).cast("bigint").alias("batch"),
        fn.lit(seen_us).cast("bigint").alias("seen_us"),
        fn.lit(hour_at(seen_us)[0]).alias("dt"),
    )
    table = lake.table("bronze/quarantine")
    write(rows.select(*QUARANTINE.fieldNames()), table, partition_by=("dt",), batch=key)


def _refuse_expired(
    spark: SparkSession, lake: Lake, stage: Path, first: Hour, *, batch: int, seen_us: int
) -> None:
    """Quarantine events of hours before ``first``, whose other events were removed.

    Otherwise silver and gold would be rebuilt from these events alone. A clock before 2020 is
    broken, not late; its events go to ``silver/quarantine`` as usual.
    """
    expired = stage / "expired"
    for folder in sorted((stage / "rows").glob("dt=*/hour=*")):
        hour = (folder.parent.name.removeprefix("dt="), folder.name.removeprefix("hour="))
        if _OLDEST <= hour < first:
            (expired / folder.parent.name).mkdir(parents=True, exist_ok=True)
            folder.rename(expired / folder.parent.name / folder.name)
    if not expired.exists():
        return
    place = spark_path(expired)
    rows = spark.read.schema(BRONZE).option("basePath", place).parquet(place)
    names = ("v", "event_id", "ts_us", "relay", "boot", "type", "tenant", "region", "body")
    reason = f"too late: events before {first[0]} {first[1]}:00 were removed"
    refused = rows.withColumn("line", fn.to_json(fn.struct(*names)))
    refused = refused.withColumn("reason", fn.lit(reason))
    _quarantine(refused, lake, expired_key(batch), batch=batch, seen_us=seen_us)


def hours_of_batch(lake: Lake, batch: int) -> set[Hour]:
    """Return the hours that a batch added rows to."""
    return {hour_of_file(file) for file in lake.table("bronze/events").files_of(batch_key(batch))}


def _write(
    frame: DataFrame, to: Path, partition_by: tuple[str, ...], mode: str = "overwrite"
) -> None:
    columns = [*BRONZE.fieldNames(), "line"]
    if partition_by:
        frame = frame.select(*(name for name in columns if name in frame.columns))
        if mode == "append":
            frame = frame.drop("line")
    writer = frame.write.mode(mode).option("compression", "zstd")
    if partition_by:
        writer = writer.partitionBy(*partition_by)
    try:
        writer.parquet(spark_path(to))
    except PySparkException as error:
        if any(word in str(error) for word in ("Mkdirs failed", "Permission denied", "No space")):
            raise OutputError(
                f"{to} cannot be written: free space or name another folder, then run again;"
                " the inbox keeps all lines"
            ) from None
        raise
