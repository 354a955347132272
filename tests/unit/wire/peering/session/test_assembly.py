"""Messages from chunks: any chunking gives the same messages, at a cost that stays linear."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.buffer import Reader
from laps_wire.errors import IncompleteError, MalformedError
from laps_wire.peering.session.assembly import Assembler


def encode(message: bytes) -> bytes:
    return len(message).to_bytes(2, "big") + message


class Decoder:
    """A 16-bit length, then that many bytes; 0xFFFF is malformed. Counts what it is asked."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, data: bytes, pos: int) -> tuple[bytes, int]:
        self.calls += 1
        reader = Reader(data, partial=True, pos=pos)
        size = reader.u16("size")
        if size == 0xFFFF:
            reader.fail("size", "never")
        return reader.take(size, "body"), reader.pos


def drain(assembler: Assembler[bytes]) -> list[bytes]:
    messages = []
    while (message := assembler.next()) is not None:
        messages.append(message)
    return messages


@given(st.lists(st.binary(max_size=20), max_size=8), st.lists(st.integers(1, 9), max_size=60))
def test_any_chunking_gives_the_same_messages(messages: list[bytes], cuts: list[int]) -> None:
    data = b"".join(encode(message) for message in messages)
    assembler = Assembler(Decoder())
    got: list[bytes] = []
    for size in [*cuts, len(data)]:
        chunk, data = data[:size], data[size:]
        assembler.feed(chunk)
        got += drain(assembler)
    assembler.feed(data)
    got += drain(assembler)
    assert got == messages
    assert len(assembler) == 0


def test_what_waits_is_counted() -> None:
    assembler = Assembler(Decoder())
    assembler.feed(encode(b"abc") + b"\x00\x05xy")
    assert len(assembler) == 9
    assert assembler.next() == b"abc"
    assert len(assembler) == 4
    assert assembler.next() is None
    assembler.feed(b"z")
    assert len(assembler) == 5


def test_a_message_that_comes_byte_by_byte_is_decoded_a_few_times_only() -> None:
    decoder = Decoder()
    assembler = Assembler(decoder)
    data = encode(bytes(5000))
    got = []
    for index in range(len(data)):
        assembler.feed(data[index : index + 1])
        got += drain(assembler)
    assert got == [bytes(5000)]
    assert decoder.calls <= 4


def test_feeding_before_the_last_message_is_taken() -> None:
    assembler = Assembler(Decoder())
    assembler.feed(encode(b"a"))
    assert assembler.next() == b"a"
    assembler.feed(encode(b"b"))
    assert drain(assembler) == [b"b"]


def test_bytes_that_came_between_two_looks_count() -> None:
    calls: list[int] = []

    def decode(data: bytes, pos: int) -> tuple[bytes, int]:
        calls.append(len(data))
        if len(data) < 4:
            assembler.feed(b"more")  # somebody feeds while we decode
            raise IncompleteError(1)
        return data, len(data)

    assembler = Assembler(decode)
    assembler.feed(b"x")
    assert assembler.next() == b"xmore"
    assert calls == [1, 5]


def test_faults_are_raised_and_views_may_be_kept() -> None:
    kept: list[memoryview] = []

    def decode(data: bytes, pos: int) -> tuple[bytes, int]:
        kept.append(memoryview(data))
        return Decoder()(data, pos)

    assembler = Assembler(decode)
    assembler.feed(b"\x00")
    assert assembler.next() is None
    assembler.feed(b"\x01a\xff\xff")
    assert assembler.next() == b"a"
    with pytest.raises(MalformedError):
        assembler.next()
    assert len(kept) == 3


def test_clear() -> None:
    assembler = Assembler(Decoder())
    assembler.feed(encode(b"abc") + b"\x00\x09xyz")
    assert assembler.next() == b"abc"
    assert assembler.next() is None
    assembler.feed(b"!")
    assembler.clear()
    assert len(assembler) == 0
    assert assembler.next() is None
    assembler.feed(encode(b"new"))
    assert assembler.next() == b"new"


def test_messages_of_one_byte() -> None:
    assembler: Assembler[int] = Assembler(lambda data, pos: (data[pos], pos + 1))
    for number in (1, 2):
        assembler.feed(bytes([number]))
        assert assembler.next() == number
        assert assembler.next() is None
    assembler.clear()
    assembler.feed(b"\x03")
    assert assembler.next() == 3
