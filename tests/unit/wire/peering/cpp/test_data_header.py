"""Data headers of the C++ relay: its bytes, both ways of reading them, and a Via's rewrite."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_wire.buffer import Reader
from laps_wire.errors import EncodeError, IncompleteError, MalformedError
from laps_wire.hashing import track_hashes
from laps_wire.peering.cpp.data_header import (
    DATAGRAM_HEADER_BYTES,
    SNS_ID_OFFSET,
    STREAM_HEADER_BYTES,
    DatagramHeader,
    StreamHeader,
    decode_datagram_header,
    decode_stream_header,
    encode_datagram_header,
    encode_stream_header,
    read_datagram_header,
    read_stream_header,
    rewrite_sns_id,
    sns_id_at,
    with_sns_id,
)
from testkit.laps_cpp import coded, live
from testkit.properties import check_any_bytes, check_bounded, check_prefixes, check_round_trip

U8S, U32S, U64S = (st.integers(0, 2**bits - 1) for bits in (8, 32, 64))
EXTRA = st.binary(max_size=236)
STREAMS = st.builds(StreamHeader, U32S, U64S, U8S, U32S, EXTRA)
DATAGRAMS = st.builds(DatagramHeader, U32S, U64S, EXTRA)


# Bytes of others


def test_the_start_of_a_live_stream() -> None:
    data = live("stream")
    header, start = decode_stream_header(data)
    clock = track_hashes([b"demo/room1"], b"clk").fullname
    assert (header, start) == (StreamHeader(2, clock, 0x80, 5000), 19)
    assert encode_stream_header(header) == data[:19]
    # What follows is MoQT: subgroup type 0x15, then the same hash as an 8-byte varint.
    payload = Reader(data, pos=start)
    assert payload.u8("type") == 0x15
    assert payload.varint("track_alias") == clock


def test_the_relays_own_code_writes_the_same() -> None:
    stream = StreamHeader(0x1234, 0xABCDEF, 100, 5000)
    assert encode_stream_header(stream) == coded("data_stream")
    assert decode_stream_header(coded("data_stream")) == (stream, 19)
    datagram = DatagramHeader(0x1234, 0xABCDEF)
    assert encode_datagram_header(datagram) == coded("data_datagram")
    assert decode_datagram_header(coded("data_datagram")) == (datagram, 14)


def test_sizes() -> None:
    assert (STREAM_HEADER_BYTES, DATAGRAM_HEADER_BYTES, SNS_ID_OFFSET) == (19, 14, 2)


# Reading


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"\x12", "header_len: 18, but NEW_STREAM has 19 bytes (at byte 0)"),
        (b"\x00", "header_len: 0, but NEW_STREAM has 19 bytes"),
        (b"\x13\x00", "type: 0 where 2 (NEW_STREAM) belongs (at byte 1)"),
        (b"\x13\x01", "type: 1 where 2 (NEW_STREAM) belongs"),
    ],
)
def test_starts_of_streams_that_cannot_be(data: bytes, complaint: str) -> None:
    with pytest.raises(MalformedError) as caught:
        decode_stream_header(data)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "data header: truncated: 0 of 14 bytes (at byte 0)"),
        (b"\x0e\x00" + bytes(11), "data header: truncated: 13 of 14 bytes"),
        (b"\x0d\x00" + bytes(12), "header_len: 13, but DATAGRAM has 14 bytes"),
        (b"\x0e\x02" + bytes(12), "type: 2 where 0 (DATAGRAM) belongs"),
        (b"\x0f\x00" + bytes(12), "extra: truncated: 1 more byte(s) needed"),
    ],
)
def test_datagrams_that_cannot_be(data: bytes, complaint: str) -> None:
    with pytest.raises(MalformedError) as caught:
        decode_datagram_header(data)
    assert complaint in str(caught.value)


def test_a_longer_header_is_stepped_over_and_kept() -> None:
    data = b"\x15\x02" + bytes(17) + b"\xaa\xbb" + b"payload"
    header, start = decode_stream_header(data)
    assert (header.extra, data[start:]) == (b"\xaa\xbb", b"payload")
    datagram, start = decode_datagram_header(b"\x0f\x00" + bytes(12) + b"\xaapayload")
    assert (datagram.extra, start) == (b"\xaa", 15)


def test_a_header_anywhere_in_a_reader() -> None:
    reader = Reader(b"abc" + coded("data_stream") + b"d", pos=3)
    assert read_stream_header(reader).ttl_ms == 5000
    assert reader.pos == 22


@given(STREAMS)
def test_stream_headers(header: StreamHeader) -> None:
    check_round_trip(encode_stream_header, decode_stream_header, header, suffix=b"payload")
    check_prefixes(encode_stream_header, decode_stream_header, header)
    # The fast way and the one that a trace takes see the same.
    reader = Reader(encode_stream_header(header) + b"payload")
    assert read_stream_header(reader) == header
    assert reader.remaining == len(b"payload")


@given(DATAGRAMS, st.binary(max_size=5))
def test_datagram_headers(header: DatagramHeader, payload: bytes) -> None:
    check_round_trip(encode_datagram_header, decode_datagram_header, header, suffix=payload)
    reader = Reader(encode_datagram_header(header) + payload)
    assert read_datagram_header(reader) == header
    assert reader.remaining == len(payload)


@given(st.binary(max_size=40) | st.binary(min_size=18, max_size=40).map(b"\x13\x02".__add__))
def test_any_bytes(data: bytes) -> None:
    check_any_bytes(decode_stream_header, data)
    check_any_bytes(decode_datagram_header, data)
    check_bounded(decode_stream_header, data)


# Writing


@pytest.mark.parametrize(
    "header",
    [
        StreamHeader(1 << 32, 0, 0, 0),
        StreamHeader(-1, 0, 0, 0),
        StreamHeader(0, 1 << 64, 0, 0),
        StreamHeader(0, 0, 256, 0),
        StreamHeader(0, 0, 0, 1 << 32),
        StreamHeader(0, 0, 0, 0, bytes(237)),
    ],
)
def test_a_stream_header_that_does_not_fit_is_refused(header: StreamHeader) -> None:
    with pytest.raises(EncodeError, match="data header NEW_STREAM"):
        encode_stream_header(header)


@pytest.mark.parametrize(
    "header", [DatagramHeader(1 << 32, 0), DatagramHeader(0, -1), DatagramHeader(0, 0, bytes(242))]
)
def test_a_datagram_header_that_does_not_fit_is_refused(header: DatagramHeader) -> None:
    with pytest.raises(EncodeError, match="data header DATAGRAM"):
        encode_datagram_header(header)


# A Via


@given(STREAMS, U32S, st.binary(max_size=20))
def test_a_via_changes_four_bytes_of_a_stream(
    header: StreamHeader, sns_id: int, payload: bytes
) -> None:
    data = encode_stream_header(header) + payload
    assert sns_id_at(data) == header.sns_id
    out = with_sns_id(data, sns_id)
    assert (out[:2], out[2:6], out[6:]) == (data[:2], sns_id.to_bytes(4, "big"), data[6:])
    assert decode_stream_header(out)[0].sns_id == sns_id == sns_id_at(out)


@given(DATAGRAMS, U32S)
def test_a_via_changes_four_bytes_of_a_datagram_in_place(
    header: DatagramHeader, sns_id: int
) -> None:
    buffer = bytearray(encode_datagram_header(header) + b"object")
    rewrite_sns_id(memoryview(buffer), sns_id)
    changed = DatagramHeader(sns_id, header.track_hash, header.extra)
    assert bytes(buffer) == encode_datagram_header(changed) + b"object"


def test_the_original_is_left_alone_by_a_copy() -> None:
    data = bytearray(coded("data_stream"))
    assert with_sns_id(data, 7) != data
    assert data == coded("data_stream")


@pytest.mark.parametrize("sns_id", [-1, 1 << 32])
def test_an_sns_id_that_does_not_fit_is_refused(sns_id: int) -> None:
    buffer = bytearray(coded("data_stream"))
    with pytest.raises(EncodeError, match=f"SNS ID {sns_id} does not fit 32 bits"):
        rewrite_sns_id(buffer, sns_id)
    assert buffer == coded("data_stream")


@pytest.mark.parametrize("sns_id", [0, 0xFFFF_FFFF])
def test_the_least_and_the_largest_sns_id(sns_id: int) -> None:
    assert sns_id_at(with_sns_id(coded("data_datagram"), sns_id)) == sns_id


def test_too_few_bytes_for_an_sns_id() -> None:
    with pytest.raises(IncompleteError) as caught:
        sns_id_at(b"\x13\x02\x00")
    assert caught.value.needed == 3
    with pytest.raises(EncodeError, match="no place for an SNS ID in 5 bytes"):
        rewrite_sns_id(bytearray(5), 1)
    assert sns_id_at(bytes(5) + b"\x09") == 9
