"""Key-Value-Pairs: bytes by hand, order and limits, and the shared properties."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.buffer import Reader
from laps_wire.errors import EncodeError, IncompleteError, MalformedError
from laps_wire.moqt.keyvalue import (
    KEY_VALUES,
    KEY_VALUES_COUNTED,
    MAX_VALUE_LENGTH,
    KeyValue,
    PrefixedKeyValues,
    first_value,
    read_pairs,
    sorted_pairs,
)
from laps_wire.varint import QUIC, VI64, IntegerCoding
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
