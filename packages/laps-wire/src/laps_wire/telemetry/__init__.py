"""Telemetry of relays: one envelope, typed events, JSON Lines, and a schema as data.

::

    Body (events, histogram)
      |
    Event (envelope)          writer, time, sequence number; one event per line; schema exports
      |
    schema                    columns from the dataclasses; dataclass <-> dict; schema changes
    privacy                   address prefixes and printable text; no names, no whole addresses

Import from here. :mod:`laps_wire.telemetry.privacy` also serves other packages.

``docs/reference/telemetry.md`` lists the events.
"""

from laps_wire.telemetry.envelope import (
    MAX_DEPTH,
    MAX_LINE,
    BadLine,
    Event,
    dump_line,
    json_schema,
    load_line,
    load_lines,
    markdown,
    schema,
)
from laps_wire.telemetry.events import (
    BODIES,
    AnnAdv,
    AnnWd,
    Body,
    CacheStat,
    ClientReport,
    DeliverySample,
    DialFail,
    HopStat,
    KnownBody,
    NodeAdv,
    NodeSuspect,
    NodeWd,
    PathItem,
    PeerDrain,
    PeerFault,
    PeerRefuse,
    PolicyApplied,
    PolicyChange,
    QuicSample,
    RouteChange,
    SessionClose,
    SessionOpen,
    SnsAdv,
    SnsRefuse,
    SnsWd,
    SubAdv,
    SubRefuse,
    SubWd,
    TypeChange,
    UnknownBody,
    is_sampled,
)
from laps_wire.telemetry.histogram import (
    AGE_BOUNDS_MS,
    MAX_BUCKETS,
    QUEUE_BOUNDS_MS,
    MsHistogram,
)
from laps_wire.telemetry.privacy import MAX_TEXT, address_prefix, safe_text
from laps_wire.telemetry.schema import (
    VERSION,
    Change,
    Column,
    DataType,
    FieldSpec,
    StructSpec,
    TelemetryError,
    compare,
    struct_of,
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
