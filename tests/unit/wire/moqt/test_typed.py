"""Typed values behind delta-coded types: enclosures, flags, tables and their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.buffer import Reader, Writer
from laps_wire.errors import EncodeError, MalformedError
from laps_wire.fields import U8, VARINT
from laps_wire.moqt.errors import KeyValueFormattingError
from laps_wire.moqt.keyvalue import KeyValue, KeyValues, read_value
from laps_wire.moqt.structures import LOCATION, Location
from laps_wire.moqt.typed import Enclosed, Entry, Flag, read_entries, write_entries
from laps_wire.varint import QUIC, VI64, IntegerCoding
from testkit.moqt import pairs
from testkit.strategies import values_of, varints


@dataclass(frozen=True)
class Model:
    number: int | None = None
    places: tuple[Location, ...] = ()
    flag: bool | None = None


ENTRIES = {
    entry.type: entry
    for entry in (
        Entry(2, "NUMBER", "number", VARINT),
        Entry(5, "PLACE", "places", Enclosed(LOCATION), repeats=True),
        Entry(8, "FLAG", "flag", Flag(U8)),
    )
}


def keep(reader: Reader, type_: int) -> KeyValue:
    return KeyValue(type_, read_value(reader, type_))


def read(
    data: bytes, count: int | None = None, integers: IntegerCoding = QUIC
) -> tuple[Model, KeyValues]:
    values, others = read_entries(Reader(data, integers=integers), ENTRIES, count, keep)
    return Model(**values), others


def write(
    model: Model, others: KeyValues = (), *, counted: bool = False, integers: IntegerCoding = QUIC
) -> bytes:
    writer = Writer(integers=integers)
    write_entries(writer, model, ENTRIES.values(), others, "it", counted=counted)
    return writer.getvalue()


MODEL = Model(number=300, places=(Location(1, 2), Location(0, 0)), flag=False)
OTHERS = (KeyValue(0, 1), KeyValue(3, b"x"), KeyValue(3, b""), KeyValue(9, b"y"))


def test_bytes_in_ascending_order_of_type() -> None:
    data = bytes.fromhex("00 01 02 412c 01 01 78 00 00 02 02 01 02 00 02 00 00 03 00 01 01 79")
    assert write(MODEL, OTHERS) == data
    assert read(data) == (MODEL, OTHERS)


def test_a_count_goes_before_all() -> None:
    assert write(MODEL, OTHERS, counted=True)[0] == 8
    assert write(Model(), counted=True) == b"\x00"
    assert write(Model()) == b""
    # Two pairs are read, the third is left.
    assert read(bytes.fromhex("02 05 06 01 ff"), 2) == (Model(number=5, flag=True), ())


def test_false_and_zero_are_written() -> None:
    assert write(Model(number=0, flag=False)).hex(" ") == "02 00 06 00"


def test_what_may_not_repeat_may_not_repeat() -> None:
    with pytest.raises(MalformedError, match="NUMBER: stands twice, but may not repeat") as caught:
        read(bytes.fromhex("02 01 00 01"))
    assert caught.value.offset == 2


def test_types_do_not_overflow() -> None:
    with pytest.raises(MalformedError, match="types add up to"):
        read(bytes.fromhex("ffffffffffffffffff 00 01"), integers=VI64)


def test_raw_pairs_have_the_kind_of_their_type() -> None:
    with pytest.raises(EncodeError, match="0x3 is odd"):
        write(Model(), (KeyValue(3, 1),))


# Flags


@pytest.mark.parametrize("number", [U8, VARINT])
def test_flags(number: Any) -> None:
    flag = Flag(number)
    for value in (False, True):
        writer = Writer()
        flag.write(writer, value, "flag")
        assert writer.getvalue() == bytes([value])
        assert flag.read(Reader(writer.getvalue()), "flag") is value
    with pytest.raises(MalformedError, match="flag: 2 is neither 0 nor 1 \\(at byte 0\\)"):
        flag.read(Reader(b"\x02"), "flag")


# Enclosures


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("01 01", "truncated: 1 more byte"),
        ("03 01 02 00", "1 byte\\(s\\) left over"),
        ("00", "truncated"),
    ],
)
def test_an_enclosed_value_fills_its_length(data: str, words: str) -> None:
    raw = bytes.fromhex(data)
    with pytest.raises(KeyValueFormattingError, match=f"PLACE: {words}") as formatting:
        Enclosed(LOCATION).read(Reader(raw), "PLACE")
    assert formatting.value.code == 0x6
    assert formatting.value.field == "PLACE"
    with pytest.raises(MalformedError, match=words) as violation:
        Enclosed(LOCATION, violation=True).read(Reader(raw), "PLACE")
    assert violation.value.code == 0x3
    assert violation.value.offset == formatting.value.offset


@pytest.mark.parametrize("data", ["80010000", "02 01", ""])
def test_a_length_that_lies_is_a_violation(data: str) -> None:
    # The message ends too early, or the length is not allowed: not the value's own form.
    with pytest.raises(MalformedError, match=r"over the limit of 65535|truncated"):
        Enclosed(LOCATION).read(Reader(bytes.fromhex(data)), "PLACE")


def test_an_enclosed_value_has_the_integers_of_its_message() -> None:
    writer = Writer(integers=VI64)
    Enclosed(LOCATION).write(writer, Location(300, 0), "PLACE")
    assert writer.getvalue().hex(" ") == "03 81 2c 00"


# Round trips


@pytest.mark.parametrize("integers", [QUIC, VI64], ids=["quic", "vi64"])
@given(data=st.data())
def test_round_trips(integers: IntegerCoding, data: st.DataObject) -> None:
    model = Model(
        data.draw(st.none() | varints(integers)),
        tuple(data.draw(st.lists(values_of(LOCATION, integers), max_size=3))),
        data.draw(st.none() | st.booleans()),
    )
    others = data.draw(
        pairs(integers, varints(integers).filter(lambda type_: type_ not in ENTRIES))
    )
    assert read(write(model, others, integers=integers), integers=integers) == (model, others)
