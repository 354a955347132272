from __future__ import annotations

import pytest

from laps_sdk.quic.base import BACKGROUND, OutStream
from laps_sdk.quic.events import (
    Closed,
    Connected,
    DatagramReceived,
    DropReason,
    Event,
    StopSending,
    StreamData,
    StreamDropped,
    StreamReset,
    StreamsAvailable,
    Writable,
)
from laps_sdk.quic.webtransport.h3 import (
    OPENING,
    CriticalStreams,
    FieldCoder,
    FrameType,
    H3Code,
    encode_close,
    encode_record,
    to_http_code,
)
from laps_sdk.quic.webtransport.peer import (
    EarlyArrivals,
    EarlyLimits,
    WebTransportConnection,
    WtStream,
)
from testkit.fake_connection import NO_STATS
from testkit.webtransport import CONNECT, RawPeer, SessionPair, headers

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
    assert session.withhold(7)
    assert peer.connection.withheld == 7


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


LIMITS = EarlyLimits(max_streams=3, max_bytes=10, max_datagrams=2)


def closing(capsule: bytes) -> bytes:
    return encode_record(FrameType.DATA, capsule)


# The critical streams


def test_settings_and_qpack_streams_are_opened_first() -> None:
    peer = RawPeer()
    assert [peer.written(stream_id) for stream_id in (3, 7, 11)] == list(OPENING)


def test_critical_streams_are_read() -> None:
    peer = RawPeer()
    for stream_id, data in zip((2, 6, 10), OPENING, strict=True):
        peer.data(stream_id, data)
    peer.data(6, b"\x20")
    peer.data(10, b"\x40")
    assert not peer.connection.closes


@pytest.mark.parametrize(
    ("events", "code"),
    [
        ([StreamData(2, OPENING[0], True)], H3Code.CLOSED_CRITICAL_STREAM),
        ([StreamData(2, OPENING[1], True)], H3Code.CLOSED_CRITICAL_STREAM),
        ([StreamData(2, OPENING[0], False), StreamReset(2, 0)], H3Code.CLOSED_CRITICAL_STREAM),
        ([StopSending(3, 0)], H3Code.CLOSED_CRITICAL_STREAM),
        (
            [StreamData(2, OPENING[0], False), StreamData(6, OPENING[0], False)],
            H3Code.STREAM_CREATION_ERROR,
        ),
        ([StreamData(2, b"\x01\x00", False)], H3Code.STREAM_CREATION_ERROR),
        ([StreamData(2, b"\x00\x07\x01\x00", False)], H3Code.MISSING_SETTINGS),
        ([StreamData(2, b"\x02\x41a\x01b", False)], H3Code.QPACK_ENCODER_STREAM_ERROR),
        ([StreamData(2, b"\x03\x01", False)], H3Code.QPACK_DECODER_STREAM_ERROR),
        ([DatagramReceived(b"")], H3Code.DATAGRAM_ERROR),
        ([DatagramReceived(b"\xff" * 8)], H3Code.DATAGRAM_ERROR),
        ([StreamData(2, b"\x40\x54\x01", False)], H3Code.ID_ERROR),
    ],
)
def test_faults_close_the_connection(events: list[Event], code: int) -> None:
    peer = RawPeer()
    peer.handler.handle_events(events)
    assert peer.close_code == code
    peer.handler.handle_events(events)  # nothing is looked at any more
    assert len(peer.connection.closes) == 1


def test_unknown_streams_are_refused_without_harm() -> None:
    peer = RawPeer()
    peer.data(2, b"\x21grease")
    peer.data(6, b"\x21grease", fin=True)
    peer.data(10, b"\x40", fin=True)  # too short to say what it is
    assert peer.connection.stopped == {2: H3Code.STREAM_CREATION_ERROR}
    assert not peer.connection.closes


def test_a_stream_that_is_reset_before_it_says_what_it_is() -> None:
    peer = RawPeer()
    peer.data(6, b"\x40")
    peer.handler.handle_events([StreamReset(6, 0), StreamReset(10, 0)])
    assert not peer.connection.closes


# Streams and datagrams of the session


def test_streams_of_the_session_in_all_cuts() -> None:
    peer = RawPeer()
    peer.session()
    for byte in b"\x40\x54\x00ab":
        peer.data(6, bytes([byte]))
    peer.data(6, b"", fin=True)
    peer.data(4, b"\x40\x41\x00xyz", fin=True)
    assert peer.app.take() == [
        StreamData(6, b"a", False),
        StreamData(6, b"b", False),
        StreamData(6, b"", True),
        StreamData(4, b"xyz", True),
    ]


def test_datagrams_of_the_session_only() -> None:
    peer = RawPeer()
    peer.session(4)
    peer.handler.handle_events([DatagramReceived(b"\x01abc"), DatagramReceived(b"\x00other")])
    assert peer.app.take() == [DatagramReceived(b"abc")]


def test_resets_and_stops_carry_the_sessions_codes() -> None:
    peer = RawPeer()
    session = peer.session()
    out = session.open_unidirectional()
    assert out.stream_id is not None
    peer.data(6, b"\x40\x54\x00a")
    peer.handler.handle_events(
        [StreamReset(6, to_http_code(40)), StopSending(out.stream_id, to_http_code(50))]
    )
    assert peer.app.take()[1:] == [StreamReset(6, 40), StopSending(out.stream_id, 50)]


def test_streams_of_other_sessions_are_refused() -> None:
    peer = RawPeer()
    peer.session()
    peer.data(6, b"\x40\x54\x04a")
    peer.data(8, b"\x40\x41\x04a")
    peer.data(10, b"\x40\x54\x04a", fin=True)
    assert peer.connection.stopped == {6: H3Code.WT_SESSION_GONE, 8: H3Code.WT_SESSION_GONE}
    assert peer.connection.streams[8].reset_code == H3Code.WT_SESSION_GONE
    assert peer.app.take() == []


def test_a_stopped_stream_is_forgotten() -> None:
    peer = RawPeer()
    session = peer.session()
    peer.data(6, b"\x40\x54\x00a")
    session.stop_sending(6, 3)
    assert peer.connection.stopped == {6: to_http_code(3)}
    assert peer.app.take() == [StreamData(6, b"a", False)]
    peer.handler.handle_events([StreamReset(6, 0)])
    assert peer.app.take() == []


def test_other_events_are_passed_on() -> None:
    peer = RawPeer()
    peer.handler.handle_events([Writable(), StreamsAvailable()])
    session = peer.session()
    out = session.open_unidirectional(droppable=True, drop_code=9)
    peer.handler.handle_events(
        [
            Writable(),
            StreamsAvailable(),
            StreamDropped(peer.connection.streams[15], DropReason.EXPIRED, 5),
        ]
    )
    assert peer.app.take() == [
        Writable(),
        StreamsAvailable(),
        StreamDropped(out, DropReason.EXPIRED, 5),
    ]


def test_a_drop_without_a_session_is_nobodys() -> None:
    peer = RawPeer()
    peer.handler.handle_events([StreamDropped(object(), DropReason.EXPIRED, 5)])
    assert peer.app.events == []


# What comes before the session


def test_early_streams_and_datagrams_wait_for_their_session() -> None:
    peer = RawPeer()
    peer.handler.handle_events(
        [
            DatagramReceived(b"\x00d"),
            StreamData(6, b"\x40\x54\x00a", False),
            StreamData(10, b"\x40\x54\x00", False),
            StreamData(14, b"\x40\x54\x00r", False),
            StreamData(6, b"b", False),
            StreamReset(14, to_http_code(1)),
            StreamData(4, b"\x40\x41\x08x", False),
            StreamData(0, headers(CONNECT), False),
            StreamData(6, b"c", True),
            StreamData(10, b"e", True),
        ]
    )
    assert peer.app.events == [
        Connected("moqt-18"),
        StreamData(6, b"a", False),
        StreamData(6, b"b", False),
        StreamData(14, b"r", False),
        StreamReset(14, 1),
        DatagramReceived(b"d"),
        StreamData(6, b"c", True),
        StreamData(10, b"e", True),
    ]
    assert peer.connection.stopped == {4: H3Code.WT_BUFFERED_STREAM_REJECTED}


def test_too_many_early_streams_are_refused() -> None:
    peer = RawPeer()
    for number in range(65):
        peer.data(4 * number + 2, b"\x40\x54\x00a")
    assert peer.connection.stopped == {258: H3Code.WT_BUFFERED_STREAM_REJECTED}


def test_too_many_early_bytes_are_refused() -> None:
    peer = RawPeer()
    peer.data(6, b"\x40\x54\x00" + bytes(256 * 1024))
    peer.data(6, b"x")
    assert peer.connection.stopped == {6: H3Code.WT_BUFFERED_STREAM_REJECTED}


# How a session ends


@pytest.mark.parametrize(
    ("event", "closed"),
    [
        (StreamData(0, closing(encode_close(9, "why")), False), Closed(9, "why", True, True)),
        (StreamData(0, b"", True), Closed(0, "", True, True)),
        (StreamReset(0, 1), Closed(0, "the peer reset the CONNECT stream", True, True)),
        (StopSending(0, 1), Closed(0, "the peer stopped the CONNECT stream", True, True)),
    ],
)
def test_the_peer_ends_the_session(event: Event, closed: Closed) -> None:
    peer = RawPeer()
    session = peer.session()
    peer.handler.handle_events([event, StreamData(0, closing(encode_close(1, "again")), True)])
    assert peer.app.take() == [closed]
    assert session.closed
    assert peer.connection.streams[0].closed  # answered by FIN; the client ends the connection
    assert not peer.connection.closes
    session.close(5)
    peer.data(6, b"\x40\x54\x00late")
    peer.handler.handle_events(
        [Closed(H3Code.NO_ERROR, "", by_peer=False, application=True)]  # that of the connection
    )
    assert peer.app.take() == []


def test_what_arrives_in_the_same_turn_as_the_end_comes_before_it() -> None:
    peer = RawPeer()
    peer.session()
    peer.handler.handle_events(
        [
            StreamData(0, closing(encode_close(9, "why")), True),
            StreamData(6, b"\x40\x54\x00last words", True),
        ]
    )
    assert peer.app.take() == [StreamData(6, b"last words", True), Closed(9, "why", True, True)]


def test_greased_and_drain_capsules_are_skipped() -> None:
    peer = RawPeer()
    session = peer.session()
    grease = encode_record(0x17 + 0x29 * 5, b"anything") + encode_record(0x78AE, b"")
    data = closing(grease) + encode_record(0x21, b"a greased frame")
    for byte in data:
        peer.data(0, bytes([byte]))
    assert not session.closed
    peer.data(0, closing(encode_close(3, "")))
    assert peer.app.take() == [Closed(3, "", True, True)]


@pytest.mark.parametrize(
    ("data", "fin", "code"),
    [
        (headers(CONNECT), False, H3Code.FRAME_UNEXPECTED),
        (closing(encode_record(0x2843, b"ab")), False, H3Code.MESSAGE_ERROR),
        (closing(encode_record(0x2843, bytes(2000))), False, H3Code.MESSAGE_ERROR),
        (closing(b"\x68"), True, H3Code.MESSAGE_ERROR),
        (b"\x00\x05abc", True, H3Code.FRAME_ERROR),
    ],
)
def test_garbage_on_the_connect_stream(data: bytes, fin: bool, code: int) -> None:
    peer = RawPeer()
    peer.session()
    peer.data(0, data, fin)
    assert peer.close_code == code
    peer.handler.handle_events(peer.connection.take_inbox())
    (closed,) = peer.app.take()
    assert isinstance(closed, Closed)
    assert (closed.code, closed.by_peer, closed.application) == (code, False, False)


def test_our_close_waits_for_the_peers_answer() -> None:
    peer = RawPeer()
    session = peer.session()
    before = len(peer.written(0))
    session.close(0x3, "bad")
    session.close(0x4, "again")
    assert session.closed
    assert peer.written(0)[before:] == closing(encode_close(3, "bad"))
    assert peer.connection.streams[0].closed
    assert not peer.connection.closes
    peer.data(6, b"\x40\x54\x00late")
    assert peer.app.take() == []
    peer.data(0, b"", fin=True)
    assert peer.app.take() == [Closed(3, "bad", False, True)]
    assert not peer.connection.closes


def test_a_close_goes_behind_what_was_written_unless_much_waits() -> None:
    for congested in (False, True):
        peer = RawPeer()
        session = peer.session()
        peer.connection.is_congested = congested
        session.close()
        assert peer.connection.streams[0].priority == (None if congested else BACKGROUND)


def test_our_close_answered_by_the_end_of_the_connection() -> None:
    peer = RawPeer()
    session = peer.session()
    session.close(3, "bad")
    lost = Closed(H3Code.NO_ERROR, "", by_peer=True, application=True)
    peer.handler.handle_events([StreamData(6, b"\x40\x54\x00late", False), lost])
    assert peer.app.take() == [Closed(3, "bad", False, True)]


@pytest.mark.parametrize(
    ("event", "application"),
    [
        (Closed(0, "idle timeout", by_peer=False, application=False), False),
        (Closed(H3Code.NO_ERROR, "", by_peer=True, application=True), False),
        (Closed(0x10, "going away", by_peer=True, application=True), True),
    ],
)
def test_a_connection_that_ends(event: Closed, application: bool) -> None:
    peer = RawPeer()
    session = peer.session()
    peer.handler.handle_events([event])
    assert peer.app.take() == [event._replace(application=application)]
    assert session.closed


def test_a_connection_that_is_lost_without_a_session() -> None:
    peer = RawPeer()
    peer.handler.handle_events([Closed(0, "idle timeout", by_peer=False, application=False)])
    assert peer.app.events == []


# What arrives before its session


def test_a_sessions_events_come_back_in_order_and_others_do_not() -> None:
    early = EarlyArrivals(LIMITS)
    for stream_id, session_id in ((2, 0), (6, 4), (10, 0)):
        assert early.open(stream_id, session_id)
        assert stream_id in early
    assert early.add(StreamData(2, b"ab", False))
    assert early.add(StreamData(2, b"c", True))
    assert early.add(StreamReset(6, 7))
    early.add_datagram(0, b"x")
    early.add_datagram(4, b"y")
    events, going_on, others = early.take(0)
    assert events == [
        StreamData(2, b"ab", False),
        StreamData(2, b"c", True),
        DatagramReceived(b"x"),
    ]
    assert going_on == {10}
    assert others == [6]
    assert 2 not in early


def test_streams_that_go_on() -> None:
    early = EarlyArrivals(LIMITS)
    early.open(2, 0)
    early.add(StreamData(2, b"a", False))
    early.open(6, 0)
    early.add(StreamReset(6, 1))
    assert early.take(0)[1] == {2}


def test_what_is_too_much() -> None:
    early = EarlyArrivals(LIMITS)
    assert [early.open(stream_id, 0) for stream_id in (2, 6, 10, 14)] == [True, True, True, False]
    assert early.add(StreamData(2, bytes(6), False))
    assert not early.add(StreamData(6, bytes(5), False))
    assert 6 not in early
    assert early.add(StreamData(2, bytes(4), False))
    assert not early.add(StreamData(2, b"x", False))
    assert early.add(StreamData(10, bytes(10), False))  # what stream 2 held is free again


def test_the_oldest_datagram_makes_room() -> None:
    early = EarlyArrivals(LIMITS)
    for data in (b"1", b"2", b"3"):
        early.add_datagram(0, data)
    assert early.take(0)[0] == [DatagramReceived(b"2"), DatagramReceived(b"3")]
