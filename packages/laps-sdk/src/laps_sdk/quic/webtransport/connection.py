"""A WebTransport session with the interface of any other connection.

::

    application            WebTransportConnection                    QUIC connection
    open_unidirectional -> WtStream [0x54 | session id | data...] -> stream, same id
    open_bidirectional  -> WtStream [0x41 | session id | data...] -> stream, same id
    reply_stream        -> WtStream [data...]                     -> stream, same id
    reset, stop_sending -> code in HTTP/3's range                 -> RESET_STREAM, STOP_SENDING
    send_datagram       -> [session id / 4 | data]                -> DATAGRAM
    close               -> capsule on the CONNECT stream

Received data passes through :class:`~laps_sdk.quic.webtransport.peer.H3Peer`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from laps_sdk.quic.base import URGENT, Address, Connection, ConnectionStats, OutStream
from laps_sdk.quic.webtransport.codepoints import FrameType, StreamType, to_http_code
from laps_sdk.quic.webtransport.control import CriticalStreams
from laps_wire.varint import encode_quic

__all__ = ["WebTransportConnection", "WtStream"]

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

    def write(self, data: bytes, fin: bool = False) -> None:
        """See :class:`OutStream`."""
        if self._header:
            data = self._header + data
            self._header = b""
        self.inner.write(data, fin)

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
