from __future__ import annotations

import pytest

from laps_sdk.errors import ConnectError
from laps_sdk.quic.events import Closed, Connected, Event, StreamData, StreamReset, StreamsAvailable
from laps_sdk.quic.webtransport.h3 import (
    OPENING,
    Field,
    FrameType,
    H3Code,
    encode_close,
    encode_record,
)
from testkit.webtransport import RawPeer, SessionPair, headers, read_response

OK: list[Field] = [(b":status", b"200"), (b"wt-protocol", b'"moqt-18"')]


pytestmark = pytest.mark.anyio


async def refusal(peer: RawPeer | SessionPair) -> str:
    assert peer.dialling is not None
    with pytest.raises(ConnectError) as caught:
        await peer.dialling.established
    return str(caught.value)


async def test_the_request() -> None:
    peer = RawPeer(server=False, protocols=("moqt-18", "moqt-16"))
    assert 0 not in peer.connection.streams  # the server's SETTINGS are waited for
    peer.settings()
    fields, _ = read_response(peer.written(0))
    assert fields == {
        b":method": b"CONNECT",
        b":scheme": b"https",
        b":authority": b"h",
        b":path": b"/",
        b":protocol": b"webtransport",
        b"sec-webtransport-http3-draft02": b"1",
        b"wt-available-protocols": b'"moqt-18", "moqt-16"',
    }


async def test_a_session_is_established() -> None:
    both = SessionPair(spoken=("moqt-16",))
    both.run()
    session = await both.dialling.established
    assert session is both.client_app.session
    assert session.alpn == "moqt-16"
    assert both.client_app.events == [Connected("moqt-16")]


async def test_without_protocols() -> None:
    both = SessionPair(offered=(), spoken=())
    both.run()
    assert (await both.dialling.established).alpn == ""


async def test_an_interim_response_and_a_session_that_ends_at_once() -> None:
    peer = RawPeer(server=False)
    peer.settings()
    close = encode_record(FrameType.DATA, encode_close(1, "x"))
    peer.data(0, headers([(b":status", b"103")]) + headers(OK) + close, fin=True)
    assert peer.app.events == [Connected("moqt-18"), Closed(1, "x", True, True)]


async def test_a_session_that_goes_on() -> None:
    peer = RawPeer(server=False)
    peer.settings()
    peer.data(0, headers(OK))
    peer.data(3 + 4 * 5, b"\x40\x54\x00a")
    peer.data(0, b"", fin=True)
    assert peer.app.events == [
        Connected("moqt-18"),
        StreamData(23, b"a", False),
        Closed(0, "", True, True),
    ]


async def test_a_session_with_a_fin_in_its_answer() -> None:
    peer = RawPeer(server=False)
    peer.settings()
    peer.data(0, headers(OK), fin=True)
    assert peer.app.events == [Connected("moqt-18"), Closed(0, "", True, True)]


async def test_a_refusal_says_what_the_server_said() -> None:
    both = SessionPair(offered=("moqt-18",), spoken=("moqt-16",))
    both.run()
    assert await refusal(both) == (
        "no WebTransport session at https://relay:4433/moq?x=1: it answered status 400: "
        "wt-available-protocols offers moqt-18; spoken here: moqt-16. (protocols offered: moqt-18)"
    )
    assert both.client_app.connection is None
    assert both.pair.client.closed


async def test_a_refusal_without_text() -> None:
    peer = RawPeer(server=False, protocols=())
    peer.settings()
    peer.data(0, headers([(b":status", b"404")]) + headers([(b"trailer", b"x")]))
    message = await refusal(peer)
    assert "status 404 (protocols offered: none)" in message
    peer.handler.handle_events([StreamReset(0, 0), Closed(0, "", by_peer=True, application=True)])


async def test_a_refusal_with_too_much_text() -> None:
    peer = RawPeer(server=False)
    peer.settings()
    data = headers([(b":status", b"500")]) + encode_record(FrameType.DATA, b"x" * 5000)
    peer.handler.handle_events([StreamData(0, data, True), StreamReset(0, 0)])
    assert len(await refusal(peer)) < 1500


async def test_a_server_without_webtransport() -> None:
    peer = RawPeer(server=False)
    peer.data(3, b"\x00" + encode_record(FrameType.SETTINGS, b""))
    assert "do not offer WebTransport" in await refusal(peer)
    assert peer.close_code == H3Code.NO_ERROR


@pytest.mark.parametrize(
    ("protocol", "named"), [([], "none"), ([(b"wt-protocol", b'"other"')], "'other'")]
)
async def test_a_server_that_chooses_nothing_of_ours(protocol: list[Field], named: str) -> None:
    peer = RawPeer(server=False)
    peer.settings()
    peer.data(0, headers([(b":status", b"200"), *protocol]))
    assert f"wt-protocol names {named}" in await refusal(peer)
    assert peer.app.connection is None


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (StreamReset(0, 1), "reset the request"),
        (StreamData(0, b"", True), "ended the request without an answer"),
        (Closed(0x10, "tls", by_peer=True, application=False), "by the server, code 0x10 'tls'"),
        (Closed(0, "idle", by_peer=False, application=False), "by us, code 0x0 'idle'"),
    ],
)
async def test_no_answer(event: Event, text: str) -> None:
    peer = RawPeer(server=False)
    peer.settings()
    peer.handler.handle_events([event])
    assert text in await refusal(peer)


@pytest.mark.parametrize(
    ("stream_id", "data", "code"),
    [
        (0, encode_record(FrameType.DATA, b"x"), H3Code.FRAME_UNEXPECTED),
        (0, headers([(b":status", b"x")]), H3Code.MESSAGE_ERROR),
        (1, headers(OK), H3Code.STREAM_CREATION_ERROR),
        (7, b"\x01\x00", H3Code.ID_ERROR),
    ],
)
async def test_a_servers_faults(stream_id: int, data: bytes, code: int) -> None:
    peer = RawPeer(server=False)
    peer.settings()
    peer.data(stream_id, data)
    assert peer.close_code == code
    peer.handler.handle_events(peer.connection.take_inbox())
    assert "closed by us" in await refusal(peer)


async def test_the_request_waits_for_a_stream() -> None:
    peer = RawPeer(server=False)
    peer.connection.bidi_allowed = 0
    peer.handler.handle_events([StreamsAvailable()])
    peer.settings()
    assert 0 not in peer.connection.streams
    peer.connection.bidi_allowed = 5
    peer.handler.handle_events([StreamsAvailable()])
    assert peer.written(0)
    peer.handler.handle_events([StreamsAvailable()])
    assert 4 not in peer.connection.streams


async def test_nobody_waits_for_the_outcome() -> None:
    peer = RawPeer(server=False)
    assert peer.dialling is not None
    peer.dialling.established.cancel()
    peer.settings()
    peer.data(0, headers(OK))
    assert peer.app.events == [Connected("moqt-18")]


async def test_settings_in_pieces() -> None:
    peer = RawPeer(server=False)
    for byte in OPENING[0]:
        peer.data(3, bytes([byte]))
    assert peer.written(0)
