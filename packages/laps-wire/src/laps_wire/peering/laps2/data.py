"""The data header: in front of every datagram and at the start of every data stream.

The codec is written by hand, because it runs for every object and at every hop::

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
from typing import Final, NamedTuple, TypeAlias

from laps_wire.buffer import Reader, Writer
from laps_wire.errors import EncodeError, IncompleteError, MalformedError
from laps_wire.peering.errors import UnknownKindError
from laps_wire.peering.laps2.codepoints import DataKind, PayloadFormat
from laps_wire.peering.laps2.limits import (
    DATA_HEADER_BYTES,
    MAX_DATA_HEADER_BYTES,
    MAX_PARAMETER_BYTES,
)
from laps_wire.peering.laps2.parameters import NO_PARAMETERS, Parameters
from laps_wire.varint import ByteSource

__all__ = [
    "FLAG_CONTINUED",
    "FLAG_FETCH",
    "FLAG_OVERLAP",
    "SNS_ID_OFFSET",
    "DataHeader",
    "decode_data_header",
    "encode_data_header",
    "encode_extensions",
    "read_data_header",
    "rewrite_sns_id",
    "sns_id_at",
    "split",
    "with_sns_id",
]

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
