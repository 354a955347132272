"""One field or table by itself: its bytes, and the properties that each of them has.

A codec that says where it ends is read from the beginning of a stream (``read`` and the checks of
``codec``). One that goes on to the end of its message, or a whole message body, is read from
exactly its bytes (``read_whole`` and the checks of ``whole``). Everywhere the field is called
``f``, which is the name in the words of its errors.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeVar

from laps_wire.buffer import QUIC, IntegerCoding, Reader, Writer
from laps_wire.errors import IncompleteError
from laps_wire.fields import FieldCodec
from testkit.properties import check_any_bytes, check_bounded, check_prefixes, check_round_trip

T = TypeVar("T")

#: What may stand behind a field that says where it ends: nothing, or bytes that look like more.
SUFFIXES: Final = (b"", b"\x00", b"\x01", b"\xff")


def write(codec: FieldCodec[T], value: T, integers: IntegerCoding = QUIC) -> bytes:
    """Write ``value`` alone."""
    writer = Writer(integers=integers)
    codec.write(writer, value, "f")
    return writer.getvalue()


def read(codec: FieldCodec[T], data: bytes, integers: IntegerCoding = QUIC) -> tuple[T, int]:
    """Read a value from the beginning of a stream; also, how many bytes it took."""
    reader = Reader(data, integers=integers, partial=True)
    return codec.read(reader, "f"), reader.pos


def read_whole(codec: FieldCodec[T], data: bytes, integers: IntegerCoding = QUIC) -> T:
    """Read a value that fills ``data``, neither more nor less."""
    reader = Reader(data, integers=integers)
    value = codec.read(reader, "f")
    reader.expect_end("f")
    return value


def check_codec_values(
    codec: FieldCodec[Any],
    value: Any,
    integers: IntegerCoding = QUIC,
    *,
    suffixes: Iterable[bytes] = SUFFIXES,
) -> None:
    """What is written is read whatever follows it, and every strict prefix of it is partial."""

    def encode(message: Any) -> bytes:
        return write(codec, message, integers)

    def decode(data: bytes) -> tuple[Any, int]:
        return read(codec, data, integers)

    for suffix in suffixes:
        check_round_trip(encode, decode, value, suffix=suffix)
    check_prefixes(encode, decode, value)


def check_codec_bytes(codec: FieldCodec[Any], data: bytes, integers: IntegerCoding = QUIC) -> None:
    """Any bytes are a value, partial or the peer's fault, and cost no more than their size."""

    def decode(data: bytes) -> tuple[Any, int]:
        return read(codec, data, integers)

    check_any_bytes(decode, data)
    check_bounded(decode, data)


def check_whole_values(codec: FieldCodec[Any], value: Any, integers: IntegerCoding = QUIC) -> None:
    """What is written is what is read, to the last byte."""
    assert read_whole(codec, write(codec, value, integers), integers) == value


def check_whole_bytes(codec: FieldCodec[Any], data: bytes, integers: IntegerCoding = QUIC) -> None:
    """Any bytes are a value or the peer's fault, and cost no more than their size."""

    def decode(data: bytes) -> tuple[Any, int]:
        try:
            return read_whole(codec, data, integers), len(data)
        except IncompleteError:
            raise AssertionError("waits for more than the whole") from None

    check_any_bytes(decode, data)
    check_bounded(decode, data)
