"""Reader and Writer: bounds, the two kinds of too short, offsets that can be pointed at.

Both integer codings: the specifications' examples, every length, every edge.
"""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.buffer import QUIC, VI64, IntegerCoding, Reader, Writer
from laps_wire.errors import EncodeError, IncompleteError, MalformedError
from testkit.strategies import varints

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


# Variable-length integers

BOTH = pytest.mark.parametrize("coding", [QUIC, VI64], ids=["quic", "vi64"])


@pytest.mark.parametrize(
    ("data", "value"),
    [
        ("c2197c5eff14e88c", 151_288_809_941_952_652),  # RFC 9000, A.1
        ("9d7f3e7d", 494_878_333),
        ("7bbd", 15_293),
        ("25", 37),
        ("4025", 37),
    ],
)
def test_rfc_9000_examples(data: str, value: int) -> None:
    raw = bytes.fromhex(data)
    assert QUIC.decode(raw, 0, len(raw)) == (value, len(raw))


@pytest.mark.parametrize(
    ("data", "value"),
    [
        ("25", 37),  # moq-transport-18, 1.4.1
        ("8025", 37),
        ("bbbd", 15_293),
        ("ed7f3e7d", 226_442_877),
        ("faa1a0e403d8", 2_893_212_287_960),
        ("fc8998abc66bc0", 151_288_809_941_952),
        ("fefa318fa8e3ca11", 70_423_237_261_249_041),
        ("ffffffffffffffffff", 18_446_744_073_709_551_615),
    ],
)
def test_moqt_18_examples(data: str, value: int) -> None:
    raw = bytes.fromhex(data)
    assert VI64.decode(raw, 0, len(raw)) == (value, len(raw))


@pytest.mark.parametrize(
    ("coding", "value", "size"),
    [
        (QUIC, 0, 1),
        (QUIC, 63, 1),
        (QUIC, 64, 2),
        (QUIC, 2**14 - 1, 2),
        (QUIC, 2**14, 4),
        (QUIC, 2**30 - 1, 4),
        (QUIC, 2**30, 8),
        (QUIC, 2**62 - 1, 8),
        *[(VI64, 2 ** (7 * size) - 1, size) for size in range(1, 9)],
        *[(VI64, 2 ** (7 * size), size + 1) for size in range(1, 9)],
        (VI64, 2**64 - 1, 9),
    ],
)
def test_shortest_form_at_the_edges(coding: IntegerCoding, value: int, size: int) -> None:
    data = coding.encode(value)
    assert len(data) == size
    assert coding.decode(data, 0, size) == (value, size)


@BOTH
@pytest.mark.parametrize("excess", [-1, None], ids=["negative", "too large"])
def test_out_of_range_is_our_fault(coding: IntegerCoding, excess: int | None) -> None:
    value = coding.max_value + 1 if excess is None else excess
    with pytest.raises(EncodeError, match="does not fit"):
        coding.encode(value)


@given(value=varints(QUIC))
def test_quic_identity_and_prefixes(value: int) -> None:
    check_identity(QUIC, value)


@given(value=varints(VI64))
def test_vi64_identity_and_prefixes(value: int) -> None:
    check_identity(VI64, value)


def check_identity(coding: IntegerCoding, value: int) -> None:
    data = coding.encode(value)
    assert coding.decode(b"\xaa" + data + b"\xbb", 1, 1 + len(data)) == (value, 1 + len(data))
    for cut in range(len(data)):
        with pytest.raises(IncompleteError) as caught:
            coding.decode(data, 0, cut)
        assert 1 <= caught.value.needed <= len(data) - cut


@BOTH
def test_every_first_byte_has_one_length(coding: IntegerCoding) -> None:
    for first in range(256):
        data = bytes([first]) + b"\xff" * 8
        value, size = coding.decode(data, 0, len(data))
        assert 0 <= value <= coding.max_value
        with pytest.raises(IncompleteError):
            coding.decode(data, 0, size - 1)
