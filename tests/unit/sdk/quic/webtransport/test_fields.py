from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_sdk.quic.webtransport.codepoints import H3Code, H3Error
from laps_sdk.quic.webtransport.fields import (
    Field,
    FieldCoder,
    choose_protocol,
    format_strings,
    parse_request,
    parse_response,
    parse_string,
    parse_strings,
)

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
