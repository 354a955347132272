from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.quic.webtransport.codepoints import FrameType, H3Code, H3Error, Setting
from laps_sdk.quic.webtransport.records import (
    CAPSULES,
    CONTROL_FRAMES,
    MAX_CLOSE_REASON,
    REQUEST_FRAMES,
    STREAMED,
    CloseSession,
    Record,
    RecordReader,
    decode_close,
    decode_settings,
    encode_close,
    encode_record,
    encode_settings,
)

KEPT, PIECES, SKIPPED = 0x10, 0x11, 0x12
LIMITS = {KEPT: 100, PIECES: STREAMED}

records = st.lists(
    st.builds(Record, st.sampled_from([KEPT, PIECES, SKIPPED, 0x4242]), st.binary(max_size=100))
)


def chunks_of(data: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    return [data[a:b] for a, b in pairwise(places)]


@given(records, st.lists(st.integers(0, 600), max_size=8))
def test_records_are_read_whatever_the_chunks_are(given: list[Record], cuts: list[int]) -> None:
    data = b"".join(encode_record(kind, value) for kind, value in given)
    reader = RecordReader(LIMITS)
    read = [record for chunk in chunks_of(data, cuts) for record in reader.feed(chunk)]
    reader.finish()
    assert reader.type is None
    assert [r for r in read if r.type == KEPT] == [r for r in given if r.type == KEPT]
    assert {record.type for record in read} <= LIMITS.keys()
    streamed = [b"".join(r.value for r in source if r.type == PIECES) for source in (read, given)]
    assert streamed[0] == streamed[1]


@given(st.binary(max_size=300), st.sampled_from([REQUEST_FRAMES, CONTROL_FRAMES, CAPSULES]))
def test_any_bytes_give_records_or_an_error(data: bytes, limits: dict[int, int]) -> None:
    reader = RecordReader(limits)
    try:
        for index in range(0, len(data), 7):
            for record in reader.feed(data[index : index + 7]):
                assert record.type in limits
        reader.finish()
    except H3Error:
        pass
    assert len(reader._held) <= 16 + max(limits.values())


def test_a_skipped_value_is_not_held() -> None:
    reader = RecordReader(LIMITS)
    assert reader.feed(b"\x12" + b"\xc0" + (1 << 40).to_bytes(7, "big") + bytes(1000)) == []
    assert not reader._held
    assert reader.type == SKIPPED
    with pytest.raises(H3Error, match="middle"):
        reader.finish()


@pytest.mark.parametrize(
    ("kind", "length", "code"),
    [
        (FrameType.SETTINGS, 1, H3Code.FRAME_UNEXPECTED),
        (FrameType.WT_STREAM, 1, H3Code.FRAME_UNEXPECTED),
        (0x2, 0, H3Code.FRAME_UNEXPECTED),
        (0x9, 0, H3Code.FRAME_UNEXPECTED),
        (FrameType.HEADERS, 16 * 1024 + 1, H3Code.EXCESSIVE_LOAD),
    ],
)
def test_frames_that_a_request_stream_may_not_hold(kind: int, length: int, code: H3Code) -> None:
    with pytest.raises(H3Error) as caught:
        RecordReader(REQUEST_FRAMES).feed(encode_record(kind, bytes(length)))
    assert caught.value.h3_code == code


def test_a_kept_value_over_its_limit() -> None:
    with pytest.raises(H3Error, match="at most 100") as caught:
        RecordReader(LIMITS, H3Code.MESSAGE_ERROR).feed(b"\x10\x40\x65")
    assert caught.value.h3_code == H3Code.MESSAGE_ERROR


@given(
    st.dictionaries(st.integers(0x40, (1 << 62) - 1), st.integers(0, (1 << 62) - 1), max_size=20)
)
def test_settings_come_back(settings: dict[int, int]) -> None:
    assert decode_settings(encode_settings(settings)) == settings


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\x40", H3Code.FRAME_ERROR),
        (b"\x01", H3Code.FRAME_ERROR),
        (b"\x01\x00\x01\x00", H3Code.SETTINGS_ERROR),
        (b"\x02\x00", H3Code.SETTINGS_ERROR),
        (encode_settings({Setting.H3_DATAGRAM: 2}), H3Code.SETTINGS_ERROR),
        (encode_settings({Setting.ENABLE_CONNECT_PROTOCOL: 7}), H3Code.SETTINGS_ERROR),
    ],
)
def test_settings_that_are_refused(data: bytes, code: H3Code) -> None:
    with pytest.raises(H3Error) as caught:
        decode_settings(data)
    assert caught.value.h3_code == code


@given(st.integers(0, 0xFFFFFFFF), st.text(max_size=40))
def test_a_close_comes_back(code: int, reason: str) -> None:
    (record,) = RecordReader(CAPSULES).feed(encode_close(code, reason))
    assert decode_close(record.value) == CloseSession(code, reason)


def test_a_long_reason_is_cut_between_characters() -> None:
    (record,) = RecordReader(CAPSULES).feed(encode_close(1 << 40, "x" + "ä" * 2000))
    code, reason = decode_close(record.value)
    assert code == 0xFFFFFFFF
    assert reason == "x" + "ä" * 511
    assert len(reason.encode()) <= MAX_CLOSE_REASON


def test_a_close_without_code() -> None:
    with pytest.raises(H3Error) as caught:
        decode_close(b"\0\0\0")
    assert caught.value.h3_code == H3Code.MESSAGE_ERROR
