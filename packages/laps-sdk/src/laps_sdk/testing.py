"""A relay in memory for the tests of applications, without sockets and certificates.

::

    async with memory_relay() as relay:
        async with relay.connect() as alice, relay.connect() as bob:
            track = await alice.publish("demo", "news")
            async with bob.subscribe("demo", "news") as news:
                await track.write(b"hello")
                assert (await anext(news)).payload == b"hello"

The relay forwards each published object to every subscriber, in order and whole. It announces
namespaces. It has no cache, no limits and no authorization: tests of those need a real relay.

::

    Session (laps_sdk.client) -- MemoryNetwork (laps_sdk.quic.memory) -- MemoryRelay

Applications import this module; nothing inside the SDK does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from laps_sdk.client.session import Session, connect
from laps_sdk.quic.base import Connection, Handler
from laps_sdk.quic.endpoint import Endpoint, open_endpoint
from laps_sdk.quic.engine import EngineOptions
from laps_sdk.quic.memory.network import MemoryNetwork
from laps_sdk.quic.moqt import DRAFTS, MoqtPeer
from laps_wire.moqt.codepoints import PUBLISH_DONE_CODES, RequestErrorCode
from laps_wire.moqt.data import (
    MoqObject,
    ObjectCollector,
    ObjectDatagram,
    SubgroupHeader,
    SubgroupParser,
    SubgroupWriter,
    decode_datagram,
    encode_datagram,
)
from laps_wire.moqt.messages import (
    Publish,
    PublishNamespace,
    Subscribe,
    SubscribeNamespace,
)
from laps_wire.moqt.session import (
    Event,
    PublishEnded,
    RequestCancelled,
    RequestReceived,
    Terminated,
)
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace

if TYPE_CHECKING:
    from laps_sdk.quic.base import OutStream
    from laps_sdk.quic.events import Closed, StopSending, StreamDropped
    from laps_wire.moqt.data.types import StreamKind

__all__ = ["MemoryRelay", "memory_relay"]


class _Incoming:
    """A publisher's stream and its copies to the subscribers."""

    __slots__ = ("collector", "out")

    def __init__(self, draft: Draft) -> None:
        self.collector = ObjectCollector(SubgroupParser(draft))
        self.out: list[tuple[OutStream, SubgroupWriter]] = []


class _Client:
    """One session at the relay: a ``MoqtApplication``."""

    def __init__(self, relay: MemoryRelay, connection: Connection, draft: Draft) -> None:
        self.relay = relay
        self.connection = connection
        self.draft = draft
        self.peer = MoqtPeer(connection, self, draft=draft)
        self.published: dict[int, FullTrackName] = {}
        """Tracks by the publisher's alias."""
        self.requests: dict[int, FullTrackName | Namespace] = {}
        """The track or namespace of each request of the client."""
        self.subscribed: dict[FullTrackName, int] = {}
        self.watched: dict[int, Namespace] = {}
        self.streams: dict[int, _Incoming] = {}

    # MoqtApplication

    def session_event(self, peer: MoqtPeer, event: Event) -> None:
        """Answer the requests of the client."""
        match event:
            case RequestReceived():
                self._asked(peer, event)
            case PublishEnded() | RequestCancelled():
                self._over(event.request_id)
            case Terminated():
                for request_id in list(self.requests):
                    self._over(request_id)
            case _:
                pass

    def _asked(self, peer: MoqtPeer, event: RequestReceived) -> None:
        session, request_id = peer.session, event.request_id
        match event.message:
            case Publish(track=track, track_alias=alias):
                self.published[alias] = track
                self.requests[request_id] = track
                session.accept(request_id)
            case Subscribe(track=track):
                self.requests[request_id] = track
                self.subscribed[track] = request_id
                session.accept_subscribe(request_id, request_id)
            case PublishNamespace(namespace=namespace):
                self.requests[request_id] = namespace
                session.accept(request_id)
                self.relay.tell(namespace, there=True)
            case SubscribeNamespace(prefix=prefix):
                self.watched[request_id] = prefix
                session.accept(request_id)
                for namespace in self.relay.namespaces:
                    self.tell(namespace, there=True)
            case _:
                words = "the memory relay does not do this"
                session.reject(request_id, RequestErrorCode.NOT_SUPPORTED, words)

    def _over(self, request_id: int) -> None:
        self.watched.pop(request_id, None)
        about = self.requests.pop(request_id, None)
        if isinstance(about, Namespace):
            self.relay.tell(about, there=False)
        elif about is not None and self.subscribed.get(about) == request_id:
            del self.subscribed[about]
        elif about is not None:
            self.relay.ended(about)

    def tell(self, namespace: Namespace, *, there: bool) -> None:
        """Send a namespace event to the client if it watches the prefix."""
        for request_id, prefix in self.watched.items():
            if prefix.is_prefix_of(namespace):
                suffix = Namespace(namespace.fields[len(prefix.fields) :])
                session = self.peer.session
                (session.namespace if there else session.namespace_done)(request_id, suffix)
        self.peer.settle()

    def stream_opened(
        self,
        peer: MoqtPeer,
        stream_id: int,
        kind: StreamKind,  # noqa: ARG002 - the interface
        data: bytes,
        fin: bool,
    ) -> None:
        """Forward the objects of a new stream."""
        self.streams[stream_id] = _Incoming(self.draft)
        self.stream_data(peer, stream_id, data, fin)

    def stream_data(
        self,
        peer: MoqtPeer,  # noqa: ARG002 - the interface
        stream_id: int,
        data: bytes,
        fin: bool,
    ) -> None:
        """Forward further objects of a stream."""
        stream = self.streams[stream_id]
        for item in stream.collector.feed(data):
            if isinstance(item, SubgroupHeader):
                track = self.published.get(item.track_alias)
                stream.out = [] if track is None else self.relay.open(track, item)
            elif isinstance(item, MoqObject):
                header = item.header
                for out, writer in stream.out:
                    out.write(
                        writer.object(
                            header.object_id,
                            item.payload,
                            extensions=header.extensions,
                            status=header.status,
                        )
                    )
        if fin:
            del self.streams[stream_id]
            for out, _ in stream.out:
                out.write(b"", True)

    def stream_reset(
        self,
        peer: MoqtPeer,  # noqa: ARG002 - the interface
        stream_id: int,
        code: int,
    ) -> None:
        """Reset the copies of a stream that the publisher reset."""
        for out, _ in self.streams.pop(stream_id).out:
            out.reset(code)

    def datagram(self, peer: MoqtPeer, data: bytes) -> None:  # noqa: ARG002 - the interface
        """Forward a datagram."""
        datagram = decode_datagram(data, self.draft)
        if isinstance(datagram, ObjectDatagram):
            track = self.published.get(datagram.track_alias)
            for client, alias in [] if track is None else self.relay.subscribers(track):
                client.connection.send_datagram(
                    encode_datagram(datagram._replace(track_alias=alias), client.draft)
                )

    def out_stream_stopped(self, peer: MoqtPeer, event: StopSending) -> None:
        """Ignore the event: further writes to the stream have no effect."""

    def out_stream_dropped(self, peer: MoqtPeer, event: StreamDropped) -> None:
        """Ignore the event: further writes to the stream have no effect."""

    def writable(self, peer: MoqtPeer) -> None:
        """Ignore the event: the relay never waits."""

    def closed(self, peer: MoqtPeer, event: Closed) -> None:  # noqa: ARG002 - the interface
        """Forget a client whose connection closed."""
        self.relay.clients.remove(self)


class MemoryRelay:
    """A relay in this process; :func:`memory_relay` makes it."""

    def __init__(self, network: MemoryNetwork) -> None:
        self.network = network
        """The network to the relay; set its ``delay`` or ``loss`` to test an application."""
        self.clients: list[_Client] = []
        self.namespaces: dict[Namespace, int] = {}
        self._endpoint: Endpoint | None = None

    @property
    def url(self) -> str:
        """The address; :func:`laps_sdk.connect` also needs ``network=relay.network``."""
        port = 0 if self._endpoint is None else self._endpoint.local_address[1]
        return f"moqt://127.0.0.1:{port}"

    def connect(self, **options: Any) -> Session:
        """Return a session with this relay; the options are those of :func:`laps_sdk.connect`."""
        return connect(self.url, network=self.network, **options)

    async def start(self, drafts: tuple[str, ...]) -> None:
        """Start to listen."""
        self._endpoint = await open_endpoint(
            backend="memory",
            options=EngineOptions(alpn=drafts),
            listener=self._accept,
            network=self.network,
        )

    async def stop(self) -> None:
        """Close every session."""
        if self._endpoint is not None:
            await self._endpoint.close()

    def _accept(self, connection: Connection) -> Handler:
        draft = Draft.from_alpn(connection.alpn) or Draft.D18
        client = _Client(self, connection, draft)
        self.clients.append(client)
        return client.peer

    # For clients

    def subscribers(self, track: FullTrackName) -> list[tuple[_Client, int]]:
        """Return the subscribers of a track with their aliases."""
        return [(c, c.subscribed[track]) for c in self.clients if track in c.subscribed]

    def open(
        self, track: FullTrackName, header: SubgroupHeader
    ) -> list[tuple[OutStream, SubgroupWriter]]:
        """Open a stream to every subscriber of a track."""
        opened = []
        for client, alias in self.subscribers(track):
            own = SubgroupHeader(
                alias,
                header.group_id,
                header.subgroup_id,
                header.priority,
                has_extensions=header.has_extensions,
                end_of_group=header.end_of_group,
            )
            writer = SubgroupWriter(own, client.draft)
            stream = client.connection.open_unidirectional(droppable=True)
            stream.write(writer.start)
            opened.append((stream, writer))
        return opened

    def ended(self, track: FullTrackName) -> None:
        """Send PUBLISH_DONE to the subscribers of a track."""
        for client, request_id in self.subscribers(track):
            code = PUBLISH_DONE_CODES[client.draft].TRACK_ENDED
            del client.subscribed[track]
            client.requests.pop(request_id, None)
            client.peer.session.publish_done(request_id, code, 0, "the track ended")
            client.peer.settle()

    def tell(self, namespace: Namespace, *, there: bool) -> None:
        """Count an announcement or a withdrawal, and inform the clients of a change."""
        count = self.namespaces.get(namespace, 0) + (1 if there else -1)
        if count:
            self.namespaces[namespace] = count
        else:
            self.namespaces.pop(namespace, None)
        if count == there:
            for client in self.clients:
                client.tell(namespace, there=there)


@asynccontextmanager
async def memory_relay(
    *, drafts: tuple[str, ...] = DRAFTS, network: MemoryNetwork | None = None
) -> AsyncIterator[MemoryRelay]:
    """Run a relay for the block of ``async with``."""
    relay = MemoryRelay(network or MemoryNetwork())
    await relay.start(drafts)
    try:
        yield relay
    finally:
        await relay.stop()
