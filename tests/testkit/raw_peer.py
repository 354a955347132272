"""A peer that says what a test wants: a QUIC connection to a peer port, without any session."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from laps_sdk.quic.base import Address, Connection, Handler, OutStream
from laps_sdk.quic.endpoint import open_endpoint
from laps_sdk.quic.engine import EngineOptions, Tls
from laps_sdk.quic.events import Closed, Event, StreamData

__all__ = ["RawPeer", "raw_peer"]


class RawPeer:
    """A connection, and what came over it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.events: list[Event] = []

    def handle_events(self, events: Sequence[Event]) -> None:
        self.events += events

    @property
    def closed(self) -> Closed | None:
        """How it ended."""
        return next((event for event in self.events if isinstance(event, Closed)), None)

    def received(self, stream_id: int) -> bytes:
        """All bytes of a stream."""
        return b"".join(
            event.data
            for event in self.events
            if isinstance(event, StreamData) and event.stream_id == stream_id
        )

    def control(self) -> OutStream:
        """A new bidirectional stream."""
        return self.connection.open_bidirectional()

    def data(self) -> OutStream:
        """A new unidirectional stream."""
        return self.connection.open_unidirectional()


@asynccontextmanager
async def raw_peer(address: Address, alpn: str = "laps-2") -> AsyncIterator[RawPeer]:
    """Connect to a peer port."""
    endpoint = await open_endpoint(options=EngineOptions(tls=Tls(verify=False)))
    made: list[RawPeer] = []

    def handler(connection: Connection) -> Handler:
        made.append(RawPeer(connection))
        return made[0]

    try:
        await endpoint.connect(address, handler=handler, alpn=(alpn,), timeout=30.0)
        yield made[0]
    finally:
        await endpoint.close()
