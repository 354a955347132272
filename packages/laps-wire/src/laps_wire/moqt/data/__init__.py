"""The data plane of MoQT: subgroup streams, fetch streams and datagrams of drafts 16 and 18.

::

    chunks of a stream -> SubgroupParser (subgroup) --+
                       -> FetchParser (fetch) --------+-> ObjectHeader, payload, OBJECT_END
                             StreamParser (stream): what both parsers share

    a datagram -> decode_datagram (datagram) ---------> one object

    objects -> SubgroupWriter, encode_* --------------> bytes

    types         objects and their extensions, ranges without objects, kinds of streams

Parsers take chunks as they arrive and copy no payload. Everything that other packages
need is exported here, except the field-by-field readers for traces.

The package implements moq-transport-16, section 10, and moq-transport-18, section 11.
``docs/spec/moqt-data.md`` lists our choices.
"""

from laps_wire.moqt.data.datagram import (
    ObjectDatagram,
    PaddingDatagram,
    decode_datagram,
    encode_datagram,
    encode_padding_stream,
    read_datagram,
)
from laps_wire.moqt.data.fetch import (
    FetchParser,
    FetchState,
    FetchWriter,
    decode_fetch_header,
    encode_fetch_header,
    read_fetch_stream,
)
from laps_wire.moqt.data.stream import (
    MAX_OBJECT_SIZE,
    CollectedItem,
    DataEvent,
    ObjectCollector,
)
from laps_wire.moqt.data.subgroup import (
    SubgroupParser,
    SubgroupWriter,
    decode_subgroup_header,
    encode_subgroup_header,
    read_subgroup_stream,
)
from laps_wire.moqt.data.types import (
    MAX_EXTENSIONS_SIZE,
    OBJECT_END,
    Extensions,
    FetchHeader,
    Location,
    MalformedTrackError,
    MoqObject,
    ObjectEnd,
    ObjectExtensions,
    ObjectHeader,
    ObjectStatus,
    ObjectTooLargeError,
    RangeEnd,
    RangeKind,
    StreamKind,
    SubgroupHeader,
    TruncatedStreamError,
    encode_extensions,
    object_extensions,
    parse_extensions,
    peek_stream_kind,
    stream_kind,
)

__all__ = [
    "MAX_EXTENSIONS_SIZE",
    "MAX_OBJECT_SIZE",
    "OBJECT_END",
    "CollectedItem",
    "DataEvent",
    "Extensions",
    "FetchHeader",
    "FetchParser",
    "FetchState",
    "FetchWriter",
    "Location",
    "MalformedTrackError",
    "MoqObject",
    "ObjectCollector",
    "ObjectDatagram",
    "ObjectEnd",
    "ObjectExtensions",
    "ObjectHeader",
    "ObjectStatus",
    "ObjectTooLargeError",
    "PaddingDatagram",
    "RangeEnd",
    "RangeKind",
    "StreamKind",
    "SubgroupHeader",
    "SubgroupParser",
    "SubgroupWriter",
    "TruncatedStreamError",
    "decode_datagram",
    "decode_fetch_header",
    "decode_subgroup_header",
    "encode_datagram",
    "encode_extensions",
    "encode_fetch_header",
    "encode_padding_stream",
    "encode_subgroup_header",
    "object_extensions",
    "parse_extensions",
    "peek_stream_kind",
    "read_datagram",
    "read_fetch_stream",
    "read_subgroup_stream",
    "stream_kind",
]
