"""One connection to a relay: a MoQT session, its requests and its data.

::

    MoqtPeer --session events--> Link --by request id--> Request -> its owner
             --data------------> Incoming:
                                   subgroup stream --alias------> Sink of a subscription
                                   datagram ---------alias------> Sink of a subscription
                                   fetch stream -----request id-> Sink of a fetch
             --writable--------> writers that wait
    Sink --pause(unread)--> Incoming: its streams, also later ones, stop at their windows;
                                      the connection gives no credit for what is unread

A link lives as long as its connection. :mod:`laps_sdk.client.reconnect` attaches tracks and
subscriptions, which outlive a link, to the next one.

A stream may overtake the message that defines its alias. It is then held until the alias is known.
If too many streams wait, the oldest is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from laps_sdk.errors import RequestRefusedError, RequestTimeoutError, SessionClosedError
from laps_sdk.quic.base import Connection, OutStream
from laps_sdk.quic.events import Closed, StopSending, StreamDropped
from laps_sdk.quic.moqt import MoqtPeer
from laps_sdk.uri import RelayAddress
from laps_wire.errors import IncompleteError, RemoteError, StateError
from laps_wire.moqt.codepoints import PUBLISH_DONE_CODES, STREAM_RESET_CODES, GroupOrder
from laps_wire.moqt.data import (
    FetchParser,
    MalformedTrackError,
    MoqObject,
    ObjectCollector,
    ObjectDatagram,
    ObjectTooLargeError,
    RangeEnd,
    StreamKind,
    SubgroupHeader,
    SubgroupParser,
    decode_datagram,
    decode_fetch_header,
    decode_subgroup_header,
)
from laps_wire.moqt.data.stream import CollectedItem
from laps_wire.moqt.messages import Goaway, Publish
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.session import (
    Event,
    GoawayReceived,
    Kind,
    OkMessage,
    PeerBlocked,
    RequestAccepted,
    RequestCancelled,
    RequestReceived,
    RequestRefused,
    RequestRejected,
    RequestsAllowed,
    RequestsBlockedError,
    Session,
    SetupReceived,
    Terminated,
)
from laps_wire.moqt.setup import NO_OPTIONS, SetupOptions
from laps_wire.moqt.versions import Draft

__all__ = ["InStream", "Incoming", "Link", "LinkCallbacks", "Offer", "Request", "Sink"]

MAX_EARLY_STREAMS: Final = 64
"""Streams that may wait for their alias."""
MAX_EARLY_BYTES: Final = 1024 * 1024
MAX_EARLY_DATAGRAMS: Final = 64


class Sink(Protocol):
    """Receives the objects of a subscription or a fetch."""

    order: GroupOrder
    """The requested order of groups, needed to parse a fetch stream."""

    def stream_opened(self, stream: InStream) -> None:
        """Handle a new stream."""

    def arrived(self, stream: InStream | None, item: MoqObject, received_at: float) -> None:
        """Handle a complete object; ``stream`` is None for a datagram."""

    def absent(self, item: RangeEnd) -> None:
        """Handle a range of a fetch without objects."""

    def stream_closed(self, stream: InStream, code: int | None) -> None:
        """Handle the end of a stream: FIN (None), or a reset and its code."""

    def malformed(self, error: RemoteError) -> None:
        """Handle a malformed track."""


class InStream:
    """One data stream of the peer."""

    __slots__ = ("collector", "early", "fin", "header", "kind", "paused", "sink", "stream_id")

    def __init__(self, stream_id: int, kind: StreamKind) -> None:
        self.stream_id = stream_id
        self.kind = kind
        self.collector: ObjectCollector | None = None
        self.sink: Sink | None = None
        self.header: SubgroupHeader | None = None
        """The header of a subgroup stream, once its sink is known."""
        self.early = bytearray()
        """Bytes held until the header is complete and the alias known."""
        self.fin = False
        self.paused = False


class Unread:
    """The bytes that wait at one paused sink."""

    __slots__ = ("partial", "queued")

    def __init__(self) -> None:
        self.queued = 0
        """What the sink says."""
        self.partial = 0
        """What has arrived since the pause of objects that are not complete."""


class Incoming:
    """The incoming data streams and datagrams of one link."""

    __slots__ = (
        "_datagrams",
        "_early",
        "_early_bytes",
        "_fetches",
        "_paused",
        "_peer",
        "_streams",
        "_subscriptions",
        "_unread",
        "discarded",
    )

    def __init__(self, peer: MoqtPeer) -> None:
        self._peer = peer
        self._subscriptions: dict[int, Sink] = {}
        self._fetches: dict[int, Sink] = {}
        self._streams: dict[int, InStream] = {}
        self._early: dict[int, InStream] = {}
        """Streams whose alias is not known yet, by stream id, oldest first."""
        self._early_bytes = 0
        self._datagrams: list[ObjectDatagram] = []
        self._paused: dict[Sink, Unread] = {}
        self._unread = 0
        """Bytes that wait at all paused sinks."""
        self.discarded = 0
        """Streams and datagrams that were refused, without a known alias."""

    # Sinks

    def subscribe(self, alias: int, sink: Sink) -> None:
        """Pass objects with this alias to ``sink``, including those that wait."""
        self._subscriptions[alias] = sink
        waiting, self._datagrams = self._datagrams, []
        for datagram in waiting:
            self._take_datagram(datagram)
        for stream in list(self._early.values()):
            self._begin(stream, b"")

    def unsubscribe(self, alias: int, sink: Sink) -> None:
        """Stop passing objects to ``sink`` and refuse its streams."""
        if self._subscriptions.get(alias) is sink:
            del self._subscriptions[alias]
        self._refuse_streams_of(sink)

    def expect_fetch(self, request_id: int, sink: Sink) -> None:
        """Pass the stream of a FETCH to ``sink``."""
        self._fetches[request_id] = sink
        for stream in list(self._early.values()):
            self._begin(stream, b"")

    def forget_fetch(self, request_id: int, sink: Sink) -> None:
        """Refuse the stream of a fetch."""
        self._fetches.pop(request_id, None)
        self._refuse_streams_of(sink)

    def _refuse_streams_of(self, sink: Sink) -> None:
        self._forget_unread(sink)
        for stream in [s for s in self._streams.values() if s.sink is sink]:
            del self._streams[stream.stream_id]
            self._stop(stream)

    def pause(self, sink: Sink, unread: int = 0) -> bool:
        """Pause the streams of a sink, those that open later too; False if the transport cannot.

        The relay gets no credit for ``unread`` bytes, those that wait at the sink, and for what
        arrives of objects that are not complete. A further call changes only the number.
        """
        known = self._paused.get(sink)
        if known is None:
            known = self._paused[sink] = Unread()
            for stream in self._streams.values():
                if stream.sink is sink:
                    self._pause_stream(stream)
        self._unread += unread - known.queued
        known.queued = unread
        return self._peer.connection.withhold(self._unread)

    def resume(self, sink: Sink) -> None:
        """Resume reading after :meth:`pause`."""
        if sink not in self._paused:
            return
        self._forget_unread(sink)
        for stream in self._streams.values():
            if stream.sink is sink and stream.paused:
                stream.paused = False
                self._peer.connection.resume_reading(stream.stream_id)

    def _pause_stream(self, stream: InStream) -> None:
        if not stream.paused and not stream.fin:
            stream.paused = self._peer.connection.pause_reading(stream.stream_id)

    def _forget_unread(self, sink: Sink) -> None:
        known = self._paused.pop(sink, None)
        if known is not None:
            self._unread -= known.queued + known.partial
            self._peer.connection.withhold(self._unread)

    def _count_partial(self, known: Unread, size: int, items: list[CollectedItem]) -> None:
        """Count what has arrived of objects that are not complete."""
        size -= sum(len(item.payload) for item in items if isinstance(item, MoqObject))
        size = max(size, -known.partial)  # an object may have begun before the pause
        known.partial += size
        self._unread += size
        self._peer.connection.withhold(self._unread)

    # Arrivals

    def stream_opened(self, stream_id: int, kind: StreamKind, data: bytes, fin: bool) -> None:
        """Handle a new data stream."""
        stream = self._streams[stream_id] = InStream(stream_id, kind)
        stream.fin = fin
        self._begin(stream, data)

    def stream_data(self, stream_id: int, data: bytes, fin: bool) -> None:
        """Handle data of a stream."""
        stream = self._streams.get(stream_id)
        if stream is None:
            return
        stream.fin = fin
        if stream.sink is None:
            self._begin(stream, data)
        else:
            self._feed(stream, data)

    def stream_reset(self, stream_id: int, code: int) -> None:
        """Handle the reset of a stream."""
        stream = self._streams.pop(stream_id, None)
        if stream is None:
            return
        if stream.sink is None:
            self._forget_early(stream)
        else:
            stream.sink.stream_closed(stream, code)

    def datagram(self, data: bytes) -> None:
        """Handle a datagram."""
        try:
            datagram = decode_datagram(data, self._peer.session.draft)
        except RemoteError as error:
            self._close(error)
            return
        if isinstance(datagram, ObjectDatagram):
            self._take_datagram(datagram)

    def _take_datagram(self, datagram: ObjectDatagram) -> None:
        sink = self._subscriptions.get(datagram.track_alias)
        if sink is not None:
            sink.arrived(None, datagram.to_object(), time.time())
        elif len(self._datagrams) < MAX_EARLY_DATAGRAMS:
            self._datagrams.append(datagram)
        else:
            self.discarded += 1

    # Streams

    def _begin(self, stream: InStream, data: bytes) -> None:
        """Find the sink of a stream from the data so far."""
        stream.early += data
        if stream.stream_id in self._early:
            self._early_bytes += len(data)
        draft = self._peer.session.draft
        held = bytes(stream.early)
        try:
            if stream.kind is StreamKind.FETCH:
                fetch, used = decode_fetch_header(held, draft)
                sink = self._fetches.get(fetch.request_id)
                held = held[used:]
            else:
                stream.header, _ = decode_subgroup_header(held, draft)
                sink = self._subscriptions.get(stream.header.track_alias)
        except IncompleteError as error:
            if stream.fin:
                self._close(RemoteError(f"a data stream ended inside its header: {error}"))
            return
        except RemoteError as error:
            self._close(error)
            return
        if sink is None:
            self._hold(stream)
            return
        self._forget_early(stream)
        stream.sink = sink
        if stream.kind is StreamKind.FETCH:
            stream.collector = ObjectCollector(FetchParser(draft, sink.order))
        else:
            stream.collector = ObjectCollector(SubgroupParser(draft))
        stream.early = bytearray()
        if sink in self._paused:
            self._pause_stream(stream)
        sink.stream_opened(stream)
        self._feed(stream, held)

    def _feed(self, stream: InStream, data: bytes) -> None:
        sink, collector = stream.sink, stream.collector
        if sink is None or collector is None:
            return
        items: list[CollectedItem] = []
        fault: RemoteError | None = None
        try:
            collector.feed(data, items)
            if stream.fin:
                collector.finish()
        except RemoteError as error:
            fault = error
        known = self._paused.get(sink)
        if known is not None:
            self._count_partial(known, len(data), items)
        received_at = time.time()
        for item in items:
            if isinstance(item, MoqObject):
                sink.arrived(stream, item, received_at)
            elif isinstance(item, RangeEnd):
                sink.absent(item)
        if self._streams.get(stream.stream_id) is not stream:
            return  # the sink gave the stream up
        if fault is not None:
            self._fault(stream, sink, fault)
        elif stream.fin:
            del self._streams[stream.stream_id]
            sink.stream_closed(stream, None)

    def _fault(self, stream: InStream, sink: Sink, error: RemoteError) -> None:
        del self._streams[stream.stream_id]
        if isinstance(error, ObjectTooLargeError):
            # The limit is ours and not the draft's: only this stream ends.
            self._stop(stream)
            sink.stream_closed(stream, self._cancelled)
        elif isinstance(error, MalformedTrackError):
            self._stop(stream)
            sink.malformed(error)
        else:
            self._close(error)

    def _hold(self, stream: InStream) -> None:
        if stream.stream_id not in self._early:
            self._early[stream.stream_id] = stream
            self._early_bytes += len(stream.early)
        while len(self._early) > MAX_EARLY_STREAMS or self._early_bytes > MAX_EARLY_BYTES:
            oldest = next(iter(self._early.values()))
            self._forget_early(oldest)
            self._streams.pop(oldest.stream_id, None)
            self.discarded += 1
            self._stop(oldest)

    def _forget_early(self, stream: InStream) -> None:
        if self._early.pop(stream.stream_id, None) is not None:
            self._early_bytes -= len(stream.early)

    # Refusing

    @property
    def _cancelled(self) -> int:
        return int(STREAM_RESET_CODES[self._peer.session.draft].CANCELLED)

    def _stop(self, stream: InStream) -> None:
        if not stream.fin and not self._peer.connection.closed:
            self._peer.stop_data(stream.stream_id, self._cancelled)

    def _close(self, error: RemoteError) -> None:
        self._peer.session.close(error.code, str(error))
        self._peer.settle()


class LinkCallbacks(NamedTuple):
    """The callbacks of a link; :class:`~laps_sdk.client.reconnect.Reconnector` provides them."""

    request_received: Callable[[Link, RequestReceived], None]
    """The relay made a request, which the callee accepts or rejects."""
    changed: Callable[[], None]
    """The relay sent GOAWAY (``Link.goaway``), or the connection is over (``Link.error``)."""


class Link:
    """A MoQT session on a connection: a ``MoqtApplication``."""

    __slots__ = (
        "_allowed",
        "_callbacks",
        "_out",
        "_requests",
        "_setup",
        "_writers",
        "address",
        "error",
        "goaway",
        "incoming",
        "peer",
        "setup",
    )

    def __init__(
        self,
        connection: Connection,
        address: RelayAddress,
        callbacks: LinkCallbacks,
        *,
        draft: Draft,
        options: SetupOptions,
        extensions: frozenset[int] = frozenset(),
    ) -> None:
        loop = asyncio.get_running_loop()
        self.address = address
        self._callbacks = callbacks
        self.error: SessionClosedError | None = None
        """Why the connection ended; None while it lives."""
        self.goaway: Goaway | None = None
        self.setup = NO_OPTIONS
        """The relay's SETUP options."""
        self._setup: asyncio.Future[None] = loop.create_future()
        self._allowed = asyncio.Event()
        self._requests: dict[int, Request] = {}
        self._writers: list[asyncio.Future[None]] = []
        self._out: dict[OutStream, Callable[[OutStream, bool], None]] = {}
        """What to call when a stream ends early."""
        self.peer = MoqtPeer(connection, self, draft=draft, options=options, extensions=extensions)
        self.incoming = Incoming(self.peer)

    # Getters

    @property
    def draft(self) -> Draft:
        """The MoQT draft in use."""
        return self.peer.session.draft

    @property
    def connection(self) -> Connection:
        """The QUIC connection."""
        return self.peer.connection

    @property
    def usable(self) -> bool:
        """Whether the link accepts new requests."""
        return self.error is None and self.goaway is None and self.peer.session.established

    # Asking

    async def ready(self) -> None:
        """Wait for the relay's SETUP."""
        await asyncio.shield(self._setup)

    async def ask(
        self,
        what: str,
        command: Callable[[Session], int],
        listener: Callable[[Event], None],
    ) -> Request:
        """Send a request as soon as the relay allows another one (draft 16 limits their number)."""
        request_id = await self._when_allowed(command)
        request = self._requests[request_id] = Request(self, request_id, what, listener)
        self.peer.settle()
        return request

    async def update(self, request_id: int, parameters: Parameters) -> None:
        """Send an update of a request; its listener receives the answer."""
        await self._when_allowed(lambda session: session.update(request_id, parameters))
        self.peer.settle()

    async def _when_allowed(self, command: Callable[[Session], int]) -> int:
        while True:
            if self.error is not None:
                raise self.error
            self._allowed.clear()
            try:
                return command(self.peer.session)
            except RequestsBlockedError:
                self.peer.settle()
                await self._allowed.wait()

    def adopt(self, request_id: int, what: str, listener: Callable[[Event], None]) -> Request:
        """Pass the events of a request that the relay made to ``listener``."""
        request = self._requests[request_id] = Request(self, request_id, what, listener)
        return request

    def request(self, request_id: int) -> Request | None:
        """Return a request that has a listener; None for any other id."""
        return self._requests.get(request_id)

    def forget(self, request_id: int) -> None:
        """Drop the listener of a request."""
        self._requests.pop(request_id, None)

    # Writing

    async def until_writable(self) -> None:
        """Wait until the connection is not congested; raises the error that ended it."""
        while True:
            if self.error is not None:
                raise self.error
            if not self.connection.congested:
                return
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._writers.append(waiter)
            try:
                await waiter
            finally:
                if waiter in self._writers:
                    self._writers.remove(waiter)

    def open_stream(
        self,
        ended_early: Callable[[OutStream, bool], None],
        *,
        priority: int,
        drop_code: int,
        deadline: float | None,
    ) -> OutStream:
        """Open a data stream.

        Writers wait while the connection is congested, so the egress drops the stream for its
        deadline only, never for lack of room. If the stream ends before its writer ends it,
        ``ended_early`` is called: True means that the relay sent STOP_SENDING, False a drop.
        """
        stream = self.connection.open_unidirectional(
            priority=priority,
            droppable=True,
            drop_code=drop_code,
            deadline=deadline,
        )
        self._out[stream] = ended_early
        return stream

    def stream_finished(self, stream: OutStream) -> None:
        """Forget a stream that its writer ended."""
        self._out.pop(stream, None)

    def close(self, code: int = 0, reason: str = "") -> None:
        """End the session."""
        self.peer.session.close(code, reason)
        self.peer.settle()

    # MoqtApplication

    def session_event(self, peer: MoqtPeer, event: Event) -> None:  # noqa: ARG002 - the interface
        """Dispatch an event of the session."""
        match event:
            case SetupReceived():
                self.setup = event.options
                if not self._setup.done():
                    self._setup.set_result(None)
                self._allowed.set()
            case GoawayReceived():
                self.goaway = event.message
                self._callbacks.changed()
            case RequestReceived():
                self._callbacks.request_received(self, event)
            case RequestsAllowed():
                self._allowed.set()
            case Terminated():
                self._end(event)
            case PeerBlocked() | RequestRefused():
                pass
            case _:
                request = self._requests.get(getattr(event, "request_id", -1))
                if request is not None:
                    request.handle(event)

    def stream_opened(
        self,
        peer: MoqtPeer,  # noqa: ARG002 - the interface
        stream_id: int,
        kind: StreamKind,
        data: bytes,
        fin: bool,
    ) -> None:
        """Pass a new stream to ``Incoming``."""
        self.incoming.stream_opened(stream_id, kind, data, fin)

    def stream_data(self, peer: MoqtPeer, stream_id: int, data: bytes, fin: bool) -> None:  # noqa: ARG002 - the interface
        """Pass the data of a stream to ``Incoming``."""
        self.incoming.stream_data(stream_id, data, fin)

    def stream_reset(self, peer: MoqtPeer, stream_id: int, code: int) -> None:  # noqa: ARG002 - the interface
        """Pass the reset of a stream to ``Incoming``."""
        self.incoming.stream_reset(stream_id, code)

    def datagram(self, peer: MoqtPeer, data: bytes) -> None:  # noqa: ARG002 - the interface
        """Pass a datagram to ``Incoming``."""
        self.incoming.datagram(data)

    def out_stream_stopped(self, peer: MoqtPeer, event: StopSending) -> None:  # noqa: ARG002 - the interface
        """Handle STOP_SENDING on an outgoing stream."""
        for stream in self._out:
            if stream is event.stream or stream.stream_id == event.stream_id:
                self._ended_early(stream, stopped=True)
                return

    def out_stream_dropped(self, peer: MoqtPeer, event: StreamDropped) -> None:  # noqa: ARG002 - the interface
        """Handle a stream that the egress dropped."""
        if isinstance(event.stream, OutStream):
            self._ended_early(event.stream, stopped=False)

    def _ended_early(self, stream: OutStream, *, stopped: bool) -> None:
        ended_early = self._out.pop(stream, None)
        if ended_early is not None:
            ended_early(stream, stopped)

    def writable(self, peer: MoqtPeer) -> None:  # noqa: ARG002 - the interface
        """Wake the writers: the connection is no longer congested."""
        self._wake_writers()

    def _wake_writers(self) -> None:
        writers, self._writers = self._writers, []
        for waiter in writers:
            if not waiter.done():
                waiter.set_result(None)

    def closed(self, peer: MoqtPeer, event: Closed) -> None:  # noqa: ARG002 - the interface
        """Report the end of the connection."""
        self._callbacks.changed()

    def _end(self, event: Terminated) -> None:
        error = self.error = SessionClosedError.of(event.code, event.reason, by_peer=event.by_peer)
        if not self._setup.done():
            self._setup.set_exception(error)
            self._setup.exception()
        self._allowed.set()
        self._wake_writers()
        for request in list(self._requests.values()):
            request.lost(error, event)
        self._requests.clear()
        self._out.clear()


class Offer:
    """A PUBLISH of the relay that was accepted with forward state 0, without objects.

    A session cannot SUBSCRIBE to a track that it has by PUBLISH. A subscription therefore updates
    the forward state of the offer to 1, and to 0 when it ends.
    """

    __slots__ = ("link", "message", "request_id", "user")

    def __init__(self, link: Link, request_id: int, message: Publish) -> None:
        self.link = link
        self.request_id = request_id
        self.message = message
        self.user: Callable[[Event], None] | None = None
        """The listener of the subscription that uses the offer."""

    def end(self) -> None:
        """Cancel the request: the track is not watched any longer."""
        link = self.link
        link.forget(self.request_id)
        session = link.peer.session
        if link.error is None and session.request_kind(self.request_id) is not None:
            session.cancel(self.request_id)
            link.peer.settle()

    def sleep(self) -> None:
        """Set the forward state to 0 and keep the request."""
        self.user = None
        link = self.link
        session = link.peer.session
        if link.error is None and session.request_kind(self.request_id) is not None:
            with contextlib.suppress(StateError):  # blocked or failing: the objects are discarded
                session.update(self.request_id, Parameters(forward=False))
            link.peer.settle()


class Request:
    """A request on a link, from the moment it is sent."""

    __slots__ = ("_answer", "_listener", "id", "link", "what")

    def __init__(
        self, link: Link, request_id: int, what: str, listener: Callable[[Event], None]
    ) -> None:
        self.link = link
        self.id = request_id
        self.what = what
        """For errors: ``SUBSCRIBE demo--video``."""
        self._listener = listener
        self._answer: asyncio.Future[OkMessage] = asyncio.get_running_loop().create_future()

    @property
    def open(self) -> bool:
        """Whether the request is open."""
        return self.link.peer.session.request_kind(self.id) is not None

    @property
    def has_answer(self) -> bool:
        """Whether the answer has arrived, or cannot arrive."""
        return self._answer.done()

    def handle(self, event: Event) -> None:
        """Handle an event of this request."""
        answer = self._answer
        if isinstance(event, RequestAccepted):
            # The owner first: objects may follow the answer in the same turn.
            self._listener(event)
            if not answer.done():
                answer.set_result(event.message)
        elif isinstance(event, RequestRejected):
            self.link.forget(self.id)
            self._fail(RequestRefusedError(self.what, event.message))
        elif isinstance(event, RequestCancelled) and not answer.done():
            self.link.forget(self.id)
            words = event.reason or "its stream was closed"
            self._fail(RequestTimeoutError(f"{self.what}: the relay gave it up: {words}"))
        else:
            self._listener(event)

    def lost(self, error: Exception, event: Event) -> None:
        """Fail the pending answer; after the answer pass the event to the listener."""
        if self._answer.done():
            self._listener(event)
        else:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        if not self._answer.done():
            self._answer.set_exception(error)
            # Marks the exception as retrieved: the waiting task may have been cancelled.
            self._answer.exception()

    async def answered(self, seconds: float) -> OkMessage:
        """Return the answer; after ``seconds`` end the request, raise ``RequestTimeoutError``."""
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.shield(self._answer)
        except TimeoutError:
            self.give_up()
            raise RequestTimeoutError(
                f"{self.what}: no answer from {self.link.address} in {seconds:g} s"
            ) from None
        except asyncio.CancelledError:
            self.give_up()
            raise

    def give_up(self) -> None:
        """End the request, unless it is over."""
        link, session = self.link, self.link.peer.session
        link.forget(self.id)
        if session.closed:
            return
        kind = session.request_kind(self.id)
        if kind is None:
            return
        try:
            if kind is Kind.PUBLISH and self.id % 2 == session.role.first_request_id:
                done = PUBLISH_DONE_CODES[session.draft].SUBSCRIPTION_ENDED
                session.publish_done(self.id, done, 0)
            else:
                session.cancel(self.id)
        except StateError:
            return  # it has ended in the meantime
        link.peer.settle()
