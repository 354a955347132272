"""Transform bronze rows into silver rows: typed, deduplicated, with corrected times.

These are functions of data frames. :mod:`.silver_hours` reads and writes the tables.

A body must fit the schema of its type. That is checked without reading each value in Python. The
*shape* of a body is the result of Spark's ``schema_of_variant``:

::

    OBJECT<drops: OBJECT<ttl: BIGINT>, objects: BIGINT, track: STRING, window_ms: BIGINT>

Events of one type have few shapes, so each shape is checked once, by the rules of ``laps_wire``.
:func:`is_whole` is a Spark expression for what a shape does not show, such as a null in an array or
the rules of a histogram.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import pandas as pd
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from laps_analytics.ingest.bronze import cached_columns, day_of, hour_of
from laps_analytics.ingest.hours import HOUR_US, WATERMARK_US
from laps_analytics.schema import UNFIT, body_type
from laps_wire.telemetry import BODIES, MAX_BUCKETS, MsHistogram, TelemetryError, load_line
from laps_wire.telemetry.schema import DataType, StructSpec, struct_of

__all__ = ["deduplicated", "explain", "is_whole", "shape_fits", "typed", "unfit", "with_clock"]

# Shapes of bodies

_TOKEN: Final = re.compile(r"`(?:[^`]|``)*`|[^<>,:`\s()]+|[<>,:()]")
_NUMBERS: Final = ("BIGINT", "DECIMAL", "DOUBLE", "FLOAT")


class _Shape:
    """A shape as a tree: a type name, the fields of an object, or the items of an array."""

    __slots__ = ("fields", "item", "name")

    def __init__(
        self, name: str, fields: dict[str, _Shape] | None = None, item: _Shape | None = None
    ) -> None:
        self.name = name
        self.fields = fields
        self.item = item


def _parse(text: str) -> _Shape:
    tokens = _TOKEN.findall(text)
    tokens.reverse()
    return _parse_one(tokens)


def _parse_one(tokens: list[str]) -> _Shape:
    name = tokens.pop()
    if name == "OBJECT":
        fields: dict[str, _Shape] = {}
        tokens.pop()
        while tokens[-1] != ">":
            key = tokens.pop()
            if key.startswith("`"):
                key = key[1:-1].replace("``", "`")
            tokens.pop()
            fields[key] = _parse_one(tokens)
            if tokens[-1] == ",":
                tokens.pop()
        tokens.pop()
        return _Shape(name, fields=fields)
    if name == "ARRAY":
        tokens.pop()
        item = _parse_one(tokens)
        tokens.pop()
        return _Shape(name, item=item)
    if tokens and tokens[-1] == "(":
        while tokens.pop() != ")":
            pass
    return _Shape(name)


@cache
def shape_fits(event_type: str, shape: str) -> bool:
    """Return whether bodies of this shape can be events of the type."""
    try:
        parsed = _parse(shape)
    except (IndexError, RecursionError):
        return False
    return _fits_struct(parsed, struct_of(BODIES[event_type]))


def _fits_struct(shape: _Shape, spec: StructSpec) -> bool:
    if shape.fields is None:
        return False
    for field in spec.fields:
        found = shape.fields.get(field.name)
        if found is None or found.name == "VOID":
            if not field.nullable:
                return False
        elif not _fits(found, field.type):
            return False
    return True


def _fits(shape: _Shape, kind: DataType) -> bool:
    if kind.struct is not None:
        return _fits_struct(shape, kind.struct)
    if kind.item is not None:
        inside = kind.item
        if kind.name == "array":
            # An array without items has a shape without a type.
            return shape.item is not None and (
                shape.item.name == "VOID" or _fits(shape.item, inside)
            )
        return shape.fields is not None and all(
            _fits(item, inside) for item in shape.fields.values()
        )
    if kind.name == "double":
        return shape.name in _NUMBERS
    return shape.name == {"string": "STRING", "long": "BIGINT", "boolean": "BOOLEAN"}[kind.name]


def is_whole(event_type: str, body: str) -> Column:
    """Return a condition: a body that was cast to its struct has all required values."""
    return _whole_struct(fn.col(body), struct_of(BODIES[event_type]))


def _whole_struct(value: Column, spec: StructSpec) -> Column:
    result = fn.lit(True)
    for field in spec.fields:
        item = value[field.name]
        inner = _whole(item, field.type)
        if field.nullable:
            if inner is not None:
                result = result & (item.isNull() | inner)
        else:
            result = result & item.isNotNull()
            if inner is not None:
                result = result & inner
    if spec.cls is MsHistogram:
        counts, bounds = value["counts"], value["bounds_ms"]
        result = (
            result
            & (fn.size(counts) == fn.size(bounds) + 1)
            & (fn.size(counts) <= MAX_BUCKETS)
            & ~fn.exists(counts, lambda count: count < 0)
            & (fn.array_sort(bounds) == bounds)
            & (fn.size(fn.array_distinct(bounds)) == fn.size(bounds))
        )
    return fn.coalesce(result, fn.lit(False))


def _whole(value: Column, kind: DataType) -> Column | None:
    """Return a condition on the inside of a value; None if nothing can be wrong there."""
    if kind.struct is not None:
        return _whole_struct(value, kind.struct)
    if kind.item is not None and kind.name == "array":
        struct = kind.item.struct

        def is_bad(item: Column) -> Column:
            return item.isNull() if struct is None else ~_whole_struct(item, struct)

        return ~fn.exists(value, is_bad)
    return None


# Rows


def deduplicated(bronze: DataFrame, *keys: str) -> DataFrame:
    """Return each event once: the copy that came first, so that a late copy makes nothing late.

    Copies are equal, so they lie in the same hour and type. ``keys`` are needed if ``bronze`` has
    more than one of those.
    """
    first = Window.partitionBy(*keys, "event_id").orderBy("batch", "source", "ts_us")
    return bronze.withColumn("_n", fn.row_number().over(first)).where("_n = 1").drop("_n")


def with_clock(rows: DataFrame, clock: DataFrame) -> DataFrame:
    """Add the clock of its relay to each row: offset_us, ok, reason, hour_batch.

    ``hour_batch`` is the first batch with rows of the hour.
    """
    known = clock.select("dt", "hour", "relay", "offset_us", "ok", "reason", "hour_batch")
    return rows.join(fn.broadcast(known), ["dt", "hour", "relay"], "left")


def typed(rows: DataFrame, event_type: str) -> DataFrame:
    """Return rows of the silver table of a type, and ``whole``: whether the body is complete.

    ``rows`` are those of :func:`with_clock`. The partition columns have the corrected time.
    """
    session = rows.sparkSession
    for columns in cached_columns(session, ("typed", event_type), lambda: _typed(event_type)):
        rows = rows.select(*columns)
    return rows


def _typed(event_type: str) -> list[list[Column]]:
    struct = body_type(event_type).simpleString()
    over = fn.expr(f"seen_us >= (ts_us div {HOUR_US} + 1) * {HOUR_US} + {WATERMARK_US}")
    # The first rows of an hour are not late, however old they are: nobody has used it before.
    late = over & fn.coalesce(fn.col("batch") > fn.col("hour_batch"), fn.lit(False))
    return [
        [
            fn.col("*"),
            fn.try_variant_get("body", "$", struct).alias("_body"),
            (fn.col("ts_us") - fn.col("offset_us")).alias("_at"),
            late.alias("late"),
        ],
        [
            *map(fn.col, ("event_id", "relay", "boot", "event_seq", "ts_us")),
            fn.timestamp_micros("_at").alias("ts"),
            fn.col("offset_us").alias("skew_us"),
            *map(fn.col, ("late", "tenant", "region", "_body.*")),
            day_of("_at").alias("dt"),
            hour_of("_at").alias("hour"),
            is_whole(event_type, "_body").alias("whole"),
        ],
    ]


def unfit(rows: DataFrame) -> DataFrame:
    """Return rows of ``silver/quarantine`` for invalid bronze rows.

    If ``reason`` is null the body is invalid, and ``laps_wire`` gives the reason.
    """
    columns = ["v", "event_id", "relay", "boot", "type", "ts_us", "source", "dt", "hour", "reason"]
    given = rows.select(*columns, fn.to_json("body").alias("body"))
    return given.mapInPandas(_explain_rows, UNFIT)


def _explain_rows(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    names = [field.name for field in UNFIT]
    for frame in frames:
        frame["reason"] = [
            row["reason"] if isinstance(row["reason"], str) else explain(row)
            for row in frame.to_dict("records")
        ]
        yield frame[names]


def explain(row: dict[str, Any]) -> str:
    """Return the reason of ``laps_wire`` why a row is not an event."""
    line = (
        f'{{"v":"{row["v"]}","event_id":"{row["event_id"]}","ts_us":{row["ts_us"]},'
        f'"relay":"{row["relay"]}","boot":{row["boot"]},"type":"{row["type"]}",'
        f'"body":{row["body"]}}}'
    )
    try:
        load_line(line)
    except TelemetryError as error:
        return f"{row['type']}: {error}"
    return f"{row['type']}: the body does not fit its schema"
