"""Parameters: kept whole, in order, carried on by parity, numbers that fill their value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.buffer import Reader
from laps_wire.errors import EncodeError, MalformedError
from laps_wire.peering.laps2.limits import MAX_PARAMETER_BYTES, MAX_PARAMETERS
from laps_wire.peering.laps2.parameters import (
    NO_PARAMETERS,
    PARAMETERS,
    Parameters,
    ParametersCodec,
)
from testkit.fields import check_codec_bytes, check_codec_values, read, write
from testkit.laps2 import parameters
from testkit.strategies import varints


@given(parameters())
def test_identity_and_prefixes(value: Parameters) -> None:
    check_codec_values(PARAMETERS, value)


@given(st.binary(min_size=1, max_size=80))
def test_any_bytes(data: bytes) -> None:
    check_codec_bytes(PARAMETERS, data)


def test_bytes_by_hand() -> None:
    value = Parameters(((2, b""), (0x45, b"\xc0\xff\xee")))
    assert write(PARAMETERS, value) == bytes.fromhex("02 02 00 4045 03 c0ffee")
    assert write(PARAMETERS, NO_PARAMETERS) == b"\x00"
    assert read(PARAMETERS, b"\x00")[0] is NO_PARAMETERS


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("02 0500 0500", "parameter 0x5 after 0x5: ids must strictly ascend"),
        ("02 0500 0400", "parameter 0x4 after 0x5: ids must strictly ascend"),
        ("4041", "count 65 is over the limit of 64"),
        ("01 05 5001", "length 4097 is over the limit of 4096"),
    ],
)
def test_what_a_reader_refuses(data: str, words: str) -> None:
    with pytest.raises(MalformedError, match=words):
        read(PARAMETERS, bytes.fromhex(data))


def test_a_fault_points_at_its_entry() -> None:
    with pytest.raises(MalformedError) as caught:
        read(PARAMETERS, bytes.fromhex("02 0500 0500"))
    assert (caught.value.field, caught.value.offset) == ("f", 3)
    with pytest.raises(MalformedError) as caught:
        read(PARAMETERS, bytes.fromhex("4041"))
    assert caught.value.offset == 0


def test_limits_are_reachable_and_exact() -> None:
    most = Parameters(tuple((identifier, b"") for identifier in range(MAX_PARAMETERS)))
    assert read(PARAMETERS, write(PARAMETERS, most))[0] == most
    longest = Parameters(((1, bytes(MAX_PARAMETER_BYTES)),))
    assert read(PARAMETERS, write(PARAMETERS, longest))[0] == longest
    with pytest.raises(EncodeError, match="65 parameters are over the limit of 64"):
        write(PARAMETERS, most.with_bytes(99, b""))
    with pytest.raises(EncodeError, match="4097 bytes are over the limit"):
        write(PARAMETERS, Parameters(((1, bytes(MAX_PARAMETER_BYTES + 1)),)))


def test_a_place_may_allow_fewer() -> None:
    codec = ParametersCodec(1)
    with pytest.raises(MalformedError, match="count 2 is over the limit of 1"):
        codec.read(Reader(bytes.fromhex("02 0100 0200")), "parameters")
    assert codec.read(Reader(bytes.fromhex("01 0100")), "p") == Parameters(((1, b""),))


def test_entries_must_ascend_when_made_too() -> None:
    with pytest.raises(EncodeError, match="0x1 after 0x2"):
        Parameters(((2, b""), (1, b"")))
    with pytest.raises(EncodeError, match="0x2 after 0x2"):
        Parameters(((2, b""), (2, b"")))


def test_looking_up() -> None:
    value = Parameters(((2, b"\x07"), (5, b"")))
    assert value.get(2) == b"\x07"
    assert value.get(5) == b""
    assert value.get(3) is None
    assert 5 in value
    assert 3 not in value
    assert list(value) == [(2, b"\x07"), (5, b"")]
    assert len(value) == 2


@given(varints())
def test_numbers_fill_their_value(number: int) -> None:
    assert NO_PARAMETERS.with_number(4, number).number(4) == number


def test_an_absent_number_is_none() -> None:
    assert NO_PARAMETERS.number(4) is None


@pytest.mark.parametrize("value", ["", "40", "0000", "400000"])
def test_a_value_that_is_not_one_number(value: str) -> None:
    with pytest.raises(MalformedError, match="parameter 0x4: not one varint"):
        Parameters(((4, bytes.fromhex(value)),)).number(4)


def test_replacing_keeps_the_order() -> None:
    value = Parameters(((2, b"a"), (5, b"b")))
    assert value.with_bytes(2, b"z").entries == ((2, b"z"), (5, b"b"))
    assert value.with_bytes(3, b"n").entries == ((2, b"a"), (3, b"n"), (5, b"b"))
    assert value.entries == ((2, b"a"), (5, b"b"))


def test_odd_ones_are_carried_on_and_even_ones_stay() -> None:
    value = Parameters(((1, b"a"), (2, b"b"), (4, b"c"), (0x3F01, b"d")))
    assert value.carried().entries == ((1, b"a"), (0x3F01, b"d"))
    ends = Parameters(((1, b"a"),))
    assert ends.carried() is ends
