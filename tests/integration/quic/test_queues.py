from __future__ import annotations

import pytest

from laps_sdk.quic.base import EgressLimits
from laps_sdk.quic.events import (
    Closed,
    DatagramReceived,
    DropReason,
    StreamData,
    StreamDropped,
    StreamReset,
    Writable,
)
from testkit.conformance import Backends, open_pair

pytestmark = pytest.mark.anyio

LARGE = EgressLimits(max_control_bytes=16 * 1024 * 1024)


async def test_a_congested_connection_becomes_writable_again(backends: Backends) -> None:
    async with open_pair(backends, link=True, egress=LARGE) as pair:
        connection = pair.client.connection
        pair.link.blackhole = True
        stream = connection.open_unidirectional()
        for _ in range(40):
            stream.write(b"x" * 65536)
        assert connection.congested
        assert connection.stats().queued_bytes > LARGE.high_water
        pair.link.blackhole = False
        await pair.client.until_some(Writable)
        assert not pair.client.connection.congested
        stream.write(b"end", fin=True)
        await pair.server.until(lambda side: side.received(2)[1])


async def test_urgent_bytes_overtake_what_waits(backends: Backends) -> None:
    async with open_pair(backends, egress=LARGE) as pair:
        connection = pair.client.connection
        bulk = connection.open_unidirectional(priority=200)
        bulk.write(b"b" * 3_000_000, fin=True)
        middle = connection.open_unidirectional(priority=100)
        middle.write(b"m" * 500_000, fin=True)
        urgent = connection.open_unidirectional(priority=1)
        urgent.write(b"u" * 10_000, fin=True)
        await pair.server.until(lambda side: side.ended() == {2, 6, 10})
        order = [e.stream_id for e in pair.server.of(StreamData) if e.fin]
        assert order == [urgent.stream_id, middle.stream_id, bulk.stream_id]


async def test_what_is_late_is_given_up(backends: Backends) -> None:
    async with open_pair(backends, link=True) as pair:
        connection = pair.client.connection
        pair.link.blackhole = True
        late = connection.open_unidirectional(
            priority=5, droppable=True, drop_code=33, deadline=connection.now + 0.05
        )
        late.write(b"x" * 2_000_000, fin=True)
        kept = connection.open_unidirectional(priority=9)
        kept.write(b"kept", fin=True)
        event = await pair.client.until_some(StreamDropped)
        assert event.stream is late
        assert event.reason is DropReason.EXPIRED
        assert event.lost > 0
        assert late.closed
        assert connection.stats().dropped_streams == 1
        assert connection.stats().dropped_bytes == event.lost
        pair.link.blackhole = False
        await pair.server.until(lambda side: side.received(6) == (b"kept", True))
        assert await pair.server.until_some(StreamReset) == StreamReset(2, 33)


async def test_the_least_urgent_goes_first_when_the_queue_is_full(backends: Backends) -> None:
    egress = EgressLimits(max_bytes=600_000)
    async with open_pair(backends, link=True, egress=egress) as pair:
        connection = pair.client.connection
        pair.link.blackhole = True
        streams = [
            connection.open_unidirectional(priority=priority, droppable=True, drop_code=9)
            for priority in (3, 1, 4, 2)
        ]
        for stream in streams:
            stream.write(b"x" * 300_000, fin=True)
        await pair.client.until(lambda side: len(side.of(StreamDropped)) >= 2)
        dropped = pair.client.of(StreamDropped)
        assert [event.stream for event in dropped[:2]] == [streams[2], streams[0]]
        assert {event.reason for event in dropped} == {DropReason.OVERFLOW}
        assert connection.stats().queued_bytes <= 600_000
        pair.link.blackhole = False
        await pair.server.until(lambda side: {6, 14} <= side.ended())


async def test_a_peer_that_takes_no_control_bytes_is_closed(backends: Backends) -> None:
    async with open_pair(backends, link=True) as pair:
        pair.link.blackhole = True
        stream = pair.client.connection.open_bidirectional()
        for _ in range(40):
            stream.write(b"x" * 65536)
        event = await pair.client.until_some(Closed)
        assert event.code == 1
        assert "must not be dropped" in event.reason


async def test_datagrams_arrive(backends: Backends) -> None:
    async with open_pair(backends) as pair:
        for side, other in ((pair.client, pair.server), (pair.server, pair.client)):
            connection = side.connection
            size = connection.max_datagram_size
            assert size >= 1000
            assert connection.send_datagram(b"small")
            assert connection.send_datagram(b"l" * size)
            assert not connection.send_datagram(b"x" * (size + 70_000))
            await other.until(lambda s: len(s.of(DatagramReceived)) == 2)
            assert [event.data for event in other.of(DatagramReceived)] == [b"small", b"l" * size]


async def test_datagrams_that_wait_too_long_are_dropped_and_counted(backends: Backends) -> None:
    egress = EgressLimits(max_datagrams=16)
    async with open_pair(backends, link=True, egress=egress) as pair:
        connection = pair.client.connection
        pair.link.blackhole = True
        for _ in range(2000):
            assert connection.send_datagram(b"x" * 1000)
        assert connection.send_datagram(b"late", connection.now - 1)
        assert connection.stats().dropped_datagrams > 0
        assert connection.stats().queued_bytes <= 16 * 1000
        pair.link.blackhole = False
        connection.open_unidirectional().write(b"streams still work", fin=True)
        await pair.server.until(lambda side: side.received(2)[1])
        await pair.server.until_some(DatagramReceived)
