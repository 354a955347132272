from __future__ import annotations

import pytest

from laps_sdk.quic.base import OutStream
from laps_sdk.quic.events import Closed, DatagramReceived, StopSending, StreamData, StreamReset
from laps_sdk.quic.webtransport.codepoints import H3Code, to_http_code
from laps_sdk.quic.webtransport.connection import WebTransportConnection, WtStream
from laps_sdk.quic.webtransport.control import CriticalStreams
from laps_sdk.quic.webtransport.fields import FieldCoder
from testkit.fake_connection import NO_STATS
from testkit.webtransport import RawPeer, SessionPair

pytestmark = pytest.mark.anyio


async def test_both_ends_look_like_connections() -> None:
    both = SessionPair()
    client, server = both.sessions()
    for session in (client, server):
        assert session.alpn == "moqt-18"
        assert session.is_webtransport
        assert session.path == "/moq?x=1"
        assert session.authority == "relay:4433"
        assert session.peer_address == ("127.0.0.1", 4433)
        assert session.rtt == 0.01
        assert session.now == 0.0
        assert session.stats() == NO_STATS
        assert session.max_datagram_size == 1199
        assert not session.closed
        assert not session.congested
    assert client.is_client
    assert not server.is_client


async def test_streams_both_ways() -> None:
    both = SessionPair()
    client, server = both.sessions()
    asking = client.open_bidirectional()
    asking.write(b"question")
    pushing = server.open_unidirectional()
    pushing.write(b"news", fin=True)
    both.run()
    assert both.server_app.take() == [StreamData(4, b"question", False)]
    assert both.client_app.take() == [StreamData(15, b"news", True)]
    assert pushing.closed
    server.reply_stream(4).write(b"answer", fin=True)
    asking.write(b" more", fin=True)
    both.run()
    assert both.client_app.take() == [StreamData(4, b"answer", True)]
    assert both.server_app.take() == [StreamData(4, b" more", True)]


async def test_a_servers_bidirectional_stream() -> None:
    both = SessionPair()
    client, server = both.sessions()
    server.open_bidirectional().write(b"hello")
    both.run()
    assert both.client_app.take() == [StreamData(1, b"hello", False)]
    client.reply_stream(1).write(b"you too")
    both.run()
    assert both.server_app.take() == [StreamData(1, b"you too", False)]


async def test_codes_and_datagrams_arrive_as_they_were_given() -> None:
    both = SessionPair()
    client, server = both.sessions()
    out = client.open_unidirectional()
    out.write(b"a")
    assert client.send_datagram(b"datagram")
    both.run()
    assert both.server_app.take() == [StreamData(14, b"a", False), DatagramReceived(b"datagram")]
    server.stop_sending(14, 77)
    both.run()
    assert both.client_app.take() == [StopSending(14, 77)]
    other = client.open_unidirectional()
    other.write(b"b")
    both.run()
    other.reset(78)
    both.run()
    assert both.server_app.take() == [StreamData(18, b"b", False), StreamReset(18, 78)]


async def test_closing_tells_both_ends() -> None:
    both = SessionPair()
    client, _ = both.sessions()
    client.close(0x12, "bye")
    both.run()
    assert both.server_app.take() == [Closed(0x12, "bye", True, True)]
    assert both.client_app.take() == [Closed(0x12, "bye", False, True)]
    assert both.pair.client.closed
    assert both.pair.server.closed


async def test_a_server_leaves_the_end_of_the_connection_to_the_client() -> None:
    for end in ("client", "server"):
        both = SessionPair()
        sessions = dict(zip(("client", "server"), both.sessions(), strict=True))
        sessions[end].close(3)
        both.run()
        assert both.pair.client.closes == [(H3Code.NO_ERROR, "the session is over")]
        assert both.pair.server.closes == []


@pytest.mark.parametrize("answered", [False, True])
async def test_a_client_that_does_not_end_the_connection_is_left(answered: bool) -> None:
    peer = RawPeer()
    session = peer.session()
    session.close(1)
    if answered:
        peer.data(0, b"", fin=True)
    timer = peer.handler._linger  # type: ignore[attr-defined] # its time must not pass here
    assert not timer.cancelled()
    assert not peer.connection.closes
    timer._run()
    assert peer.close_code == H3Code.NO_ERROR
    peer.handler.handle_events(peer.connection.take_inbox())
    assert timer.cancelled()
    assert peer.app.take() == [Closed(1, "", False, True)]


def test_what_is_asked_of_the_stream_below() -> None:
    peer = RawPeer()
    session = peer.session()
    out = session.open_unidirectional(priority=5, droppable=True, drop_code=9, deadline=2.0)
    below = peer.connection.streams[15]
    assert below.options == {
        "priority": 5,
        "droppable": True,
        "drop_code": to_http_code(9),
        "deadline": 2.0,
    }
    out.set_priority(6)
    out.set_deadline(3.0)
    assert (below.priority, below.deadline) == (6, 3.0)
    out.write(b"ab")
    out.write(b"c")
    assert below.written == b"\x40\x54\x00abc"
    below.queued_bytes = 6
    assert (out.queued, out.stream_id) == (6, 15)
    assert session.pause_reading(4)
    assert peer.connection.paused == {4}
    session.resume_reading(4)
    assert peer.connection.paused == set()


def test_reply_streams_are_the_same_each_time() -> None:
    peer = RawPeer()
    session = peer.session()
    assert session.reply_stream(4) is session.reply_stream(4)


def test_datagrams_need_the_peers_consent() -> None:
    peer = RawPeer()
    peer.session()
    quiet = WebTransportConnection(
        peer.connection,
        critical=CriticalStreams(FieldCoder(), from_client=True),
        incoming=set(),
        on_close=lambda _code, _reason: None,
        session_id=0,
        protocol="",
        authority="",
        path="",
    )
    assert quiet.max_datagram_size == 0
    assert not quiet.send_datagram(b"x")
    peer.connection.datagram_size = 0
    assert peer.app.session.max_datagram_size == 0


def test_streams_that_are_over_are_forgotten_but_not_before_their_events() -> None:
    peer = RawPeer()
    session = peer.session()
    assert isinstance(session, WebTransportConnection)

    def open_and_finish(count: int) -> list[OutStream]:
        streams = [session.open_unidirectional(droppable=True) for _ in range(count)]
        for stream in streams:
            stream.write(b"x", fin=True)
        return streams

    first = open_and_finish(100)
    inner = [stream.inner for stream in first if isinstance(stream, WtStream)]
    assert [session.stream_above(below) for below in inner] == first
    peer.connection.clock = 2.0
    going_on = session.open_unidirectional(droppable=True)
    assert [session.stream_above(below) for below in inner] == first  # seen to be over
    open_and_finish(100)
    peer.connection.clock = 4.0
    open_and_finish(1)
    assert [session.stream_above(below) for below in inner] == inner  # forgotten
    assert isinstance(going_on, WtStream)
    assert session.stream_above(going_on.inner) is going_on
    assert len(session._streams) < 150
