"""Subscriber node sets and data headers: IDs, messages, vectors, and what a Via changes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import testkit.laps2  # noqa: F401 - registers strategies
from laps_wire.buffer import Reader
from laps_wire.errors import EncodeError, IncompleteError, MalformedError, RemoteError, StateError
from laps_wire.fields import Layout
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import UnknownKindError
from laps_wire.peering.laps2.codepoints import DataKind, PayloadFormat
from laps_wire.peering.laps2.fields import NO_PARAMETERS, Parameters
from laps_wire.peering.laps2.forwarding import (
    FIRST_SNS_ID,
    FLAG_OVERLAP,
    MAX_SNS_ID,
    NO_SNS_ID,
    SNS_ADVERTISE,
    SNS_ID_OFFSET,
    SNS_REFUSED,
    SNS_UPDATE,
    SNS_WITHDRAW,
    DataHeader,
    SnsAdvertise,
    SnsRefused,
    SnsUpdate,
    SnsWithdraw,
    decode_data_header,
    encode_data_header,
    encode_extensions,
    is_later,
    next_free,
    read_data_header,
    rewrite_sns_id,
    scope_parameters,
    sns_id_at,
    split,
    successor,
    with_sns_id,
)
from testkit.fields import check_codec_bytes, check_codec_values, read, write
from testkit.laps2 import data_headers, named, parameters, plain
from testkit.properties import check_any_bytes, check_bounded, check_prefixes, check_round_trip
from testkit.strategies import values_of

A, B, C = NodeId(1), NodeId(2), NodeId(3)
BY_HAND: dict[str, tuple[Layout[Any], Any, str]] = {
    "advertise": (
        SNS_ADVERTISE,
        SnsAdvertise(0xFFFFFFFF, 64, 16, (A, B)),
        "ffffffff 4040 10 02 0000000000000001 0000000000000002 00",
    ),
    "advertise with a class": (
        SNS_ADVERTISE,
        SnsAdvertise(1, 1, 0, (A,), scope_parameters("gold")),
        "00000001 01 00 01 0000000000000001 01 07 04 676f6c64",
    ),
    "advertise nothing": (SNS_ADVERTISE, SnsAdvertise(1, 1, 0, ()), "00000001 01 00 00 00"),
    "update": (
        SNS_UPDATE,
        SnsUpdate(7, 2, add=(C,), remove=(A, B)),
        "00000007 02 01 0000000000000003 02 0000000000000001 0000000000000002 00",
    ),
    "withdraw": (SNS_WITHDRAW, SnsWithdraw((1, 2)), "02 00000001 00000002 00"),
    "refused": (SNS_REFUSED, SnsRefused(7, 2, 1, (C,)), "00000007 02 01 01 0000000000000003 00"),
}
TABLES = {"a": SNS_ADVERTISE, "u": SNS_UPDATE, "w": SNS_WITHDRAW, "r": SNS_REFUSED}


@pytest.mark.parametrize("layout", TABLES.values(), ids=TABLES)
@given(data=st.data())
def test_identity_and_prefixes(layout: Layout[Any], data: st.DataObject) -> None:
    check_codec_values(layout, data.draw(values_of(layout)))


@pytest.mark.parametrize("layout", TABLES.values(), ids=TABLES)
@given(data=st.binary(min_size=1, max_size=120))
def test_any_bytes(layout: Layout[Any], data: bytes) -> None:
    check_codec_bytes(layout, data)


@pytest.mark.parametrize(("layout", "value", "data"), BY_HAND.values(), ids=BY_HAND)
def test_bytes_by_hand(layout: Layout[Any], value: Any, data: str) -> None:
    assert write(layout, value) == bytes.fromhex(data)
    assert read(layout, bytes.fromhex(data))[0] == value


@pytest.mark.parametrize("layout", [SNS_ADVERTISE, SNS_UPDATE, SNS_REFUSED])
def test_no_set_has_the_id_zero(layout: Layout[Any]) -> None:
    with pytest.raises(MalformedError, match=r"0 is outside 1..4294967295"):
        read(layout, bytes(20))


def test_zero_is_not_withdrawn_either() -> None:
    with pytest.raises(MalformedError, match=r"0 is outside 1..4294967295"):
        read(SNS_WITHDRAW, bytes.fromhex("01 00000000 00"))
    with pytest.raises(EncodeError, match="0 is outside"):
        write(SNS_WITHDRAW, SnsWithdraw((0,)))


def test_a_chain_of_sets_is_at_most_16_deep() -> None:
    with pytest.raises(EncodeError, match=r"17 is outside 0..16"):
        write(SNS_ADVERTISE, SnsAdvertise(1, 1, 17, ()))


def test_a_target_is_added_or_removed() -> None:
    with pytest.raises(EncodeError, match="both added and removed"):
        SnsUpdate(1, 2, add=(A, B), remove=(B,))
    assert SnsUpdate(1, 2, add=(A,), remove=(B,)).remove == (B,)


@pytest.mark.parametrize("scope", ["", "gold", "\u00e4" * 32, "g" * 64])
def test_a_class_of_service_is_a_parameter(scope: str) -> None:
    made = SnsAdvertise(1, 1, 0, (A,), scope_parameters(scope))
    assert read(SNS_ADVERTISE, write(SNS_ADVERTISE, made))[0].scope == scope
    assert (made.parameters == NO_PARAMETERS) is (not scope)


@pytest.mark.parametrize("value", [b"", b"g" * 65, b"\xff", "\u00e4".encode()[:1]])
def test_a_class_that_is_none_is_ignored(value: bytes) -> None:
    message = SnsAdvertise(1, 1, 0, (A,), Parameters(((7, value),)))
    assert read(SNS_ADVERTISE, write(SNS_ADVERTISE, message))[0].scope == ""


def test_a_class_that_is_too_long_is_not_written() -> None:
    with pytest.raises(EncodeError, match="65 bytes are over the limit of 64"):
        scope_parameters("g" * 65)


# IDs of sets

HALF = (2**32 - 2) // 2
ids = st.integers(1, MAX_SNS_ID) | st.sampled_from([1, 2, HALF, HALF + 1, HALF + 2, MAX_SNS_ID])


def test_the_numbers_of_the_specification() -> None:
    assert (NO_SNS_ID, FIRST_SNS_ID, MAX_SNS_ID) == (0, 1, 2**32 - 1)


@pytest.mark.parametrize(
    ("sns_id", "after"),
    [(0, 1), (1, 2), (2**31, 2**31 + 1), (2**32 - 2, 2**32 - 1), (2**32 - 1, 1)],
)
def test_successor(sns_id: int, after: int) -> None:
    assert successor(sns_id) == after


@pytest.mark.parametrize("sns_id", [-1, 2**32])
def test_what_has_no_successor(sns_id: int) -> None:
    with pytest.raises(EncodeError, match="outside"):
        successor(sns_id)


@pytest.mark.parametrize(
    ("sns_id", "than", "later"),
    [
        (2, 1, True),
        (1, 2, False),
        (5, 5, False),
        (1, MAX_SNS_ID, True),  # over the end
        (MAX_SNS_ID, 1, False),
        (1 + HALF, 1, True),  # as far ahead as it gets
        (2 + HALF, 1, False),  # nearer the other way round
        (HALF, MAX_SNS_ID, True),
        (HALF + 1, MAX_SNS_ID, False),
        (1, 0, True),
        (0, 1, False),
        (0, 0, False),
    ],
)
def test_later(sns_id: int, than: int, later: bool) -> None:
    assert is_later(sns_id, than) is later


@given(ids, ids)
def test_of_two_ids_exactly_one_is_later(one: int, other: int) -> None:
    if one == other:
        assert not is_later(one, other)
    else:
        assert is_later(one, other) != is_later(other, one)


@given(ids)
def test_a_successor_is_later_and_never_zero(sns_id: int) -> None:
    assert successor(sns_id) != 0
    assert is_later(successor(sns_id), sns_id)


@given(ids, st.integers(1, HALF))
def test_any_skip_forward_up_to_half_the_circle_is_later(sns_id: int, skip: int) -> None:
    ahead = (sns_id - 1 + skip) % MAX_SNS_ID + 1
    assert is_later(ahead, sns_id)
    assert not is_later(sns_id, ahead)


def test_living_ids_are_skipped_after_a_wrap() -> None:
    assert next_free(0, ()) == 1
    assert next_free(MAX_SNS_ID - 1, {MAX_SNS_ID, 1, 2, 4}) == 3


def test_giving_up_says_so() -> None:
    with pytest.raises(StateError, match="no free SNS id within 3 after 1"):
        next_free(1, {2, 3, 4}, limit=3)
    assert next_free(1, {2, 3}, limit=3) == 4


# The data header

HEADER = DataHeader(DataKind.STREAM, 1, 2, 3)


def decode(data: bytes) -> tuple[DataHeader, int]:
    header = decode_data_header(data)
    return header, header.size


def slow(data: bytes) -> tuple[DataHeader, int]:
    reader = Reader(data, partial=True)
    return read_data_header(reader), reader.pos


@given(data_headers())
def test_identity_and_prefixes_of_data(header: DataHeader) -> None:
    for reads in (decode, slow):
        check_round_trip(encode_data_header, reads, header, suffix=b"payload")
        check_prefixes(encode_data_header, reads, header)


@given(st.binary(min_size=1, max_size=300))
def test_any_bytes_of_data(data: bytes) -> None:
    for reads in (decode, slow):
        check_any_bytes(reads, data)
        check_bounded(reads, data)


@given(
    st.binary(min_size=26, max_size=60), st.integers(24, 26), st.sampled_from([0x10, 0x2F, 0x30])
)
def test_both_readers_agree(data: bytes, size: int, kind: int) -> None:
    data = bytes([size, kind]) + data
    try:
        fast: object = decode(data)
    except RemoteError as error:
        fast = str(error)
    try:
        careful: object = slow(data)
    except RemoteError as error:
        careful = str(error)
    assert fast == careful


@pytest.mark.parametrize("vector", named("data_headers"))
def test_vectors_both_ways(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    for reads in (decode, slow):
        header, used = reads(data)
        assert used == len(data) == data[0]
        assert plain(header) == vector["fields"]
        assert encode_data_header(header) == data


@pytest.mark.parametrize("vector", named("data_errors"))
def test_what_must_be_refused(vector: dict[str, Any]) -> None:
    for reads in (decode, slow):
        with pytest.raises(RemoteError) as caught:
            reads(bytes.fromhex(vector["hex"]))
        assert caught.value.code == vector["code"]
        assert vector["words"] in str(caught.value)


def test_a_position_inside_a_buffer() -> None:
    data = b"xyz" + encode_data_header(HEADER._replace(extensions=b"\x01\x00")) + b"payload"
    assert decode_data_header(data, 3) == HEADER._replace(extensions=b"\x01\x00")
    assert sns_id_at(data, 3) == 1
    with pytest.raises(IncompleteError) as short:
        decode_data_header(b"xyz" + encode_data_header(HEADER)[:-1], 3)
    assert short.value.needed == 1
    with pytest.raises(MalformedError) as caught:
        decode_data_header(b"xyz\x17", 3)
    assert caught.value.offset == 3


def test_a_bad_beginning_is_seen_at_once() -> None:
    with pytest.raises(MalformedError):
        decode_data_header(b"\x17")
    with pytest.raises(UnknownKindError) as unknown:
        decode_data_header(b"\x18\xf1")
    assert unknown.value.kind == 15
    with pytest.raises(IncompleteError) as caught:
        decode_data_header(b"\x18\x10")
    assert caught.value.needed == 22
    with pytest.raises(IncompleteError) as caught:
        decode_data_header(b"\xff")
    assert caught.value.needed == 254


@pytest.mark.parametrize(
    "changes",
    [
        {"sns_id": 2**32},
        {"sns_id": -1},
        {"track": 2**64},
        {"context": 2**32},
        {"priority": 256},
        {"ttl_ms": 2**32},
        {"payload_format": 256},
        {"flags": 16},
        {"flags": -1},
        {"extensions": bytes(232)},
    ],
)
def test_what_does_not_fit(changes: dict[str, Any]) -> None:
    with pytest.raises(EncodeError):
        encode_data_header(HEADER._replace(**changes))


def test_extensions_that_are_too_long_are_named() -> None:
    with pytest.raises(EncodeError, match="extensions of 232 bytes do not fit"):
        encode_data_header(HEADER._replace(extensions=bytes(232)))


def test_the_longest_header() -> None:
    longest = HEADER._replace(extensions=b"\x01\x40\xe4" + bytes(228))
    data = encode_data_header(longest)
    assert (len(data), data[0]) == (255, 255)
    assert decode_data_header(data) == longest
    assert longest.parameters == Parameters(((1, bytes(228)),))


def test_defaults() -> None:
    assert HEADER.priority == 128
    assert HEADER.payload_format is PayloadFormat.OPAQUE
    assert (HEADER.ttl_ms, HEADER.flags, HEADER.size) == (0, 0, 24)


# Extensions


@given(parameters())
def test_extensions_both_ways(value: Parameters) -> None:
    header = HEADER._replace(extensions=encode_extensions(value))
    assert decode_data_header(encode_data_header(header)).parameters == value


def test_no_extensions_cost_nothing() -> None:
    assert encode_extensions(NO_PARAMETERS) == b""
    assert HEADER.parameters is NO_PARAMETERS


@pytest.mark.parametrize("extensions", ["05 00 05 00", "05", "05 02 00", "03 00 05 02 00"])
def test_extensions_that_are_malformed_are_absent(extensions: str) -> None:
    # A relay far away wrote them, and those in between did not look: nobody closes a session.
    header = decode_data_header(
        encode_data_header(HEADER._replace(extensions=bytes.fromhex(extensions)))
    )
    assert header.parameters == NO_PARAMETERS
    assert header.extensions == bytes.fromhex(extensions)


def test_extensions_that_do_not_fit() -> None:
    assert len(encode_extensions(Parameters(((1, bytes(228)),)))) == 231
    with pytest.raises(EncodeError, match="232 bytes do not fit a data header"):
        encode_extensions(Parameters(((1, bytes(229)),)))


# A hop


@given(data_headers(), st.integers(0, 2**32 - 1), st.binary(max_size=40))
def test_a_via_changes_the_sns_id_and_nothing_else(
    header: DataHeader, sns_id: int, payload: bytes
) -> None:
    data = bytearray(encode_data_header(header) + payload)
    assert sns_id_at(data) == header.sns_id
    rewrite_sns_id(data, sns_id)
    assert sns_id_at(data) == sns_id
    assert decode_data_header(data) == header._replace(sns_id=sns_id)
    assert data[header.size :] == payload
    assert with_sns_id(encode_data_header(header), sns_id) == data[: header.size]


def test_rewriting_is_in_place_and_writes_four_bytes() -> None:
    data = bytearray(b"\xaa" * 40)
    rewrite_sns_id(memoryview(data), 0x01020304, 8)
    assert data[12:16] == b"\x01\x02\x03\x04"
    assert data[:12] + data[16:] == b"\xaa" * 36
    assert SNS_ID_OFFSET == 4


def test_a_copy_for_another_egress_leaves_the_first_alone() -> None:
    data = encode_data_header(HEADER)
    assert sns_id_at(with_sns_id(data, 9)) == 9
    assert sns_id_at(data) == 1


@pytest.mark.parametrize("sns_id", [-1, 2**32])
def test_an_id_that_does_not_fit(sns_id: int) -> None:
    data = bytearray(encode_data_header(HEADER))
    with pytest.raises(EncodeError, match=r"outside 0..4294967295"):
        rewrite_sns_id(data, sns_id)
    assert sns_id_at(data) == 1


def test_a_header_that_is_not_here_yet() -> None:
    with pytest.raises(IncompleteError) as caught:
        sns_id_at(bytes(7))
    assert caught.value.needed == 1
    with pytest.raises(IncompleteError) as caught:
        rewrite_sns_id(bytearray(9), 1, 4)
    assert caught.value.needed == 3
    assert sns_id_at(bytes(8)) == 0
    rewrite_sns_id(bytearray(8), 1)


# Datagrams


def test_a_datagram_is_split_without_a_copy() -> None:
    header = HEADER._replace(kind=DataKind.DATAGRAM, flags=FLAG_OVERLAP)
    datagram = encode_data_header(header) + b"object"
    found, payload = split(datagram)
    assert found == header
    assert isinstance(payload, memoryview)
    assert payload.obj is datagram
    assert bytes(payload) == b"object"
    assert len(split(encode_data_header(header))[1]) == 0


def test_datagrams_that_are_malformed() -> None:
    with pytest.raises(MalformedError, match="truncated: 1 more"):
        split(encode_data_header(HEADER._replace(kind=DataKind.DATAGRAM))[:-1])
    with pytest.raises(MalformedError, match="truncated: 24 more"):
        split(b"")
    with pytest.raises(MalformedError, match="for a stream"):
        split(encode_data_header(HEADER))
