"""Object datagrams: one object in one datagram (moq-transport-16, 10.3.1), and draft 18's padding.

::

    type     0 0 S 0 D Z E X
                 |   | | | +- 0x01  extensions, at least one byte
                 |   | | +--- 0x02  the last object of its group
                 |   | +----- 0x04  no object id field: the object id is 0
                 |   +------- 0x08  no priority field: the subscription's priority applies
                 +----------- 0x20  a status instead of a payload; excludes 0x02

    | type | track alias | group id | [object id] | [priority, 1 byte] | [extensions]
                                                          | payload to the end, or status |
    | 0x132B3E29 | zeros to the end |      padding, draft 18 only

Every other type closes the session. The status Normal is equivalent to an empty payload; the
encoder writes the empty payload.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from laps_wire.buffer import ByteSource, Reader
from laps_wire.errors import EncodeError, IncompleteError
from laps_wire.moqt.data.types import (
    MAX_EXTENSIONS_SIZE,
    PADDING_STREAM_TYPE,
    MoqObject,
    ObjectHeader,
    ObjectStatus,
    check_object,
    check_status,
)
from laps_wire.moqt.versions import Draft

__all__ = [
    "PADDING_DATAGRAM_TYPE",
    "ObjectDatagram",
    "PaddingDatagram",
    "decode_datagram",
    "encode_datagram",
    "encode_padding_stream",
    "read_datagram",
]

PADDING_DATAGRAM_TYPE: Final = 0x132B3E29

EXTENSIONS: Final = 0x01
END_OF_GROUP: Final = 0x02
ZERO_OBJECT_ID: Final = 0x04
DEFAULT_PRIORITY: Final = 0x08
STATUS: Final = 0x20
_WITH_PAYLOAD: Final = EXTENSIONS | END_OF_GROUP | ZERO_OBJECT_ID | DEFAULT_PRIORITY
_ALL: Final = _WITH_PAYLOAD | STATUS


class ObjectDatagram(NamedTuple):
    """One object whose forwarding preference is Datagram; a tuple, which is cheap to make."""

    track_alias: int
    group_id: int
    object_id: int
    payload: bytes = b""
    priority: int | None = None
    """The publisher priority; None: that of the subscription applies."""
    status: ObjectStatus = ObjectStatus.NORMAL
    extensions: bytes = b""
    """The encoded key-value pairs exactly as received, without the length before them."""
    end_of_group: bool = False
    """Whether no object with a larger id exists in the group."""

    def to_object(self) -> MoqObject:
        """Return the object in the form in which streams deliver it."""
        header = ObjectHeader(
            self.group_id,
            self.object_id,
            None,
            self.priority,
            len(self.payload),
            self.status,
            self.extensions,
        )
        return MoqObject(header, self.payload)


class PaddingDatagram(NamedTuple):
    """A datagram that only probes the path; the receiver discards it."""

    size: int
    """How many bytes follow the type."""


def read_datagram(reader: Reader, draft: Draft) -> ObjectDatagram | PaddingDatagram:
    """Read a whole datagram, up to the end of ``reader``."""
    start = reader.pos
    kind = reader.varint("type")
    if kind & ~_ALL:
        if kind == PADDING_DATAGRAM_TYPE and draft >= Draft.D18:
            # The padding should be zeros; it is discarded whatever its value (18, 11.5.2).
            return PaddingDatagram(len(reader.view(reader.remaining, "padding")))
        reader.fail("type", f"unknown datagram type {kind:#x}", offset=start)
    if kind & STATUS and kind & END_OF_GROUP:
        reader.fail("type", f"{kind:#x}: a status cannot signal end of group", offset=start)
    track_alias = reader.varint("track alias")
    group_id = reader.varint("group id")
    object_id = 0 if kind & ZERO_OBJECT_ID else reader.varint("object id")
    priority = None if kind & DEFAULT_PRIORITY else reader.u8("publisher priority")
    extensions = b""
    if kind & EXTENSIONS:
        extensions = reader.prefixed("extensions", MAX_EXTENSIONS_SIZE)
        if not extensions:
            reader.fail("extensions", "announced, and then of length 0")
    status = ObjectStatus.NORMAL
    payload = b""
    if kind & STATUS:
        status = check_status(reader.varint("object status"), extensions)
        reader.expect_end("object status")
    else:
        payload = reader.rest("object payload")
    return ObjectDatagram(
        track_alias,
        group_id,
        object_id,
        payload,
        priority,
        status,
        extensions,
        bool(kind & END_OF_GROUP),
    )


def decode_datagram(data: ByteSource, draft: Draft) -> ObjectDatagram | PaddingDatagram:
    """Read a datagram.

    The fast path reads a valid datagram with a payload in place. :func:`read_datagram` reads all
    others, and raises the errors of invalid ones.
    """
    decode, end = draft.integers.decode, len(data)
    try:
        kind, pos = decode(data, 0, end)
        if kind <= _WITH_PAYLOAD:
            track_alias, pos = decode(data, pos, end)
            group_id, pos = decode(data, pos, end)
            object_id, priority, size, extensions = 0, None, 0, b""
            if not kind & ZERO_OBJECT_ID:
                object_id, pos = decode(data, pos, end)
            if not kind & DEFAULT_PRIORITY:
                priority = data[pos]
                pos += 1
            if kind & EXTENSIONS:
                size, pos = decode(data, pos, end)
                extensions = bytes(data[pos : pos + size])
                pos += size
            if pos <= end and (not kind & EXTENSIONS or 0 < size <= MAX_EXTENSIONS_SIZE):
                return ObjectDatagram(
                    track_alias,
                    group_id,
                    object_id,
                    bytes(data[pos:]),
                    priority,
                    ObjectStatus.NORMAL,
                    extensions,
                    kind & END_OF_GROUP != 0,
                )
    except (IncompleteError, IndexError):
        pass
    return read_datagram(Reader(data, integers=draft.integers), draft)


def encode_datagram(datagram: ObjectDatagram | PaddingDatagram, draft: Draft) -> bytes:
    """Write a datagram in its shortest form; the caller checks that it fits the path."""
    if isinstance(datagram, PaddingDatagram):
        return _padding(PADDING_DATAGRAM_TYPE, datagram.size, draft)
    (
        track_alias,
        group_id,
        object_id,
        payload,
        priority,
        status,
        extensions,
        end_of_group,
    ) = datagram
    kind = 0
    if extensions or status:
        check_object(status, len(payload), extensions)
        kind = STATUS if status else EXTENSIONS
    if end_of_group:
        if status:
            raise EncodeError(f"status {status.name} cannot signal end of group as well")
        kind |= END_OF_GROUP
    if not object_id:
        kind |= ZERO_OBJECT_ID
    if priority is None:
        kind |= DEFAULT_PRIORITY
    encode = draft.integers.encode
    try:
        data = encode(kind) + encode(track_alias) + encode(group_id)
        if object_id:
            data += encode(object_id)
        if priority is not None:
            data += priority.to_bytes(1, "big")
    except (EncodeError, OverflowError) as error:
        raise EncodeError(f"{datagram._replace(payload=b'', extensions=b'')}: {error}") from None
    if extensions:
        data += encode(len(extensions)) + extensions
    return data + (encode(status) if status else payload)


def encode_padding_stream(size: int, draft: Draft) -> bytes:
    """Return the bytes of a padding stream: its type and ``size`` zeros."""
    return _padding(PADDING_STREAM_TYPE, size, draft)


def _padding(kind: int, size: int, draft: Draft) -> bytes:
    if draft < Draft.D18:
        raise EncodeError(f"draft {draft} has no padding")
    return draft.integers.encode(kind) + bytes(size)
