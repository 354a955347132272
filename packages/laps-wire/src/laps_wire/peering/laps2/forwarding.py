"""Subscriber node sets and the data header that names them (seed 000, Source Routing).

**IDs** of subscriber node sets (SNS) are 32-bit serial numbers that skip zero::

           1 -> 2 -> 3 -> ... -> 2**32 - 1 -+        0 is "no ID" and never assigned to a set
           ^                                |
           +--------------------------------+

The sender of data assigns the IDs, one series for each session and direction. IDs may be skipped
but never go back, except at the wrap. The order is RFC 1982 serial arithmetic: of two IDs, the
later one is less than half the circle ahead. The circle has 2**32 - 1 members, an odd number. So no
pair is exactly half a circle apart, where the order would be undefined.

After a wrap an ID may still be in use: :func:`next_free` skips it.

**Messages** about sets name the targets of an SNS ID. They use the control stream of the session
that carries the data, in every mode. The sender of the data owns the ID and the set; the receiver
can only refuse::

    sender of data                          receiver of data
       |  SNS_ADVERTISE  id 7 v1 {A, B}        |
       |-------------------------------------->|  installs the set; data may arrive before it
       |  SNS_UPDATE     id 7 v2 +C -A         |
       |-------------------------------------->|
       |  SNS_REFUSED    id 7 v2 {C}           |
       |<--------------------------------------|  C has been withdrawn: C gets no data
       |  SNS_WITHDRAW   id 7                  |
       |-------------------------------------->|

**The data header** is in front of every datagram and at the start of every data stream. Its codec
is written by hand, because it runs for every object and at every hop::

     0               1               2               3
     0 1 2 3 4 5 6 7 0 1 2 3 4 5 6 7 0 1 2 3 4 5 6 7 0 1 2 3 4 5 6 7
    +---------------+-------+-------+---------------+---------------+
    | header length | kind  | flags |   priority    |    format     |   0
    +---------------+-------+-------+---------------+---------------+
    |                     SNS ID  <- a Via changes only this         |   4
    +---------------------------------------------------------------+
    |                     track full-name hash                       |   8
    |                                                               |
    +---------------------------------------------------------------+
    |                     data context                              |  16
    +---------------------------------------------------------------+
    |                     ttl in milliseconds                       |  20
    +---------------------------------------------------------------+
    |  extensions, up to the header length: id (i), length (i), value  24
    +- - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - -+
    |  payload: the publisher's bytes, never changed

All numbers are big endian and at fixed offsets. The payload begins at ``header length`` (24 to
255), so a relay can skip extensions that it does not know. A hop that forwards needs two operations
on the header, and none on the payload::

    sns_id_at(chunk)                  which set?       (one 32-bit load)
    rewrite_sns_id(header, out_id)    for this egress  (one 32-bit store)
"""

from __future__ import annotations

import struct
from collections.abc import Container
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from laps_wire.buffer import QUIC_MAX, ByteSource, Reader, Writer
from laps_wire.errors import EncodeError, IncompleteError, MalformedError, StateError
from laps_wire.fields import U32, VARINT, Constrained, Layout
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import UnknownKindError
from laps_wire.peering.laps2.codepoints import (
    DATA_HEADER_BYTES,
    MAX_BATCH,
    MAX_DATA_HEADER_BYTES,
    MAX_HOPS,
    MAX_PARAMETER_BYTES,
    MAX_SCOPE_BYTES,
    DataKind,
    ParameterId,
    PayloadFormat,
)
from laps_wire.peering.laps2.fields import (
    NO_PARAMETERS,
    NODE_SET,
    PARAMETERS,
    Ascending,
    Parameters,
)

__all__ = [
    "FIRST_SNS_ID",
    "FLAG_CONTINUED",
    "FLAG_FETCH",
    "FLAG_OVERLAP",
    "MAX_SNS_ID",
    "NO_SNS_ID",
    "SNS_ADVERTISE",
    "SNS_ID",
    "SNS_ID_OFFSET",
    "SNS_REFUSED",
    "SNS_UPDATE",
    "SNS_WITHDRAW",
    "DataHeader",
    "SnsAdvertise",
    "SnsRefused",
    "SnsUpdate",
    "SnsWithdraw",
    "decode_data_header",
    "encode_data_header",
    "encode_extensions",
    "is_later",
    "next_free",
    "read_data_header",
    "rewrite_sns_id",
    "scope_parameters",
    "sns_id_at",
    "split",
    "successor",
    "with_sns_id",
]

# IDs of subscriber node sets

NO_SNS_ID: Final = 0
"""No set: data between a Stub and its parent Edge, which is forwarded by track alone."""
FIRST_SNS_ID: Final = 1
"""The first ID of a session, and the successor of :data:`MAX_SNS_ID`."""
MAX_SNS_ID: Final = 0xFFFF_FFFF
"""The last ID before the series begins again."""

_HALF: Final = MAX_SNS_ID // 2


def successor(sns_id: int) -> int:
    """Return the ID after ``sns_id``; the successor of "no ID" is the first ID."""
    if not 0 <= sns_id <= MAX_SNS_ID:
        raise EncodeError(f"SNS id {sns_id} is outside 0..{MAX_SNS_ID}")
    return FIRST_SNS_ID if sns_id == MAX_SNS_ID else sns_id + 1


def is_later(sns_id: int, than: int) -> bool:
    """Return whether ``sns_id`` is later than ``than``; every ID is later than "no ID"."""
    if than == NO_SNS_ID:
        return sns_id != NO_SNS_ID
    if sns_id == NO_SNS_ID:
        return False
    return 0 < (sns_id - than) % MAX_SNS_ID <= _HALF


def next_free(last: int, live: Container[int], *, limit: int = 1 << 20) -> int:
    """Return the next ID after ``last`` that is not in ``live``; tries at most ``limit`` IDs."""
    sns_id = last
    for _ in range(limit):
        sns_id = successor(sns_id)
        if sns_id not in live:
            return sns_id
    raise StateError(f"no free SNS id within {limit} after {last}")


# Messages about subscriber node sets


@dataclass(frozen=True, slots=True)
class SnsAdvertise:
    """A complete subscriber node set; replaces the previous set of the ID, if any."""

    sns_id: int
    set_version: int
    """1 or more; grows with every advertise and update of this ID."""
    hops: int
    """0 from the o-relay; a Via writes the hops of its incoming set plus 1."""
    targets: tuple[NodeId, ...]
    """The s-relays that need the data, lowest first."""
    parameters: Parameters = NO_PARAMETERS

    @property
    def scope(self) -> str:
        """The class of service in the parameter SCOPE; "" if it is absent or invalid.

        An invalid value is ignored like an unknown parameter (laps-2, 3.2).
        """
        value = self.parameters.get(ParameterId.SCOPE)
        if value is None or len(value) > MAX_SCOPE_BYTES:
            return ""
        try:
            return value.decode()
        except UnicodeDecodeError:
            return ""


@dataclass(frozen=True, slots=True)
class SnsUpdate:
    """A change to a set: first ``remove``, then ``add``."""

    sns_id: int
    set_version: int
    """The version that the update changes, plus 1."""
    add: tuple[NodeId, ...] = ()
    """Targets to add, lowest first; they must not be in the set."""
    remove: tuple[NodeId, ...] = ()
    """Targets to remove, lowest first; they must be in the set."""
    parameters: Parameters = NO_PARAMETERS

    def __post_init__(self) -> None:
        if not set(self.add).isdisjoint(self.remove):
            raise EncodeError("a target is both added and removed")


@dataclass(frozen=True, slots=True)
class SnsWithdraw:
    """Withdraws sets; their IDs may be used again after the series has wrapped around."""

    sns_ids: tuple[int, ...]
    """The IDs of the sets, lowest first."""
    parameters: Parameters = NO_PARAMETERS


@dataclass(frozen=True, slots=True)
class SnsRefused:
    """The receiver of data does not serve a set, or some of its targets."""

    sns_id: int
    set_version: int
    """The refused version; 0 if the set is unknown."""
    code: int
    """A :class:`~laps_wire.peering.laps2.codepoints.SnsRefusal`."""
    targets: tuple[NodeId, ...] = ()
    """The targets that are not served; empty: the whole set."""
    parameters: Parameters = NO_PARAMETERS


def scope_parameters(scope: str) -> Parameters:
    """Return the parameters of a set whose data has this class of service; none for ""."""
    if not scope:
        return NO_PARAMETERS
    value = scope.encode()
    if len(value) > MAX_SCOPE_BYTES:
        raise EncodeError(f"scope: {len(value)} bytes are over the limit of {MAX_SCOPE_BYTES}")
    return NO_PARAMETERS.with_bytes(ParameterId.SCOPE, value)


SNS_ID: Final = Constrained(U32, FIRST_SNS_ID, MAX_SNS_ID)
"""The ID of a set: 32 bits, as in data headers; 0 is not an ID."""

_VERSION: Final = Constrained(VARINT, 1, QUIC_MAX)  # SNS_REFUSED has 0 for an unknown set

SNS_ADVERTISE: Final = Layout(
    SnsAdvertise,
    ("sns_id", SNS_ID),
    ("set_version", _VERSION),
    ("hops", Constrained(VARINT, 0, MAX_HOPS)),
    ("targets", NODE_SET),
    ("parameters", PARAMETERS),
)
SNS_UPDATE: Final = Layout(
    SnsUpdate,
    ("sns_id", SNS_ID),
    ("set_version", _VERSION),
    ("add", NODE_SET),
    ("remove", NODE_SET),
    ("parameters", PARAMETERS),
)
SNS_WITHDRAW: Final = Layout(
    SnsWithdraw, ("sns_ids", Ascending(SNS_ID, MAX_BATCH)), ("parameters", PARAMETERS)
)
SNS_REFUSED: Final = Layout(
    SnsRefused,
    ("sns_id", SNS_ID),
    ("set_version", VARINT),
    ("code", VARINT),
    ("targets", NODE_SET),
    ("parameters", PARAMETERS),
)


# The data header

SNS_ID_OFFSET: Final = 4
"""The offset of the SNS ID in every data header of this and all later minor versions."""

FLAG_OVERLAP: Final = 0x1
"""The object may also arrive over another session (make before break): remove duplicates."""
FLAG_FETCH: Final = 0x2
"""The data is the response to a FETCH, whose ID is the data context."""
FLAG_CONTINUED: Final = 0x4
"""The stream continues a subgroup that began on an earlier stream, which was cut."""

_HEADER: Final = struct.Struct(">BBBBIQII")
_U32: Final = struct.Struct(">I")
_KINDS: Final = {int(kind): kind for kind in DataKind}
_KIND_NAMES: Final = {int(kind): kind.name for kind in DataKind}
_MAX_U32: Final = 0xFFFF_FFFF

WritableBuffer: TypeAlias = "bytearray | memoryview"


class DataHeader(NamedTuple):
    """The header before a payload."""

    kind: DataKind
    sns_id: int
    """The subscriber node set that the data is for; 0 only between a Stub and its parent."""
    track: int
    """The full-name hash of the track."""
    context: int
    """The data context: a random number other than 0 that the o-relay draws for each publisher of
    the track. It is the same on all hops. A publisher that reconnects gets a new one."""
    priority: int = 128
    """The publisher priority, from 0 (highest) to 255 (lowest)."""
    ttl_ms: int = 0
    """How long the data may wait in a relay's queue, in milliseconds; 0: the relay decides."""
    payload_format: int = PayloadFormat.OPAQUE
    """The format of the payload: a :class:`PayloadFormat` or any other number."""
    flags: int = 0
    """Four bits; unknown ones are forwarded."""
    extensions: bytes = b""
    """Encoded extensions; see :attr:`parameters` and :func:`encode_extensions`."""

    @property
    def size(self) -> int:
        """The length of the header in bytes: where the payload begins."""
        return DATA_HEADER_BYTES + len(self.extensions)

    @property
    def parameters(self) -> Parameters:
        """The decoded extensions; an empty list if they are malformed.

        A remote relay may have written them, and the relays between do not read them. So malformed
        extensions do not close the session with the neighbour (docs/spec/laps-2.md, 7.1).
        """
        reader = Reader(self.extensions)
        entries: list[tuple[int, bytes]] = []
        try:
            while not reader.at_end:
                identifier = reader.varint("extension id")
                entries.append((identifier, reader.prefixed("extension", MAX_PARAMETER_BYTES)))
            return Parameters(tuple(entries)) if entries else NO_PARAMETERS
        except (MalformedError, EncodeError):  # cut short, or ids that do not ascend
            return NO_PARAMETERS


def encode_extensions(parameters: Parameters) -> bytes:
    """Encode extensions without a count: in a data header, the header length ends them."""
    writer = Writer()
    for identifier, value in parameters:
        writer.varint(identifier, "extension id")
        writer.prefixed(value, f"extension {identifier:#x}", MAX_PARAMETER_BYTES)
    if len(writer) > MAX_DATA_HEADER_BYTES - DATA_HEADER_BYTES:
        writer.fail("extensions", f"{len(writer)} bytes do not fit a data header")
    return writer.getvalue()


def encode_data_header(header: DataHeader) -> bytes:
    """Encode a header; the payload follows it on the wire."""
    if header.size > MAX_DATA_HEADER_BYTES:
        raise EncodeError(f"extensions of {len(header.extensions)} bytes do not fit a data header")
    if not 0 <= header.flags <= 0xF:
        raise EncodeError(f"flags {header.flags:#x} do not fit four bits")
    try:
        fixed = _HEADER.pack(
            header.size,
            header.kind << 4 | header.flags,
            header.priority,
            header.payload_format,
            header.sns_id,
            header.track,
            header.context,
            header.ttl_ms,
        )
    except struct.error as error:
        raise EncodeError(f"data header: {error} ({header})") from None
    return fixed + header.extensions


def decode_data_header(data: ByteSource, pos: int = 0) -> DataHeader:
    """Read the header at ``pos``; the payload begins at ``pos + header.size``.

    Raises ``IncompleteError`` if the header is cut short: on a stream, more bytes may follow. For
    datagrams use :func:`split`, which treats that as malformed. ``UnknownKindError`` ends only the
    stream or the datagram.
    """
    available = len(data) - pos
    if available < 1:
        raise IncompleteError(DATA_HEADER_BYTES)
    size = data[pos]
    if size < DATA_HEADER_BYTES:
        raise MalformedError(
            f"{size} bytes, at least {DATA_HEADER_BYTES} belong", field="header length", offset=pos
        )
    if available >= 2 and data[pos + 1] >> 4 not in _KINDS:
        raise UnknownKindError(data[pos + 1] >> 4, _KIND_NAMES)
    if available < size:
        raise IncompleteError(size - available)
    _, kind, priority, payload_format, sns_id, track, context, ttl_ms = _HEADER.unpack_from(
        data, pos
    )
    extensions = (
        bytes(data[pos + DATA_HEADER_BYTES : pos + size]) if size > DATA_HEADER_BYTES else b""
    )
    return DataHeader(
        _KINDS[kind >> 4],
        sns_id,
        track,
        context,
        priority,
        ttl_ms,
        payload_format,
        kind & 0xF,
        extensions,
    )


def read_data_header(reader: Reader) -> DataHeader:
    """Read a header field by field, for traces; slower than :func:`decode_data_header`."""
    start = reader.pos
    size = reader.u8("header length")
    if size < DATA_HEADER_BYTES:
        reader.fail(
            "header length", f"{size} bytes, at least {DATA_HEADER_BYTES} belong", offset=start
        )
    kind = reader.u8("kind and flags")
    if kind >> 4 not in _KINDS:
        raise UnknownKindError(kind >> 4, _KIND_NAMES)
    priority = reader.u8("priority")
    payload_format = reader.u8("format")
    return DataHeader(
        kind=_KINDS[kind >> 4],
        sns_id=reader.u32("SNS ID"),
        track=reader.u64("track"),
        context=reader.u32("context"),
        priority=priority,
        ttl_ms=reader.u32("ttl"),
        payload_format=payload_format,
        flags=kind & 0xF,
        extensions=reader.take(size - DATA_HEADER_BYTES, "extensions"),
    )


def split(datagram: ByteSource) -> tuple[DataHeader, memoryview]:
    """Return the header and the payload of a datagram; the payload is not copied."""
    try:
        header = decode_data_header(datagram)
    except IncompleteError as error:
        raise MalformedError(
            f"truncated: {error.needed} more byte(s) needed", field="data header", offset=0
        ) from None
    if header.kind is not DataKind.DATAGRAM:
        raise MalformedError("a datagram whose header is for a stream", field="kind", offset=1)
    return header, memoryview(datagram)[header.size :]


# What a Via does


def sns_id_at(data: ByteSource, pos: int = 0) -> int:
    """Return the SNS ID of the header at ``pos``, without decoding the rest."""
    if len(data) < pos + 8:
        raise IncompleteError(pos + 8 - len(data))
    value: int = _U32.unpack_from(data, pos + SNS_ID_OFFSET)[0]
    return value


def rewrite_sns_id(data: WritableBuffer, sns_id: int, pos: int = 0) -> None:
    """Replace the SNS ID of the header at ``pos`` in place; nothing else changes."""
    if not 0 <= sns_id <= _MAX_U32:
        raise EncodeError(f"SNS id {sns_id} is outside 0..{_MAX_U32}")
    if len(data) < pos + 8:
        raise IncompleteError(pos + 8 - len(data))
    _U32.pack_into(data, pos + SNS_ID_OFFSET, sns_id)


def with_sns_id(header: bytes, sns_id: int) -> bytes:
    """Return a copy of an encoded header, without payload, with another SNS ID.

    In a fan-out, each egress queue gets its own header bytes and shares the payload object.
    """
    copy = bytearray(header)
    rewrite_sns_id(copy, sns_id)
    return bytes(copy)
