"""WebTransport sessions between our own ends, on every backend: they look like raw connections."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from laps_sdk.errors import ConnectError
from laps_sdk.quic.base import Connection
from laps_sdk.quic.events import (
    Closed,
    Connected,
    DatagramReceived,
    Event,
    StopSending,
    StreamData,
    StreamReset,
)
from testkit.conformance import ALPN, Backends, Pair, Side, closed, open_pair

pytestmark = pytest.mark.anyio

NOISE = random.Random(7).randbytes(200_000)


@asynccontextmanager
async def open_session(backends: Backends, **options: Any) -> AsyncGenerator[Pair]:
    async with open_pair(backends, connect=False, **options) as pair:
        await pair.dial(pair.client, webtransport_path="/moq?a=b", server_name="relay.example")
        await pair.server.until_some(Connected)
        yield pair


def echo(connection: Connection, event: Event) -> None:
    if isinstance(event, StreamData) and not event.stream_id & 2:
        connection.reply_stream(event.stream_id).write(event.data, event.fin)


async def test_both_ends_know_what_was_agreed(backends: Backends) -> None:
    async with open_session(backends) as pair:
        for side in (pair.client, pair.server):
            assert side.events[0] == Connected(ALPN)
            assert side.connection.alpn == ALPN
            assert side.connection.is_webtransport
            assert side.connection.path == "/moq?a=b"
            assert side.connection.authority.startswith("relay.example")


async def test_streams_both_ways_over_a_bad_link(backends: Backends) -> None:
    async with open_session(backends, link=True) as pair:
        pair.link.loss = 0.02
        pair.link.shuffle()
        pair.server.on_event = pair.client.on_event = echo
        asking = pair.client.connection.open_bidirectional()
        pushing = pair.client.connection.open_unidirectional()
        asked = pair.server.connection.open_bidirectional()
        for stream in (asking, pushing, asked):
            stream.write(NOISE[:1000])
            stream.write(NOISE[1000:], fin=True)
        assert asking.stream_id is not None
        assert pushing.stream_id is not None
        assert asked.stream_id is not None
        ids = asking.stream_id, pushing.stream_id, asked.stream_id
        await pair.client.until(lambda side: side.received(ids[0]) == (NOISE, True))
        await pair.server.until(lambda side: side.received(ids[1]) == (NOISE, True))
        await pair.server.until(lambda side: side.received(ids[2]) == (NOISE, True))


async def test_datagrams(backends: Backends) -> None:
    async with open_session(backends) as pair:
        for side, other in ((pair.client, pair.server), (pair.server, pair.client)):
            size = side.connection.max_datagram_size
            assert size > 1000
            assert not side.connection.send_datagram(bytes(size + 1))
            for _ in range(5):  # a busy machine may lose some
                assert side.connection.send_datagram(bytes(size))
            assert await other.until_some(DatagramReceived) == DatagramReceived(bytes(size))


async def test_resets_and_stops_carry_their_codes(backends: Backends) -> None:
    async with open_session(backends) as pair:
        reset = pair.client.connection.open_unidirectional()
        stopped = pair.client.connection.open_unidirectional()
        for stream in (reset, stopped):
            stream.write(b"begin")
        assert reset.stream_id is not None
        assert stopped.stream_id is not None
        ids = reset.stream_id, stopped.stream_id
        begun = (b"begin", False)
        await pair.server.until(lambda side: [side.received(id_) for id_ in ids] == [begun, begun])
        reset.reset(0x21)
        pair.server.connection.stop_sending(ids[1], 0x42)
        assert await pair.server.until_some(StreamReset) == StreamReset(ids[0], 0x21)
        assert await pair.client.until_some(StopSending) == StopSending(ids[1], 0x42)
        assert stopped.closed


async def test_a_close_comes_behind_what_was_written(backends: Backends) -> None:
    async with open_session(backends) as pair:
        stream = pair.server.connection.open_unidirectional()
        stream.write(b"last words", fin=True)
        assert stream.stream_id is not None
        pair.server.connection.close(0x3, "protocol violation")
        assert await closed(pair.client) == Closed(0x3, "protocol violation", True, True)
        assert pair.client.received(stream.stream_id) == (b"last words", True)
        assert await closed(pair.server) == Closed(0x3, "protocol violation", False, True)
        assert pair.client.connection.closed
        assert pair.server.connection.closed


async def test_a_close_of_the_client(backends: Backends) -> None:
    async with open_session(backends) as pair:
        pair.client.connection.close(0x77, "enough")
        assert await closed(pair.server) == Closed(0x77, "enough", True, True)
        assert await closed(pair.client) == Closed(0x77, "enough", False, True)


async def test_an_endpoint_that_closes(backends: Backends) -> None:
    async with open_session(backends) as pair:
        await pair.server_endpoint.close(0x10, "going away")
        assert await closed(pair.client) == Closed(0x10, "going away", True, True)


async def test_a_refusal_says_what_was_offered_and_what_is_spoken(backends: Backends) -> None:
    async with open_pair(backends, connect=False) as pair:
        with pytest.raises(ConnectError) as caught:
            await pair.dial(Side(), webtransport_path="/", alpn=["moqt-99"])
        assert "status 400" in str(caught.value)
        assert f"offers moqt-99; spoken here: {ALPN}" in str(caught.value)
