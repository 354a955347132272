"""Shared structures and codecs of laps-2, and parameter lists."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import testkit.laps2  # noqa: F401 - registers strategies
from laps_wire.buffer import Reader
from laps_wire.errors import EncodeError, MalformedError
from laps_wire.fields import U16, VARINT, FieldCodec
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2.codepoints import (
    MAX_PARAMETER_BYTES,
    MAX_PARAMETERS,
    MAX_TARGETS,
    Bases,
)
from laps_wire.peering.laps2.fields import (
    CONTACTS,
    ELEMENT_HASHES,
    FEATURES,
    LABELS,
    NO_PARAMETERS,
    NODE_SET,
    PARAMETERS,
    REASON,
    SCHEMES,
    STAMP,
    Ascending,
    Bits,
    Label,
    Maybe,
    Parameters,
    ParametersCodec,
    Stamp,
)
from testkit.fields import check_codec_bytes, check_codec_values, read, write
from testkit.laps2 import parameters
from testkit.strategies import values_of, varints

BASES = Bits(Bases, 0xF)
CODECS: dict[str, FieldCodec[Any]] = {
    "maybe": Maybe(U16),
    "ascending": Ascending(VARINT, 5),
    "at least one": SCHEMES,
    "bits": BASES,
    "stamp": STAMP,
    "labels": LABELS,
    "contacts": CONTACTS,
    "reason": REASON,
    "node set": NODE_SET,
    "features": FEATURES,
    "element hashes": ELEMENT_HASHES,
}


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
@given(data=st.data())
def test_identity_and_prefixes(codec: FieldCodec[Any], data: st.DataObject) -> None:
    check_codec_values(codec, data.draw(values_of(codec)))


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
@given(data=st.binary(min_size=1, max_size=60))
def test_any_bytes(codec: FieldCodec[Any], data: bytes) -> None:
    check_codec_bytes(codec, data)


@pytest.mark.parametrize(
    ("codec", "value", "data"),
    [
        (Maybe(U16), None, "00"),
        (Maybe(U16), 7, "01 0007"),
        (Ascending(VARINT, 5), (), "00"),
        (Ascending(VARINT, 5), (0, 64), "02 00 4040"),
        (NODE_SET, (NodeId(1), NodeId(2**64 - 1)), "02 0000000000000001 ffffffffffffffff"),
        (BASES, Bases.NODES | Bases.SNS, "09"),
        (STAMP, Stamp(5, 64), "05 4040"),
        (LABELS, (Label("a", "bc"),), "01 0161 026263"),
        (CONTACTS, ("h:1",), "01 03683a31"),
        (ELEMENT_HASHES, (1,), "01 0000000000000001"),
    ],
)
def test_bytes_by_hand(codec: FieldCodec[Any], value: Any, data: str) -> None:
    assert write(codec, value) == bytes.fromhex(data)
    decoded, _ = read(codec, bytes.fromhex(data))
    assert decoded == value
    assert type(decoded) is type(value)


@pytest.mark.parametrize(
    ("codec", "data", "words", "offset"),
    [
        (Maybe(U16), "02", "2 is neither 0 nor 1", 0),
        (Ascending(VARINT, 2), "03", "count 3 is outside 0..2", 0),
        (SCHEMES, "00", "count 0 is outside 1..16", 0),
        (Ascending(VARINT, 2), "02 05 05", "5 after 5: must strictly ascend", 2),
        (Ascending(VARINT, 2), "02 05 04", "4 after 5: must strictly ascend", 2),
        (BASES, "00", "0x0 is not in 1..0xf", 0),
        (BASES, "10", "0x10 is not in 1..0xf", 0),
        (ELEMENT_HASHES, "21", "count 33 is over the limit of 32", 0),
        (CONTACTS, "09", "count 9 is over the limit of 8", 0),
        (CONTACTS, "01 4100", "length 256 is over the limit of 255", 1),
        (LABELS, "21", "count 33 is over the limit of 32", 0),
        (LABELS, "01 4041", "length 65 is over the limit of 64", 1),
        (NODE_SET, "5001", "count 4097 is outside 0..4096", 0),
    ],
)
def test_what_a_reader_refuses(codec: FieldCodec[Any], data: str, words: str, offset: int) -> None:
    with pytest.raises(MalformedError, match=words) as caught:
        read(codec, bytes.fromhex(data))
    assert caught.value.offset == offset


@pytest.mark.parametrize(
    ("codec", "value", "words"),
    [
        (Ascending(VARINT, 2), (1, 2, 3), "3 items are outside 0..2"),
        (SCHEMES, (), "0 items are outside 1..16"),
        (Ascending(VARINT, 3), (1, 1), r"f\[1\]: 1 after 1"),
        (Ascending(VARINT, 3), (2, 1), "1 after 2: must strictly ascend"),
        (BASES, Bases(0), "0x0 is not in 1..0xf"),
        (BASES, 0x10, "0x10 is not in 1..0xf"),
        (REASON, "x" * 1025, "1025 bytes are over the limit of 1024"),
    ],
)
def test_what_a_writer_refuses(codec: FieldCodec[Any], value: Any, words: str) -> None:
    with pytest.raises(EncodeError, match=words):
        write(codec, value)


def test_the_largest_set_fits() -> None:
    most = tuple(NodeId(number) for number in range(MAX_TARGETS))
    assert read(NODE_SET, write(NODE_SET, most))[0] == most


def test_members_come_back_as_node_ids() -> None:
    (member,), _ = read(NODE_SET, write(NODE_SET, (NodeId(7),)))
    assert isinstance(member, NodeId)


def test_a_restart_beats_every_sequence_of_the_life_before() -> None:
    assert Stamp(5, 2**61) < Stamp(6, 0) < Stamp(6, 1)


def test_words_for_people_never_end_a_session() -> None:
    assert read(REASON, b"\x02\xff\x41")[0] == "?A"
    assert read(REASON, "\x03\ufffd".encode())[0] == "\ufffd"  # legal text stays as it is


# Parameters


@given(parameters())
def test_identity_and_prefixes_of_parameters(value: Parameters) -> None:
    check_codec_values(PARAMETERS, value)


@given(st.binary(min_size=1, max_size=80))
def test_any_bytes_of_parameters(data: bytes) -> None:
    check_codec_bytes(PARAMETERS, data)


def test_bytes_by_hand_of_parameters() -> None:
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
def test_what_a_reader_refuses_of_parameters(data: str, words: str) -> None:
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
