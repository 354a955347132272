"""How one end notices that the other one is gone: silence, a closed port, a stateless reset."""

from __future__ import annotations

import asyncio
import time

import pytest

from laps_sdk.quic.base import Address, ConnectionLimits
from laps_sdk.quic.endpoint import Endpoint, open_endpoint
from laps_sdk.quic.engine import Burst, EngineOptions
from laps_sdk.quic.events import Closed
from laps_sdk.quic.udp import UdpPort, Unreachable
from testkit.certs import certificates
from testkit.conformance import ALPN, Backends, Side, closed, open_pair

pytestmark = pytest.mark.anyio

KEY = b"a key that outlives the process."
SHORT = ConnectionLimits(keepalive=0.1, dead_after=0.8)


@pytest.fixture
def sockets(backends: Backends) -> Backends:
    """Every pair of backends on real sockets."""
    if backends.server == "memory":
        pytest.skip("a network in memory reports no closed ports and has no stateless resets")
    return backends


def vanish(endpoint: Endpoint) -> Address:
    """End an endpoint's process, as far as others can see: its socket is gone without a word."""
    address = endpoint.local_address
    endpoint._dispatcher._stopped = endpoint._closed = True
    endpoint._port.close()
    return address


async def restarted(backends: Backends, address: Address, key: bytes) -> Endpoint:
    """A new process at the same address."""
    return await open_endpoint(
        host=address[0],
        port=address[1],
        backend=backends.server,
        options=EngineOptions(alpn=(ALPN,), tls=certificates().server, reset_key=key),
        listener=Side(),
    )


# Silence


async def test_a_quiet_connection_outlives_its_idle_timeout(backends: Backends) -> None:
    limits = ConnectionLimits(idle_timeout=1.0)
    async with open_pair(backends, limits=limits) as pair:
        await asyncio.sleep(3.5)
        assert not pair.server.of(Closed)
        assert not pair.client.of(Closed)


async def test_without_keepalives_a_quiet_connection_ends(backends: Backends) -> None:
    limits = ConnectionLimits(idle_timeout=1.0, keepalive=0.0)
    async with open_pair(backends, limits=limits, client_limits=limits) as pair:
        assert "idle" in (await closed(pair.server)).reason


async def test_a_peer_that_leaves_pings_unanswered_is_dead(backends: Backends) -> None:
    async with open_pair(backends, link=True, client_limits=SHORT) as pair:
        await asyncio.sleep(1.0)
        assert not pair.client.of(Closed)
        pair.link.blackhole = True
        began = time.monotonic()
        event = await closed(pair.client)
        assert 0.5 < time.monotonic() - began < 5.0
        assert "in spite of keepalives" in event.reason
        assert (event.code, event.by_peer, event.application) == (0, False, False)


async def test_who_was_asleep_itself_asks_before_it_gives_up(backends: Backends) -> None:
    async with open_pair(backends, client_limits=SHORT, limits=SHORT) as pair:
        time.sleep(2.0)  # noqa: ASYNC251 - both ends share the loop, and both were late
        await asyncio.sleep(1.0)
        assert not pair.client.of(Closed)
        assert not pair.server.of(Closed)


# A closed port


@pytest.mark.parametrize("busy", [True, False], ids=["busy", "quiet"])
async def test_a_closed_port_ends_a_connection(sockets: Backends, busy: bool) -> None:
    limits = ConnectionLimits(keepalive=0.3)
    async with open_pair(sockets, client_limits=limits) as pair:
        stream = pair.client.connection.open_unidirectional()
        stream.write(b"first")
        await pair.server.until(lambda side: side.received(2)[0])
        vanish(pair.server_endpoint)
        began = time.monotonic()
        if busy:
            stream.write(b"nobody reads this")
        event = await closed(pair.client)
        assert time.monotonic() - began < 5.0
        assert event.reason == "the port of the peer is closed"
        assert not event.by_peer


async def test_a_client_that_vanished_is_noticed(sockets: Backends) -> None:
    async with open_pair(sockets) as pair:
        vanish(pair.client_endpoint)
        began = time.monotonic()
        pair.server.connection.open_unidirectional().write(b"nobody reads this")
        assert (await closed(pair.server)).reason == "the port of the peer is closed"
        assert time.monotonic() - began < 5.0


async def test_forged_reports_end_nothing(
    sockets: Backends, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody can send an ICMP message: a peer that answers our PING is there."""
    async with open_pair(sockets) as pair:
        forged = [Unreachable(pair.target, port_closed=True)]
        monkeypatch.setattr(UdpPort, "unreachable", lambda _: forged)
        stream = pair.client.connection.open_unidirectional()
        for _ in range(30):
            stream.write(b"more")
            await asyncio.sleep(0.02)
        assert not pair.client.of(Closed)


async def test_an_unreachable_network_is_no_closed_port(
    sockets: Backends, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Routes come and go: only keepalives decide then."""
    async with open_pair(sockets, link=True) as pair:
        pair.link.blackhole = True
        reports = [Unreachable(pair.target, port_closed=False)]
        monkeypatch.setattr(UdpPort, "unreachable", lambda _: reports)
        for _ in range(30):
            pair.client_endpoint._dispatcher._readable()
            await asyncio.sleep(0.02)
        assert not pair.client.of(Closed)


# Stateless resets


async def test_a_restart_is_noticed_with_the_next_packet(sockets: Backends) -> None:
    async with open_pair(sockets, reset_key=KEY) as pair:
        stream = pair.client.connection.open_unidirectional()
        stream.write(b"first")
        await pair.server.until(lambda side: side.received(2)[0])
        endpoint = await restarted(sockets, vanish(pair.server_endpoint), KEY)
        try:
            stream.write(b"nobody knows this stream")
            event = await closed(pair.client)
            assert "stateless reset" in event.reason
            assert (event.code, event.by_peer, event.application) == (0, True, False)
            assert pair.client_endpoint.connections == 0
            assert endpoint.refused["reset"] >= 1
            again = Side()
            await pair.dial(again)
            assert not again.of(Closed)
        finally:
            await endpoint.close()


async def test_a_reset_with_another_key_ends_nothing(sockets: Backends) -> None:
    async with open_pair(sockets, reset_key=KEY) as pair:
        stream = pair.client.connection.open_unidirectional()
        stream.write(b"first")
        await pair.server.until(lambda side: side.received(2)[0])
        endpoint = await restarted(sockets, vanish(pair.server_endpoint), b"another key")
        try:
            stream.write(b"nobody knows this stream")
            while not endpoint.refused.get("reset"):  # noqa: ASYNC110 - another endpoint's figures
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.2)
            assert not pair.client.of(Closed)
            assert pair.client_endpoint.refused["unknown"] >= 1
        finally:
            await endpoint.close()


async def test_two_endpoints_do_not_answer_each_other_for_ever(sockets: Backends) -> None:
    async with open_pair(sockets, connect=False) as pair:
        other = await restarted(sockets, ("127.0.0.1", 0), KEY)
        try:
            stray = bytes([0x40, *range(1, 60)])
            pair.server_endpoint._port.send(Burst([stray], other.local_address))
            await asyncio.sleep(0.5)
            answers = other.refused["reset"] + pair.server_endpoint.refused["reset"]
            assert 2 <= answers <= 30
        finally:
            await other.close()
