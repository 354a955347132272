"""Two endpoints with a link between them, for tests that every transport backend has to pass.

::

    async with open_pair(backends, link=True) as pair:
        pair.client.connection.open_bidirectional().write(b"hello", fin=True)
        await pair.server.until(lambda side: side.received(0) == (b"hello", True))

A test waits for conditions, never for durations. ``link`` can lose, reorder, go dark and rebind,
whatever the backend: a UDP proxy for real sockets, the network itself for the memory backend.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple, Protocol, TypeVar

from laps_sdk.quic.admission import AdmissionLimits
from laps_sdk.quic.base import Address, Connection, ConnectionLimits, EgressLimits, Listener
from laps_sdk.quic.endpoint import Backend, Endpoint, open_endpoint
from laps_sdk.quic.engine import EngineOptions, Tls
from laps_sdk.quic.events import Closed, Event, StreamData
from laps_sdk.quic.memory.network import MemoryNetwork
from testkit.certs import certificates
from testkit.lossy_proxy import LossyProxy

__all__ = ["ALPN", "BACKENDS", "LIMIT", "Backends", "Link", "Pair", "Side", "open_pair"]

ALPN = "laps-test"
LIMIT = 90.0
"""Seconds until a test says what it waited for; nothing good takes nearly as long."""

E = TypeVar("E")


class Backends(NamedTuple):
    """Who serves and who dials."""

    server: Backend
    client: Backend

    def __str__(self) -> str:
        return self.server if self.server == self.client else f"{self.client}-to-{self.server}"


BACKENDS = (
    Backends("aioquic", "aioquic"),
    Backends("aioquic-stock", "aioquic-stock"),
    Backends("qh3", "qh3"),
    Backends("memory", "memory"),
    Backends("qh3", "aioquic"),
    Backends("aioquic", "qh3"),
)


class Side:
    """A handler that records what happens and lets tests wait for it."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._connection: Connection | None = None
        self._changed = asyncio.Event()
        self.on_event: Callable[[Connection, Event], None] | None = None

    def __call__(self, connection: Connection) -> Side:
        """As a listener: this side takes the connection."""
        self._connection = connection
        self._changed.set()
        return self

    @property
    def connection(self) -> Connection:
        assert self._connection is not None, "not connected"
        return self._connection

    def handle_events(self, events: Sequence[Event]) -> None:
        for event in events:
            self.events.append(event)
            if self.on_event is not None:
                self.on_event(self.connection, event)
        self._changed.set()

    def of(self, kind: type[E]) -> list[E]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    def received(self, stream_id: int) -> tuple[bytes, bool]:
        """What came on a stream, and whether it has ended."""
        data = [event for event in self.of(StreamData) if event.stream_id == stream_id]
        return b"".join(event.data for event in data), any(event.fin for event in data)

    def ended(self) -> set[int]:
        """The streams that ended with FIN."""
        return {event.stream_id for event in self.of(StreamData) if event.fin}

    async def until(self, condition: Callable[[Side], object]) -> None:
        """Wait until something is true of this side; it is looked at after every event."""
        try:
            async with asyncio.timeout(LIMIT):
                while not condition(self):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            last = [_short(event) for event in self.events[-5:]]
            raise AssertionError(f"never became true; the last events were {last}") from None

    async def until_some(self, kind: type[E]) -> E:
        """Wait for the first event of a kind."""
        await self.until(lambda side: side.of(kind))
        return self.of(kind)[0]

    async def until_connected(self) -> Connection:
        await self.until(lambda side: side._connection is not None)
        return self.connection


def _short(event: Event) -> str:
    text = repr(event)
    return text if len(text) < 200 else f"{text[:200]}..."


class Link(Protocol):
    """What lies between the two."""

    loss: float
    blackhole: bool

    @property
    def lost(self) -> int: ...

    def shuffle(self) -> None:
        """Let packets overtake each other from now on."""

    async def rebind(self) -> None:
        """The client's packets come from another port from now on."""


class _ProxyLink(LossyProxy):
    def shuffle(self) -> None:
        self.reorder = 0.2


class _NetworkLink:
    def __init__(self, network: MemoryNetwork, client: Address) -> None:
        self._network = network
        self._client = client

    @property
    def loss(self) -> float:
        return self._network.loss

    @loss.setter
    def loss(self, value: float) -> None:
        self._network.loss = value

    @property
    def blackhole(self) -> bool:
        return self._network.drop is not None

    @blackhole.setter
    def blackhole(self, value: bool) -> None:
        self._network.drop = (lambda _: True) if value else None

    @property
    def lost(self) -> int:
        return self._network.lost

    def shuffle(self) -> None:
        self._network.jitter = 0.005

    async def rebind(self) -> None:
        self._network.rebind(self._client)


class Pair:
    """A client and a server that are connected."""

    def __init__(
        self,
        backends: Backends,
        server: Side,
        client: Side,
        server_endpoint: Endpoint,
        client_endpoint: Endpoint,
        target: Address,
        link: Link | None,
    ) -> None:
        self.backends = backends
        self.server = server
        self.client = client
        self.server_endpoint = server_endpoint
        self.client_endpoint = client_endpoint
        self.target = target
        self._link = link

    @property
    def link(self) -> Link:
        assert self._link is not None, "open the pair with link=True"
        return self._link

    async def dial(self, side: Listener, **options: Any) -> Connection:
        """One more connection from the same client."""
        options = {"alpn": [ALPN], "timeout": LIMIT, **options}
        return await self.client_endpoint.connect(self.target, handler=side, **options)


@asynccontextmanager
async def open_pair(
    backends: Backends,
    *,
    link: bool = False,
    connect: bool = True,
    listener: Listener | None = None,
    limits: ConnectionLimits | None = None,
    client_limits: ConnectionLimits | None = None,
    egress: EgressLimits | None = None,
    admission: AdmissionLimits | None = None,
    client_tls: Tls | None = None,
    reset_key: bytes = b"",
    server_name: str | None = None,
) -> AsyncIterator[Pair]:
    """Two endpoints, and a connection between them unless ``connect`` is false.

    ``limits`` are those of the server, ``egress`` that of both.
    """
    network = MemoryNetwork(seed=1)
    server, client = Side(), Side()
    async with AsyncExitStack() as stack:
        server_endpoint = await open_endpoint(
            backend=backends.server,
            options=EngineOptions(
                alpn=(ALPN,),
                tls=certificates().server,
                limits=limits or ConnectionLimits(),
                reset_key=reset_key,
            ),
            listener=listener or server,
            egress=egress,
            admission=admission,
            network=network,
        )
        stack.push_async_callback(server_endpoint.close)
        client_endpoint = await open_endpoint(
            backend=backends.client,
            options=EngineOptions(
                tls=client_tls or certificates().insecure,
                limits=client_limits or ConnectionLimits(),
            ),
            egress=egress,
            network=network,
        )
        stack.push_async_callback(client_endpoint.close)
        target = server_endpoint.local_address
        between: Link | None = None
        if link and backends.server == "memory":
            between = _NetworkLink(network, client_endpoint.local_address)
        elif link:
            proxy = await stack.enter_async_context(_ProxyLink(target))
            await proxy.admit(client_endpoint.local_address)
            target = proxy.address
            between = proxy
        pair = Pair(backends, server, client, server_endpoint, client_endpoint, target, between)
        if connect:
            await pair.dial(client, server_name=server_name)
            if listener is None:
                await server.until_connected()
        yield pair


async def closed(side: Side) -> Closed:
    """How the connection of a side ended."""
    return await side.until_some(Closed)
