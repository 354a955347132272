"""Data that is faster than the handshake."""

from __future__ import annotations

from laps_sdk.peering.early import EARLY_BYTES, Chunk, EarlyData


def test_pieces_wait_in_order_and_are_taken_once() -> None:
    early = EarlyData()
    pieces = [Chunk(2, b"a", False), Chunk(6, b"b", True), Chunk(2, b"c", True)]
    assert all(early.add(piece) for piece in pieces)
    assert (early.take(), early.take()) == (pieces, [])


def test_a_stream_that_was_abandoned_is_forgotten() -> None:
    early = EarlyData()
    early.add(Chunk(2, b"a", False))
    early.add(Chunk(6, b"b", False))
    early.forget(2)
    assert early.take() == [Chunk(6, b"b", False)]


def test_a_stream_that_does_not_fit_is_stopped_as_a_whole() -> None:
    early = EarlyData()
    early.add(Chunk(2, b"a", False))
    early.add(Chunk(6, b"b", False))
    assert not early.add(Chunk(2, bytes(EARLY_BYTES), False))
    assert early.add(Chunk(2, b"more of it", True))
    assert (early.refused(2), early.refused(6)) == (True, False)
    assert early.take() == [Chunk(6, b"b", False)]


def test_empty_pieces_count_too() -> None:
    early = EarlyData()
    assert not all(early.add(Chunk(stream, b"", False)) for stream in range(2, 2_000, 4))
