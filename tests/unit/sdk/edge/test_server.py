"""The Edge's shell, on the memory network and virtual time: no sockets, no waiting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from laps_sdk.edge.relay import EdgeRelay
from laps_sdk.edge.server import EdgeServer, EdgeServerConfig
from laps_sdk.edge.settings import EdgeSettings
from laps_sdk.forwarding.plane import Plane
from laps_sdk.quic.base import Connection, Handler
from laps_sdk.quic.endpoint import open_endpoint
from laps_sdk.quic.engine import EngineOptions
from laps_sdk.quic.events import Closed, Event
from laps_sdk.quic.memory.network import MemoryNetwork
from laps_wire.moqt.codepoints import SessionCode
from testkit.certs import certificates
from testkit.edge_task import OpenAuthorizer
from testkit.virtual_loop import run_virtually

ADDRESS = ("10.0.0.1", 33435)


class Client:
    """A connection that says nothing by itself."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.events: list[Event] = []
        self.over = asyncio.Event()

    def handle_events(self, events: Sequence[Event]) -> None:
        self.events += events
        if any(isinstance(event, Closed) for event in events):
            self.over.set()

    async def closed(self) -> Closed:
        await self.over.wait()
        return next(event for event in self.events if isinstance(event, Closed))


@asynccontextmanager
async def server(network: MemoryNetwork, config: EdgeServerConfig) -> AsyncIterator[EdgeServer]:
    plane = Plane()
    relay = EdgeRelay(plane, OpenAuthorizer(), EdgeSettings())
    made = EdgeServer(config, relay, plane, network=network)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


@asynccontextmanager
async def client(network: MemoryNetwork, alpn: str) -> AsyncIterator[Client]:
    made: list[Client] = []

    def listener(connection: Connection) -> Handler:
        made.append(Client(connection))
        return made[0]

    endpoint = await open_endpoint(
        host="10.0.0.2", backend="memory", options=EngineOptions(), network=network
    )
    try:
        await endpoint.connect(ADDRESS, handler=listener, alpn=[alpn])
        yield made[0]
    finally:
        await endpoint.close()


def config(**changes: object) -> EdgeServerConfig:
    return EdgeServerConfig(
        host=ADDRESS[0],
        port=ADDRESS[1],
        backend="memory",
        engine=EngineOptions(tls=certificates().server),
        **changes,  # type: ignore[arg-type]  # the fields' own types
    )


def test_a_server_that_does_not_run_has_neither_address_nor_clock() -> None:
    plane = Plane()
    made = EdgeServer(EdgeServerConfig(), EdgeRelay(plane, OpenAuthorizer(), EdgeSettings()), plane)
    for what in ("address", "endpoint", "now"):
        with pytest.raises(RuntimeError, match="not running"):
            getattr(made, what)


def test_a_client_that_sends_no_setup_is_let_go_when_its_time_is_over() -> None:
    async def run() -> None:
        network = MemoryNetwork()
        async with (
            server(network, config(setup_timeout=5.0)) as edge,
            client(network, "moqt-16") as quiet,
        ):
            loop = asyncio.get_running_loop()
            assert list(edge.ports) == [1]
            began = loop.time()
            closed = await quiet.closed()
            assert closed.code == SessionCode.CONTROL_MESSAGE_TIMEOUT
            assert 4.0 < loop.time() - began < 7.0
            assert not edge.ports
            assert not edge.relay.sessions()

    run_virtually(run())


def test_a_draft_that_is_switched_off_is_refused_in_words() -> None:
    """WebTransport can bring a session without a protocol that we took in TLS."""

    async def run() -> None:
        network = MemoryNetwork()
        async with (
            server(network, config(drafts=("moqt-16", "odd-1"))) as edge,
            client(network, "odd-1") as other,
        ):
            closed = await other.closed()
            assert closed.code == SessionCode.VERSION_NEGOTIATION_FAILED
            assert "we speak moqt-16" in closed.reason
            assert not edge.ports

    run_virtually(run())


def test_sessions_are_told_goodbye_by_the_one_timer() -> None:
    """Draining sends GOAWAY; who stays is closed when the relay's patience ends."""

    async def run() -> None:
        network = MemoryNetwork()
        turns: list[float] = []
        async with (
            server(network, config(setup_timeout=1000.0)) as edge,
            client(network, "moqt-18") as other,
        ):
            edge.on_turn = turns.append
            edge.relay.drain(edge.now, "moqt://elsewhere:33435")
            edge.settle()
            closed = await other.closed()
            assert closed.code in (SessionCode.GOAWAY_TIMEOUT, SessionCode.NO_ERROR)
            assert turns

    run_virtually(run())


def test_a_server_can_be_stopped_twice_and_closes_its_sessions() -> None:
    async def run() -> None:
        network = MemoryNetwork()
        async with server(network, config()) as edge, client(network, "moqt-16") as other:
            edge.reload_certificate()
            await edge.stop(SessionCode.NO_ERROR, "enough")
            assert (await other.closed()).reason == "enough"
            await edge.stop()

    run_virtually(run())
