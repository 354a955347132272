"""Data headers: fixed places, the vectors, and a hop that touches four bytes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.buffer import Reader
from laps_wire.errors import EncodeError, IncompleteError, MalformedError, RemoteError
from laps_wire.peering.errors import UnknownKindError
from laps_wire.peering.laps2.codepoints import DataKind, PayloadFormat
from laps_wire.peering.laps2.data import (
    FLAG_OVERLAP,
    SNS_ID_OFFSET,
    DataHeader,
    decode_data_header,
    encode_data_header,
    encode_extensions,
    read_data_header,
    rewrite_sns_id,
    sns_id_at,
    split,
    with_sns_id,
)
from laps_wire.peering.laps2.parameters import NO_PARAMETERS, Parameters
from testkit.laps2 import data_headers, named, parameters, plain
from testkit.properties import check_any_bytes, check_bounded, check_prefixes, check_round_trip

HEADER = DataHeader(DataKind.STREAM, 1, 2, 3)


def decode(data: bytes) -> tuple[DataHeader, int]:
    header = decode_data_header(data)
    return header, header.size


def slow(data: bytes) -> tuple[DataHeader, int]:
    reader = Reader(data, partial=True)
    return read_data_header(reader), reader.pos


@given(data_headers())
def test_identity_and_prefixes(header: DataHeader) -> None:
    for read in (decode, slow):
        check_round_trip(encode_data_header, read, header, suffix=b"payload")
        check_prefixes(encode_data_header, read, header)


@given(st.binary(min_size=1, max_size=300))
def test_any_bytes(data: bytes) -> None:
    for read in (decode, slow):
        check_any_bytes(read, data)
        check_bounded(read, data)


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
    for read in (decode, slow):
        header, used = read(data)
        assert used == len(data) == data[0]
        assert plain(header) == vector["fields"]
        assert encode_data_header(header) == data


@pytest.mark.parametrize("vector", named("data_errors"))
def test_what_must_be_refused(vector: dict[str, Any]) -> None:
    for read in (decode, slow):
        with pytest.raises(RemoteError) as caught:
            read(bytes.fromhex(vector["hex"]))
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
