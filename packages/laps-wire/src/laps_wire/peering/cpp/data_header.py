"""The C++ relay's data headers: at the start of every data stream, and of every datagram.

The codecs are written by hand: a datagram's header is read for every object, and a Via rewrites
both kinds at every hop::

     0     1     2                 6                               14    15              19
    +-----+-----+-----------------+-------------------------------+-----+---------------+
    | len | type| SNS ID (32)     | track full-name hash (64)     | pri | ttl, ms (32)  |  stream
    | =19 | =2  |                 |                               | (8) |               |
    +-----+-----+-----------------+-------------------------------+-----+---------------+
    | =14 | =0  | SNS ID (32)     | track full-name hash (64)     |                        datagram
    +-----+-----+-----------------+-------------------------------+
                 ^ a Via changes these four bytes and copies everything else

The unchanged MoQT bytes of the publisher follow the header. The length byte counts the whole
header, so a longer header can be read: ``extra`` keeps its unknown part. The C++ relay requires the
whole header of a stream in the first chunk, so we send it in one chunk.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from laps_wire.buffer import ByteSource, Reader
from laps_wire.errors import EncodeError, IncompleteError, MalformedError
from laps_wire.peering.cpp.codepoints import DataType

__all__ = [
    "DATAGRAM_HEADER_BYTES",
    "SNS_ID_OFFSET",
    "STREAM_HEADER_BYTES",
    "DatagramHeader",
    "StreamHeader",
    "decode_datagram_header",
    "decode_stream_header",
    "encode_datagram_header",
    "encode_stream_header",
    "read_datagram_header",
    "read_stream_header",
    "rewrite_sns_id",
    "sns_id_at",
    "with_sns_id",
]

_STREAM: Final = struct.Struct(">BBIQBI")
_DATAGRAM: Final = struct.Struct(">BBIQ")
_SNS_ID: Final = struct.Struct(">I")

STREAM_HEADER_BYTES: Final = _STREAM.size
DATAGRAM_HEADER_BYTES: Final = _DATAGRAM.size
SNS_ID_OFFSET: Final = 2
"""The offset of the SNS ID in both kinds of header."""


@dataclass(frozen=True, slots=True)
class StreamHeader:
    """The first bytes of a data stream; the MoQT stream follows."""

    sns_id: int
    track_hash: int
    priority: int
    ttl_ms: int
    """The longest time of the object in queues."""
    extra: bytes = b""
    """Unknown bytes at the end of the header, for later versions."""


@dataclass(frozen=True, slots=True)
class DatagramHeader:
    """The first bytes of a datagram; the MoQT datagram follows."""

    sns_id: int
    track_hash: int
    extra: bytes = b""
    """Unknown bytes at the end of the header, for later versions."""


# Writing


def encode_stream_header(header: StreamHeader) -> bytes:
    """Return the header as bytes."""
    return _pack(
        _STREAM,
        DataType.NEW_STREAM,
        (header.sns_id, header.track_hash, header.priority, header.ttl_ms),
        header.extra,
    )


def encode_datagram_header(header: DatagramHeader) -> bytes:
    """Return the header as bytes."""
    return _pack(_DATAGRAM, DataType.DATAGRAM, (header.sns_id, header.track_hash), header.extra)


def _pack(form: struct.Struct, kind: DataType, values: tuple[int, ...], extra: bytes) -> bytes:
    try:
        return form.pack(form.size + len(extra), kind, *values) + extra
    except struct.error as error:
        raise EncodeError(f"data header {kind.name}: {error}") from None


# Reading


def decode_stream_header(data: ByteSource) -> tuple[StreamHeader, int]:
    """Return the header at the start of a stream, and the offset of the MoQT bytes.

    Raises :class:`~laps_wire.errors.IncompleteError` if the header is incomplete.
    """
    if len(data) >= STREAM_HEADER_BYTES:
        size, kind, sns_id, track_hash, priority, ttl_ms = _STREAM.unpack_from(data)
        if size == STREAM_HEADER_BYTES and kind == DataType.NEW_STREAM:
            return StreamHeader(sns_id, track_hash, priority, ttl_ms), STREAM_HEADER_BYTES
    # Other headers are read field by field, which gives precise errors.
    return read_stream_header(reader := Reader(data, partial=True)), reader.pos


def decode_datagram_header(data: ByteSource) -> tuple[DatagramHeader, int]:
    """Return the header of a whole datagram, and the offset of the MoQT bytes."""
    if len(data) < DATAGRAM_HEADER_BYTES:
        raise MalformedError(
            f"truncated: {len(data)} of {DATAGRAM_HEADER_BYTES} bytes",
            field="data header",
            offset=0,
        )
    size, kind, sns_id, track_hash = _DATAGRAM.unpack_from(data)
    if size == DATAGRAM_HEADER_BYTES and kind == DataType.DATAGRAM:
        return DatagramHeader(sns_id, track_hash), DATAGRAM_HEADER_BYTES
    # Other headers are read field by field, which gives precise errors.
    return read_datagram_header(reader := Reader(data)), reader.pos


def read_stream_header(reader: Reader) -> StreamHeader:
    """Read the header of a stream field by field."""
    end = _read_start(reader, DataType.NEW_STREAM, STREAM_HEADER_BYTES)
    return StreamHeader(
        reader.u32("sns_id"),
        reader.u64("track_hash"),
        reader.u8("priority"),
        reader.u32("ttl_ms"),
        _read_extra(reader, end),
    )


def read_datagram_header(reader: Reader) -> DatagramHeader:
    """Read the header of a datagram field by field."""
    end = _read_start(reader, DataType.DATAGRAM, DATAGRAM_HEADER_BYTES)
    return DatagramHeader(reader.u32("sns_id"), reader.u64("track_hash"), _read_extra(reader, end))


def _read_start(reader: Reader, kind: DataType, least: int) -> int:
    """Read length and type; return the position of the end of the header."""
    start = reader.pos
    size = reader.u8("header_len")
    if size < least:
        reader.fail("header_len", f"{size}, but {kind.name} has {least} bytes", offset=start)
    value = reader.u8("type")
    if value != kind:
        reader.fail("type", f"{value} where {int(kind)} ({kind.name}) belongs", offset=start + 1)
    return start + size


def _read_extra(reader: Reader, end: int) -> bytes:
    return reader.take(end - reader.pos, "extra") if reader.pos < end else b""


# What a Via does


def sns_id_at(data: ByteSource) -> int:
    """Return the SNS ID of a stream's first chunk or of a datagram."""
    try:
        value: int = _SNS_ID.unpack_from(data, SNS_ID_OFFSET)[0]
    except struct.error:
        raise IncompleteError(SNS_ID_OFFSET + _SNS_ID.size - len(data)) from None
    return value


def rewrite_sns_id(buffer: bytearray | memoryview, sns_id: int) -> None:
    """Replace the SNS ID of a header in place."""
    if len(buffer) < SNS_ID_OFFSET + _SNS_ID.size:
        raise EncodeError(f"no place for an SNS ID in {len(buffer)} bytes")
    # An explicit range check: pack_into() would overwrite the old ID before it raises.
    if not 0 <= sns_id <= 0xFFFF_FFFF:
        raise EncodeError(f"SNS ID {sns_id} does not fit 32 bits")
    _SNS_ID.pack_into(buffer, SNS_ID_OFFSET, sns_id)


def with_sns_id(data: ByteSource, sns_id: int) -> bytes:
    """Return a copy of a chunk or datagram with another SNS ID, for one egress."""
    copy = bytearray(data)
    rewrite_sns_id(copy, sns_id)
    return bytes(copy)
