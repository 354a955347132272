"""Telemetry of relays: one envelope, typed events, JSON Lines, and a schema as data.

::

    Body (events, network, topology, histogram)
      |
    Event (envelope)          who wrote it, when, its sequence number
      |
    codec   <-- schema        dataclass <-> dict; the schema comes from the dataclasses
      |           |
    jsonl       export        one event a line; the schema as JSON Schema and Markdown
                evolution     which version a change of the schema asks for
    privacy                   address prefixes and printable text; no names, no whole addresses

Import from here. :mod:`laps_wire.telemetry.privacy` also serves other packages.

``docs/reference/telemetry.md`` lists the events.
"""

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
    is_sampled,
)
from laps_wire.telemetry.evolution import Change, compare
from laps_wire.telemetry.export import json_schema, markdown, schema
from laps_wire.telemetry.histogram import (
    AGE_BOUNDS_MS,
    MAX_BUCKETS,
    QUEUE_BOUNDS_MS,
    MsHistogram,
)
from laps_wire.telemetry.jsonl import (
    MAX_DEPTH,
    MAX_LINE,
    BadLine,
    dump_line,
    load_line,
    load_lines,
)
from laps_wire.telemetry.network import (
    DialFail,
    NodeSuspect,
    PeerDrain,
    PeerFault,
    PeerRefuse,
    PolicyChange,
    RouteChange,
    SnsRefuse,
    SubRefuse,
    TypeChange,
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
    "AGE_BOUNDS_MS",
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
    "DialFail",
    "Event",
    "FieldSpec",
    "HopStat",
    "KnownBody",
    "MsHistogram",
    "NodeAdv",
    "NodeSuspect",
    "NodeWd",
    "PathItem",
    "PeerDrain",
    "PeerFault",
    "PeerRefuse",
    "PolicyApplied",
    "PolicyChange",
    "QuicSample",
    "RouteChange",
    "SessionClose",
    "SessionOpen",
    "SnsAdv",
    "SnsRefuse",
    "SnsWd",
    "StructSpec",
    "SubAdv",
    "SubRefuse",
    "SubWd",
    "TelemetryError",
    "TypeChange",
    "UnknownBody",
    "address_prefix",
    "compare",
    "dump_line",
    "is_sampled",
    "json_schema",
    "load_line",
    "load_lines",
    "markdown",
    "safe_text",
    "schema",
    "struct_of",
]
