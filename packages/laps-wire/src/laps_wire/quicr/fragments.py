"""Fragments: where a piece of an object stands, and how an object is cut into pieces.

Both seeds put two things into one integer, a place and, in the low bit, "this is the last one"::

    offset_and_fin (seed 001)                 FRAGMENT_ID (seed 003)
    +--------------------------+---+          +--------------------------+---+
    | byte offset of the piece | L |          | number of the piece, 1.. | L |
    +--------------------------+---+          +--------------------------+---+
      up to 2**61 - 1                           1 to 32767: the field is a Number16

    an object of 10 bytes in pieces of 4:
      offset 0, 4, 8        ->  0, 8, 17          number 1, 2, 3  ->  2, 4, 7

Pieces with offsets can be cut again by a relay with a smaller packet; numbered ones can not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from laps_wire.errors import EncodeError
from laps_wire.varint import ByteSource

__all__ = [
    "MAX_FRAGMENT_NUMBER",
    "MAX_OFFSET",
    "MIN_FRAGMENT_ID",
    "Piece",
    "pack_fragment_id",
    "pack_offset_and_fin",
    "split_numbered",
    "split_offsets",
    "unpack_place",
]

MAX_OFFSET: Final = (1 << 61) - 1
"""The highest offset: doubled, and with the low bit, it still fits a QUIC varint."""

MAX_FRAGMENT_NUMBER: Final = 0x7FFF
"""The highest fragment number: a FRAGMENT_ID has 16 bits, one of which is the flag (seed 003)."""

MIN_FRAGMENT_ID: Final = 2
"""The lowest FRAGMENT_ID: number 1, not the last."""


class Piece(NamedTuple):
    """One fragment of an object, before any header."""

    place: int
    """``offset_and_fin`` or ``FRAGMENT_ID``, as the header takes it."""
    data: memoryview
    """The bytes; a view of the object, not a copy."""


def pack_offset_and_fin(offset: int, is_last_fragment: bool) -> int:
    """``2 * offset + is_last_fragment`` (seed 001, Fragment Message)."""
    if not 0 <= offset <= MAX_OFFSET:
        raise EncodeError(f"offset {offset} is outside 0..2**61 - 1")
    return offset << 1 | is_last_fragment


def pack_fragment_id(number: int, is_last_fragment: bool) -> int:
    """``2 * number + is_last_fragment``, numbers from 1 (seed 003, Fragmentation)."""
    if not 1 <= number <= MAX_FRAGMENT_NUMBER:
        raise EncodeError(f"fragment number {number} is outside 1..{MAX_FRAGMENT_NUMBER}")
    return number << 1 | is_last_fragment


def unpack_place(place: int) -> tuple[int, bool]:
    """Take either integer apart: the offset or the number, and whether it is the last."""
    return place >> 1, place & 1 == 1


def split_offsets(data: ByteSource, max_payload: int) -> Iterator[Piece]:
    """Cut an object into pieces of at most ``max_payload`` bytes, placed by offset.

    An empty object is one empty piece, which is the last.
    """
    _check_payload(max_payload)
    return (
        Piece(pack_offset_and_fin(start, is_last), chunk)
        for start, chunk, is_last in _chunks(data, max_payload)
    )


def split_numbered(data: ByteSource, max_payload: int) -> Iterator[Piece]:
    """Cut an object into pieces of at most ``max_payload`` bytes, placed by number from 1.

    The number of pieces is checked before the first is given out: half an object helps nobody.
    """
    _check_payload(max_payload)
    if len(data) > max_payload * MAX_FRAGMENT_NUMBER:
        raise EncodeError(
            f"{len(data)} bytes in pieces of {max_payload} are over {MAX_FRAGMENT_NUMBER} fragments"
        )
    return (
        Piece(pack_fragment_id(start // max_payload + 1, is_last), chunk)
        for start, chunk, is_last in _chunks(data, max_payload)
    )


def _check_payload(max_payload: int) -> None:
    if max_payload < 1:
        raise EncodeError(f"pieces of at most {max_payload} bytes can carry nothing")


def _chunks(data: ByteSource, max_payload: int) -> Iterator[tuple[int, memoryview, bool]]:
    view = memoryview(data)
    size = len(view)
    # An empty object still has one piece: range(0, 1, n) gives the start 0 and nothing else.
    for start in range(0, max(size, 1), max_payload):
        stop = start + max_payload
        yield start, view[start:stop], stop >= size
