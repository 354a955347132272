"""One HTTP/3 connection with at most one WebTransport session: what client and server share.

**Received**: :class:`H3Peer` passes the events of the session to its handler::

    events of the QUIC connection
      |
      +-- a known stream of the session ------------------------> unchanged ----+
      +-- a new stream: its first integers tell its kind                        |
      |     control, QPACK (unidirectional)  -> CriticalStreams                 v
      |     0x54 / 0x41 + session id         -> the session's, or held -----> handler of the
      |     anything else, bidirectional     -> a request (server.py)           session
      +-- datagrams: session id / 4 in front, removed ------------------------> (one list a turn)
      +-- the CONNECT stream: capsules, the end of the session
      '-- resets and stops: codes mapped

**Sent**: :class:`WebTransportConnection` is the session with the interface of any connection::

    application            WebTransportConnection                    QUIC connection
    open_unidirectional -> WtStream [0x54 | session id | data...] -> stream, same id
    open_bidirectional  -> WtStream [0x41 | session id | data...] -> stream, same id
    reply_stream        -> WtStream [data...]                     -> stream, same id
    reset, stop_sending -> code in HTTP/3's range                 -> RESET_STREAM, STOP_SENDING
    send_datagram       -> [session id / 4 | data]                -> DATAGRAM
    close               -> capsule on the CONNECT stream

If the peer breaks the protocol, this connection is closed with HTTP/3's error code.

The end of a session: the side that closes sends a capsule and FIN on the CONNECT stream, and the
other side answers with FIN. Then the client closes the QUIC connection, which carries no other
session. The server closes it only ``LINGER`` seconds later, because browsers report a failure if
the connection ends while they handle the end of the session. The handler gets ``Closed`` after all
other events of the turn.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from laps_sdk.quic.base import (
    BACKGROUND,
    URGENT,
    Address,
    Connection,
    ConnectionStats,
    Handler,
    Listener,
    OutStream,
    PullSource,
)
from laps_sdk.quic.events import (
    Closed,
    Connected,
    DatagramReceived,
    Event,
    Pulled,
    StopSending,
    StreamData,
    StreamDropped,
    StreamReset,
    StreamsAvailable,
    Writable,
)
from laps_sdk.quic.webtransport.h3 import (
    CAPSULES,
    OPENING,
    REQUEST_FRAMES,
    CriticalStreams,
    FieldCoder,
    FrameType,
    H3Code,
    H3Error,
    Record,
    RecordReader,
    StreamType,
    decode_close,
    encode_close,
    encode_record,
    from_http_code,
    to_http_code,
)
from laps_wire.buffer import decode_quic, encode_quic
from laps_wire.errors import IncompleteError

__all__ = ["EarlyArrivals", "EarlyLimits", "H3Peer", "WebTransportConnection", "WtStream"]

_SWEEP_AT: Final = 64
"""Remembered streams above which finished ones are looked for."""
_SWEEP_GAP: Final = 1.0
"""Seconds between two searches; by then, the events of a finished stream were delivered."""


class WtStream(OutStream):
    """The sending half of a session's stream; its header is sent with the first bytes."""

    __slots__ = ("_header", "inner")

    def __init__(self, inner: OutStream, header: bytes) -> None:
        self.inner = inner
        self._header = header

    @property
    def stream_id(self) -> int | None:
        """See :class:`OutStream`."""
        return self.inner.stream_id

    @property
    def closed(self) -> bool:
        """See :class:`OutStream`."""
        return self.inner.closed

    @property
    def queued(self) -> int:
        """See :class:`OutStream`; the header counts after the first write."""
        return self.inner.queued

    @property
    def unacknowledged(self) -> int:
        """See :class:`OutStream`."""
        return self.inner.unacknowledged

    def write(self, data: bytes, fin: bool = False) -> None:
        """See :class:`OutStream`."""
        if self._header:
            data = self._header + data
            self._header = b""
        self.inner.write(data, fin)

    def offer(self, data: bytes, fin: bool = False) -> bool:
        """See :class:`OutStream`."""
        header = self._header
        if not self.inner.offer(header + data if header else data, fin):
            return False
        self._header = b""
        return True

    def pull_from(self, source: PullSource) -> None:
        """See :class:`OutStream`."""
        self.inner.pull_from(source)

    def reset(self, code: int) -> None:
        """See :class:`OutStream`."""
        self.inner.reset(to_http_code(code))

    def set_priority(self, priority: int) -> None:
        """See :class:`OutStream`."""
        self.inner.set_priority(priority)

    def set_deadline(self, deadline: float | None) -> None:
        """See :class:`OutStream`."""
        self.inner.set_deadline(deadline)


class WebTransportConnection(Connection):
    """One session on one HTTP/3 connection.

    ``critical`` holds the peer's SETTINGS. ``incoming`` is the set of streams whose data is the
    session's, shared with the HTTP/3 connection. ``on_close`` ends the session with code and
    reason.
    """

    __slots__ = (
        "_alpn",
        "_authority",
        "_bidi_header",
        "_critical",
        "_datagram_header",
        "_incoming",
        "_inner",
        "_on_close",
        "_over",
        "_path",
        "_streams",
        "_sweep_at",
        "_swept",
        "_uni_header",
        "closing",
        "session_id",
    )

    def __init__(
        self,
        inner: Connection,
        *,
        critical: CriticalStreams,
        incoming: set[int],
        on_close: Callable[[int, str], None],
        session_id: int,
        protocol: str,
        authority: str,
        path: str,
    ) -> None:
        self._inner = inner
        self._critical = critical
        self._incoming = incoming
        self._on_close = on_close
        self._alpn = protocol
        self._authority = authority
        self._path = path
        self.session_id = session_id
        self.closing = False
        """Whether the session has ended or is closing; set by the HTTP/3 connection."""
        wire_id = encode_quic(session_id)
        self._uni_header = encode_quic(StreamType.WT_STREAM) + wire_id
        self._bidi_header = encode_quic(FrameType.WT_STREAM) + wire_id
        self._datagram_header = encode_quic(session_id >> 2)
        # By stream of the QUIC connection, for StreamDropped and reply_stream.
        self._streams: dict[object, WtStream] = {}
        self._over: set[object] = set()
        self._swept = 0.0
        self._sweep_at = _SWEEP_AT

    # A. Getters

    @property
    def alpn(self) -> str:
        """The protocol from ``wt-protocol``."""
        return self._alpn

    @property
    def is_client(self) -> bool:
        """See :class:`Connection`."""
        return self._inner.is_client

    @property
    def is_webtransport(self) -> bool:
        """True."""
        return True

    @property
    def peer_address(self) -> Address:
        """See :class:`Connection`."""
        return self._inner.peer_address

    @property
    def authority(self) -> str:
        """``:authority`` of the request."""
        return self._authority

    @property
    def path(self) -> str:
        """``:path`` of the request."""
        return self._path

    @property
    def closed(self) -> bool:
        """See :class:`Connection`."""
        return self.closing or self._inner.closed

    @property
    def congested(self) -> bool:
        """See :class:`Connection`."""
        return self._inner.congested

    @property
    def max_datagram_size(self) -> int:
        """See :class:`Connection`; less the bytes of the session id."""
        if not self._critical.takes_datagrams:
            return 0
        return max(self._inner.max_datagram_size - len(self._datagram_header), 0)

    @property
    def rtt(self) -> float | None:
        """See :class:`Connection`."""
        return self._inner.rtt

    @property
    def now(self) -> float:
        """See :class:`Connection`."""
        return self._inner.now

    def stats(self) -> ConnectionStats:
        """See :class:`Connection`; the values are those of the HTTP/3 connection."""
        return self._inner.stats()

    # B. Streams

    def open_unidirectional(
        self,
        *,
        priority: int = URGENT,
        droppable: bool = False,
        drop_code: int = 0,
        deadline: float | None = None,
    ) -> OutStream:
        """See :class:`Connection`."""
        inner = self._inner.open_unidirectional(
            priority=priority,
            droppable=droppable,
            drop_code=to_http_code(drop_code),
            deadline=deadline,
        )
        stream = WtStream(inner, self._uni_header)
        if droppable or deadline is not None:
            self._remember(stream)
        return stream

    def open_bidirectional(self, *, priority: int = URGENT) -> OutStream:
        """See :class:`Connection`."""
        inner = self._inner.open_bidirectional(priority=priority)
        if inner.stream_id is not None:
            self._incoming.add(inner.stream_id)
        return WtStream(inner, self._bidi_header)

    def reply_stream(self, stream_id: int) -> OutStream:
        """See :class:`Connection`."""
        inner = self._inner.reply_stream(stream_id)
        stream = self._streams.get(inner)
        if stream is None:
            stream = WtStream(inner, b"")
            self._remember(stream)
        return stream

    def stream_above(self, inner: object) -> object:
        """Return the stream of the session for a stream of the HTTP/3 connection."""
        return self._streams.get(inner, inner)

    def _remember(self, stream: WtStream) -> None:
        self._streams[stream.inner] = stream
        if len(self._streams) > self._sweep_at and self.now - self._swept >= _SWEEP_GAP:
            self._sweep()

    def _sweep(self) -> None:
        """Forget streams that were finished at the last search: their events were delivered."""
        streams = self._streams
        for inner in self._over:
            streams.pop(inner, None)
        self._over = {inner for inner, s in streams.items() if s.closed and not s.queued}
        self._sweep_at = max(_SWEEP_AT, 2 * (len(streams) - len(self._over)))
        self._swept = self.now

    def stop_sending(self, stream_id: int, code: int) -> None:
        """See :class:`Connection`."""
        self._incoming.discard(stream_id)
        self._inner.stop_sending(stream_id, to_http_code(code))

    def pause_reading(self, stream_id: int) -> bool:
        """See :class:`Connection`."""
        return self._inner.pause_reading(stream_id)

    def resume_reading(self, stream_id: int) -> None:
        """See :class:`Connection`."""
        self._inner.resume_reading(stream_id)

    def withhold(self, size: int) -> bool:
        """See :class:`Connection`."""
        return self._inner.withhold(size)

    # C. Datagrams

    def send_datagram(self, data: bytes, deadline: float | None = None) -> bool:
        """See :class:`Connection`."""
        if not self._critical.takes_datagrams:
            return False
        return self._inner.send_datagram(self._datagram_header + data, deadline)

    # D. Life

    def close(self, code: int = 0, reason: str = "") -> None:
        """See :class:`Connection`; sends a capsule, and the client ends the QUIC connection."""
        self._on_close(code, reason)


LINGER: Final = 3.0
"""Seconds that the peer has to close the QUIC connection after the session has ended."""

_H3_CODES: Final = frozenset(H3Code)
_MAX_QUARTER_ID: Final = (1 << 60) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyLimits:
    """How much is held until the session exists."""

    max_streams: int = 64
    max_bytes: int = 256 * 1024
    max_datagrams: int = 64


class _Held(NamedTuple):
    session_id: int
    events: list[StreamData | StreamReset]


class EarlyArrivals:
    """Streams and datagrams that arrived before their session exists.

    QUIC delivers streams and datagrams in any order. A server may get a stream of a session before
    the CONNECT request, and a client before the response to it. Both hold a bounded amount
    (webtrans-http3-07, 4.5) and refuse the rest.
    """

    __slots__ = ("_bytes", "_datagrams", "_limits", "_streams")

    def __init__(self, limits: EarlyLimits) -> None:
        self._limits = limits
        self._streams: dict[int, _Held] = {}
        self._datagrams: deque[tuple[int, bytes]] = deque(maxlen=limits.max_datagrams)
        self._bytes = 0

    def __contains__(self, stream_id: int) -> bool:
        return stream_id in self._streams

    def open(self, stream_id: int, session_id: int) -> bool:
        """Begin to hold a stream; return False if there are too many."""
        if len(self._streams) >= self._limits.max_streams:
            return False
        self._streams[stream_id] = _Held(session_id, [])
        return True

    def add(self, event: StreamData | StreamReset) -> bool:
        """Hold more of a stream; at the byte limit, forget the stream and return False."""
        held = self._streams[event.stream_id]
        if isinstance(event, StreamData):
            if self._bytes + len(event.data) > self._limits.max_bytes:
                self._forget(event.stream_id)
                return False
            self._bytes += len(event.data)
        held.events.append(event)
        return True

    def add_datagram(self, session_id: int, data: bytes) -> None:
        """Hold a datagram; a full queue drops the oldest."""
        self._datagrams.append((session_id, data))

    def take(self, session_id: int) -> tuple[list[Event], set[int], list[int]]:
        """Release everything that was held, now that the session exists.

        Returns the events of the session, its streams that have not ended, and the streams of other
        sessions.
        """
        events: list[Event] = []
        going_on: set[int] = set()
        others: list[int] = []
        for stream_id, held in self._streams.items():
            if held.session_id != session_id:
                others.append(stream_id)
                continue
            events += held.events
            last = held.events[-1] if held.events else None
            if last is None or (isinstance(last, StreamData) and not last.fin):
                going_on.add(stream_id)
        events += [DatagramReceived(data) for of, data in self._datagrams if of == session_id]
        self._streams.clear()
        self._datagrams.clear()
        self._bytes = 0
        return events, going_on, others

    def _forget(self, stream_id: int) -> None:
        held = self._streams.pop(stream_id)
        self._bytes -= sum(len(e.data) for e in held.events if isinstance(e, StreamData))


class H3Peer(ABC):
    """The ``Handler`` of a connection with ALPN ``h3``; server and client derive from it."""

    __slots__ = (
        "_capsules",
        "_connect_reader",
        "_connect_stream",
        "_critical_in",
        "_critical_out",
        "_done",
        "_early",
        "_ended",
        "_ending",
        "_flowing",
        "_handler",
        "_linger",
        "_listener",
        "_out",
        "_own_close",
        "_prefix",
        "_session",
        "_unknown",
        "coder",
        "connection",
    )

    def __init__(
        self, connection: Connection, listener: Listener, early: EarlyLimits | None = None
    ) -> None:
        self.connection = connection
        self.coder = FieldCoder()
        self._listener = listener
        self._critical_in = CriticalStreams(self.coder, from_client=not connection.is_client)
        self._critical_out: list[OutStream] = []
        self._unknown: dict[int, bytes] = {}  # first bytes of streams of a kind not known yet
        self._early = EarlyArrivals(early or EarlyLimits())
        self._session: WebTransportConnection | None = None
        self._handler: Handler | None = None
        self._connect_stream: OutStream | None = None
        self._connect_reader = RecordReader(REQUEST_FRAMES)
        self._capsules = RecordReader(CAPSULES, H3Code.MESSAGE_ERROR)
        self._flowing: set[int] = set()  # incoming streams of the session
        self._prefix: bytes | tuple[()] = ()  # of the session's datagrams: none before and after it
        self._out: list[Event] = []  # for the session's handler, of this turn
        self._own_close: Closed | None = None
        self._ending: Closed | None = None
        self._ended = False  # the session's handler has had its last event
        self._done = False  # nothing more is taken but Closed
        self._linger: asyncio.TimerHandle | None = None

    @property
    def settings(self) -> dict[int, int] | None:
        """The peer's SETTINGS; None before they arrive."""
        return self._critical_in.settings

    # What server and client add

    @abstractmethod
    def _connected(self) -> None:
        """Handle the end of the QUIC handshake; our SETTINGS were sent."""

    @abstractmethod
    def _settings_arrived(self) -> None:
        """Handle the arrival of the peer's SETTINGS."""

    @abstractmethod
    def _request_data(self, stream_id: int, data: bytes, fin: bool) -> None:
        """Handle bytes on a request stream."""

    @abstractmethod
    def _is_request(self, stream_id: int) -> bool:
        """Return whether a bidirectional stream is a request stream."""

    @abstractmethod
    def _request_reset(self, stream_id: int) -> None:
        """Handle the peer's reset of a request stream."""

    @abstractmethod
    def _connection_over(self, event: Closed) -> None:
        """Handle the end of the QUIC connection, with or without a session."""

    @abstractmethod
    def _streams_available(self) -> None:
        """Handle permission for more bidirectional streams while there is no session."""

    # Events

    def handle_events(self, events: Sequence[Event]) -> None:
        """See :class:`Handler`."""
        out, flowing = self._out, self._flowing
        for event in events:
            if isinstance(event, StreamData) and event.stream_id in flowing:
                if event.fin:
                    flowing.discard(event.stream_id)
                out.append(event)
            elif isinstance(event, DatagramReceived) and event.data.startswith(self._prefix):
                out.append(DatagramReceived(event.data[len(self._prefix) :]))
            elif isinstance(event, Closed):
                self._over(event)
            elif not self._done:
                try:
                    self._take(event)
                except H3Error as error:
                    self._fail(error)
        if self._ending is not None and self._session is not None and not self._ended:
            self._finish(self._session, self._ending)
        self._deliver()

    def _deliver(self) -> None:
        out = self._out
        if not out:
            return
        self._out = []
        if self._own_close is not None:  # after its own close, a session gets only Closed
            out = [event for event in out if isinstance(event, Closed)]
        if self._handler is not None and out:
            self._handler.handle_events(out)

    def _take(self, event: Event) -> None:
        match event:
            case StreamData(stream_id, data, fin):
                self._stream_data(event, stream_id, data, fin)
            case DatagramReceived(data):
                self._datagram(data)
            case StreamReset(stream_id, code):
                self._stream_reset(stream_id, code)
            case StopSending(stream_id, code):
                self._stopped(stream_id, code)
            case Connected():
                self._begin()
            case StreamsAvailable() if self._session is None:
                self._streams_available()
            case StreamDropped(stream, reason, lost):
                if self._session is not None:
                    above = self._session.stream_above(stream)
                    self._out.append(StreamDropped(above, reason, lost))
            case StreamsAvailable() | Writable() | Pulled():
                if self._session is not None:
                    self._out.append(event)
            case Closed():  # handle_events has it
                raise AssertionError(event)

    def _begin(self) -> None:
        for data in OPENING:
            stream = self.connection.open_unidirectional()
            stream.write(data)
            self._critical_out.append(stream)
        self._connected()

    # Streams

    def _stream_data(self, event: StreamData, stream_id: int, data: bytes, fin: bool) -> None:
        if stream_id in self._critical_in:
            self._critical_data(stream_id, data, fin)
        elif stream_id in self._early:
            self._hold(event)
        elif self._is_session_stream(stream_id):
            self._session_data(data, fin)
        elif not stream_id & 2 and self._is_request(stream_id):
            self._request_data(stream_id, data, fin)
        else:
            self._classify(stream_id, self._unknown.pop(stream_id, b"") + data, fin)

    def _is_session_stream(self, stream_id: int) -> bool:
        return self._session is not None and self._session.session_id == stream_id

    def _classify(self, stream_id: int, data: bytes, fin: bool) -> None:
        """Find out the kind of a new stream as soon as its first integers have arrived."""
        unidirectional = bool(stream_id & 2)
        end = len(data)
        try:
            kind, pos = decode_quic(data, 0, end)
            if kind == (StreamType.WT_STREAM if unidirectional else FrameType.WT_STREAM):
                session_id, pos = decode_quic(data, pos, end)
                self._session_stream(stream_id, session_id, data[pos:], fin)
                return
        except IncompleteError:
            if not fin:
                self._unknown[stream_id] = data
            elif not unidirectional:
                self._refuse_stream(stream_id, H3Code.REQUEST_INCOMPLETE)
            return
        if unidirectional:
            self._begin_unidirectional(stream_id, kind, data[pos:], fin)
        elif self.connection.is_client:
            raise H3Error(H3Code.STREAM_CREATION_ERROR, "a server may not begin a request")
        else:
            self._request_data(stream_id, data, fin)

    def _begin_unidirectional(self, stream_id: int, kind: int, data: bytes, fin: bool) -> None:
        match kind:
            case StreamType.CONTROL | StreamType.QPACK_ENCODER | StreamType.QPACK_DECODER:
                self._critical_in.open(stream_id, StreamType(kind))
                self._critical_data(stream_id, data, fin)
            case StreamType.PUSH:
                raise H3Error(
                    H3Code.ID_ERROR if self.connection.is_client else H3Code.STREAM_CREATION_ERROR,
                    "a push stream: no push was allowed",
                )
            case _:  # unknown types are refused without harm (RFC 9114, 9)
                if not fin:
                    self.connection.stop_sending(stream_id, H3Code.STREAM_CREATION_ERROR)

    def _critical_data(self, stream_id: int, data: bytes, fin: bool) -> None:
        if self._critical_in.feed(stream_id, data, fin):
            self._settings_arrived()

    def _stream_reset(self, stream_id: int, code: int) -> None:
        if stream_id in self._flowing:
            self._flowing.discard(stream_id)
            self._out.append(StreamReset(stream_id, from_http_code(code)))
        elif stream_id in self._critical_in:
            self._critical_in.lost(stream_id)
        elif stream_id in self._early:
            self._early.add(StreamReset(stream_id, from_http_code(code)))
        elif self._is_session_stream(stream_id):
            self._end(Closed(0, "the peer reset the CONNECT stream", True, True))
        elif self._unknown.pop(stream_id, None) is None and self._is_request(stream_id):
            self._request_reset(stream_id)

    def _stopped(self, stream_id: int, code: int) -> None:
        if any(stream.stream_id == stream_id for stream in self._critical_out):
            raise H3Error(H3Code.CLOSED_CRITICAL_STREAM, "STOP_SENDING for a critical stream")
        if self._is_session_stream(stream_id):
            self._end(Closed(0, "the peer stopped the CONNECT stream", True, True))
        elif self._session is not None and not self._is_request(stream_id):
            self._out.append(StopSending(stream_id, from_http_code(code)))

    def _refuse_stream(self, stream_id: int, code: H3Code, fin: bool = False) -> None:
        """Refuse a stream of the peer in both directions."""
        if not fin:
            self.connection.stop_sending(stream_id, code)
        if not stream_id & 2:
            self.connection.reply_stream(stream_id).reset(code)

    # The session

    def _session_stream(self, stream_id: int, session_id: int, data: bytes, fin: bool) -> None:
        if session_id & 3:
            raise H3Error(H3Code.ID_ERROR, f"{session_id} is no session: not a client's request")
        if self._session is None:
            if self._early.open(stream_id, session_id):
                self._hold(StreamData(stream_id, data, fin))
            else:
                self._refuse_stream(stream_id, H3Code.WT_BUFFERED_STREAM_REJECTED, fin)
        elif session_id != self._session.session_id:
            self._refuse_stream(stream_id, H3Code.WT_SESSION_GONE, fin)
        else:
            if not fin:
                self._flowing.add(stream_id)
            if data or fin:
                self._out.append(StreamData(stream_id, data, fin))

    def _hold(self, event: StreamData) -> None:
        if (event.data or event.fin) and not self._early.add(event):
            self._refuse_stream(event.stream_id, H3Code.WT_BUFFERED_STREAM_REJECTED, event.fin)

    def _datagram(self, data: bytes) -> None:
        try:
            quarter, pos = decode_quic(data, 0, len(data))
        except IncompleteError:
            raise H3Error(H3Code.DATAGRAM_ERROR, "a datagram without its session") from None
        if quarter > _MAX_QUARTER_ID:
            raise H3Error(H3Code.DATAGRAM_ERROR, f"quarter stream id {quarter} is too great")
        if self._session is None:
            self._early.add_datagram(quarter << 2, data[pos:])
        elif self._session.session_id == quarter << 2:
            self._out.append(DatagramReceived(data[pos:]))

    def _establish(
        self,
        stream: OutStream,
        reader: RecordReader,
        *,
        session_id: int,
        protocol: str,
        authority: str,
        path: str,
    ) -> WebTransportConnection:
        """Make the session, and report to its listener what arrived before it."""
        session = WebTransportConnection(
            self.connection,
            critical=self._critical_in,
            incoming=self._flowing,
            on_close=self._close_session,
            session_id=session_id,
            protocol=protocol,
            authority=authority,
            path=path,
        )
        self._session, self._connect_stream, self._connect_reader = session, stream, reader
        self._prefix = encode_quic(session.session_id >> 2)
        self._handler = self._listener(session)
        self._out.append(Connected(session.alpn))
        events, going_on, others = self._early.take(session.session_id)
        self._out += events
        self._flowing |= going_on
        for stream_id in others:
            self._refuse_stream(stream_id, H3Code.WT_BUFFERED_STREAM_REJECTED)
        return session

    def _session_data(self, data: bytes, fin: bool) -> None:
        """Handle more bytes of the CONNECT stream."""
        self._session_records(self._connect_reader.feed(data))
        if fin:
            self._connect_reader.finish()
            self._session_finished()

    def _session_records(self, records: Sequence[Record]) -> None:
        """Handle frames after the HEADERS of the CONNECT stream: DATA frames with capsules."""
        for record in records:
            if record.type != FrameType.DATA:
                raise H3Error(H3Code.FRAME_UNEXPECTED, "HEADERS inside a CONNECT stream")
            for capsule in self._capsules.feed(record.value):
                code, reason = decode_close(capsule.value)
                self._end(Closed(code, reason, True, True))

    def _session_finished(self) -> None:
        """Handle FIN on the CONNECT stream: a close without code and reason."""
        self._capsules.finish()
        self._end(Closed(0, "", True, True))

    def _end(self, closed: Closed) -> None:
        """End the session after this turn, whose other events may be older than the end."""
        if self._ending is None and not self._ended:
            self._ending = closed

    def _finish(self, session: WebTransportConnection, closed: Closed) -> None:
        """Report the end of the session, by the peer or by our own close."""
        self._ended = self._done = session.closing = True
        self._flowing.clear()
        self._prefix = ()
        self._out.append(self._own_close or closed)
        if self._connect_stream is not None:
            self._connect_stream.write(b"", fin=True)  # does nothing after our own close
        if self.connection.is_client:
            self.connection.close(H3Code.NO_ERROR, "the session is over")
        else:
            self._linger_on()

    def _close_session(self, code: int, reason: str) -> None:
        """Close the session from our side; see the module."""
        session, stream = self._session, self._connect_stream
        if session is None or stream is None or session.closed:
            return
        session.closing = True
        self._own_close = Closed(code, reason, False, True)
        if not self.connection.congested:
            # Behind what was written before, as on raw QUIC: the peer closes when it reads this.
            stream.set_priority(BACKGROUND)
        stream.write(encode_record(FrameType.DATA, encode_close(code, reason)), fin=True)
        self._linger_on()

    def _linger_on(self) -> None:
        """Start the timer after which this side closes the QUIC connection."""
        if self._linger is None:
            with contextlib.suppress(RuntimeError):  # a test without a loop
                loop = asyncio.get_running_loop()
                self._linger = loop.call_later(LINGER, self.connection.close, H3Code.NO_ERROR)

    # The end of the connection

    def _fail(self, error: H3Error) -> None:
        self._done = True
        self.connection.close(error.h3_code, str(error))

    def _over(self, event: Closed) -> None:
        if self._linger is not None:
            self._linger.cancel()
        if self._session is not None and not self._ended:
            self._ended = self._session.closing = True
            # Codes of HTTP/3 are not the session's. Other codes come from our own endpoint when it
            # closes all of its connections.
            session_code = event.application and event.code not in _H3_CODES
            self._out.append(self._own_close or event._replace(application=session_code))
        self._connection_over(event)
