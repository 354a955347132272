"""Transform bronze rows into silver rows: typed, deduplicated, with corrected times.

These are functions of data frames. :mod:`laps_analytics.ingest.rebuild` reads and writes the
tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from laps_analytics.ingest.hours import HOUR_US, WATERMARK_US
from laps_analytics.ingest.parse import cached_columns, day_of, hour_of
from laps_analytics.ingest.schema_check import is_whole
from laps_analytics.schema import UNFIT, body_type
from laps_wire.telemetry import TelemetryError, load_line

__all__ = ["deduplicated", "explain", "typed", "unfit", "with_clock"]


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
