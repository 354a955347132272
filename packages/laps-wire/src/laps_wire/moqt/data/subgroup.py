"""Subgroup streams: SUBGROUP_HEADER and the objects after it (moq-transport-16, 10.4.2).

::

    type     0 F P 1 E S S X
               | |   | | | +- 0x01  every object has an extension block
               | |   | +-+--- 0x06  subgroup id: 0 the id is 0, 1 the first object's id,
               | |   |              2 a field of the header, 3 reserved
               | |   +------- 0x08  the last object before FIN is the last of the group
               | +----------- 0x20  no priority field: the subscription's priority applies
               +------------- 0x40  FIRST_OBJECT, draft 18 only

    header   | type | track alias | group id | [subgroup id] | [priority, 1 byte] |
    object   | id delta | [extensions length, extensions] | payload length | payload   |
                                                          | 0              | status    |

The first delta is the id of the first object. Each later one is the distance to the previous id,
minus one. A payload length of zero is followed by a status.

There are two readers. :func:`read_subgroup_stream` reads field by field with a
:class:`~laps_wire.buffer.Reader`, for traces. :class:`SubgroupParser` reads the same bytes in
place, for forwarding. A property test compares the two.
"""

from __future__ import annotations

from typing import Final

from laps_wire.buffer import ByteSource, Reader, Writer
from laps_wire.errors import (
    EncodeError,
    IncompleteError,
    MalformedError,
    ProtocolViolation,
    StateError,
)
from laps_wire.moqt.data.stream import DataEvent, StreamParser
from laps_wire.moqt.data.types import (
    MAX_EXTENSIONS_SIZE,
    OBJECT_END,
    MoqObject,
    ObjectHeader,
    ObjectStatus,
    StreamKind,
    SubgroupHeader,
    check_object,
    check_status,
    extensions_too_large,
    read_extensions,
    stream_kind,
)
from laps_wire.moqt.versions import Draft

__all__ = [
    "SubgroupParser",
    "SubgroupWriter",
    "decode_subgroup_header",
    "encode_subgroup_header",
    "read_object_header",
    "read_subgroup_header",
    "read_subgroup_stream",
]


SUBGROUP_TYPE: Final = 0x10
EXTENSIONS: Final = 0x01
SUBGROUP_ID_MODE: Final = 0x06
END_OF_GROUP: Final = 0x08
DEFAULT_PRIORITY: Final = 0x20
FIRST_OBJECT: Final = 0x40

# The values of SUBGROUP_ID_MODE, shifted to their position in the type.
_ID_IS_ZERO: Final = 0x00
_ID_IS_FIRST_OBJECT: Final = 0x02
_ID_IS_PRESENT: Final = 0x04

NO_OBJECT: Final = -1
"""The previous id of the first object, so that every id is previous + 1 + delta."""


# Reading, field by field


def read_subgroup_header(reader: Reader, draft: Draft) -> SubgroupHeader:
    """Read a SUBGROUP_HEADER, its type included."""
    start = reader.pos
    reader.enter("SUBGROUP_HEADER")
    kind = reader.varint("type")
    mode = kind & SUBGROUP_ID_MODE
    if stream_kind(kind, draft) is not StreamKind.SUBGROUP:
        reader.fail("type", f"{kind:#x} is not a SUBGROUP_HEADER", offset=start)
    if mode == SUBGROUP_ID_MODE:
        reader.fail("type", f"{kind:#x} has the reserved subgroup id mode 0b11", offset=start)
    track_alias = reader.varint("track alias")
    group_id = reader.varint("group id")
    subgroup_id: int | None = 0
    if mode == _ID_IS_PRESENT:
        subgroup_id = reader.varint("subgroup id")
    elif mode == _ID_IS_FIRST_OBJECT:
        subgroup_id = None
    priority = None if kind & DEFAULT_PRIORITY else reader.u8("publisher priority")
    reader.leave()
    return SubgroupHeader(
        track_alias,
        group_id,
        subgroup_id,
        priority,
        has_extensions=bool(kind & EXTENSIONS),
        end_of_group=bool(kind & END_OF_GROUP),
        first_object=bool(kind & FIRST_OBJECT),
    )


def decode_subgroup_header(data: ByteSource, draft: Draft) -> tuple[SubgroupHeader, int]:
    """Read a SUBGROUP_HEADER at the beginning of ``data``; return it and its size in bytes."""
    reader = Reader(data, integers=draft.integers, partial=True)
    return read_subgroup_header(reader, draft), reader.pos


def read_object_header(
    reader: Reader, header: SubgroupHeader, previous: int = NO_OBJECT
) -> ObjectHeader:
    """Read the header of an object, up to its payload.

    ``previous`` is the id of the previous object on the stream. If the stream header has no
    subgroup id, the result has one only for the first object.
    """
    start = reader.pos
    object_id = previous + 1 + reader.varint("object id delta")
    if object_id > reader.integers.max_value:
        reader.fail("object id delta", f"object id {object_id} is too large", offset=start)
    extensions = b""
    if header.has_extensions:
        extensions = read_extensions(reader)
    length = reader.varint("object payload length")
    status = ObjectStatus.NORMAL
    if not length:
        status = check_status(reader.varint("object status"), extensions)
    subgroup_id = header.subgroup_id
    if subgroup_id is None and previous == NO_OBJECT:
        subgroup_id = object_id
    return ObjectHeader(
        header.group_id, object_id, subgroup_id, header.priority, length, status, extensions
    )


def read_subgroup_stream(
    reader: Reader, draft: Draft
) -> tuple[SubgroupHeader, tuple[MoqObject, ...]]:
    """Read a whole subgroup stream, up to the end of ``reader``."""
    header = read_subgroup_header(reader, draft)
    objects: list[MoqObject] = []
    previous, ended = NO_OBJECT, False
    subgroup_id = header.subgroup_id
    while not reader.at_end:
        if ended:
            raise after_the_end(previous)
        reader.enter(f"object[{len(objects)}]")
        item = read_object_header(reader, header, previous)
        if subgroup_id is None:
            subgroup_id = item.object_id
        item = item._replace(subgroup_id=subgroup_id)
        objects.append(MoqObject(item, reader.take(item.payload_length, "object payload")))
        reader.leave()
        previous, ended = item.object_id, item.status is not ObjectStatus.NORMAL
    return header, tuple(objects)


def after_the_end(object_id: int) -> ProtocolViolation:
    """Return the error for an object after the end of its group or track (10.4.3)."""
    return ProtocolViolation(f"an object follows the end that object {object_id} announced")


# Writing


def encode_subgroup_header(header: SubgroupHeader, draft: Draft) -> bytes:
    """Write a SUBGROUP_HEADER in its shortest form."""
    writer = Writer(integers=draft.integers)
    kind = SUBGROUP_TYPE
    if header.subgroup_id is None:
        kind |= _ID_IS_FIRST_OBJECT
    elif header.subgroup_id:
        kind |= _ID_IS_PRESENT
    if header.has_extensions:
        kind |= EXTENSIONS
    if header.end_of_group:
        kind |= END_OF_GROUP
    if header.priority is None:
        kind |= DEFAULT_PRIORITY
    if header.first_object:
        if draft < Draft.D18:
            writer.fail("type", f"draft {draft} has no FIRST_OBJECT bit")
        kind |= FIRST_OBJECT
    writer.varint(kind, "type")
    writer.varint(header.track_alias, "track alias")
    writer.varint(header.group_id, "group id")
    if header.subgroup_id:
        writer.varint(header.subgroup_id, "subgroup id")
    if header.priority is not None:
        writer.u8(header.priority, "publisher priority")
    return writer.getvalue()


class SubgroupWriter:
    """Writes one subgroup stream; raises ``EncodeError`` for objects that a peer would refuse.

    ``start`` is the SUBGROUP_HEADER. ``object_header`` returns the bytes before a payload, so that
    a large payload need not be copied. ``object`` returns header and payload together.
    """

    __slots__ = ("_encode", "_max", "draft", "ended", "header", "object_id", "start")

    def __init__(self, header: SubgroupHeader, draft: Draft) -> None:
        self.header = header
        self.draft = draft
        self.start = encode_subgroup_header(header, draft)
        """The bytes that open the stream."""
        self.object_id = NO_OBJECT
        """The id of the last object written; -1 before the first."""
        self.ended = False
        """Whether the status of an object ended the group or the track."""
        self._encode = draft.integers.encode
        self._max = draft.integers.max_value

    def object_header(
        self,
        object_id: int,
        payload_length: int,
        *,
        extensions: bytes = b"",
        status: ObjectStatus = ObjectStatus.NORMAL,
    ) -> bytes:
        """Return the bytes before the payload of the next object."""
        if self.ended:
            raise StateError(f"object {self.object_id} ended the group or track")
        delta = object_id - self.object_id - 1
        if delta < 0 or object_id > self._max:
            raise EncodeError(f"object id {object_id} cannot follow {self.object_id}")
        encode = self._encode
        data = encode(delta)
        if self.header.has_extensions:
            data += encode(len(extensions)) + extensions
        elif extensions:
            raise EncodeError("the SUBGROUP_HEADER says that no object has extensions")
        data += encode(payload_length)
        if not payload_length:
            data += encode(status)
        if status or extensions:
            check_object(status, payload_length, extensions)
        self.object_id = object_id
        self.ended = status is not ObjectStatus.NORMAL
        return data

    def object(
        self,
        object_id: int,
        payload: ByteSource = b"",
        *,
        extensions: bytes = b"",
        status: ObjectStatus = ObjectStatus.NORMAL,
    ) -> bytes:
        """Return the complete next object."""
        start = self.object_header(object_id, len(payload), extensions=extensions, status=status)
        return b"".join((start, payload))


_NORMAL: Final = ObjectStatus.NORMAL
_LONGEST_HEADER: Final = 4 * 9 + 1
"""The most bytes in a SUBGROUP_HEADER: four integers and a priority."""


class SubgroupParser(StreamParser):
    """Reads one incoming subgroup stream as it arrives, without copying payloads.

    ``_begin`` runs for every object, so it reads integers in place.

    Bytes: ``feed``, ``finish``. State: ``header``, ``object_id``, ``ended``.
    """

    __slots__ = (
        "_decode",
        "_has_extensions",
        "_max",
        "_small",
        "_subgroup_id",
        "draft",
        "ended",
        "header",
        "object_id",
    )

    def __init__(self, draft: Draft) -> None:
        super().__init__()
        self.draft = draft
        self.header: SubgroupHeader | None = None
        """The header of the stream; None until it is complete."""
        self.object_id = NO_OBJECT
        """The id of the last object begun; -1 before the first."""
        self.ended = False
        """Whether the status of an object ended the group or the track."""
        self._subgroup_id: int | None = None
        self._has_extensions = False
        integers = draft.integers
        self._decode = integers.decode
        self._max = integers.max_value
        self._small = integers.one_byte

    def _started(self) -> bool:
        return self.header is not None

    def _begin(self, data: ByteSource, pos: int, end: int, events: list[DataEvent]) -> int:
        header = self.header
        if header is None:
            return self._open(data, pos, events)
        if self.ended:
            raise after_the_end(self.object_id)
        small, decode = self._small, self._decode
        value = data[pos]
        if value < small:
            pos += 1
        else:
            value, pos = decode(data, pos, end)
        object_id = self.object_id + 1 + value
        if object_id > self._max:
            raise MalformedError(f"object id {object_id} is too large", field="object id delta")
        extensions = b""
        if self._has_extensions:
            if pos < end and not data[pos]:
                pos += 1  # an empty block
            else:
                value, pos = decode(data, pos, end)
                if value > MAX_EXTENSIONS_SIZE:
                    raise extensions_too_large(value)
                stop = pos + value
                if stop > end:
                    raise IncompleteError(stop - end)
                extensions = bytes(data[pos:stop])
                pos = stop
        after = pos + 2
        if after <= end and small <= (value := data[pos]) < small + 0x40:
            # Most payloads: both codings put the upper six bits of two bytes here.
            length = (value & 0x3F) << 8 | data[pos + 1]
            pos = after
        else:
            length, pos = decode(data, pos, end)
        status = _NORMAL
        if not length:
            value, pos = decode(data, pos, end)
            if value:
                status = check_status(value, extensions)
        subgroup_id = self._subgroup_id
        if subgroup_id is None:
            self._subgroup_id = subgroup_id = object_id
        events.append(
            # Equivalent to ObjectHeader(...), at less than half of its cost.
            tuple.__new__(
                ObjectHeader,
                (
                    header.group_id,
                    object_id,
                    subgroup_id,
                    header.priority,
                    length,
                    status,
                    extensions,
                ),
            )
        )
        self.object_id = object_id
        if length:
            self._left = length
        else:
            events.append(OBJECT_END)
            self.ended = status is not _NORMAL
        return pos

    def _open(self, data: ByteSource, pos: int, events: list[DataEvent]) -> int:
        """Read the SUBGROUP_HEADER from a copy: a view would block growth of the held bytes."""
        header, used = decode_subgroup_header(bytes(data[pos : pos + _LONGEST_HEADER]), self.draft)
        self.header = header
        self._subgroup_id = header.subgroup_id
        self._has_extensions = header.has_extensions
        events.append(header)
        return pos + used
