"""What builders share: windows, tenants, regions, sums of maps, and the touch of a contract."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from laps_analytics.gold.contract import GoldTable
from laps_analytics.gold.dimensions import Dimensions

__all__ = [
    "FIVE_MINUTES",
    "Persist",
    "class_of",
    "finish",
    "five_minutes",
    "merged",
    "percentile",
    "percentile_of_sorted",
    "tenant_of",
    "unpersisted",
    "window",
]

Persist: TypeAlias = Callable[[DataFrame], DataFrame]
"""What to do with a frame that is used several times: nothing, or to hold it until all is built."""


def unpersisted(frame: DataFrame) -> DataFrame:
    """Hold nothing: Spark makes the frame again for each use."""
    return frame


FIVE_MINUTES: Final = 300
"""Length of the usual window, in seconds."""


def window(ts: Column | str, seconds: int) -> Column:
    """Begin of the window of a time stamp."""
    micros = F.unix_micros(F.col(ts) if isinstance(ts, str) else ts)
    return F.timestamp_micros(micros - micros % (seconds * 1_000_000))


def five_minutes(ts: Column | str = "ts") -> Column:
    """Begin of the five minutes of a time stamp."""
    return window(ts, FIVE_MINUTES)


def percentile(share: float, column: str, where: str | None = None) -> Column:
    """The exact percentile: a value that occurs, the first with ``share`` of all at or below it."""
    only = f" FILTER (WHERE {where})" if where else ""
    text = f"percentile_disc({share}) WITHIN GROUP (ORDER BY {column}){only}"
    return F.expr(text).cast("bigint")


def percentile_of_sorted(share: float, values: str) -> Column:
    """Return the exact percentile of a sorted array; null if the array is empty.

    Several percentiles can share one array. Each :func:`percentile` counts the values again.
    """
    place = f"cast(ceil({share}D * size({values})) AS int)"
    return F.expr(f"get({values}, greatest({place}, 1) - 1)")


def _facts(names: dict[str, str]) -> Column | None:
    if not names:
        return None
    pairs = [F.lit(part) for item in sorted(names.items()) for part in item]
    return F.create_map(*pairs)


def tenant_of(dimensions: Dimensions, track: str = "track") -> Column:
    """Whose an event is: as it says, or as its track's dimension does; empty if nobody's."""
    known = _facts({name: f.tenant for name, f in dimensions.tracks.items() if f.tenant})
    if known is None:
        return F.coalesce(F.col("tenant"), F.lit(""))
    return F.coalesce(F.col("tenant"), known[F.col(track)], F.lit(""))


def class_of(dimensions: Dimensions, track: str = "track") -> Column:
    """The class of service of a track; empty if it has none."""
    known = _facts({name: f.service for name, f in dimensions.tracks.items() if f.service})
    if known is None:
        return F.lit("")
    return F.coalesce(known[F.col(track)], F.lit(""))


def merged(entries: str) -> Column:
    """A map from an array of entries whose values are added up by key, keys ascending."""
    return F.expr(
        f"map_from_entries(transform(array_sort(array_distinct(transform({entries}, e -> e.key))),"
        f" k -> struct(k AS key, aggregate(filter({entries}, e -> e.key = k), 0L,"
        f" (sum, e) -> sum + e.value) AS value)))"
    )


def finish(frame: DataFrame, table: GoldTable, days: Iterable[str] | None = None) -> DataFrame:
    """The columns of the contract, in its order and of its types; rows of ``days`` only."""
    columns = [
        F.col(field.name).cast(field.dataType).alias(field.name) for field in table.schema().fields
    ]
    wanted = frame if days is None else frame.where(F.col("dt").isin(sorted(days)))
    return wanted.select(*columns)
