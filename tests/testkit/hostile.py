"""A client that does what it should not: raw streams and datagrams on a real connection.

::

    async with hostile(edge) as mallory:
        mallory.uni(b"garbage")
        closed = await mallory.closed()
        assert closed.code == SessionCode.PROTOCOL_VIOLATION
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from laps_sdk.transport.base import Connection, ConnectionLimits, EgressLimits, Handler, OutStream
from laps_sdk.transport.endpoint import Backend, open_endpoint
from laps_sdk.transport.engine import EngineOptions, Tls
from laps_sdk.transport.events import Closed, Event, StopSending, StreamData, StreamReset
from laps_wire.moqt.control import encode
from laps_wire.moqt.messages import ClientSetup, Message, Setup
from laps_wire.moqt.setup import SetupOptions
from laps_wire.moqt.versions import Draft
from testkit.edge_task import Edge

__all__ = ["Hostile", "hostile"]

LIMIT = 30.0
"""Seconds that the relay has to answer: generous, since machines are busy."""


class Hostile:
    """A connection without a session above it."""

    def __init__(self, connection: Connection, draft: Draft) -> None:
        self.connection = connection
        self.draft = draft
        self.events: list[Event] = []
        self._changed = asyncio.Event()

    def handle_events(self, events: Sequence[Event]) -> None:
        self.events += events
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the events so far satisfy something."""
        async with asyncio.timeout(LIMIT):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def closed(self) -> Closed:
        """Wait for the relay to close the connection."""
        await self.until(lambda: any(isinstance(event, Closed) for event in self.events))
        return next(event for event in self.events if isinstance(event, Closed))

    async def refused(self, stream_id: int) -> StreamReset | StopSending:
        """Wait for the relay to give up one stream."""

        def found() -> list[StreamReset | StopSending]:
            return [
                event
                for event in self.events
                if isinstance(event, StreamReset | StopSending) and event.stream_id == stream_id
            ]

        await self.until(lambda: bool(found()))
        return found()[0]

    def received(self, stream_id: int) -> bytes:
        """What came on a stream so far."""
        return b"".join(
            event.data
            for event in self.events
            if isinstance(event, StreamData) and event.stream_id == stream_id
        )

    # Sending

    def uni(self, data: bytes, fin: bool = False) -> OutStream:
        stream = self.connection.open_unidirectional()
        stream.write(data, fin)
        return stream

    def bidi(self, data: bytes, fin: bool = False) -> OutStream:
        stream = self.connection.open_bidirectional()
        stream.write(data, fin)
        return stream

    def message(self, message: Message) -> bytes:
        return encode(message, self.draft)

    def setup(self) -> OutStream:
        """Our SETUP as it should be; in draft 16 the control stream is given back."""
        options = SetupOptions(path="/", authority="localhost")
        if self.draft is Draft.D16:
            return self.bidi(self.message(ClientSetup(options)))
        return self.uni(self.message(Setup(options)))


@asynccontextmanager
async def hostile(
    edge: Edge, draft: Draft = Draft.D16, *, backend: Backend = "aioquic"
) -> AsyncIterator[Hostile]:
    """Connect to the relay without saying anything."""
    made: list[Hostile] = []

    def listener(connection: Connection) -> Handler:
        made.append(Hostile(connection, draft))
        return made[0]

    endpoint = await open_endpoint(
        backend=backend,
        options=EngineOptions(tls=Tls(ca_file=edge.ca_file), limits=ConnectionLimits()),
        egress=EgressLimits(max_control_bytes=64 << 20),
    )
    try:
        await endpoint.connect(
            ("127.0.0.1", edge.port),
            handler=listener,
            alpn=[draft.alpn],
            server_name="localhost",
            timeout=LIMIT,
        )
        yield made[0]
    finally:
        await endpoint.close()
