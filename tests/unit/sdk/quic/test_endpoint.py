from __future__ import annotations

import asyncio
import socket

import pytest

from laps_sdk.errors import ConnectError
from laps_sdk.quic.base import Connection, ConnectionLimits, Handler
from laps_sdk.quic.dialing import show
from laps_sdk.quic.endpoint import open_endpoint
from laps_sdk.quic.engine import EngineOptions
from laps_sdk.quic.events import Closed, DropReason, StreamData, StreamDropped
from laps_sdk.quic.memory.engine import MemoryEngine
from laps_sdk.quic.memory.network import MemoryNetwork
from laps_wire.errors import StateError
from testkit.certs import certificates
from testkit.conformance import ALPN, Side
from testkit.virtual_loop import run_virtually

pytestmark = pytest.mark.anyio


async def test_the_memory_backend_needs_a_network() -> None:
    with pytest.raises(StateError, match="MemoryNetwork"):
        await open_endpoint(backend="memory", options=EngineOptions())


async def test_an_unknown_backend_names_the_known_ones() -> None:
    with pytest.raises(StateError, match="aioquic-stock, qh3 and memory"):
        await open_endpoint(backend="odd", options=EngineOptions())  # type: ignore[arg-type]  # on purpose


@pytest.mark.parametrize("host", ["a..b", "x" * 70, "\udc80"])
async def test_a_name_that_nobody_can_have(host: str) -> None:
    endpoint = await open_endpoint(options=EngineOptions())
    try:
        with pytest.raises(ConnectError, match="no host has such a name"):
            await endpoint.connect((host, 1), handler=lambda _: Side(), alpn=[ALPN])
    finally:
        await endpoint.close()


async def test_names_are_asked_for_as_the_dns_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    async def getaddrinfo(name: str, port: int, **_: object) -> list[object]:
        asked.append((name, port))
        raise OSError(0, "not today")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    endpoint = await open_endpoint(host="127.0.0.1", options=EngineOptions())
    try:
        with pytest.raises(ConnectError, match=r"cher\.example:7: not today"):
            await endpoint.connect(
                ("b\u00fccher.example", 7), handler=lambda _: Side(), alpn=[ALPN]
            )
    finally:
        await endpoint.close()
    assert asked[-1] == ("xn--bcher-kva.example", 7)


async def test_who_listens_needs_a_certificate() -> None:
    with pytest.raises(StateError, match="needs a certificate"):
        await open_endpoint(options=EngineOptions(alpn=(ALPN,)), listener=Side())


async def test_certificates_are_reloaded_by_the_engine() -> None:
    endpoint = await open_endpoint(
        backend="memory", network=MemoryNetwork(), options=EngineOptions()
    )
    endpoint.reload_certificate()
    assert isinstance(endpoint._engine, MemoryEngine)
    assert endpoint._engine.reloads == 1
    assert endpoint.connections == endpoint.half_open == 0
    await endpoint.close()


async def test_a_socket_can_be_brought_along() -> None:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind(("127.0.0.1", 0))
    name = made.getsockname()
    endpoint = await open_endpoint(sock=made, options=EngineOptions())
    assert endpoint.local_address == name
    await endpoint.close()


async def test_webtransport_is_served_on_the_same_port() -> None:
    server, client = Side(), Side()
    listening = await open_endpoint(
        options=EngineOptions(alpn=(ALPN,), tls=certificates().server), listener=server
    )
    dialling = await open_endpoint(options=EngineOptions(tls=certificates().insecure))
    connection = await dialling.connect(
        listening.local_address,
        handler=client,
        alpn=[ALPN],
        webtransport_path="/here",
        timeout=30,
    )
    assert connection.is_webtransport
    assert connection.alpn == ALPN
    await server.until_connected()
    assert server.connection.path == "/here"
    connection.open_unidirectional().write(b"hello", fin=True)
    await server.until(lambda side: any(event.fin for event in side.of(StreamData)))
    with pytest.raises(ConnectError):
        await dialling.connect(
            listening.local_address, handler=client, alpn=["odd"], webtransport_path="/", timeout=30
        )
    await dialling.close()
    await listening.close()


async def test_webtransport_can_be_left_out() -> None:
    network = MemoryNetwork()
    listening = await open_endpoint(
        backend="memory",
        network=network,
        options=EngineOptions(alpn=(ALPN,)),
        listener=Side(),
        webtransport=False,
    )
    dialling = await open_endpoint(backend="memory", network=network, options=EngineOptions())
    with pytest.raises(ConnectError, match="no protocol in common"):
        await dialling.connect(
            listening.local_address, handler=Side(), alpn=[ALPN], webtransport_path="/", timeout=30
        )
    await dialling.close()
    await listening.close()


async def test_a_listener_of_the_client_that_fails_is_told() -> None:
    network = MemoryNetwork()
    listening = await open_endpoint(
        backend="memory", network=network, options=EngineOptions(alpn=(ALPN,)), listener=Side()
    )
    dialling = await open_endpoint(backend="memory", network=network, options=EngineOptions())

    def fail(connection: Connection) -> Handler:
        raise ZeroDivisionError

    with pytest.raises(ConnectError, match="our listener failed"):
        await dialling.connect(listening.local_address, handler=fail, alpn=[ALPN], timeout=30)
    await dialling.close()
    await listening.close()


async def test_a_dial_that_is_cancelled_leaves_nothing_behind() -> None:
    network = MemoryNetwork()
    listening = await open_endpoint(
        backend="memory", network=network, options=EngineOptions(alpn=(ALPN,)), listener=Side()
    )
    dialling = await open_endpoint(backend="memory", network=network, options=EngineOptions())
    network.drop = lambda _: True
    client = Side()
    task = asyncio.create_task(
        dialling.connect(listening.local_address, handler=client, alpn=[ALPN], timeout=30)
    )
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    for _ in range(5):
        await asyncio.sleep(0)
    assert dialling.connections == 0
    assert client.events == []
    await dialling.close()
    await listening.close()


async def test_closing_ends_dials_under_way() -> None:
    network = MemoryNetwork()
    network.drop = lambda _: True
    dialling = await open_endpoint(backend="memory", network=network, options=EngineOptions())
    task = asyncio.create_task(
        dialling.connect(("127.0.0.1", 9), handler=Side(), alpn=[ALPN], timeout=30)
    )
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await dialling.close(3, "no more")
    with pytest.raises(ConnectError, match="no more"):
        await task


def test_addresses_for_people() -> None:
    assert show(("192.0.2.1", 5)) == "192.0.2.1:5"
    assert show(("2001:db8::1", 5)) == "[2001:db8::1]:5"


class TestVirtualTime:
    """The same endpoints on a clock that jumps: long waits cost nothing and cannot be missed."""

    @pytest.mark.parametrize(("keepalive", "expected"), [(0.0, 30.0), (10.0, 10.0)])
    def test_silence_ends_a_connection_after_exactly_its_time(
        self, keepalive: float, expected: float
    ) -> None:
        async def main() -> float:
            network, server, client = MemoryNetwork(delay=0.05), Side(), Side()
            limits = ConnectionLimits(keepalive=keepalive)
            listening = await open_endpoint(
                backend="memory",
                network=network,
                options=EngineOptions(alpn=(ALPN,), limits=limits),
                listener=server,
            )
            dialling = await open_endpoint(
                backend="memory", network=network, options=EngineOptions()
            )
            await dialling.connect(listening.local_address, handler=client, alpn=[ALPN])
            await server.until_connected()
            await asyncio.sleep(1)  # until the last acknowledgement has arrived
            loop = asyncio.get_running_loop()
            network.drop = lambda _: True
            began = loop.time()
            await server.until_some(Closed)
            took = loop.time() - began
            await dialling.close()
            await listening.close()
            return took

        # The last packet came within the second before.
        assert expected - 1.5 < run_virtually(main()) < expected

    def test_a_deadline_is_kept_to_the_moment(self) -> None:
        async def main() -> float:
            network, server, client = MemoryNetwork(delay=0.05), Side(), Side()
            listening = await open_endpoint(
                backend="memory",
                network=network,
                options=EngineOptions(alpn=(ALPN,)),
                listener=server,
            )
            dialling = await open_endpoint(
                backend="memory", network=network, options=EngineOptions()
            )
            connection = await dialling.connect(
                listening.local_address, handler=client, alpn=[ALPN]
            )
            network.drop = lambda _: True
            stream = connection.open_unidirectional(droppable=True, deadline=connection.now + 5)
            stream.write(b"x" * 200_000, fin=True)
            began = connection.now
            event = await client.until_some(StreamDropped)
            assert event.reason is DropReason.EXPIRED
            took = connection.now - began
            await dialling.close()
            await listening.close()
            return took

        assert run_virtually(main()) == pytest.approx(5.0, abs=0.001)

    def test_a_dial_says_how_long_it_waited(self) -> None:
        async def main() -> None:
            network = MemoryNetwork()
            dialling = await open_endpoint(
                backend="memory", network=network, options=EngineOptions()
            )
            with pytest.raises(ConnectError, match=r"gave no answer within 7\.5 s"):
                await dialling.connect(("127.0.0.1", 9), handler=Side(), alpn=[ALPN], timeout=7.5)
            await dialling.close()

        run_virtually(main())

    def test_a_loop_that_would_wait_for_ever_says_so(self) -> None:
        with pytest.raises(RuntimeError, match="for ever"):
            run_virtually(asyncio.Event().wait())
