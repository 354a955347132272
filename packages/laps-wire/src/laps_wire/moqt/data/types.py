"""The data model of MoQT: objects, their extensions, ranges without objects, and kinds of streams.

Drafts 16 and 18 share this model; their encodings differ (``subgroup``, ``fetch``, ``datagram``).
Names follow draft 16: what draft 18 calls Properties are extensions here.

::

    track ── group ──┬── subgroup 0: objects 0 1 4      each subgroup on its own stream
                     ├── subgroup 1: objects 2 3
                     └── object 5                       alone in a datagram, in no subgroup

The first integer of a unidirectional stream is its type::

                            draft 16                     draft 18
    SUBGROUP   0b00x1xxxx   0x10-0x1F 0x30-0x3F          + 0x50-0x5F 0x70-0x7F
    FETCH      0x05         yes                          yes
    SETUP      0x2F00       -                            one control stream each way
    PADDING    0x132B3E28   -                            zeros, to be discarded

:class:`ObjectHeader` is a tuple and not a dataclass, because one is made for every object. A frozen
dataclass costs five times as much to make.

The extension block of an object consists of Key-Value-Pairs::

    [ 0x0B IMMUTABLE [ 0x3E .. | 0x101 .. ] | 0x3C .. | 0x777 .. ]
                     `- never changed by relays --'     unknown: forwarded unchanged

    0x0B  IMMUTABLE_EXTENSIONS, in draft 18 IMMUTABLE_PROPERTIES
    0x3C  PRIOR_GROUP_ID_GAP      number of groups before this object's group that do not exist
    0x3E  PRIOR_OBJECT_ID_GAP     number of objects before this one that do not exist

A relay forwards the bytes unchanged; the forwarding path never parses them. A pair inside the
immutable block has the same meaning as one outside it (moq-transport-18, 12.7; draft 16 calls both
extension headers). The extensions of tracks are in ``laps_wire.moqt.parameters``.

Parsing raises :class:`MalformedTrackError` for what the drafts call a malformed track, and
``ProtocolViolation`` where the drafts close the session. An unreadable immutable block is a
malformed track, because the original publisher wrote it. Any other unreadable pair is a violation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import ClassVar, Final, NamedTuple

from laps_wire.buffer import ByteSource, Reader, Writer
from laps_wire.errors import EncodeError, MalformedError, ProtocolViolation, RemoteError
from laps_wire.moqt.codepoints import ObjectStatus, PropertyTypeD18
from laps_wire.moqt.keyvalue import KeyValue, KeyValues, read_pairs, sorted_pairs, write_pairs
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft

__all__ = [
    "FETCH_HEADER_TYPE",
    "MAX_EXTENSIONS_SIZE",
    "OBJECT_END",
    "PADDING_STREAM_TYPE",
    "SETUP_STREAM_TYPE",
    "Extensions",
    "FetchHeader",
    "Location",
    "MalformedTrackError",
    "MoqObject",
    "ObjectEnd",
    "ObjectExtensions",
    "ObjectHeader",
    "ObjectStatus",
    "ObjectTooLargeError",
    "RangeEnd",
    "RangeKind",
    "StreamKind",
    "SubgroupHeader",
    "TruncatedStreamError",
    "check_object",
    "check_status",
    "encode_extensions",
    "is_mandatory",
    "object_extensions",
    "parse_extensions",
    "peek_stream_kind",
    "read_extensions",
    "stream_kind",
]


FETCH_HEADER_TYPE: Final = 0x05
SETUP_STREAM_TYPE: Final = 0x2F00
PADDING_STREAM_TYPE: Final = 0x132B3E28

MAX_EXTENSIONS_SIZE: Final = 1 << 17
"""The longest extension block of one object that is accepted: two values of the maximum length.

The drafts limit a single value (65535 bytes) but not their sum, and the block is held in memory
until it is complete. A longer block breaks no rule of the drafts, so on a stream it raises
:class:`ObjectTooLargeError`. No datagram can hold one."""


class ObjectHeader(NamedTuple):
    """An object without its payload, with all implied fields filled in."""

    group_id: int
    object_id: int
    subgroup_id: int | None
    """The subgroup id; None if the forwarding preference is Datagram."""
    priority: int | None
    """The publisher priority; None: that of the subscription applies."""
    payload_length: int
    status: ObjectStatus = ObjectStatus.NORMAL
    extensions: bytes = b""
    """The encoded key-value pairs exactly as received, without the length before them."""

    @property
    def location(self) -> Location:
        """The location of the object in its track."""
        return Location(self.group_id, self.object_id)


class MoqObject(NamedTuple):
    """An object: its header and its payload."""

    header: ObjectHeader
    payload: bytes


class ObjectEnd(Enum):
    """The type of :data:`OBJECT_END`."""

    OBJECT_END = "object end"


OBJECT_END: Final = ObjectEnd.OBJECT_END
"""The event after the last payload byte of an object; a constant, so that it costs nothing."""


@dataclass(frozen=True, slots=True)
class SubgroupHeader:
    """The header of a subgroup stream: the values that its objects share."""

    track_alias: int
    group_id: int
    subgroup_id: int | None = 0
    """The subgroup id; None: it is the id of the first object on the stream."""
    priority: int | None = None
    """The publisher priority; None: that of the subscription applies."""
    has_extensions: bool = False
    """Whether every object has an extension block, which may be empty."""
    end_of_group: bool = False
    """Whether the last object before FIN is the last of the group."""
    first_object: bool = False
    """Draft 18: the stream starts with the first object ever published in the subgroup."""


@dataclass(frozen=True, slots=True)
class FetchHeader:
    """The header of a fetch stream."""

    request_id: int
    """The FETCH request that the stream answers."""


class RangeKind(IntEnum):
    """Why a range has no objects; the values are those of the Serialization Flags."""

    NON_EXISTENT = 0x8C
    UNKNOWN = 0x10C


class RangeEnd(NamedTuple):
    """A range without objects in a fetch: after the last object, up to and with this location."""

    kind: RangeKind
    group_id: int
    object_id: int


class StreamKind(Enum):
    """The purpose of a unidirectional stream."""

    SUBGROUP = "SUBGROUP_HEADER"
    FETCH = "FETCH_HEADER"
    SETUP = "SETUP"
    PADDING = "PADDING"


class MalformedTrackError(RemoteError):
    """A track that breaks the object model (moq-transport-16, 2.4.2).

    The fault may be that of a remote publisher. So the error ends the subscriptions and fetches of
    the track and not the session. A relay forwards it as :attr:`status_code`, and does not cache
    the object that caused it. ``code`` is for callers that can only close a session.
    """

    code: ClassVar[int] = ProtocolViolation.code
    status_code: ClassVar[int] = 0x12
    """MALFORMED_TRACK in PUBLISH_DONE, REQUEST_ERROR and stream resets."""


class TruncatedStreamError(ProtocolViolation):
    """A FIN in the middle of a header or of an object (moq-transport-16, 10.4)."""


class ObjectTooLargeError(RemoteError):
    """An object, or its extension block, is longer than the local memory limit.

    The drafts set no limit, so the peer has not broken a rule: end the stream, not the session.
    """

    def __init__(self, size: int, limit: int, what: str = "an object") -> None:
        super().__init__(f"{what} of {size} bytes is over the limit of {limit}")
        self.size = size
        self.limit = limit


_STATUSES: Final = {int(status): status for status in ObjectStatus}


def check_status(value: int, extensions: bytes) -> ObjectStatus:
    """Return a received status as an enum; raise if it is unknown or must not have extensions."""
    status = _STATUSES.get(value)
    if status is None:
        known = ", ".join(f"{int(member):#x} {member.name}" for member in ObjectStatus)
        raise ProtocolViolation(f"object status {value:#x} is not one of: {known}")
    if status and extensions:
        # Only Normal objects have extensions (moq-transport-16, 10.2.1.2; -18, 11.2.1.2).
        raise ProtocolViolation(f"an object with status {status.name} has extensions")
    return status


def extensions_too_large(size: int) -> ObjectTooLargeError:
    """Return the error for an extension block over :data:`MAX_EXTENSIONS_SIZE` bytes."""
    return ObjectTooLargeError(size, MAX_EXTENSIONS_SIZE, "an extension block")


def read_extensions(reader: Reader) -> bytes:
    """Read an object's extension block on a stream, with the length before it."""
    size = reader.varint("extensions.length")
    if size > MAX_EXTENSIONS_SIZE:
        raise extensions_too_large(size)
    return reader.take(size, "extensions")


def check_object(status: ObjectStatus, payload_length: int, extensions: bytes) -> None:
    """Raise ``EncodeError`` for an object that the drafts or the size limit forbid."""
    if status and (payload_length or extensions):
        raise EncodeError(f"status {status.name} allows neither payload nor extensions")
    if len(extensions) > MAX_EXTENSIONS_SIZE:
        size = len(extensions)
        raise EncodeError(f"extensions of {size} bytes are over {MAX_EXTENSIONS_SIZE}")


def stream_kind(stream_type: int, draft: Draft) -> StreamKind:
    """Return the kind of a unidirectional stream by its type.

    Raises ``ProtocolViolation`` for an unknown type.
    """
    # Bit 4 set and bit 7 clear; bit 6 came with draft 18 (FIRST_OBJECT).
    if stream_type & 0x10 and stream_type < (0x80 if draft >= Draft.D18 else 0x40):
        return StreamKind.SUBGROUP
    if stream_type == FETCH_HEADER_TYPE:
        return StreamKind.FETCH
    if draft >= Draft.D18:
        if stream_type == SETUP_STREAM_TYPE:
            return StreamKind.SETUP
        if stream_type == PADDING_STREAM_TYPE:
            return StreamKind.PADDING
    raise ProtocolViolation(f"unknown unidirectional stream type {stream_type:#x}")


def peek_stream_kind(data: ByteSource, draft: Draft) -> StreamKind:
    """Return the kind of a stream by its first bytes, without consuming them.

    Raises ``IncompleteError`` if more bytes are needed; nine bytes are always enough.
    """
    stream_type, _ = draft.integers.decode(data, 0, len(data))
    return stream_kind(stream_type, draft)


# Extension blocks

# Both drafts share the names. Draft 18 renames two of them and adds others.
_TYPE: Final = PropertyTypeD18
_IMMUTABLE: Final = _TYPE.IMMUTABLE_PROPERTIES


@dataclass(frozen=True, slots=True)
class Extensions:
    """The pairs of an extension block in wire order, and those of its immutable block."""

    pairs: KeyValues = ()
    """The pairs of the block itself; the immutable block is one pair with a bytes value."""
    immutable: KeyValues = ()
    """The pairs inside the immutable block."""

    def integers(self, type_: int) -> list[int]:
        """Return all values of an even type, inside and outside the immutable block."""
        found = (pair.value for pair in (*self.pairs, *self.immutable) if pair.type == type_)
        return [value for value in found if isinstance(value, int)]

    def integer(self, type_: int) -> int | None:
        """Return the first value of an even type, or None if there is none."""
        values = self.integers(type_)
        return values[0] if values else None

    def types(self) -> list[int]:
        """Return all types inside and outside the immutable block, without the block's own type."""
        return [pair.type for pair in (*self.pairs, *self.immutable) if pair.type != _IMMUTABLE]


@dataclass(frozen=True, slots=True)
class ObjectExtensions:
    """The decoded extensions of an object."""

    extensions: Extensions
    prior_group_id_gap: int | None = None
    """The number of groups directly before this one that will never exist."""
    prior_object_id_gap: int | None = None
    """The number of objects directly before this one, in its group, that will never exist."""


# Reading


def parse_extensions(data: ByteSource, draft: Draft) -> Extensions:
    """Parse an extension block, given without the length before it."""
    pairs = read_pairs(Reader(data, integers=draft.integers))
    blocks = [
        pair.value for pair in pairs if pair.type == _IMMUTABLE and isinstance(pair.value, bytes)
    ]
    if not blocks:
        return Extensions(pairs)
    if len(blocks) > 1:
        raise MalformedTrackError(f"{len(blocks)} immutable blocks where at most one may be")
    try:
        immutable = read_pairs(Reader(blocks[0], integers=draft.integers))
    except MalformedError as error:
        raise MalformedTrackError(f"immutable block: {error}") from error
    if any(pair.type == _IMMUTABLE for pair in immutable):
        raise MalformedTrackError("an immutable block inside an immutable block")
    return Extensions(pairs, immutable)


def object_extensions(header: ObjectHeader, draft: Draft) -> ObjectExtensions:
    """Parse the extensions of an object; raise ``MalformedTrackError`` if they break the track.

    Checks that involve other objects are left to the caller: a gap over an object that arrived, an
    object inside a gap, different gaps inside one group.
    """
    extensions = parse_extensions(header.extensions, draft)
    if draft >= Draft.D18:
        for type_ in extensions.types():
            if is_mandatory(type_):
                raise MalformedTrackError(f"mandatory track property {type_:#x} on an object")
    return ObjectExtensions(
        extensions,
        _gap(extensions, _TYPE.PRIOR_GROUP_ID_GAP, header.group_id),
        _gap(extensions, _TYPE.PRIOR_OBJECT_ID_GAP, header.object_id),
    )


def _gap(extensions: Extensions, type_: PropertyTypeD18, limit: int) -> int | None:
    values = extensions.integers(type_)
    if not values:
        return None
    if len(values) > 1:
        raise MalformedTrackError(f"{len(values)} times {type_.name} on one object")
    if values[0] > limit:
        raise MalformedTrackError(f"{type_.name} of {values[0]} reaches below 0 from {limit}")
    return values[0]


def is_mandatory(type_: int) -> bool:
    """Return whether draft 18 forbids the use of a track without support of this type (2.5.1)."""
    return 0x4000 <= type_ <= 0x7FFF


# Writing


def encode_extensions(
    pairs: Iterable[KeyValue], draft: Draft, *, immutable: Iterable[KeyValue] = ()
) -> bytes:
    """Write an extension block, without the length before it; pairs may come in any order.

    Only the original publisher passes ``immutable``; a relay forwards the block that it received.
    """
    outer = list(pairs)
    inner = list(immutable)
    if inner:
        outer.append(KeyValue(_IMMUTABLE, encode_extensions(inner, draft)))
    writer = Writer(integers=draft.integers)
    write_pairs(writer, sorted_pairs(outer), "extensions")
    return writer.getvalue()
