"""The C++ relay's data headers: read, written again, and rewritten as a Via does."""

from __future__ import annotations

from laps_wire.errors import IncompleteError, RemoteError
from laps_wire.peering.cpp import (
    DatagramHeader,
    StreamHeader,
    decode_datagram_header,
    decode_stream_header,
    encode_datagram_header,
    encode_stream_header,
    sns_id_at,
    with_sns_id,
)


def one_input(data: bytes) -> None:
    _stream(data)
    _datagram(data)


def _stream(data: bytes) -> None:
    try:
        header, start = decode_stream_header(data)
    except (IncompleteError, RemoteError):
        return
    assert encode_stream_header(header) == data[:start]
    moved = with_sns_id(data, header.sns_id ^ 1)
    assert moved[6:] == data[6:]
    assert decode_stream_header(moved)[0].sns_id == header.sns_id ^ 1 == sns_id_at(moved)


def _datagram(data: bytes) -> None:
    try:
        header, start = decode_datagram_header(data)
    except RemoteError:
        return
    assert encode_datagram_header(header) == data[:start]
    assert sns_id_at(data) == header.sns_id


def seeds() -> list[bytes]:
    return [
        encode_stream_header(StreamHeader(2, 0x0656_3237_CFE9_CBB0, 128, 5000)) + b"\x15",
        encode_stream_header(StreamHeader(2, 1, 0, 0, b"later")),
        encode_datagram_header(DatagramHeader(0x1234, 0xABCDEF)) + b"object",
        encode_datagram_header(DatagramHeader(1, 2, b"later")),
    ]
