from __future__ import annotations

import pytest

from laps_sdk.quic.events import Closed, Connected, StreamData, StreamReset
from laps_sdk.quic.webtransport.h3 import Field, FrameType, H3Code, encode_close, encode_record
from laps_sdk.quic.webtransport.server import MAX_REQUESTS
from testkit.webtransport import CONNECT, RawPeer, headers, read_response

GET: list[Field] = [
    (b":method", b"GET"),
    (b":scheme", b"https"),
    (b":authority", b"h"),
    (b":path", b"/"),
]


def with_field(name: bytes, value: bytes) -> list[Field]:
    return [*[field for field in CONNECT if field[0] != name], (name, value)]


def test_a_session_is_accepted_with_our_preferred_protocol() -> None:
    peer = RawPeer(protocols=("moqt-18", "moqt-16"))
    peer.data(0, headers(CONNECT))
    fields, _ = read_response(peer.written(0))
    assert fields == {b":status": b"200", b"wt-protocol": b'"moqt-18"'}
    session = peer.app.session
    assert (session.alpn, session.path, session.authority) == ("moqt-18", "/moq", "host:443")
    assert session.is_webtransport
    assert peer.app.events == [Connected("moqt-18")]


def test_a_request_may_come_byte_by_byte() -> None:
    peer = RawPeer()
    for byte in headers(CONNECT):
        peer.data(0, bytes([byte]))
    assert peer.app.events == [Connected("moqt-18")]


def test_draft_02_is_answered_as_draft_02() -> None:
    peer = RawPeer()
    peer.data(0, headers([*CONNECT, (b"sec-webtransport-http3-draft02", b"1")]))
    fields, _ = read_response(peer.written(0))
    assert fields[b"sec-webtransport-http3-draft"] == b"draft02"


def test_without_protocols_of_ours_none_is_chosen() -> None:
    peer = RawPeer(protocols=())
    peer.data(0, headers(CONNECT[:-1]))
    assert read_response(peer.written(0))[0] == {b":status": b"200"}
    assert peer.app.events == [Connected("")]


@pytest.mark.parametrize(
    ("fields", "status", "text"),
    [
        (GET, b"404", b"Nothing here but WebTransport.\n"),
        ([(b":method", b"HEAD"), *GET[1:]], b"404", b""),
        ([(b":method", b"CONNECT"), (b":authority", b"h")], b"501", None),
        (with_field(b":protocol", b"connect-udp")[:6], b"501", None),
        (
            with_field(b"wt-available-protocols", b'"moq-lite", "moqt-99"'),
            b"400",
            b"wt-available-protocols offers moq-lite, moqt-99; spoken here: moqt-18.\n",
        ),
        (
            CONNECT[:-1],
            b"400",
            b"wt-available-protocols offers nothing; spoken here: moqt-18.\n",
        ),
    ],
)
@pytest.mark.parametrize("fin", [False, True])
def test_requests_that_get_no_session(
    fields: list[Field], status: bytes, text: bytes | None, fin: bool
) -> None:
    peer = RawPeer()
    pseudo = [field for field in fields if field[0].startswith(b":")]
    rest = [field for field in fields if not field[0].startswith(b":")]
    peer.data(0, headers([*pseudo, *rest]), fin)
    answer, body = read_response(peer.written(0))
    assert answer[b":status"] == status
    assert text is None or body == text
    assert peer.connection.streams[0].closed
    assert peer.connection.stopped == ({} if fin else {0: H3Code.NO_ERROR})
    assert peer.app.connection is None
    peer.session(4)  # the connection still takes one
    assert not peer.connection.closes


def test_a_second_session_is_refused_and_the_first_goes_on() -> None:
    peer = RawPeer()
    session = peer.session()
    peer.data(4, headers(CONNECT, 4))
    answer, body = read_response(peer.written(4))
    assert answer[b":status"] == b"429"
    assert b"One session" in body
    assert peer.app.session is session
    assert not session.closed


@pytest.mark.parametrize("fields", [GET[:-1], [*GET, (b"connection", b"close")]])
def test_a_malformed_request_fails_alone(fields: list[Field]) -> None:
    peer = RawPeer()
    peer.data(0, headers(fields))
    assert peer.connection.streams[0].reset_code == H3Code.MESSAGE_ERROR
    assert peer.connection.stopped[0] == H3Code.MESSAGE_ERROR
    peer.data(0, b"more of it is not looked at")
    peer.session(4)


@pytest.mark.parametrize(
    ("data", "reset"),
    [
        (b"", H3Code.REQUEST_INCOMPLETE),
        (encode_record(0x21, b"grease"), H3Code.REQUEST_INCOMPLETE),
    ],
)
def test_a_request_that_ends_before_its_headers(data: bytes, reset: int) -> None:
    peer = RawPeer()
    peer.data(0, data, fin=True)
    assert peer.connection.streams[0].reset_code == reset
    assert not peer.connection.closes


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (encode_record(FrameType.DATA, b"x"), H3Code.FRAME_UNEXPECTED),
        (encode_record(FrameType.SETTINGS, b""), H3Code.FRAME_UNEXPECTED),
        (encode_record(FrameType.HEADERS, b"\xff\xff"), H3Code.QPACK_DECOMPRESSION_FAILED),
        (headers(GET)[:-1], H3Code.FRAME_ERROR),
        (b"\x01\x80\x01\x00\x00", H3Code.EXCESSIVE_LOAD),
    ],
)
def test_faults_that_end_the_connection(data: bytes, code: int) -> None:
    peer = RawPeer()
    peer.data(0, data, fin=True)
    assert peer.close_code == code


def test_a_flood_of_requests_ends_the_connection() -> None:
    peer = RawPeer()
    for number in range(MAX_REQUESTS):
        peer.data(4 * number, headers(GET, 4 * number), fin=True)
    assert peer.close_code is None
    peer.data(4 * MAX_REQUESTS, headers(GET, 4 * MAX_REQUESTS), fin=True)
    assert peer.close_code == H3Code.EXCESSIVE_LOAD


def test_a_client_that_cancels_its_request() -> None:
    peer = RawPeer()
    peer.data(0, headers(GET)[:5])
    peer.handler.handle_events([StreamReset(0, H3Code.REQUEST_CANCELLED)])
    assert peer.connection.streams[0].reset_code == H3Code.REQUEST_CANCELLED
    peer.handler.handle_events([StreamReset(0, H3Code.REQUEST_CANCELLED)])
    peer.session(4)


def test_a_session_that_is_asked_for_and_closed_in_one_piece() -> None:
    peer = RawPeer()
    close = encode_record(FrameType.DATA, encode_close(7, "done"))
    peer.data(0, headers(CONNECT) + close, fin=True)
    assert peer.app.events == [Connected("moqt-18"), Closed(7, "done", True, True)]


def test_a_session_that_ends_at_once_without_a_capsule() -> None:
    peer = RawPeer()
    peer.data(0, headers(CONNECT), fin=True)
    assert peer.app.events == [Connected("moqt-18"), Closed(0, "", True, True)]


def test_events_of_one_turn_stay_in_order() -> None:
    peer = RawPeer()
    peer.handler.handle_events(
        [
            StreamData(0, headers(CONNECT), False),
            StreamData(6, b"\x40\x54\x00abc", False),
            StreamData(6, b"def", True),
        ]
    )
    assert peer.app.events == [
        Connected("moqt-18"),
        StreamData(6, b"abc", False),
        StreamData(6, b"def", True),
    ]
