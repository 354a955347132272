"""Silver tables as input of gold: from a lake, or frames of a test.

Builders read event types and days. Some look back: a counter needs the sample before it, a state an
older record. The look-back is explicit, so a day built alone equals the same day built with others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import reduce
from typing import Final, Literal, TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from laps_analytics.lake import DataFile, Lake, read, spark_path
from laps_analytics.schema import silver_type, table_name

__all__ = ["ENVELOPE", "Lookback", "Silver", "partitions_of", "stored_type", "wanted"]

Lookback: TypeAlias = Literal["none", "hour", "all"]
"""What is read besides the days: nothing, the last hour before each, or everything earlier."""

ENVELOPE: Final = ("dt", "ts", "relay", "boot", "event_seq", "late", "skew_us")
"""Columns that events of all types have."""

_LAST_HOUR: Final = "23"


def stored_type(event_type: str) -> StructType:
    """Return the columns of a silver table as stored, with its partition columns."""
    return StructType(
        [
            *silver_type(event_type).fields,
            StructField("dt", StringType(), nullable=True),
            StructField("hour", StringType(), nullable=True),
        ]
    )


@dataclass(frozen=True, slots=True)
class PartitionFilter:
    """Selects the partitions to read."""

    days: frozenset[str]
    evenings: frozenset[str]
    until: str | None

    def __call__(self, dt: str, hour: str) -> bool:
        if dt in self.days or (hour == _LAST_HOUR and dt in self.evenings):
            return True
        return self.until is not None and dt < self.until


def wanted(days: Iterable[str], back: Lookback = "none") -> PartitionFilter:
    """Return a filter of the partitions (day, hour) that are needed to build some days."""
    chosen = frozenset(days)
    evenings = {str(date.fromisoformat(day) - timedelta(days=1)) for day in chosen}
    return PartitionFilter(
        chosen,
        frozenset(evenings if back == "hour" else ()),
        max(chosen) if back == "all" and chosen else None,
    )


class Silver:
    """Silver tables by event type."""

    def __init__(
        self,
        source: Callable[[str, PartitionFilter], DataFrame],
        envelopes: Callable[[Sequence[str], PartitionFilter], DataFrame] | None = None,
    ) -> None:
        self._source = source
        self._envelopes = envelopes

    @classmethod
    def of_lake(cls, spark: SparkSession, lake: Lake) -> Silver:
        """Return the tables of a lake. Only files of the needed partitions are opened."""

        def source(event_type: str, where: PartitionFilter) -> DataFrame:
            table = lake.table(f"silver/{table_name(event_type)}")

            def chosen(file: DataFile) -> bool:
                return where(*partitions_of(file))

            snapshot = table.snapshot()
            if not any(map(chosen, snapshot.files.values())):
                return _empty_frame(spark, event_type)
            return read(spark, table, stored_type(event_type), snapshot=snapshot, where=chosen)

        def envelopes(kinds: Sequence[str], where: PartitionFilter) -> DataFrame:
            paths = []
            for kind in kinds:
                table = lake.table(f"silver/{table_name(kind)}")
                files = table.snapshot().files.values()
                paths += [
                    spark_path(table.root / file.path)
                    for file in files
                    if where(*partitions_of(file))
                ]
            if not paths:
                return _empty_frame(spark, kinds[0]).select(*ENVELOPE)
            # The files by name, of all tables: so Spark sees no partitions, and plans one scan.
            stored = {field.name: field for field in silver_type(kinds[0]).fields}
            schema = StructType([stored[name] for name in ENVELOPE if name != "dt"])
            frame = spark.read.schema(schema).parquet(*paths)
            return frame.withColumn("dt", F.date_format("ts", "yyyy-MM-dd")).select(*ENVELOPE)

        return cls(source, envelopes)

    @classmethod
    def of_frames(cls, spark: SparkSession, frames: Mapping[str, DataFrame]) -> Silver:
        """Return frames as tables; an event type that is missing is empty."""

        def source(event_type: str, where: PartitionFilter) -> DataFrame:
            frame = frames.get(event_type)
            if frame is None:
                return _empty_frame(spark, event_type)
            inside = F.col("dt").isin(sorted(where.days))
            if where.evenings:
                evening = F.col("dt").isin(sorted(where.evenings))
                inside = inside | (evening & (F.col("hour") == _LAST_HOUR))
            if where.until is not None:
                inside = inside | (F.col("dt") < where.until)
            return frame.where(inside)

        return cls(source)

    def read(self, event_type: str, days: Iterable[str], back: Lookback = "none") -> DataFrame:
        """Return the events of some days, and of the time before that ``back`` selects."""
        return self._source(event_type, wanted(days, back))

    def read_envelopes(
        self, event_types: Sequence[str], days: Iterable[str], back: Lookback = "none"
    ) -> DataFrame:
        """Return the common columns (:data:`ENVELOPE`) of several event types in one scan."""
        where = wanted(days, back)
        if self._envelopes is not None:
            return self._envelopes(event_types, where)
        every = [self._source(kind, where).select(*ENVELOPE) for kind in event_types]
        return reduce(DataFrame.unionByName, every)


def _empty_frame(spark: SparkSession, event_type: str) -> DataFrame:
    """Return a frame that Spark knows to be empty when it plans, so that it costs no task."""
    columns = [
        F.lit(None).cast(field.dataType).alias(field.name)
        for field in stored_type(event_type).fields
    ]
    return spark.range(0).where(F.lit(False)).select(*columns)


def partitions_of(file: DataFile) -> tuple[str, str]:
    """Return day and hour of a file."""
    return file.partition["dt"], file.partition["hour"]
