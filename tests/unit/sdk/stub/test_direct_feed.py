"""Feeds to one connection: when data is given up, and what stands in front of it."""

from __future__ import annotations

from laps_sdk.upstream.direct_feed import DirectFeed
from laps_sdk.upstream.interfaces import Feed
from laps_wire.peering.errors import StreamCode
from testkit.plane import TimedEgress


class Plain(DirectFeed):
    """Headers that people can read."""

    __slots__ = ()

    def _stream_head(self, priority: int, ttl_ms: int, *, continued: bool) -> bytes:
        return f"stream {self._key} {priority} {ttl_ms}{'+' * continued}: ".encode()

    def _datagram_head(self, priority: int, ttl_ms: int) -> bytes:
        return f"datagram {self._key} {priority} {ttl_ms}: ".encode()


def test_streams_have_a_header_and_a_deadline() -> None:
    egress = TimedEgress()
    feed: Feed = Plain(egress, 7)
    stream = feed.open_stream(100.0, priority=9, ttl_ms=700)
    stream.write(b"payload", True)
    assert egress.streams[0].data == b"stream 7 9 700: payload"
    feed.open_stream(100.0, priority=10, ttl_ms=700, deadline=100.2)
    feed.open_stream(100.0, priority=10, continued=True)
    assert egress.streams[2].data == b"stream 7 10 0+: "
    (first, second, third) = egress.asked
    assert first[1:] == (StreamCode.EXPIRED, 100.7)
    assert second[1:] == (StreamCode.EXPIRED, 100.2)
    assert third[1:] == (StreamCode.OVERLOADED, None)
    assert first[0] < second[0] == third[0]


def test_datagrams_have_them_too_and_must_fit() -> None:
    egress = TimedEgress()
    feed = Plain(egress, 7)
    assert feed.send_datagram(100.0, b"ping", priority=9, ttl_ms=700)
    assert feed.send_datagram(100.0, b"pong", priority=9)
    assert egress.datagrams == [b"datagram 7 9 700: ping", b"datagram 7 9 0: pong"]
    assert egress.deadlines == [100.7, None]
    assert not feed.send_datagram(100.0, bytes(1200), priority=9)
