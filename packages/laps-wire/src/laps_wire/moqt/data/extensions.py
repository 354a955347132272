"""The extension block of an object: Key-Value-Pairs, with the known types by name.

::

    [ 0x0B IMMUTABLE [ 0x3E .. | 0x101 .. ] | 0x3C .. | 0x777 .. ]
                     `- never changed by relays --'     unknown: forwarded unchanged

    0x0B  IMMUTABLE_EXTENSIONS, in draft 18 IMMUTABLE_PROPERTIES
    0x3C  PRIOR_GROUP_ID_GAP      number of groups before this object's group that do not exist
    0x3E  PRIOR_OBJECT_ID_GAP     number of objects before this one that do not exist

A relay forwards the bytes unchanged; the forwarding path never parses them. A pair inside the
immutable block has the same meaning as one outside it (moq-transport-18, 12.7; draft 16 calls both
extension headers). The extensions of tracks are in ``laps_wire.moqt.properties``.

Parsing raises :class:`MalformedTrackError` for what the drafts call a malformed track, and
``ProtocolViolation`` where the drafts close the session. An unreadable immutable block is a
malformed track, because the original publisher wrote it. Any other unreadable pair is a violation.
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
