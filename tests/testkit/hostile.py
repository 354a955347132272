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
from typing import TypeVar

from laps_sdk.quic.base import Connection, ConnectionLimits, EgressLimits, Handler, OutStream
from laps_sdk.quic.endpoint import Backend, open_endpoint
from laps_sdk.quic.engine import EngineOptions, Tls
from laps_sdk.quic.events import Closed, Event, StopSending, StreamData, StreamReset
from laps_wire.errors import IncompleteError
from laps_wire.moqt.control import ControlCodec, encode
from laps_wire.moqt.data import StreamKind, peek_stream_kind
from laps_wire.moqt.messages import ClientSetup, Message, Setup
from laps_wire.moqt.setup import SetupOptions
from laps_wire.moqt.versions import Draft
from testkit.edge_task import Edge

__all__ = ["Hostile", "hostile"]

M = TypeVar("M", bound=Message)

LIMIT = 30.0
"""Seconds that the relay has to answer: generous, since machines are busy."""


class Hostile:
    """A connection without a session above it."""

    def __init__(self, connection: Connection, draft: Draft) -> None:
        self.connection = connection
        self.draft = draft
        self.events: list[Event] = []
        self.deaf = False
        """Whether data streams get no more credit than they begin with: who does not read."""
        self._deaf_to: set[int] = set()
        self.control: OutStream | None = None
        """Where requests go in draft 16; set by :meth:`setup`."""
        self._received: dict[int, bytearray] = {}
        self._changed = asyncio.Event()

    def handle_events(self, events: Sequence[Event]) -> None:
        self.events += events
        for event in events:
            if isinstance(event, StreamData):
                self._received.setdefault(event.stream_id, bytearray()).extend(event.data)
                if self.deaf and event.stream_id & 2 and event.stream_id not in self._deaf_to:
                    self._deaf_to.add(event.stream_id)
                    assert self.connection.pause_reading(event.stream_id)
        self._changed.set()

    def listen(self) -> None:
        """Read what was left unread."""
        self.deaf = False
        for stream_id in self._deaf_to:
            self.connection.resume_reading(stream_id)
        self._deaf_to.clear()

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
        return bytes(self._received.get(stream_id, b""))

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
        # Over WebTransport HTTP says both.
        web = self.connection.is_webtransport
        options = SetupOptions() if web else SetupOptions(path="/", authority="localhost")
        if self.draft is Draft.D16:
            self.control = self.bidi(self.message(ClientSetup(options)))
            return self.control
        return self.uni(self.message(Setup(options)))

    def ask(self, message: Message) -> OutStream:
        """Send a request: on the control stream (16), or on a stream of its own (18)."""
        if self.control is not None:
            self.control.write(self.message(message))
            return self.control
        return self.bidi(self.message(message))

    # What the relay said

    def answers(self) -> list[Message]:
        """Messages so far: on the control stream (16), or on each request stream (18)."""
        found: list[Message] = []
        own = None if self.control is None else self.control.stream_id
        for stream_id in sorted(self._received):
            if (own is not None and stream_id != own) or stream_id & 2:
                continue
            data = self.received(stream_id)
            codec = ControlCodec(self.draft)
            while data:
                try:
                    message, used = codec.decode(data)
                except IncompleteError:
                    break
                found.append(message)
                data = data[used:]
        return found

    async def answer(self, kind: type[M]) -> M:
        """Wait for the first message of a kind."""

        def found() -> list[M]:
            return [message for message in self.answers() if isinstance(message, kind)]

        await self.until(lambda: bool(found()))
        return found()[0]

    def data_streams(self) -> list[int]:
        """Subgroup and fetch streams of the relay so far, in the order of their first bytes."""
        wanted = (StreamKind.SUBGROUP, StreamKind.FETCH)
        return [
            stream_id
            for stream_id, data in self._received.items()
            if stream_id & 2 and data and peek_stream_kind(bytes(data[:9]), self.draft) in wanted
        ]

    async def data_stream(self, number: int = 0) -> int:
        """Wait for a data stream of the relay."""
        await self.until(lambda: len(self.data_streams()) > number)
        return self.data_streams()[number]

    def ended(self, stream_id: int) -> bool:
        """Whether a stream came to its FIN."""
        return any(
            isinstance(event, StreamData) and event.stream_id == stream_id and event.fin
            for event in self.events
        )


@asynccontextmanager
async def hostile(
    edge: Edge,
    draft: Draft = Draft.D16,
    *,
    backend: Backend = "aioquic",
    limits: ConnectionLimits | None = None,
    webtransport: bool = False,
    alpn: str | None = None,
) -> AsyncIterator[Hostile]:
    """Connect to the relay without saying anything."""
    made: list[Hostile] = []

    def listener(connection: Connection) -> Handler:
        made.append(Hostile(connection, draft))
        return made[0]

    endpoint = await open_endpoint(
        backend=backend,
        options=EngineOptions(tls=Tls(ca_file=edge.ca_file), limits=limits or ConnectionLimits()),
        egress=EgressLimits(max_bytes=64 << 20, max_control_bytes=64 << 20),
    )
    try:
        await endpoint.connect(
            ("127.0.0.1", edge.port),
            handler=listener,
            alpn=[alpn or draft.alpn],
            server_name="localhost",
            webtransport_path="/" if webtransport else None,
            timeout=LIMIT,
        )
        yield made[0]
    finally:
        await endpoint.close()
