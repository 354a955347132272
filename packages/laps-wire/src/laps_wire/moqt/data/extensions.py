"""What is inside an extension block: Key-Value-Pairs, the known ones by name.

::

    object or track    [ 0x02 .. | 0x0B IMMUTABLE [ 0x3E .. | 0x101 .. ] | 0x3C .. | 0x777 .. ]
                                                  `- never changed on the way -'        unknown

    type                               draft 16             draft 18                   of
    0x02                               DELIVERY_TIMEOUT     OBJECT_DELIVERY_TIMEOUT    track
    0x04  MAX_CACHE_DURATION                                                           track
    0x06                               -                    SUBGROUP_DELIVERY_TIMEOUT  track
    0x0B                               IMMUTABLE_EXTENSIONS IMMUTABLE_PROPERTIES       both
    0x0E  DEFAULT_PUBLISHER_PRIORITY                                                   track
    0x22  DEFAULT_PUBLISHER_GROUP_ORDER                                                track
    0x30  DYNAMIC_GROUPS                                                               track
    0x3C  PRIOR_GROUP_ID_GAP                                                           object
    0x3E  PRIOR_OBJECT_ID_GAP                                                          object
    0x4000-0x7FFF                      -                    mandatory                  track

A relay forwards the bytes as they came and opens them only if it wants to know; nothing on the way
of an object does. Whatever stands inside the immutable block counts like what stands beside it
(moq-transport-18, 12.7; draft 16 calls it extension headers just the same).

Two kinds of faults: :class:`MalformedTrackError` for what the drafts call a malformed track, and
``ProtocolViolation`` where they close the session. What cannot be read inside the immutable block
is of the first kind, for it came from the original publisher; outside it is of the second.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from laps_wire.buffer import Reader, Writer
from laps_wire.errors import MalformedError, ProtocolViolation
from laps_wire.moqt.codepoints import GroupOrder, PropertyTypeD18
from laps_wire.moqt.data.types import MalformedTrackError, ObjectHeader
from laps_wire.moqt.keyvalue import KeyValue, KeyValues, read_pairs, sorted_pairs, write_pairs
from laps_wire.moqt.versions import Draft
from laps_wire.varint import ByteSource

__all__ = [
    "DEFAULT_PRIORITY",
    "Extensions",
    "ObjectExtensions",
    "TrackExtensions",
    "encode_extensions",
    "is_mandatory",
    "object_extensions",
    "parse_extensions",
    "track_extensions",
]

# One set of names for both drafts: draft 18 renamed two, and added to them.
_TYPE: Final = PropertyTypeD18
_IMMUTABLE: Final = _TYPE.IMMUTABLE_PROPERTIES

DEFAULT_PRIORITY: Final = 128
"""The publisher priority of a track that does not state one."""


@dataclass(frozen=True, slots=True)
class Extensions:
    """Pairs in wire order, and those of the immutable block."""

    pairs: KeyValues = ()
    """What stands in the block itself, the immutable one included as bytes."""
    immutable: KeyValues = ()
    """What stands inside the immutable block."""

    def integers(self, type_: int) -> list[int]:
        """Every value of an even type, wherever it stands."""
        found = (pair.value for pair in (*self.pairs, *self.immutable) if pair.type == type_)
        return [value for value in found if isinstance(value, int)]

    def integer(self, type_: int) -> int | None:
        """The first value of an even type, wherever it stands."""
        values = self.integers(type_)
        return values[0] if values else None

    def types(self) -> list[int]:
        """Every type, wherever it stands; the immutable block is not one itself."""
        return [pair.type for pair in (*self.pairs, *self.immutable) if pair.type != _IMMUTABLE]


@dataclass(frozen=True, slots=True)
class ObjectExtensions:
    """What an object's extensions say."""

    extensions: Extensions
    prior_group_id_gap: int | None = None
    """So many groups before this one do not and will never exist."""
    prior_object_id_gap: int | None = None
    """So many objects before this one, in its group, do not and will never exist."""


@dataclass(frozen=True, slots=True)
class TrackExtensions:
    """What a track's extensions say; times in milliseconds."""

    extensions: Extensions = field(default_factory=Extensions)
    object_delivery_timeout: int | None = None
    """Draft 16 calls it DELIVERY_TIMEOUT. None: none is set."""
    subgroup_delivery_timeout: int | None = None
    """Draft 18. None: none is set."""
    max_cache_duration: int | None = None
    """None: as long as there is room."""
    default_priority: int = DEFAULT_PRIORITY
    default_group_order: GroupOrder = GroupOrder.ASCENDING
    dynamic_groups: bool = False
    """Whether subscribers may ask for a new group."""
    mandatory: tuple[int, ...] = ()
    """Draft 18: types that must be understood to use the track. We understand none."""


# Reading


def parse_extensions(data: ByteSource, draft: Draft) -> Extensions:
    """Open an extension block, given without the length before it."""
    return _open(read_pairs(Reader(data, integers=draft.integers)), draft)


def _open(pairs: KeyValues, draft: Draft) -> Extensions:
    blocks = [pair.value for pair in pairs if pair.type == _IMMUTABLE]
    if not blocks:
        return Extensions(pairs)
    if len(blocks) > 1:
        raise MalformedTrackError(f"{len(blocks)} immutable blocks where at most one may be")
    block = blocks[0]
    if isinstance(block, int):
        # Cannot come from the wire, for the type is odd; here for whoever makes pairs by hand.
        raise MalformedTrackError("an immutable block that is a number")
    try:
        immutable = read_pairs(Reader(block, integers=draft.integers))
    except MalformedError as error:
        raise MalformedTrackError(f"immutable block: {error}") from error
    if any(pair.type == _IMMUTABLE for pair in immutable):
        raise MalformedTrackError("an immutable block inside an immutable block")
    return Extensions(pairs, immutable)


def object_extensions(header: ObjectHeader, draft: Draft) -> ObjectExtensions:
    """Open an object's extensions and check what makes its track malformed.

    What takes a memory of other objects (a gap over one that arrived, an object in a gap, gaps that
    differ inside a group) is for the one who has it.
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


def track_extensions(pairs: KeyValues, draft: Draft) -> TrackExtensions:
    """Read the extensions of a track, as SUBSCRIBE_OK, PUBLISH and FETCH_OK carry them."""
    extensions = _open(pairs, draft)
    timeout = extensions.integer(_TYPE.OBJECT_DELIVERY_TIMEOUT)
    subgroup_timeout = None
    mandatory: tuple[int, ...] = ()
    if draft >= Draft.D18:
        # Zero is the same as none (moq-transport-18, 8).
        timeout = timeout or None
        subgroup_timeout = extensions.integer(_TYPE.SUBGROUP_DELIVERY_TIMEOUT) or None
        mandatory = tuple(type_ for type_ in extensions.types() if is_mandatory(type_))
    elif timeout == 0:
        raise ProtocolViolation("DELIVERY_TIMEOUT of 0")
    priority = extensions.integer(_TYPE.DEFAULT_PUBLISHER_PRIORITY)
    order = extensions.integer(_TYPE.DEFAULT_PUBLISHER_GROUP_ORDER)
    dynamic = extensions.integer(_TYPE.DYNAMIC_GROUPS)
    if priority is not None and priority > 0xFF:
        raise ProtocolViolation(f"DEFAULT_PUBLISHER_PRIORITY of {priority} is above 255")
    if order is not None and order not in (GroupOrder.ASCENDING, GroupOrder.DESCENDING):
        raise ProtocolViolation(f"DEFAULT_PUBLISHER_GROUP_ORDER of {order} is neither 1 nor 2")
    if dynamic is not None and dynamic > 1:
        raise ProtocolViolation(f"DYNAMIC_GROUPS of {dynamic} is neither 0 nor 1")
    return TrackExtensions(
        extensions,
        timeout,
        subgroup_timeout,
        extensions.integer(_TYPE.MAX_CACHE_DURATION),
        DEFAULT_PRIORITY if priority is None else priority,
        GroupOrder.ASCENDING if order is None else GroupOrder(order),
        bool(dynamic),
        mandatory,
    )


def is_mandatory(type_: int) -> bool:
    """Whether draft 18 forbids to use a track without understanding this type (2.5.1)."""
    return 0x4000 <= type_ <= 0x7FFF


# Writing


def encode_extensions(
    pairs: Iterable[KeyValue], draft: Draft, *, immutable: Iterable[KeyValue] = ()
) -> bytes:
    """Write an extension block, without the length before it; pairs may come in any order.

    ``immutable`` is for the original publisher alone: a relay hands on the block that it got.
    """
    outer = list(pairs)
    inner = list(immutable)
    if inner:
        outer.append(KeyValue(_IMMUTABLE, encode_extensions(inner, draft)))
    writer = Writer(integers=draft.integers)
    write_pairs(writer, sorted_pairs(outer), "extensions")
    return writer.getvalue()
