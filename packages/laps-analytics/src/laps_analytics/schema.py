r"""Spark types of the telemetry, derived from ``laps_wire.telemetry``.

A silver table holds the events of one type. Its columns are those of the envelope
(:data:`ENVELOPE`) and the fields of the body under their own names:

::

    event_id relay boot event_seq ts_us  ts      skew_us  late  tenant region  |  srtt_us ... peer
    \___________ as written ___________/ \_____ added by silver _____/         |  \__ the body __/
"""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from laps_wire.telemetry import BODIES
from laps_wire.telemetry.schema import DataType as WireType
from laps_wire.telemetry.schema import StructSpec, struct_of

__all__ = [
    "BRONZE",
    "CLOCK",
    "ENVELOPE",
    "QLOG",
    "QUARANTINE",
    "UNFIT",
    "body_type",
    "event_types",
    "silver_type",
    "spark_type",
    "table_name",
]

_PLAIN: Final[dict[str, DataType]] = {
    "string": StringType(),
    "long": LongType(),
    "double": DoubleType(),
    "boolean": BooleanType(),
}

ENVELOPE: Final = StructType(
    [
        StructField("event_id", StringType(), nullable=False),
        StructField("relay", StringType(), nullable=False),
        StructField("boot", LongType(), nullable=False),
        # Not "seq": some bodies have a sequence of their own.
        StructField("event_seq", LongType(), nullable=False),
        # As the relay's clock had it.
        StructField("ts_us", LongType(), nullable=False),
        # When it happened, as far as we know: the relay's clock less its error.
        StructField("ts", TimestampType(), nullable=False),
        StructField("skew_us", LongType(), nullable=False),
        # Whether it came after its window had been closed once.
        StructField("late", BooleanType(), nullable=False),
        StructField("tenant", StringType(), nullable=True),
        StructField("region", StringType(), nullable=True),
    ]
)
"""Columns that begin every silver table."""

BRONZE: Final = StructType(
    [
        StructField("v", StringType()),
        StructField("event_id", StringType()),
        StructField("relay", StringType()),
        StructField("boot", LongType()),
        StructField("event_seq", LongType()),
        StructField("ts_us", LongType()),
        StructField("tenant", StringType()),
        StructField("region", StringType()),
        # As it came: fields of later versions are in it.
        StructField("body", VariantType()),
        # The types of the fields of the body, as Spark writes them.
        StructField("shape", StringType()),
        # Name of the file.
        StructField("source", StringType()),
        # Which ingest brought it, and when.
        StructField("batch", LongType()),
        StructField("seen_us", LongType()),
        # Partitions: of ts_us, not corrected.
        StructField("dt", StringType()),
        StructField("hour", StringType()),
        StructField("type", StringType()),
    ]
)
"""``bronze/events``: every event with a valid envelope, duplicates included."""

QUARANTINE: Final = StructType(
    [
        StructField("line", StringType()),
        StructField("source", StringType()),
        StructField("reason", StringType()),
        # Where the line says so.
        StructField("relay", StringType()),
        StructField("ts_us", LongType()),
        StructField("batch", LongType()),
        StructField("seen_us", LongType()),
        # Partition: the day on which it came.
        StructField("dt", StringType()),
    ]
)
"""``bronze/quarantine``: lines that are not events, and incomplete ends of files."""

UNFIT: Final = StructType(
    [
        StructField("event_id", StringType()),
        StructField("relay", StringType()),
        StructField("type", StringType()),
        StructField("ts_us", LongType()),
        StructField("source", StringType()),
        StructField("reason", StringType()),
        StructField("body", StringType()),
        # Partitions: of ts_us, not corrected.
        StructField("dt", StringType()),
        StructField("hour", StringType()),
    ]
)
"""``silver/quarantine``: events with an invalid body, or from a relay with a broken clock."""

CLOCK: Final = StructType(
    [
        StructField("relay", StringType()),
        # How far its clock was ahead of the others; what ts is ts_us less of.
        StructField("offset_us", LongType()),
        # Objects that it and a peer both stamped.
        StructField("pairs", LongType()),
        # Whether its events can be used.
        StructField("ok", BooleanType()),
        StructField("reason", StringType()),
        StructField("events", LongType()),
        StructField("first_us", LongType()),
        StructField("last_us", LongType()),
        # The ingest that brought the first of them.
        StructField("first_batch", LongType()),
        # Partitions: of ts_us, not corrected.
        StructField("dt", StringType()),
        StructField("hour", StringType()),
    ]
)
"""``silver/clock``: the clock of each relay in each hour."""

QLOG: Final = StructType(
    [
        StructField("file", StringType()),
        # Which trace of the file, from 0.
        StructField("trace", LongType()),
        StructField("vantage", StringType()),
        StructField("group_id", StringType()),
        # As the trace has it, in milliseconds.
        StructField("time", DoubleType()),
        StructField("name", StringType()),
        StructField("data", StringType()),
        StructField("batch", LongType()),
        StructField("dt", StringType()),
    ]
)
"""``bronze/qlog``: events of qlog and mlog traces. ``parse_json(data)`` is a VARIANT."""


def event_types() -> tuple[str, ...]:
    """Return every event type, in the order of the telemetry schema."""
    return tuple(BODIES)


def table_name(event_type: str) -> str:
    """Return the name of the silver table of an event type: ``hop_stat`` for ``hop.stat``."""
    return event_type.replace(".", "_")


def spark_type(kind: WireType) -> DataType:
    """Return the Spark type of a telemetry type."""
    if kind.struct is not None:
        return _struct(kind.struct)
    if kind.item is not None:
        inside = spark_type(kind.item)
        if kind.name == "array":
            return ArrayType(inside, containsNull=False)
        return MapType(StringType(), inside, valueContainsNull=False)
    return _PLAIN[kind.name]


def _struct(spec: StructSpec) -> StructType:
    return StructType(
        [StructField(field.name, spark_type(field.type), field.nullable) for field in spec.fields]
    )


# Not cached: StructType.add changes what it is called on.
def body_type(event_type: str) -> StructType:
    """Return the Spark type of the body of an event type."""
    return _struct(struct_of(BODIES[event_type]))


def silver_type(event_type: str) -> StructType:
    """Return the columns of the silver table of an event type."""
    return StructType([*ENVELOPE.fields, *body_type(event_type).fields])
