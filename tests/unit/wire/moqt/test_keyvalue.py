"""Key-Value-Pairs, and typed values behind delta-coded types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.buffer import QUIC, VI64, IntegerCoding, Reader, Writer
from laps_wire.errors import EncodeError, IncompleteError, MalformedError
from laps_wire.fields import U8, VARINT
from laps_wire.moqt.errors import KeyValueFormattingError
from laps_wire.moqt.keyvalue import (
    KEY_VALUES,
    KEY_VALUES_COUNTED,
    MAX_VALUE_LENGTH,
    Enclosed,
    Entry,
    Flag,
    KeyValue,
    KeyValues,
    PrefixedKeyValues,
    first_value,
    read_entries,
    read_pairs,
    read_value,
    sorted_pairs,
    write_entries,
)
from laps_wire.moqt.structures import LOCATION, Location
from testkit.fields import (
    SUFFIXES,
    check_codec_bytes,
    check_codec_values,
    check_whole_bytes,
    check_whole_values,
    read,
    read_whole,
    write,
)
from testkit.moqt import pairs
from testkit.strategies import values_of, varints

CODINGS = pytest.mark.parametrize("integers", [QUIC, VI64], ids=["quic", "vi64"])
PREFIXED = PrefixedKeyValues(4096)
PAIRS = (
    KeyValue(2, 5),
    KeyValue(3, b"ab"),
    KeyValue(3, b""),
    KeyValue(0x22, 300),
)


@pytest.mark.parametrize(
    ("codec", "integers", "data"),
    [
        (KEY_VALUES, QUIC, "02 05 01 02 6162 00 00 1f 412c"),
        (KEY_VALUES, VI64, "02 05 01 02 6162 00 00 1f 812c"),
        (KEY_VALUES_COUNTED, QUIC, "04 02 05 01 02 6162 00 00 1f 412c"),
        (PREFIXED, QUIC, "0b 02 05 01 02 6162 00 00 1f 412c"),
    ],
)
def test_bytes(codec: Any, integers: IntegerCoding, data: str) -> None:
    raw = bytes.fromhex(data)
    assert write(codec, PAIRS, integers) == raw
    assert read_whole(codec, raw, integers) == PAIRS


@pytest.mark.parametrize("codec", [KEY_VALUES, KEY_VALUES_COUNTED, PREFIXED])
def test_no_pairs(codec: Any) -> None:
    data = write(codec, ())
    assert data == (b"" if codec is KEY_VALUES else b"\x00")
    assert read_whole(codec, data) == ()


# Types


def test_types_add_up_to_2_64_less_1_and_no_more() -> None:
    # Draft 16's integers end at 2**62 - 1, so large types need several pairs.
    top = 2**62 - 1
    large = [KeyValue(top * n, b"" if n % 2 else 0) for n in range(1, 5)]
    values = (*large, KeyValue(2**64 - 1, b""))
    data = write(KEY_VALUES, values)
    assert read_whole(KEY_VALUES, data) == values
    with pytest.raises(MalformedError, match="above 2\\*\\*64 - 1") as caught:
        read_whole(KEY_VALUES, data + b"\x01")
    assert caught.value.offset == len(data)
    assert caught.value.code == 0x3
    with pytest.raises(MalformedError, match="above"):
        read_whole(KEY_VALUES, bytes.fromhex("ff ffffffffffffffff 00 01 00"), VI64)


def test_types_ascend() -> None:
    with pytest.raises(EncodeError, match="type 0x2 after 0x3: types must ascend"):
        write(KEY_VALUES, (KeyValue(3, b""), KeyValue(2, 0)))


def test_types_that_do_not_fit() -> None:
    with pytest.raises(EncodeError, match="is above 2\\*\\*64 - 1"):
        write(KEY_VALUES, (KeyValue(2**64, 0),), VI64)
    with pytest.raises(EncodeError, match="does not fit a QUIC varint"):
        write(KEY_VALUES, (KeyValue(2**62, 0),))


# Values


def test_values_have_at_most_65535_bytes() -> None:
    pair = (KeyValue(1, b"x" * MAX_VALUE_LENGTH),)
    data = write(KEY_VALUES, pair)
    assert read_whole(KEY_VALUES, data) == pair
    with pytest.raises(EncodeError, match="over the limit of 65535"):
        write(KEY_VALUES, (KeyValue(1, b"x" * 65536),))
    # Refused by its length alone, not waited for.
    with pytest.raises(MalformedError, match="length 65536 is over the limit"):
        read(KEY_VALUES_COUNTED, bytes.fromhex("01 01 80010000"))


def test_a_value_has_the_kind_of_its_type() -> None:
    with pytest.raises(EncodeError, match="0x1 is odd: its value is bytes"):
        write(KEY_VALUES, (KeyValue(1, 1),))
    with pytest.raises(EncodeError, match="0x2 is even: its value is an integer"):
        write(KEY_VALUES, (KeyValue(2, b"x"),))


@pytest.mark.parametrize("data", ["01", "01 02 61", "02", "40"])
def test_pairs_that_end_early(data: str) -> None:
    with pytest.raises(MalformedError, match="truncated"):
        read_whole(KEY_VALUES, bytes.fromhex(data))


# Blocks


def test_a_block_is_bounded_by_its_length() -> None:
    with pytest.raises(MalformedError, match="length 5000 is over the limit of 4096"):
        read(PREFIXED, bytes.fromhex("5388"))
    with pytest.raises(IncompleteError):
        read(PREFIXED, bytes.fromhex("02 02"))
    # The pair does not fit the block, though bytes follow it.
    with pytest.raises(MalformedError, match="truncated"):
        read(PREFIXED, bytes.fromhex("02 01 02 6162"))
    with pytest.raises(EncodeError, match="over the limit of 3"):
        write(PrefixedKeyValues(3), (KeyValue(1, b"ab"),))


def test_a_count_reads_that_many_and_no_more() -> None:
    reader = Reader(bytes.fromhex("02 05 02 06 02 07"))
    assert read_pairs(reader, count=2) == (KeyValue(2, 5), KeyValue(4, 6))
    assert reader.pos == 4


# Helpers


def test_first_value() -> None:
    assert first_value(PAIRS, 3) == b"ab"
    assert first_value(PAIRS, 2) == 5
    assert first_value(PAIRS, 4) is None


def test_sorted_pairs_keep_the_order_of_equal_types() -> None:
    shuffled = [PAIRS[3], PAIRS[1], PAIRS[0], PAIRS[2]]
    assert sorted_pairs(shuffled) == PAIRS
    assert hash(sorted_pairs(shuffled)) == hash(PAIRS)


# The properties of every codec


@CODINGS
@given(data=st.data())
def test_round_trips(integers: IntegerCoding, data: st.DataObject) -> None:
    value = data.draw(pairs(integers))
    check_whole_values(KEY_VALUES, value, integers)
    for codec in (KEY_VALUES_COUNTED, PREFIXED):
        check_codec_values(codec, value, integers, suffixes=[*SUFFIXES, b"\x01\x02"])


@CODINGS
@given(data=st.binary(max_size=60))
def test_any_bytes(integers: IntegerCoding, data: bytes) -> None:
    check_codec_bytes(KEY_VALUES_COUNTED, data, integers)
    check_codec_bytes(PREFIXED, data, integers)


@CODINGS
@given(data=st.binary(min_size=1, max_size=60))
def test_any_bytes_of_pairs_up_to_the_end(integers: IntegerCoding, data: bytes) -> None:
    check_whole_bytes(KEY_VALUES, data, integers)


@CODINGS
def test_lying_counts_cost_nothing(integers: IntegerCoding) -> None:
    data = integers.encode(2**62 - 1) + b"\x01\x01x"
    check_whole_bytes(KEY_VALUES_COUNTED, data, integers)


# Typed values


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


def typed_read(
    data: bytes, count: int | None = None, integers: IntegerCoding = QUIC
) -> tuple[Model, KeyValues]:
    values, others = read_entries(Reader(data, integers=integers), ENTRIES, count, keep)
    return Model(**values), others


def typed_write(
    model: Model, others: KeyValues = (), *, counted: bool = False, integers: IntegerCoding = QUIC
) -> bytes:
    writer = Writer(integers=integers)
    write_entries(writer, model, ENTRIES.values(), others, "it", counted=counted)
    return writer.getvalue()


MODEL = Model(number=300, places=(Location(1, 2), Location(0, 0)), flag=False)
OTHERS = (KeyValue(0, 1), KeyValue(3, b"x"), KeyValue(3, b""), KeyValue(9, b"y"))


def test_bytes_in_ascending_order_of_type() -> None:
    data = bytes.fromhex("00 01 02 412c 01 01 78 00 00 02 02 01 02 00 02 00 00 03 00 01 01 79")
    assert typed_write(MODEL, OTHERS) == data
    assert typed_read(data) == (MODEL, OTHERS)


def test_a_count_goes_before_all() -> None:
    assert typed_write(MODEL, OTHERS, counted=True)[0] == 8
    assert typed_write(Model(), counted=True) == b"\x00"
    assert typed_write(Model()) == b""
    # Two pairs are typed_read, the third is left.
    assert typed_read(bytes.fromhex("02 05 06 01 ff"), 2) == (Model(number=5, flag=True), ())


def test_false_and_zero_are_written() -> None:
    assert typed_write(Model(number=0, flag=False)).hex(" ") == "02 00 06 00"


def test_what_may_not_repeat_may_not_repeat() -> None:
    with pytest.raises(MalformedError, match="NUMBER: stands twice, but may not repeat") as caught:
        typed_read(bytes.fromhex("02 01 00 01"))
    assert caught.value.offset == 2


def test_types_do_not_overflow() -> None:
    with pytest.raises(MalformedError, match="types add up to"):
        typed_read(bytes.fromhex("ffffffffffffffffff 00 01"), integers=VI64)


def test_raw_pairs_have_the_kind_of_their_type() -> None:
    with pytest.raises(EncodeError, match="0x3 is odd"):
        typed_write(Model(), (KeyValue(3, 1),))


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
def test_round_trips_of_typed(integers: IntegerCoding, data: st.DataObject) -> None:
    model = Model(
        data.draw(st.none() | varints(integers)),
        tuple(data.draw(st.lists(values_of(LOCATION, integers), max_size=3))),
        data.draw(st.none() | st.booleans()),
    )
    others = data.draw(
        pairs(integers, varints(integers).filter(lambda type_: type_ not in ENTRIES))
    )
    assert typed_read(typed_write(model, others, integers=integers), integers=integers) == (
        model,
        others,
    )
