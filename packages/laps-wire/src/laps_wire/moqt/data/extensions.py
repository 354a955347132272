"""What is inside an object's extension block: Key-Value-Pairs, the known ones by name.

::

    [ 0x0B IMMUTABLE [ 0x3E .. | 0x101 .. ] | 0x3C .. | 0x777 .. ]
                     `- never changed on the way -'     unknown: handed on as it is

    0x0B  IMMUTABLE_EXTENSIONS, in draft 18 IMMUTABLE_PROPERTIES
    0x3C  PRIOR_GROUP_ID_GAP      so many groups before this object's do not exist
    0x3E  PRIOR_OBJECT_ID_GAP     so many objects before this one do not exist

A relay forwards the bytes as they came and opens them only if it wants to know; nothing on the way
of an object does. Whatever stands inside the immutable block counts like what stands beside it
(moq-transport-18, 12.7; draft 16 calls it extension headers just the same). The extensions of
tracks are in ``laps_wire.moqt.properties``.

Two kinds of faults: :class:`MalformedTrackError` for what the drafts call a malformed track, and
``ProtocolViolation`` where they close the session. What cannot be read inside the immutable block
is of the first kind, for it came from the original publisher; outside it is of the second.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from laps_wire.buffer import Reader, Writer
from laps_wire.errors import MalformedError
from laps_wire.moqt.codepoints import PropertyTypeD18
from laps_wire.moqt.data.types import MalformedTrackError, ObjectHeader
from laps_wire.moqt.keyvalue import KeyValue, KeyValues, read_pairs, sorted_pairs, write_pairs
from laps_wire.moqt.versions import Draft
from laps_wire.varint import ByteSource

__all__ = [
    "Extensions",
    "ObjectExtensions",
    "encode_extensions",
    "is_mandatory",
    "object_extensions",
    "parse_extensions",
]

# One set of names for both drafts: draft 18 renamed two, and added to them.
_TYPE: Final = PropertyTypeD18
_IMMUTABLE: Final = _TYPE.IMMUTABLE_PROPERTIES


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


# Reading


def parse_extensions(data: ByteSource, draft: Draft) -> Extensions:
    """Open an extension block, given without the length before it."""
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
