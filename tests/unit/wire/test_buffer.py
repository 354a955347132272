"""Reader and Writer: bounds, the two kinds of too short, offsets that can be pointed at."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.buffer import Reader, Writer
from laps_wire.errors import EncodeError, IncompleteError, MalformedError
from laps_wire.varint import VI64

READS = {
    "u8": 1,
    "u16": 2,
    "u32": 4,
    "u64": 8,
    "f64": 8,
}


@pytest.mark.parametrize(("method", "size"), READS.items())
def test_fixed_fields_end_at_the_bounds(method: str, size: int) -> None:
    for have in range(size):
        short = bytes(have)
        with pytest.raises(IncompleteError) as caught:
            getattr(Reader(short, partial=True), method)("field")
        assert caught.value.needed == size - have
        with pytest.raises(MalformedError, match=r"field: truncated"):
            getattr(Reader(short), method)("field")
    reader = Reader(bytes(size))
    assert getattr(reader, method)("field") == 0
    assert reader.at_end


@given(
    a=st.integers(0, 2**8 - 1),
    b=st.integers(0, 2**16 - 1),
    c=st.integers(0, 2**32 - 1),
    d=st.integers(0, 2**64 - 1),
    e=st.floats(allow_nan=False),
    f=st.integers(0, 2**64 - 1),
    g=st.binary(max_size=40),
)
def test_what_is_written_is_read(
    a: int, b: int, c: int, d: int, e: float, f: int, g: bytes
) -> None:
    writer = Writer(integers=VI64)
    writer.u8(a, "a")
    writer.u16(b, "b")
    writer.u32(c, "c")
    writer.u64(d, "d")
    writer.f64(e, "e")
    writer.varint(f, "f")
    writer.prefixed(g, "g", 40)
    writer.raw(b"tail")
    reader = Reader(writer.getvalue(), integers=VI64)
    assert len(writer) == reader.remaining
    assert (reader.u8("a"), reader.u16("b"), reader.u32("c"), reader.u64("d")) == (a, b, c, d)
    assert math.copysign(1, reader.f64("e")) == math.copysign(1, e)
    assert reader.varint("f") == f
    assert reader.prefixed("g", 40) == g
    assert reader.rest("tail") == b"tail"
    reader.expect_end("all")


def test_varint_too_short() -> None:
    with pytest.raises(IncompleteError):
        Reader(b"\x40", partial=True).varint("x")
    with pytest.raises(MalformedError, match="x: truncated"):
        Reader(b"\x40").varint("x")


def test_a_length_over_the_limit_is_refused_before_its_bytes() -> None:
    with pytest.raises(MalformedError, match="length 16383 is over the limit of 10"):
        Reader(b"\x7f\xff", partial=True).prefixed("name", 10)
    with pytest.raises(EncodeError, match="name: 11 bytes are over the limit of 10"):
        Writer().prefixed(bytes(11), "name", 10)


def test_sub_waits_for_the_whole_and_then_bounds_it() -> None:
    reader = Reader(b"\x00\x01\x02\x03", partial=True, pos=1)
    with pytest.raises(IncompleteError):
        reader.sub(4, "body")
    body = reader.sub(2, "body")
    assert body.u8("x") == 1
    with pytest.raises(MalformedError) as caught:
        body.u16("y")
    assert caught.value.offset == 2  # counted from the outermost buffer
    with pytest.raises(MalformedError, match="truncated"):
        Reader(b"\x00").sub(2, "body")
    assert reader.u8("z") == 3


def test_left_over_bytes_are_refused() -> None:
    with pytest.raises(MalformedError, match=r"PING: 2 byte\(s\) left over"):
        Reader(b"\x00\x00").expect_end("PING")


def test_take_is_a_copy_and_view_is_not() -> None:
    data = bytearray(b"abcd")
    reader = Reader(data)
    reader.enter("pair")
    taken, viewed = reader.take(2, "t"), reader.view(2, "v")
    reader.leave()
    data[:] = b"wxyz"
    assert taken == b"ab"
    assert bytes(viewed) == b"yz"


@pytest.mark.parametrize(("method", "size"), [("u8", 1), ("u16", 2), ("u32", 4), ("u64", 8)])
def test_values_that_do_not_fit_are_our_fault(method: str, size: int) -> None:
    for value in (-1, 256**size):
        with pytest.raises(EncodeError, match=r"field: .* does not fit"):
            getattr(Writer(), method)(value, "field")
    with pytest.raises(EncodeError, match=r"field: .* does not fit a QUIC varint"):
        Writer().varint(2**62, "field")
