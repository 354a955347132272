"""Field codecs: every one both ways, and what each refuses.

Tables: structures both ways, what each refuses, and the table's tie to its dataclass.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire import fields
from laps_wire.buffer import VI64, Reader, Writer
from laps_wire.errors import EncodeError, MalformedError
from laps_wire.fields import (
    BOOL8,
    F64,
    REST,
    U8,
    U16,
    U32,
    U64,
    VARINT,
    Array,
    Choice,
    Constrained,
    FieldCodec,
    Fixed,
    Layout,
    Many,
    Prefixed,
    Text,
    Words,
    readable,
    reader_of,
    writer_of,
)
from testkit.fields import (
    check_codec_bytes,
    check_codec_values,
    check_whole_bytes,
    check_whole_values,
    read,
    write,
)
from testkit.strategies import values_of


class Colour(IntEnum):
    RED = 1
    BLUE = 7


SIZED: dict[str, FieldCodec[Any]] = {
    "u8": U8,
    "u16": U16,
    "u32": U32,
    "u64": U64,
    "varint": VARINT,
    "f64": F64,
    "bool": BOOL8,
    "choice": Choice(U16, Colour),
    "constrained": Constrained(VARINT, 3, 5000),
    "fixed": Fixed(3),
    "prefixed": Prefixed(50),
    "prefixed u16": Prefixed(50, U16),
    "text": Text(50),
    "text u16": Text(50, U16),
    "words": Words(50),
}


@pytest.mark.parametrize("codec", SIZED.values(), ids=SIZED)
@given(data=st.data())
def test_identity_and_prefixes(codec: FieldCodec[Any], data: st.DataObject) -> None:
    check_codec_values(codec, data.draw(values_of(codec)))


@given(data=st.data())
def test_identity_of_a_field_that_ends_with_the_message(data: st.DataObject) -> None:
    check_whole_values(REST, data.draw(values_of(REST)))


@pytest.mark.parametrize("codec", SIZED.values(), ids=SIZED)
@given(data=st.binary(min_size=1, max_size=60))
def test_any_bytes(codec: FieldCodec[Any], data: bytes) -> None:
    check_codec_bytes(codec, data)


@given(data=st.binary(min_size=1, max_size=60))
def test_any_bytes_of_a_field_that_ends_with_the_message(data: bytes) -> None:
    check_whole_bytes(REST, data)


@pytest.mark.parametrize("codec", SIZED.values(), ids=SIZED)
@given(data=st.data())
def test_the_short_way_is_the_same_way(codec: FieldCodec[Any], data: st.DataObject) -> None:
    value = data.draw(values_of(codec))
    writer = Writer()
    writer_of(codec)(writer, value, "f")
    assert writer.getvalue() == write(codec, value)
    assert reader_of(codec)(Reader(writer.getvalue()), "f") == value


@pytest.mark.parametrize(
    ("codec", "data", "words"),
    [
        (F64, b"\x7f\xf8" + bytes(6), "not a number"),
        (BOOL8, b"\x02", "neither 0 nor 1"),
        (Choice(U8, Colour), b"\x02", "2 is not one of: 1 RED, 7 BLUE"),
        (Constrained(U8, 3, 9), b"\x02", "2 is outside 3..9"),
        (Prefixed(5), b"\x06", "length 6 is over the limit of 5"),
        (Text(5), b"\x06", "length 6 is over the limit of 5"),
        (Text(5), b"\x02\xff\xff", "not UTF-8"),
    ],
)
def test_what_a_reader_refuses(codec: FieldCodec[Any], data: bytes, words: str) -> None:
    with pytest.raises(MalformedError, match=words) as caught:
        read(codec, data)
    assert caught.value.field.startswith("f")


@pytest.mark.parametrize(
    ("codec", "value", "words"),
    [
        (F64, float("nan"), "not a number"),
        (Constrained(U8, 3, 9), 2, "outside 3..9"),
        (Fixed(3), b"ab", "2 bytes where exactly 3 belong"),
        (Prefixed(1), b"ab", "over the limit of 1"),
        (Text(1), "ab", "over the limit of 1"),
        (Text(9), "\ud800", "not encodable"),
        (Words(1), "ab", "over the limit of 1"),
        (Words(9), "\ud800", "not encodable"),
    ],
)
def test_what_a_writer_refuses(codec: FieldCodec[Any], value: Any, words: str) -> None:
    with pytest.raises(EncodeError, match=words):
        write(codec, value)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"good \xc3\xa9", "good \u00e9"),
        (b"a\xffb", "a?b"),
        (b"a\xff\xc3b", "a??b"),
        (b"\xc3\xa9\xff", "\u00e9?"),
        (b"\xe2\x82", "?"),
    ],
)
def test_words_are_readable_whatever_the_bytes(data: bytes, words: str) -> None:
    assert readable(data) == words
    assert read(Words(9), bytes([len(data)]) + data) == (words, len(data) + 1)


@given(data=st.binary(max_size=60))
def test_words_never_grow_so_that_they_can_be_passed_on(data: bytes) -> None:
    assert len(readable(data).encode()) <= len(data)


# Structures


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int

    def __post_init__(self) -> None:
        if self.x > self.y:
            raise ValueError("x is behind y")


POINT = Layout(Point, ("x", U8), ("y", VARINT))

LAYOUT_SIZED: dict[str, FieldCodec[Any]] = {
    "array": Array(POINT, 4),
    "nested": Array(Array(U8, 3), 2, U8),
}
OPEN: dict[str, FieldCodec[Any]] = {"many": Many(POINT, 5)}


@pytest.mark.parametrize("codec", LAYOUT_SIZED.values(), ids=LAYOUT_SIZED)
@given(data=st.data())
def test_identity_and_prefixes_of_layout(codec: FieldCodec[Any], data: st.DataObject) -> None:
    check_codec_values(codec, data.draw(values_of(codec)))


@pytest.mark.parametrize("codec", OPEN.values(), ids=OPEN)
@given(data=st.data())
def test_identity_of_fields_that_end_with_the_message(
    codec: FieldCodec[Any], data: st.DataObject
) -> None:
    check_whole_values(codec, data.draw(values_of(codec)))


@pytest.mark.parametrize("codec", LAYOUT_SIZED.values(), ids=LAYOUT_SIZED)
@given(data=st.binary(min_size=1, max_size=60))
def test_any_bytes_of_layout(codec: FieldCodec[Any], data: bytes) -> None:
    check_codec_bytes(codec, data)


@pytest.mark.parametrize("codec", OPEN.values(), ids=OPEN)
@given(data=st.binary(min_size=1, max_size=60))
def test_any_bytes_of_fields_that_end_with_the_message(codec: FieldCodec[Any], data: bytes) -> None:
    check_whole_bytes(codec, data)


@pytest.mark.parametrize(
    ("codec", "data", "words"),
    [
        (Array(U8, 2), b"\x03", "count 3 is over the limit of 2"),
        (Many(U8, 2), b"\x00\x00\x00", "more than 2 items"),
        (POINT, b"\x05\x04", "x is behind y"),
    ],
)
def test_what_a_reader_refuses_of_layout(codec: FieldCodec[Any], data: bytes, words: str) -> None:
    with pytest.raises(MalformedError, match=words) as caught:
        read(codec, data)
    assert caught.value.field.startswith("f")


@pytest.mark.parametrize(
    ("codec", "value", "words"),
    [
        (Array(U8, 1), (1, 2), "2 items are over the limit of 1"),
        (Many(U8, 1), (1, 2), "2 items are over the limit of 1"),
        (Array(U8, 1), (256,), r"f\[0\]: 256 does not fit"),
        (POINT, Point(1, 2**62), r"f.y: .* does not fit a QUIC varint"),
    ],
)
def test_what_a_writer_refuses_of_layout(codec: FieldCodec[Any], value: Any, words: str) -> None:
    with pytest.raises(EncodeError, match=words):
        write(codec, value)


def test_a_fault_deep_inside_names_the_whole_way() -> None:
    points = Array(POINT, 4)
    with pytest.raises(MalformedError, match=r"^points\[1\]\.y: truncated") as caught:
        points.read(Reader(b"\x02\x01\x02\x03"), "points")
    assert caught.value.offset == 4
    with pytest.raises(EncodeError, match=r"^points\[1\]\.y: .* does not fit"):
        points.write(Writer(), (Point(1, 2), Point(1, 2**62)), "points")


def test_a_table_must_match_its_dataclass() -> None:
    with pytest.raises(TypeError, match="differs from dataclass"):
        Layout(Point, ("y", U8), ("x", U8))


def test_tables_of_any_length() -> None:
    @dataclass(frozen=True, slots=True)
    class Empty:
        pass

    @dataclass(frozen=True, slots=True)
    class One:
        x: int

    assert write(Layout(Empty), Empty()) == b""
    assert read(Layout(One, ("x", U8)), write(Layout(One, ("x", U8)), One(9))) == (One(9), 1)


def test_what_is_shared_is_written_once_and_never_mistaken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fields, "MOST_SHARED", 2)
    shared = Layout(Point, ("x", U8), ("y", VARINT), shared=True)
    points = [Point(x, 1000 + x) for x in range(5)]
    for point in (*points, *points, *points[:1] * 3, Point(0, 1000), Point(200, 300)):
        assert write(shared, point) == write(POINT, point)
    with pytest.raises(EncodeError, match=r"x: 256 does not fit"):
        write(shared, Point(256, 300))
    other = Writer(integers=VI64)
    shared.write(other, points[1], "")
    POINT.write(other, points[1], "")
    assert other.getvalue()[:3] == other.getvalue()[3:] != write(shared, points[1])
