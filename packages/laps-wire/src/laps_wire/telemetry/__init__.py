"""Telemetry of relays: one envelope, typed events, JSON Lines, and a schema as data."""

from laps_wire.telemetry.envelope import Event
from laps_wire.telemetry.errors import TelemetryError
from laps_wire.telemetry.events import (
    BODIES,
    Body,
    CacheStat,
    ClientReport,
    DeliverySample,
    HopStat,
    KnownBody,
    PolicyApplied,
    QuicSample,
    SessionClose,
    SessionOpen,
    UnknownBody,
)
from laps_wire.telemetry.evolution import Change, compare
from laps_wire.telemetry.export import json_schema, markdown, schema
from laps_wire.telemetry.histogram import MAX_BUCKETS, QUEUE_BOUNDS_MS, MsHistogram
from laps_wire.telemetry.jsonl import (
    MAX_DEPTH,
    MAX_LINE,
    BadLine,
    dump_line,
    load_line,
    load_lines,
)
from laps_wire.telemetry.privacy import MAX_TEXT, address_prefix, safe_text
from laps_wire.telemetry.schema import VERSION, Column, DataType, FieldSpec, StructSpec, struct_of
from laps_wire.telemetry.topology import (
    AnnAdv,
    AnnWd,
    NodeAdv,
    NodeWd,
    PathItem,
    SnsAdv,
    SnsWd,
    SubAdv,
    SubWd,
)

__all__ = [
    "BODIES",
    "MAX_BUCKETS",
    "MAX_DEPTH",
    "MAX_LINE",
    "MAX_TEXT",
    "QUEUE_BOUNDS_MS",
    "VERSION",
    "AnnAdv",
    "AnnWd",
    "BadLine",
    "Body",
    "CacheStat",
    "Change",
    "ClientReport",
    "Column",
    "DataType",
    "DeliverySample",
    "Event",
    "FieldSpec",
    "HopStat",
    "KnownBody",
    "MsHistogram",
    "NodeAdv",
    "NodeWd",
    "PathItem",
    "PolicyApplied",
    "QuicSample",
    "SessionClose",
    "SessionOpen",
    "SnsAdv",
    "SnsWd",
    "StructSpec",
    "SubAdv",
    "SubWd",
    "TelemetryError",
    "UnknownBody",
    "address_prefix",
    "compare",
    "dump_line",
    "json_schema",
    "load_line",
    "load_lines",
    "markdown",
    "safe_text",
    "schema",
    "struct_of",
]
