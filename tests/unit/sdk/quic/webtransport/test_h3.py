from __future__ import annotations

import contextlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.quic.webtransport.h3 import (
    CAPSULES,
    CONTROL_FRAMES,
    MAX_CLOSE_REASON,
    OPENING,
    REQUEST_FRAMES,
    SETTINGS,
    STREAMED,
    CloseSession,
    ControlStream,
    Field,
    FieldCoder,
    FrameType,
    H3Code,
    H3Error,
    Record,
    RecordReader,
    Setting,
    choose_protocol,
    decode_close,
    decode_settings,
    encode_close,
    encode_record,
    encode_settings,
    format_strings,
    from_http_code,
    offers_webtransport,
    parse_request,
    parse_response,
    parse_string,
    parse_strings,
    to_http_code,
)

CODES = st.integers(0, 0xFFFFFFFF)


@pytest.mark.parametrize(
    ("code", "http_code"),
    [
        (0, 0x52E4A40FA8DB),
        (0x1D, 0x52E4A40FA8F8),
        (0x1E, 0x52E4A40FA8FA),  # one number is left out for greasing
        (0xFFFFFFFF, 0x52E5AC983162),
    ],
)
def test_the_ends_of_the_range(code: int, http_code: int) -> None:
    assert to_http_code(code) == http_code
    assert from_http_code(http_code) == code


@given(CODES)
def test_codes_come_back_and_never_are_greasing_values(code: int) -> None:
    http_code = to_http_code(code)
    assert from_http_code(http_code) == code
    assert (http_code - 0x21) % 0x1F != 0


@pytest.mark.parametrize("http_code", [0, 0x100, 0x170D7B68, 0x52E4A40FA8DA, 0x52E5AC983163])
def test_codes_of_others_become_0(http_code: int) -> None:
    assert from_http_code(http_code) == 0


def test_a_greasing_value_becomes_0() -> None:
    assert from_http_code(0x52E4A40FA8F9) == 0


def test_codes_over_32_bits_become_the_greatest() -> None:
    assert to_http_code(1 << 40) == 0x52E5AC983162


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


CONNECT: list[Field] = [
    (b":method", b"CONNECT"),
    (b":scheme", b"https"),
    (b":authority", b"host:443"),
    (b":path", b"/moq?a=1"),
    (b":protocol", b"webtransport"),
]
printable = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E))


@given(st.lists(printable, min_size=1, max_size=10))
def test_strings_come_back(values: list[str]) -> None:
    assert parse_strings(format_strings(values)) == tuple(values)


@given(st.binary(max_size=60))
def test_any_bytes_parse_to_strings_or_to_nothing(value: bytes) -> None:
    assert all(isinstance(item, str) for item in parse_strings(value))
    parse_string(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b'"moqt-18", "moqt-16"', ("moqt-18", "moqt-16")),
        (b' "a" ,\t"b" ', ("a", "b")),
        (b"moqt-18, moqt-16", ("moqt-18", "moqt-16")),  # tokens of early drafts
        (b'"a";q=1;x="y,z", "b"', ("a", "b")),
        (b'"a";x="', ()),
        (b'"a', ()),
        (b'"a\\', ()),
        (b'"a\\n"', ()),
        (b'"\xc3\xa4"', ()),
        (b'"a",', ()),
        (b'"a""b"', ()),
        (b'"a" "b"', ()),
        (b",", ()),
        (b"", ()),
        (b'"\\"\\\\"', ('"\\',)),
    ],
)
def test_lists_of_strings(value: bytes, expected: tuple[str, ...]) -> None:
    assert parse_strings(value) == expected


def test_a_list_without_end_is_cut() -> None:
    assert len(parse_strings(b'"a", ' * 1000 + b'"a"')) == 64


def test_one_string() -> None:
    assert parse_string(b'"moqt-18"') == "moqt-18"
    assert parse_string(b'"a", "b"') is None
    assert parse_string(b"") is None


def test_our_preference_decides() -> None:
    assert choose_protocol(["x", "moqt-16", "moqt-18"], ["moqt-18", "moqt-16"]) == "moqt-18"
    assert choose_protocol(["moq-lite"], ["moqt-18"]) is None


def test_qpack_there_and_back() -> None:
    coder = FieldCoder()
    assert FieldCoder().decode(0, coder.encode(0, CONNECT)) == CONNECT


@given(st.binary(max_size=100))
def test_any_field_section_gives_fields_or_an_error(section: bytes) -> None:
    with contextlib.suppress(H3Error):
        assert all(len(field) == 2 for field in FieldCoder().decode(0, section))


def test_the_dynamic_table_stays_empty() -> None:
    coder = FieldCoder()
    coder.feed_encoder_stream(b"\x20")  # capacity 0
    with pytest.raises(H3Error) as caught:
        coder.feed_encoder_stream(b"\x41a\x01b")
    assert caught.value.h3_code == H3Code.QPACK_ENCODER_STREAM_ERROR
    with pytest.raises(H3Error) as caught:
        coder.decode(0, b"\x05\x00\x80")
    assert caught.value.h3_code == H3Code.QPACK_DECOMPRESSION_FAILED


def test_the_decoder_stream() -> None:
    coder = FieldCoder()
    coder.feed_decoder_stream(b"\x40")  # a stream was cancelled
    with pytest.raises(H3Error) as caught:
        coder.feed_decoder_stream(b"\x01")
    assert caught.value.h3_code == H3Code.QPACK_DECODER_STREAM_ERROR


def test_a_request_for_a_session() -> None:
    request = parse_request(
        [
            *CONNECT,
            (b"wt-available-protocols", b'"a"'),
            (b"wt-available-protocols", b'"b"'),
            (b"sec-webtransport-http3-draft02", b"1"),
        ]
    )
    assert request.is_webtransport
    assert (request.authority, request.path) == ("host:443", "/moq?a=1")
    assert request.available == ("a", "b")
    assert request.draft02


def test_newer_drafts_have_another_token() -> None:
    request = parse_request([*CONNECT[:-1], (b":protocol", b"webtransport-h3")])
    assert request.is_webtransport
    assert not request.draft02


def test_the_host_field_stands_in_for_authority() -> None:
    fields = [(b":method", b"GET"), (b":scheme", b"https"), (b":path", b"/"), (b"host", b"h")]
    assert parse_request(fields).authority == "h"


def test_a_plain_connect_has_no_path() -> None:
    request = parse_request([(b":method", b"CONNECT"), (b":authority", b"h")])
    assert not request.is_webtransport


@pytest.mark.parametrize(
    "fields",
    [
        [],
        CONNECT[1:],
        CONNECT[:2] + CONNECT[3:],
        CONNECT[:3] + CONNECT[4:],
        [*CONNECT, CONNECT[0]],
        [*CONNECT, (b":other", b"x")],
        [(b"a", b"b"), *CONNECT],
        [(b":method", b"GET"), *CONNECT[1:]],
        [*CONNECT, (b"Upper", b"x")],
        [*CONNECT, (b"", b"x")],
        [*CONNECT, (b"connection", b"close")],
    ],
)
def test_malformed_requests(fields: list[Field]) -> None:
    with pytest.raises(H3Error) as caught:
        parse_request(fields)
    assert caught.value.h3_code == H3Code.MESSAGE_ERROR


def test_responses() -> None:
    accepted = parse_response([(b":status", b"200"), (b"wt-protocol", b'"moqt-18"')])
    assert (accepted.status, accepted.protocol) == (200, "moqt-18")
    assert parse_response([(b":status", b"404")]).protocol is None


@pytest.mark.parametrize("status", [b"", b"20", b"2x0", b"2000", "²00".encode("latin-1")])
def test_malformed_statuses(status: bytes) -> None:
    with pytest.raises(H3Error, match=":status"):
        parse_response([(b":status", status)])


SETTINGS_FRAME = OPENING[0][1:]


def frame(kind: int, value: str) -> bytes:
    return encode_record(kind, bytes.fromhex(value))


def test_our_own_settings_are_read_byte_by_byte() -> None:
    stream = ControlStream(from_client=True)
    found = [stream.feed(SETTINGS_FRAME[i : i + 1]) for i in range(len(SETTINGS_FRAME))]
    assert found[-1] == SETTINGS
    assert all(item is None for item in found[:-1])


def test_who_offers_webtransport() -> None:
    assert offers_webtransport(SETTINGS)
    assert not offers_webtransport({})
    assert not offers_webtransport({Setting.ENABLE_CONNECT_PROTOCOL: 1})
    assert not offers_webtransport({Setting.ENABLE_WEBTRANSPORT_02: 1})
    for sign in (
        Setting.ENABLE_WEBTRANSPORT_02,
        Setting.WT_MAX_SESSIONS_07,
        Setting.WT_MAX_SESSIONS_14,
    ):
        assert offers_webtransport({Setting.ENABLE_CONNECT_PROTOCOL: 1, sign: 1})


@pytest.mark.parametrize("from_client", [True, False])
def test_frames_that_may_follow(from_client: bool) -> None:
    stream = ControlStream(from_client=from_client)
    rest = frame(0x21, "00") + frame(0xF0700, "0031") + frame(FrameType.GOAWAY, "08")
    rest += frame(FrameType.GOAWAY, "04")
    if from_client:
        rest += frame(FrameType.MAX_PUSH_ID, "01") + frame(FrameType.MAX_PUSH_ID, "05")
    assert stream.feed(SETTINGS_FRAME + rest) == SETTINGS
    assert stream.feed(b"") is None


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(FrameType.GOAWAY, "00"), H3Code.MISSING_SETTINGS),
        (frame(0x21, "0011")[:-1], H3Code.MISSING_SETTINGS),
        (SETTINGS_FRAME + SETTINGS_FRAME, H3Code.FRAME_UNEXPECTED),
        (SETTINGS_FRAME + frame(FrameType.DATA, ""), H3Code.FRAME_UNEXPECTED),
        (SETTINGS_FRAME + frame(FrameType.HEADERS, "00"), H3Code.FRAME_UNEXPECTED),
        (SETTINGS_FRAME + frame(FrameType.GOAWAY, "01"), H3Code.ID_ERROR),
        (
            SETTINGS_FRAME + frame(FrameType.GOAWAY, "00") + frame(FrameType.GOAWAY, "04"),
            H3Code.ID_ERROR,
        ),
        (SETTINGS_FRAME + frame(FrameType.GOAWAY, ""), H3Code.FRAME_ERROR),
        (SETTINGS_FRAME + frame(FrameType.GOAWAY, "0000"), H3Code.FRAME_ERROR),
        (SETTINGS_FRAME + frame(FrameType.MAX_PUSH_ID, "00"), H3Code.FRAME_UNEXPECTED),
        (SETTINGS_FRAME + frame(FrameType.CANCEL_PUSH, "00"), H3Code.ID_ERROR),
    ],
)
def test_what_a_server_may_not_send(data: bytes, code: H3Code) -> None:
    with pytest.raises(H3Error) as caught:
        ControlStream(from_client=False).feed(data)
    assert caught.value.h3_code == code


def test_max_push_id_may_not_go_back() -> None:
    stream = ControlStream(from_client=True)
    stream.feed(SETTINGS_FRAME + frame(FrameType.MAX_PUSH_ID, "05"))
    with pytest.raises(H3Error) as caught:
        stream.feed(frame(FrameType.MAX_PUSH_ID, "04"))
    assert caught.value.h3_code == H3Code.ID_ERROR
