"""Places of fragments, and cutting an object up both ways."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.buffer import QUIC
from laps_wire.errors import EncodeError
from laps_wire.quicr.fragments import (
    MAX_FRAGMENT_NUMBER,
    MAX_OFFSET,
    MIN_FRAGMENT_ID,
    pack_fragment_id,
    pack_offset_and_fin,
    split_numbered,
    split_offsets,
    unpack_place,
)


def test_the_drawing() -> None:
    assert [piece.place for piece in split_offsets(b"0123456789", 4)] == [0, 8, 17]
    assert [piece.place for piece in split_numbered(b"0123456789", 4)] == [2, 4, 7]
    assert [bytes(piece.data) for piece in split_offsets(b"0123456789", 4)] == [
        b"0123",
        b"4567",
        b"89",
    ]


@given(st.integers(0, MAX_OFFSET), st.booleans())
def test_offset_and_fin(offset: int, is_last: bool) -> None:
    assert pack_offset_and_fin(offset, is_last) == 2 * offset + is_last
    assert unpack_place(pack_offset_and_fin(offset, is_last)) == (offset, is_last)


@given(st.integers(1, MAX_FRAGMENT_NUMBER), st.booleans())
def test_fragment_id(number: int, is_last: bool) -> None:
    assert pack_fragment_id(number, is_last) == 2 * number + is_last
    assert unpack_place(pack_fragment_id(number, is_last)) == (number, is_last)


def test_the_edges_of_both() -> None:
    assert pack_offset_and_fin(MAX_OFFSET, True) == QUIC.max_value
    assert pack_fragment_id(1, False) == MIN_FRAGMENT_ID
    assert pack_fragment_id(MAX_FRAGMENT_NUMBER, True) == 0xFFFF
    for offset in (-1, MAX_OFFSET + 1):
        with pytest.raises(EncodeError, match="offset"):
            pack_offset_and_fin(offset, False)
    for number in (0, MAX_FRAGMENT_NUMBER + 1):
        with pytest.raises(EncodeError, match="fragment number"):
            pack_fragment_id(number, False)


@given(st.binary(max_size=200), st.integers(1, 210))
def test_the_pieces_are_the_object(data: bytes, max_payload: int) -> None:
    count = max(1, -(-len(data) // max_payload))
    by_offset = list(split_offsets(data, max_payload))
    numbered = list(split_numbered(data, max_payload))
    assert len(by_offset) == len(numbered) == count
    assert [piece.data for piece in by_offset] == [piece.data for piece in numbered]
    assert b"".join(piece.data for piece in by_offset) == data
    assert all(len(piece.data) == max_payload for piece in by_offset[:-1])
    assert [unpack_place(piece.place) for piece in by_offset] == [
        (index * max_payload, index == count - 1) for index in range(count)
    ]
    assert [unpack_place(piece.place) for piece in numbered] == [
        (index + 1, index == count - 1) for index in range(count)
    ]


def test_pieces_are_views_and_not_copies() -> None:
    data = bytearray(b"abcdef")
    pieces = list(split_offsets(data, 3))
    data[0] = ord("X")
    assert bytes(pieces[0].data) == b"Xbc"


def test_an_empty_object_is_one_empty_last_piece() -> None:
    assert [(piece.place, bytes(piece.data)) for piece in split_offsets(b"", 9)] == [(1, b"")]
    assert [(piece.place, bytes(piece.data)) for piece in split_numbered(b"", 9)] == [(3, b"")]


@pytest.mark.parametrize("split", [split_offsets, split_numbered])
def test_a_piece_carries_something(split: type) -> None:
    with pytest.raises(EncodeError, match="at most 0 bytes can carry nothing"):
        split(b"abc", 0)


def test_numbers_end_at_fifteen_bits_and_that_is_said_at_once() -> None:
    assert len(list(split_numbered(bytes(MAX_FRAGMENT_NUMBER), 1))) == MAX_FRAGMENT_NUMBER
    with pytest.raises(EncodeError, match="32768 bytes in pieces of 1 are over 32767 fragments"):
        split_numbered(bytes(MAX_FRAGMENT_NUMBER + 1), 1)
