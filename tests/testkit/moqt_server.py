"""A relay that does what a test says: the other end of a client, on the memory network.

::

    async with moqt_server() as server:
        async with laps_sdk.connect(server.url, network=server.network) as session:
            peer = await server.session()
            asked = await peer.request(Subscribe)
            peer.do(lambda s: s.accept_subscribe(asked.request_id, 7))
            peer.send_group(7, 0, [b"one", b"two"])
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import laps_sdk
from laps_sdk.client.link import Link
from laps_sdk.quic.base import Connection, Handler, Listener, OutStream
from laps_sdk.quic.endpoint import Endpoint, open_endpoint
from laps_sdk.quic.engine import EngineOptions
from laps_sdk.quic.events import Closed, StopSending, StreamDropped
from laps_sdk.quic.memory.network import MemoryNetwork
from laps_sdk.quic.moqt import DRAFTS, MoqtPeer
from laps_wire.moqt.codepoints import GroupOrder
from laps_wire.moqt.data import (
    FetchHeader,
    FetchWriter,
    MoqObject,
    ObjectCollector,
    ObjectDatagram,
    ObjectHeader,
    ObjectStatus,
    RangeEnd,
    StreamKind,
    SubgroupHeader,
    SubgroupParser,
    SubgroupWriter,
    decode_datagram,
    encode_datagram,
    encode_extensions,
)
from laps_wire.moqt.keyvalue import KeyValue
from laps_wire.moqt.session import Event, RequestReceived, RequestRejected, Session, SessionLimits
from laps_wire.moqt.setup import SetupOptions
from laps_wire.moqt.top_n import TOP_N_EXTENSIONS
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName

__all__ = [
    "FAST",
    "LIMIT",
    "MoqtServer",
    "ServerPeer",
    "eventually",
    "hurry",
    "joined",
    "link_of",
    "moqt_server",
    "soon",
]

LIMIT = 20.0
"""Seconds that a test waits for anything; never reached unless something is wrong."""

FAST = laps_sdk.Backoff(first=0.001, cap=0.01)
"""Tries again almost at once: tests wait for what happens, not for time."""

_UNKNOWN = FullTrackName.parse("round--trip")
"""A track that no client publishes: a client answers a question about it with an error."""

E = TypeVar("E")


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait for a condition of which nobody tells."""
    async with asyncio.timeout(LIMIT):
        while not condition():  # noqa: ASYNC110 - there is no event behind it
            await asyncio.sleep(0.001)


async def soon(awaitable: Awaitable[E]) -> E:
    """Await something that must not take forever."""
    async with asyncio.timeout(LIMIT):
        return await awaitable


def hurry(session: laps_sdk.Session, **seconds: float) -> None:
    """Shorten the patience of a session that stands: connecting must not depend on it."""
    for option, value in seconds.items():
        object.__setattr__(session._reconnector.options, option, value)


def link_of(session: laps_sdk.Session) -> Link:
    """Return the current link of a session; there must be one."""
    link = session._reconnector.link
    assert link is not None
    return link


class ServerPeer:
    """One session of a client: a ``MoqtApplication`` that writes down what it hears."""

    def __init__(
        self, connection: Connection, options: SetupOptions, limits: SessionLimits | None
    ) -> None:
        draft = Draft.from_alpn(connection.alpn)
        assert draft is not None
        self.draft = draft
        self.connection = connection
        self.events: list[Event] = []
        self.headers: list[SubgroupHeader] = []
        self.objects: list[MoqObject] = []
        """Objects of the client's streams, in order of arrival."""
        self.datagrams: list[ObjectDatagram] = []
        self.finished = 0
        """Streams that ended in good order."""
        self.resets: list[int] = []
        self.stopped: list[int] = []
        """Codes with which the client refused streams of ours."""
        self.over: Closed | None = None
        self._collectors: dict[int, ObjectCollector] = {}
        self._taken = 0
        self._news = asyncio.Event()
        self.peer = MoqtPeer(
            connection,
            self,
            draft=draft,
            options=options,
            limits=limits,
            extensions=TOP_N_EXTENSIONS,
        )

    # For tests

    @property
    def receiving(self) -> list[int]:
        """The streams of the client that are not over."""
        return list(self._collectors)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition that only news from the client can make true."""
        async with asyncio.timeout(LIMIT):
            while not condition():
                self._news.clear()
                await self._news.wait()

    async def expect(self, kind: type[E], where: Callable[[E], bool] = lambda _: True) -> E:
        """The next event of a kind; those before it are skipped."""
        found: list[E] = []

        def look() -> bool:
            while self._taken < len(self.events):
                event = self.events[self._taken]
                self._taken += 1
                if isinstance(event, kind) and where(event):
                    found.append(event)
                    return True
            return False

        await self.until(look)
        return found[0]

    async def request(self, message: type) -> RequestReceived:
        """The next request with such a message."""
        return await self.expect(RequestReceived, lambda e: isinstance(e.message, message))

    async def round_trip(self) -> None:
        """Wait until the client has handled what was sent to it before.

        A request can overtake data that waits, so a second one follows the answer to the first.
        """
        for _ in range(2):
            await self._asked_and_answered()

    async def _asked_and_answered(self) -> None:
        asked: list[int] = []
        self.do(lambda session: asked.append(session.track_status(_UNKNOWN)))
        await self.until(
            lambda: any(
                isinstance(event, RequestRejected) and event.request_id in asked
                for event in self.events
            )
        )

    def do(self, command: Callable[[Session], object]) -> None:
        """Let our session do something."""
        command(self.peer.session)
        self.peer.settle()

    def stream(self, header: SubgroupHeader) -> tuple[OutStream, SubgroupWriter]:
        """Open a subgroup stream; its header is written."""
        writer = SubgroupWriter(header, self.draft)
        stream = self.connection.open_unidirectional()
        stream.write(writer.start)
        return stream, writer

    def send_group(
        self,
        alias: int,
        group: int,
        payloads: Sequence[bytes],
        *,
        first: int = 0,
        fin: bool = True,
        end_of_group: bool = True,
        extensions: Sequence[KeyValue] = (),
        status: ObjectStatus = ObjectStatus.NORMAL,
    ) -> None:
        """A whole group on one stream; a status stands behind its objects."""
        stream, writer = self.stream(
            SubgroupHeader(alias, group, has_extensions=True, end_of_group=end_of_group)
        )
        block = encode_extensions(extensions, self.draft) if extensions else b""
        for index, payload in enumerate(payloads, first):
            stream.write(writer.object(index, payload, extensions=block))
        if status:
            stream.write(writer.object(first + len(payloads), status=status))
        if fin:
            stream.write(b"", True)

    def send_datagram(self, alias: int, group: int, object_: int, payload: bytes) -> None:
        datagram = ObjectDatagram(alias, group, object_, payload)
        assert self.connection.send_datagram(encode_datagram(datagram, self.draft))

    def send_fetch(
        self,
        request_id: int,
        items: Sequence[tuple[int, int, bytes] | RangeEnd],
        *,
        order: GroupOrder = GroupOrder.ASCENDING,
        fin: bool = True,
    ) -> OutStream:
        """The stream of a fetch: (group, object, payload), or ranges without objects."""
        writer = FetchWriter(FetchHeader(request_id), self.draft, order)
        stream = self.connection.open_unidirectional()
        stream.write(writer.start)
        for item in items:
            if isinstance(item, RangeEnd):
                stream.write(writer.range_end(item))
            else:
                group, object_, payload = item
                header = ObjectHeader(group, object_, 0, 128, len(payload))
                stream.write(writer.object(header, payload))
        if fin:
            stream.write(b"", True)
        return stream

    # MoqtApplication

    def session_event(self, peer: MoqtPeer, event: Event) -> None:
        self.events.append(event)
        self._news.set()

    def stream_opened(
        self, peer: MoqtPeer, stream_id: int, kind: StreamKind, data: bytes, fin: bool
    ) -> None:
        assert kind is StreamKind.SUBGROUP
        self._collectors[stream_id] = ObjectCollector(SubgroupParser(self.draft))
        self.stream_data(peer, stream_id, data, fin)

    def stream_data(self, peer: MoqtPeer, stream_id: int, data: bytes, fin: bool) -> None:
        for item in self._collectors[stream_id].feed(data):
            if isinstance(item, MoqObject):
                self.objects.append(item)
            elif isinstance(item, SubgroupHeader):
                self.headers.append(item)
        if fin:
            self._collectors.pop(stream_id).finish()
            self.finished += 1
        self._news.set()

    def stream_reset(self, peer: MoqtPeer, stream_id: int, code: int) -> None:
        self._collectors.pop(stream_id, None)
        self.resets.append(code)
        self._news.set()

    def datagram(self, peer: MoqtPeer, data: bytes) -> None:
        datagram = decode_datagram(data, self.draft)
        assert isinstance(datagram, ObjectDatagram)
        self.datagrams.append(datagram)
        self._news.set()

    def out_stream_stopped(self, peer: MoqtPeer, event: StopSending) -> None:
        self.stopped.append(event.code)
        self._news.set()

    def out_stream_dropped(self, peer: MoqtPeer, event: StreamDropped) -> None:
        self._news.set()

    def writable(self, peer: MoqtPeer) -> None:
        self._news.set()

    def closed(self, peer: MoqtPeer, event: Closed) -> None:
        self.over = event
        self._news.set()


class MoqtServer:
    """Takes sessions; each test looks after them itself."""

    def __init__(
        self,
        network: MemoryNetwork,
        options: SetupOptions | None = None,
        limits: SessionLimits | None = None,
    ) -> None:
        self.network = network
        self.options = options or SetupOptions()
        self.limits = limits
        self.sessions: list[ServerPeer] = []
        self.endpoint: Endpoint | None = None
        self.accept: Listener = self._accept
        """Takes a connection; a test may put something else here."""
        self._taken = 0
        self._news = asyncio.Event()

    @property
    def port(self) -> int:
        assert self.endpoint is not None
        return self.endpoint.local_address[1]

    @property
    def url(self) -> str:
        return f"moqt://127.0.0.1:{self.port}"

    async def start(self, drafts: Sequence[str], port: int = 0) -> None:
        self.endpoint = await open_endpoint(
            host="127.0.0.1",
            port=port,
            backend="memory",
            options=EngineOptions(alpn=tuple(drafts)),
            listener=self._take,
            network=self.network,
        )

    async def stop(self) -> None:
        if self.endpoint is not None:
            await self.endpoint.close()
            self.endpoint = None

    def _take(self, connection: Connection) -> Handler:
        return self.accept(connection)

    def _accept(self, connection: Connection) -> Handler:
        peer = ServerPeer(connection, self.options, self.limits)
        self.sessions.append(peer)
        self._news.set()
        return peer.peer

    async def session(self) -> ServerPeer:
        """The next session."""
        async with asyncio.timeout(LIMIT):
            while self._taken >= len(self.sessions):
                self._news.clear()
                await self._news.wait()
        self._taken += 1
        return self.sessions[self._taken - 1]


@asynccontextmanager
async def moqt_server(
    *drafts: str,
    network: MemoryNetwork | None = None,
    options: SetupOptions | None = None,
    limits: SessionLimits | None = None,
    port: int = 0,
) -> AsyncIterator[MoqtServer]:
    """A server for the block."""
    server = MoqtServer(network or MemoryNetwork(), options, limits)
    await server.start(drafts or DRAFTS, port)
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def joined(
    draft: str,
    *,
    server_options: SetupOptions | None = None,
    server_limits: SessionLimits | None = None,
    **how: Any,
) -> AsyncIterator[tuple[laps_sdk.Session, ServerPeer, MoqtServer]]:
    """A client's session and the server's end of it; ``how`` goes to ``connect``."""
    async with (
        moqt_server(draft, options=server_options, limits=server_limits) as server,
        laps_sdk.connect(server.url, network=server.network, **{"backoff": FAST, **how}) as session,
    ):
        peer = await server.session()
        await peer.until(lambda: peer.peer.session.established)
        yield session, peer, server
