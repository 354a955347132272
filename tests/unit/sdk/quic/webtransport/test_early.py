from __future__ import annotations

from laps_sdk.quic.events import DatagramReceived, StreamData, StreamReset
from laps_sdk.quic.webtransport.early import EarlyArrivals, EarlyLimits

LIMITS = EarlyLimits(max_streams=3, max_bytes=10, max_datagrams=2)


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
    events, going_on, strangers = early.take(0)
    assert events == [
        StreamData(2, b"ab", False),
        StreamData(2, b"c", True),
        DatagramReceived(b"x"),
    ]
    assert going_on == {10}
    assert strangers == [6]
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
