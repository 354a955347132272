"""QuicR's field codecs: both ways, every prefix, any bytes, and what each refuses."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import testkit.quicr  # noqa: F401 - registers the strategies
from laps_wire.errors import EncodeError, MalformedError
from laps_wire.fields import VARINT, FieldCodec
from laps_wire.quicr.codepoints import MAX_REASON, Flags
from laps_wire.quicr.fields import (
    ACCEPT,
    BOOL,
    DATAGRAM_STREAM_ID,
    FLAGS,
    MASKED_NAME,
    NAME,
    NUMBER128,
    PREFIX,
    REASON,
    REASON_OR_END,
    TRUNCATED_NAME,
    Optional,
)
from laps_wire.quicr.shortname import ShortName
from testkit.fields import (
    check_codec_bytes,
    check_codec_values,
    check_whole_bytes,
    check_whole_values,
    read,
    write,
)
from testkit.strategies import values_of

#: Fields that say where they end.
SIZED: dict[str, FieldCodec[Any]] = {
    "Number128": NUMBER128,
    "prefix": PREFIX,
    "name": NAME,
    "truncated name": TRUNCATED_NAME,
    "masked name": MASKED_NAME,
    "bool": BOOL,
    "flags": FLAGS,
    "datagram stream id": DATAGRAM_STREAM_ID,
    "accept": ACCEPT,
    "reason": REASON,
}
#: Fields that the end of the message ends.
OPEN: dict[str, FieldCodec[Any]] = {"optional": Optional(VARINT), "reason or end": REASON_OR_END}

FULL = ShortName(0x00112233_44556677_8899AABB_CCDDEEFF)
BYTES = bytes.fromhex("00112233445566778899aabbccddeeff")


@pytest.mark.parametrize("codec", SIZED.values(), ids=SIZED)
@given(data=st.data())
def test_identity_and_prefixes(codec: FieldCodec[Any], data: st.DataObject) -> None:
    check_codec_values(codec, data.draw(values_of(codec)))


@pytest.mark.parametrize("codec", OPEN.values(), ids=OPEN)
@given(data=st.data())
def test_identity_of_fields_that_end_with_the_message(
    codec: FieldCodec[Any], data: st.DataObject
) -> None:
    check_whole_values(codec, data.draw(values_of(codec)))


@pytest.mark.parametrize("codec", SIZED.values(), ids=SIZED)
@given(data=st.binary(min_size=1, max_size=60))
def test_any_bytes(codec: FieldCodec[Any], data: bytes) -> None:
    check_codec_bytes(codec, data)


@pytest.mark.parametrize("codec", OPEN.values(), ids=OPEN)
@given(data=st.binary(min_size=1, max_size=60))
def test_any_bytes_of_fields_that_end_with_the_message(codec: FieldCodec[Any], data: bytes) -> None:
    check_whole_bytes(codec, data)


@pytest.mark.parametrize(
    ("codec", "value", "data"),
    [
        (NUMBER128, FULL, BYTES),
        (PREFIX, FULL, BYTES + b"\x80"),
        (PREFIX, FULL.prefix(12), bytes.fromhex("0010") + bytes(14) + b"\x0c"),
        (NAME, FULL, b"\x10" + BYTES),
        (MASKED_NAME, FULL.prefix(16), bytes.fromhex("100011") + bytes(14) + b"\x10"),
        (BOOL, True, b"\x01"),
        (BOOL, False, b"\x00"),
        (FLAGS, Flags(0xFF), b"\xff"),
        (DATAGRAM_STREAM_ID, 0x40, b"\x40\x40"),
        (ACCEPT, None, b"\x00"),
        (ACCEPT, 5, b"\x01\x05"),
        (REASON, "", b"\x00"),
        (REASON, "hé", b"\x03h\xc3\xa9"),
        (REASON_OR_END, "", b""),
        (Optional(VARINT), None, b""),
        (Optional(VARINT), 0, b"\x00"),
    ],
)
def test_bytes(codec: FieldCodec[Any], value: Any, data: bytes) -> None:
    assert write(codec, value) == data
    assert read(codec, data) == (value, len(data))


@pytest.mark.parametrize(
    ("codec", "data", "value"),
    [
        # bits behind the length are ignored
        (PREFIX, BYTES + b"\x0c", FULL.prefix(12)),
        (PREFIX, BYTES + b"\x00", ShortName(0, 0)),
        (MASKED_NAME, b"\x10" + BYTES + b"\x7f", FULL.prefix(127)),
        # truncated names; the mask stays inside
        (TRUNCATED_NAME, b"\x00", ShortName(0)),
        (TRUNCATED_NAME, b"\x02\x00\x11", ShortName(0x0011 << 112)),
        (MASKED_NAME, b"\x02\x00\x11\x10", FULL.prefix(16)),
        (MASKED_NAME, b"\x00\x00", ShortName(0, 0)),
        # an empty phrase is like none
        (REASON_OR_END, b"\x00", ""),
        # not UTF-8: made readable
        (REASON, b"\x02\xffa", "?a"),
    ],
)
def test_bytes_that_we_read_and_write_otherwise(
    codec: FieldCodec[Any], data: bytes, value: Any
) -> None:
    assert read(codec, data) == (value, len(data))
    assert read(codec, write(codec, value))[0] == value


@pytest.mark.parametrize(
    ("codec", "data", "words"),
    [
        (PREFIX, BYTES + b"\x81", r"f.length: 129 bits of a name that has 128 \(at byte 16\)"),
        (NAME, b"\x0f" + BYTES, r"f: 15 bytes; a short name has 16 \(at byte 0\)"),
        (NAME, b"\x11" + BYTES, "f: 17 bytes; a short name has 16"),
        (TRUNCATED_NAME, b"\x11", r"17 bytes; a short name has 0..16 \(at byte 0\)"),
        (MASKED_NAME, b"\x11", "17 bytes; a short name has 0..16"),
        (MASKED_NAME, b"\x02\x00\x11\x11", r"mask: 17 bits of a name that has 16 \(at byte 3\)"),
        (MASKED_NAME, b"\x10" + BYTES + b"\x81", "mask: 129 bits of a name that has 128"),
        (BOOL, b"\x02", r"f: 2 is neither 0 nor 1 \(at byte 0\)"),
        (DATAGRAM_STREAM_ID, b"\x3f", r"f: 63 marks PUBLISH and is no stream \(at byte 0\)"),
        (ACCEPT, b"\x02\x05", "use_datagram: 2 is neither 0 nor 1"),
        (ACCEPT, b"\x01\x3f", r"63 marks PUBLISH and is no stream \(at byte 1\)"),
        (REASON, b"\x44\x01", "length 1025 is over the limit of 1024"),
    ],
)
def test_what_is_refused_when_read(codec: FieldCodec[Any], data: bytes, words: str) -> None:
    with pytest.raises(MalformedError, match=words):
        read(codec, data)


@pytest.mark.parametrize(
    ("codec", "value", "words"),
    [
        (NUMBER128, FULL.prefix(127), "f: a full name belongs here, not 127 bits of one"),
        (NAME, FULL.prefix(0), "f: a full name belongs here, not 0 bits of one"),
        (DATAGRAM_STREAM_ID, 63, "f: 63 marks PUBLISH and is no stream"),
        (ACCEPT, 63, "63 marks PUBLISH"),
        (FLAGS, 256, "256 does not fit"),
        (REASON, "x" * (MAX_REASON + 1), "1025 bytes are over the limit of 1024"),
        (REASON, "\ud800", "not encodable as UTF-8"),
    ],
)
def test_what_is_refused_when_written(codec: FieldCodec[Any], value: Any, words: str) -> None:
    with pytest.raises(EncodeError, match=words):
        write(codec, value)


def test_a_phrase_of_bad_bytes_can_be_written_again() -> None:
    words, _ = read(REASON, b"\x44\x00" + b"\xff" * MAX_REASON)
    assert words == "?" * MAX_REASON
    assert read(REASON, write(REASON, words))[0] == words
