"""What the data plane of MoQT carries: objects, ranges without objects, and kinds of streams.

Drafts 16 and 18 share this model; they differ in how it is written (``subgroup``, ``fetch``,
``datagram``). Names follow draft 16: what draft 18 calls Properties are extensions here.

::

    track ── group ──┬── subgroup 0: objects 0 1 4      each subgroup on a stream of its own
                     ├── subgroup 1: objects 2 3
                     └── object 5                       alone in a datagram, in no subgroup

A unidirectional stream says what it is with its first integer::

                            draft 16                     draft 18
    SUBGROUP   0b00x1xxxx   0x10-0x1F 0x30-0x3F          + 0x50-0x5F 0x70-0x7F
    FETCH      0x05         yes                          yes
    SETUP      0x2F00       -                            one control stream each way
    PADDING    0x132B3E28   -                            zeros, to be thrown away

:class:`ObjectHeader` is a tuple and not a dataclass: one is made for every object that passes, and
a frozen dataclass costs five times as much to make.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import ClassVar, Final, NamedTuple

from laps_wire.buffer import Reader
from laps_wire.errors import EncodeError, ProtocolViolation, RemoteError
from laps_wire.moqt.codepoints import ObjectStatus
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft
from laps_wire.varint import ByteSource

__all__ = [
    "FETCH_HEADER_TYPE",
    "MAX_EXTENSIONS_SIZE",
    "OBJECT_END",
    "PADDING_STREAM_TYPE",
    "SETUP_STREAM_TYPE",
    "FetchHeader",
    "Location",
    "MalformedTrackError",
    "MoqObject",
    "ObjectEnd",
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
    "peek_stream_kind",
    "read_extensions",
    "stream_kind",
]

FETCH_HEADER_TYPE: Final = 0x05
SETUP_STREAM_TYPE: Final = 0x2F00
PADDING_STREAM_TYPE: Final = 0x132B3E28

MAX_EXTENSIONS_SIZE: Final = 1 << 17
"""The longest extension block of one object that we take: two of the longest values and change.

The drafts limit a single value (65535 bytes) but not their sum, and the block has to be held in
memory until it is whole. Since the limit is ours, a longer block is :class:`ObjectTooLargeError`
on a stream; in a datagram it is a lie."""


class ObjectHeader(NamedTuple):
    """Everything about an object but its payload, with every implied field filled in."""

    group_id: int
    object_id: int
    subgroup_id: int | None
    """None for an object whose forwarding preference is Datagram: it has no subgroup."""
    priority: int | None
    """None: the subscription's own publisher priority holds."""
    payload_length: int
    status: ObjectStatus = ObjectStatus.NORMAL
    extensions: bytes = b""
    """The key-value pairs exactly as they came, without the length before them."""

    @property
    def location(self) -> Location:
        """Where in its track the object is."""
        return Location(self.group_id, self.object_id)


class MoqObject(NamedTuple):
    """A whole object."""

    header: ObjectHeader
    payload: bytes


class ObjectEnd(Enum):
    """The type of :data:`OBJECT_END`."""

    OBJECT_END = "object end"


OBJECT_END: Final = ObjectEnd.OBJECT_END
"""The event behind an object's last payload byte; always the same value, so it costs nothing."""


@dataclass(frozen=True, slots=True)
class SubgroupHeader:
    """The beginning of a subgroup stream: what its objects have in common."""

    track_alias: int
    group_id: int
    subgroup_id: int | None = 0
    """None: the id of the first object on the stream is the subgroup's id."""
    priority: int | None = None
    """None: the subscription's own publisher priority holds."""
    has_extensions: bool = False
    """Whether every object has an extension block, be it empty."""
    end_of_group: bool = False
    """Whether the last object before FIN is the last of the group."""
    first_object: bool = False
    """Draft 18: the stream starts with the first object ever published in the subgroup."""


@dataclass(frozen=True, slots=True)
class FetchHeader:
    """The beginning of a fetch stream."""

    request_id: int
    """The FETCH request that the stream answers."""


class RangeKind(IntEnum):
    """Why no objects follow up to a location; the values are those of the Serialization Flags."""

    NON_EXISTENT = 0x8C
    UNKNOWN = 0x10C


class RangeEnd(NamedTuple):
    """In a fetch response: no object between the last one and this location, both inclusive."""

    kind: RangeKind
    group_id: int
    object_id: int


class StreamKind(Enum):
    """What a unidirectional stream is for."""

    SUBGROUP = "SUBGROUP_HEADER"
    FETCH = "FETCH_HEADER"
    SETUP = "SETUP"
    PADDING = "PADDING"


class MalformedTrackError(RemoteError):
    """A track that breaks the object model (moq-transport-16, 2.4.2).

    Its origin may be far away, so it ends the subscriptions and fetches of that track and not the
    session: a relay passes it on as :attr:`status_code`, and what triggered it is not cached.
    ``code`` is for those who have nothing smaller than a session to close.
    """

    code: ClassVar[int] = ProtocolViolation.code
    status_code: ClassVar[int] = 0x12
    """MALFORMED_TRACK in PUBLISH_DONE, REQUEST_ERROR and stream resets."""


class TruncatedStreamError(ProtocolViolation):
    """A FIN in the middle of a header or of an object (moq-transport-16, 10.4)."""


class ObjectTooLargeError(RemoteError):
    """An object, or its extension block, over the limit that we hold in memory as a whole.

    The drafts set no limit, so the peer may be right: give up the stream, not the session.
    """

    def __init__(self, size: int, limit: int, what: str = "an object") -> None:
        super().__init__(f"{what} of {size} bytes is over the limit of {limit}")
        self.size = size
        self.limit = limit


_STATUSES: Final = {int(status): status for status in ObjectStatus}


def check_status(value: int, extensions: bytes) -> ObjectStatus:
    """Check a status from the wire: known, and without extensions unless it is Normal."""
    status = _STATUSES.get(value)
    if status is None:
        known = ", ".join(f"{int(member):#x} {member.name}" for member in ObjectStatus)
        raise ProtocolViolation(f"object status {value:#x} is not one of: {known}")
    if status and extensions:
        # Only Normal objects have any (moq-transport-16, 10.2.1.2; -18, 11.2.1.2).
        raise ProtocolViolation(f"an object with status {status.name} has extensions")
    return status


def extensions_too_large(size: int) -> ObjectTooLargeError:
    """What to raise for an extension block of more than :data:`MAX_EXTENSIONS_SIZE` bytes."""
    return ObjectTooLargeError(size, MAX_EXTENSIONS_SIZE, "an extension block")


def read_extensions(reader: Reader) -> bytes:
    """Read an object's extension block on a stream, with the length before it."""
    size = reader.varint("extensions.length")
    if size > MAX_EXTENSIONS_SIZE:
        raise extensions_too_large(size)
    return reader.take(size, "extensions")


def check_object(status: ObjectStatus, payload_length: int, extensions: bytes) -> None:
    """Refuse to write an object that no peer would take."""
    if status and (payload_length or extensions):
        raise EncodeError(f"status {status.name} allows neither payload nor extensions")
    if len(extensions) > MAX_EXTENSIONS_SIZE:
        size = len(extensions)
        raise EncodeError(f"extensions of {size} bytes are over {MAX_EXTENSIONS_SIZE}")


def stream_kind(stream_type: int, draft: Draft) -> StreamKind:
    """Tell from its type what a unidirectional stream is; an unknown type closes the session."""
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
    """Tell from its first bytes what a stream is, without consuming them.

    ``IncompleteError`` asks for more; nine bytes are always enough.
    """
    stream_type, _ = draft.integers.decode(data, 0, len(data))
    return stream_kind(stream_type, draft)
