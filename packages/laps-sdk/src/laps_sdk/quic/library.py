"""What the backends of aioquic and qh3 share: engines, connections and texts of errors.

qh3 is a fork of aioquic with the same methods and the same events. A backend only adds what
differs: statistics, how packets are collected, and guards against faults of its library.

::

    feed / on_timer --> library --> _pull(): events of the library --> our events, joined
    close by either side, seen in the library's state --> Closed, at once
                                  (the libraries report it only after the draining period)

States of a connection::

    handshake --> open --> closing or draining --> terminated
                      ^Closed reported             ^nothing left to send or to wait for

A closing connection repeats its close packet for the 1st, 2nd, 4th, 8th ... packet that still
arrives (RFC 9000, 10.2.1). A peer that lost the close packet need not wait for its idle timeout.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from secrets import token_bytes
from types import ModuleType
from typing import Any, ClassVar, Final, Generic, NamedTuple, Protocol, TypeVar, cast

from cryptography import x509

from laps_sdk.errors import StreamLimitError, TransportError
from laps_sdk.quic.base import Address
from laps_sdk.quic.engine import Burst, EngineConnection, EngineOptions, EngineStats
from laps_sdk.quic.events import (
    Closed,
    Connected,
    DatagramReceived,
    Event,
    StopSending,
    StreamData,
    StreamReset,
    StreamsAvailable,
)
from laps_sdk.quic.qlog import MAX_EVENTS, QlogWriter, Trace, TraceFactory
from laps_sdk.quic.resets import reset_token
from laps_sdk.quic.tls import (
    CertificateError,
    ServerCertificate,
    key_hash,
    pin_refusal,
    read_server_certificate,
    read_trust,
)

__all__ = [
    "CONNECTION_ID_LENGTH",
    "DATAGRAM_FRAME_OVERHEAD",
    "LibraryConnection",
    "LibraryEngine",
    "LibraryQuic",
    "Setup",
    "bounded_traces",
    "bursts_of",
    "explain",
    "long_header_ids",
    "missing_names",
    "watch_handshake",
]

CONNECTION_ID_LENGTH: Final = 8
"""Bytes of each connection id that we issue, also in a Retry; short headers lack it."""
DATAGRAM_FRAME_OVERHEAD: Final = 3
"""Bytes of a DATAGRAM frame before its data: type and a two-byte length (RFC 9221, 4)."""
_MAX_ACK_DELAY: Final = 0.025
_CLOSING_UNKNOWN: Final = 0.6
"""Seconds: three probe timeouts, for a peer whose round-trip time is not known."""
_CRYPTO_ERROR: Final = 0x100
_ALERTS: Final = {
    "handshake_failure": 40,
    "bad_certificate": 42,
    "unsupported_certificate": 43,
    "certificate_revoked": 44,
    "certificate_expired": 45,
    "certificate_unknown": 46,
    "unknown_ca": 48,
    "protocol_version": 70,
    "no_application_protocol": 120,
}
_NAMES: Final = {number: name for name, number in _ALERTS.items()}
_ABOUT_CERTIFICATES: Final = frozenset({42, 43, 44, 45, 46, 48})


class LibraryQuic(Protocol):
    """The methods that our subclasses of both libraries' connections have.

    They are ``aioquic.compat.Tuned`` and ``qh3.compat.Guarded``.
    """

    host_cid: bytes
    client_server_name: str
    """On a server, the name that the client asked for; "" if none."""

    @property
    def server_certificate(self) -> bytes:
        """On a client, the server's certificate in DER; b"" before it is known."""

    @property
    def peer_address(self) -> Address | None:
        """The address that packets are sent to; None before there is a path."""

    @property
    def close_event(self) -> Any:
        """The library's event with the reason of the close; None while the connection is open."""

    @property
    def is_draining(self) -> bool:
        """Whether the peer closed the connection."""

    def streams_left(self, unidirectional: bool) -> int:
        """Return how many more streams the peer allows."""

    def end_trace(self) -> None:
        """Write the qlog file, if the connection has one."""

    def connect(self, address: Address, now: float) -> None:
        """Begin a client's handshake."""

    def close(self, error_code: int = ..., frame_type: Any = ..., reason_phrase: str = ...) -> None:
        """Close the connection with the next packet."""

    def get_timer(self) -> float | None:
        """Return when to call ``handle_timer``."""

    def handle_timer(self, now: float) -> None:
        """Handle timers that are due at ``now``."""

    def next_event(self) -> Any:
        """Return an event, or None."""

    def reset_stream(self, stream_id: int, error_code: int) -> None:
        """Reset the sending half of a stream."""

    def stop_stream(self, stream_id: int, error_code: int) -> None:
        """Ask the peer to stop sending on a stream."""

    def send_stream_data(self, stream_id: int, data: bytes, end_stream: bool = ...) -> None:
        """Append data to a stream, and end it if asked to."""

    def send_ping(self, uid: int) -> None:
        """Send a PING with the next packet."""

    @property
    def peer_reset_token(self) -> bytes:
        """The token of a stateless reset by the peer; b"" if there is none."""


class Setup(NamedTuple):
    """The known facts of a connection when it begins."""

    is_client: bool
    alpn: tuple[str, ...]
    """The protocols that a client offers, or that a server accepts."""
    server_name: str
    """The name that a client asks for; "" on a server, which learns it in the handshake."""
    initial_id: bytes | None
    """On a server, the id that the client sends to until it has received our first packet."""
    server_key_hash: bytes = b""
    """The hash of a server's own key; b"" on a client, which learns it in the handshake."""


def bursts_of(datagrams: list[tuple[bytes, Address]]) -> list[Burst]:
    """Group datagrams that follow each other and go to one address."""
    if not datagrams:
        return []
    address = datagrams[0][1]
    run = [data for data, to in datagrams if to == address]
    if len(run) == len(datagrams):
        return [Burst(run, address)]
    bursts: list[Burst] = []
    for data, to in datagrams:
        if not bursts or bursts[-1].address != to:
            bursts.append(Burst([], to))
        bursts[-1].datagrams.append(data)
    return bursts


Q = TypeVar("Q", bound=LibraryQuic)


def missing_names(names: Mapping[str, Sequence[str]], samples: Mapping[str, object]) -> list[str]:
    """Return the private names, as ``Class.name``, that an installed library lacks.

    ``names`` lists the names for each class, ``samples`` holds an instance of each class.
    """
    return [
        f"{owner}.{name}"
        for owner, wanted in names.items()
        for name in wanted
        if not hasattr(samples[owner], name)
    ]


def bounded_traces(trace_class: Callable[..., Any]) -> TraceFactory:
    """Return a factory of a library's qlog traces that keep only their newest events."""

    def begin(is_client: bool, odcid: bytes) -> Trace:
        trace = trace_class(is_client=is_client, odcid=odcid)
        trace._events = deque(maxlen=MAX_EVENTS)
        return cast("Trace", trace)

    return begin


class LibraryEngine(ABC, Generic[Q]):
    """An :class:`~laps_sdk.quic.engine.Engine` of either library: set-up, certificates, qlog.

    A server's certificate is read at once, so that a bad one is reported early.
    """

    name: str
    needs_retry = False

    def __init__(self, options: EngineOptions, trace_class: Callable[..., Any]) -> None:
        """``trace_class`` is the library's class of qlog traces."""
        self._options = options
        self._reset_token = partial(reset_token, options.reset_key or token_bytes(32))
        """Returns the token of a stateless reset for one of our connection ids."""
        self._verify_mode, self._authorities = read_trust(options.tls)
        self._key_hash = b""
        self._server: Any = None
        """The library's configuration of servers; None without a certificate."""
        self.qlog: QlogWriter | None = None
        if options.qlog_dir is not None:
            traces = bounded_traces(trace_class)
            self.qlog = QlogWriter(options.qlog_dir, options.qlog_sample, traces)
        if options.tls.certificate is not None:
            self.reload_certificate()

    # What a backend adds

    @abstractmethod
    def _configuration(self, **common: Any) -> Any:
        """Return a configuration of the library; ``common`` are options of both libraries."""

    @abstractmethod
    def _certify(self, configuration: Any, certificate: ServerCertificate) -> None:
        """Put a certificate and its key into a server's configuration."""

    @abstractmethod
    def _begin(
        self, configuration: Any, *, pins: frozenset[bytes], client_id: bytes, **ids: bytes | None
    ) -> Q:
        """Return a new connection of the library; ``ids`` are those of a server."""

    @abstractmethod
    def _wrap(
        self, quic: Q, setup: Setup, address: Address, *, retried: bool, now: float
    ) -> EngineConnection:
        """Return the engine's connection for one of the library."""

    # For the endpoint

    def dial(
        self, address: Address, *, alpn: Sequence[str], server_name: str | None, now: float
    ) -> EngineConnection:
        """See :meth:`Engine.dial`."""
        configuration = self._configure(is_client=True, alpn=alpn)
        configuration.server_name = server_name or address[0]
        configuration.verify_mode = self._verify_mode
        configuration.cadata = self._authorities
        quic = self._begin(configuration, pins=self._options.tls.pinned_sha256, client_id=b"?")
        quic.connect(address, now)
        setup = Setup(
            is_client=True, alpn=tuple(alpn), server_name=server_name or "", initial_id=None
        )
        return self._wrap(quic, setup, address, retried=False, now=now)

    def accept(
        self,
        datagram: bytes,
        address: Address,
        *,
        original_destination: bytes | None,
        retry_source: bytes | None,
        now: float,
    ) -> EngineConnection:
        """See :meth:`Engine.accept`."""
        if self._server is None:
            raise CertificateError("this endpoint has no certificate: it cannot accept connections")
        destination, client_id = long_header_ids(datagram)
        quic = self._begin(
            self._server,
            pins=frozenset(),
            client_id=client_id,
            original_destination_connection_id=original_destination or destination,
            retry_source_connection_id=retry_source,
        )
        setup = Setup(
            is_client=False,
            alpn=self._options.alpn,
            server_name="",
            initial_id=destination,
            server_key_hash=self._key_hash,
        )
        return self._wrap(quic, setup, address, retried=retry_source is not None, now=now)

    def reload_certificate(self) -> None:
        """See :meth:`Engine.reload_certificate`."""
        certificate = read_server_certificate(self._options.tls)
        configuration = self._configure(is_client=False, alpn=self._options.alpn)
        self._certify(configuration, certificate)
        self._server = configuration
        self._key_hash = key_hash(certificate.leaf)

    def _configure(self, *, is_client: bool, alpn: Sequence[str]) -> Any:
        limits = self._options.limits
        return self._configuration(
            is_client=is_client,
            alpn_protocols=list(alpn),
            connection_id_length=CONNECTION_ID_LENGTH,
            idle_timeout=limits.idle_timeout,
            max_data=limits.max_data,
            max_stream_data=limits.max_stream_data,
            max_datagram_frame_size=limits.max_datagram_frame,
            quic_logger=self.qlog,
        )


def long_header_ids(datagram: bytes) -> tuple[bytes, bytes]:
    """Return the destination and source connection ids of a long header (RFC 8999, 5.1).

    ::

        first byte | version (4) | length | destination id | length | source id | ...
    """
    if len(datagram) < 7 or not datagram[0] & 0x80:
        raise TransportError("not a QUIC packet with a long header")
    source_at = 6 + datagram[5]
    if source_at >= len(datagram):
        raise TransportError("a QUIC packet that ends within its destination id")
    end = source_at + 1 + datagram[source_at]
    if end > len(datagram):
        raise TransportError("a QUIC packet that ends within its source id")
    return datagram[6:source_at], datagram[source_at + 1 : end]


def watch_handshake(
    context: Any,
    tls: Any,
    *,
    pins: frozenset[bytes],
    leaf: Callable[[], x509.Certificate | bytes],
    on_server_name: Callable[[str], None] | None,
) -> None:
    """Add two steps to the TLS context of a library's connection.

    A client refuses a server whose certificate is not pinned. A server learns the name that the
    client asks for (SNI). ``tls`` is the library's module, ``leaf`` gives the server's certificate.
    """
    # Attributes of the instance hide the methods.
    if pins:
        handle_verify = context._client_handle_certificate_verify

        def check_pin(input_buf: Any, *rest: Any) -> None:
            handle_verify(input_buf, *rest)
            refusal = pin_refusal(leaf(), pins)
            if refusal:
                raise tls.AlertBadCertificate(refusal)

        context._client_handle_certificate_verify = check_pin
    if on_server_name is not None:
        handle_hello = context._server_handle_hello

        def read_name(input_buf: Any, *rest: Any) -> None:
            start = input_buf.tell()
            on_server_name(tls.pull_client_hello(input_buf).server_name or "")
            input_buf.seek(start)
            handle_hello(input_buf, *rest)

        context._server_handle_hello = read_name


class LibraryConnection(ABC, Generic[Q]):
    """An :class:`~laps_sdk.quic.engine.EngineConnection` on a connection of either library."""

    __slots__ = (
        "_address",
        "_alpn",
        "_blocked",
        "_closed",
        "_events",
        "_final",
        "_final_answers",
        "_ids",
        "_ids_tuple",
        "_last_received",
        "_linger",
        "_open",
        "_quic",
        "_server_name",
        "_setup",
        "_stopped",
        "_terminated",
    )

    library_events: ClassVar[ModuleType]
    """The library's module of events."""
    stream_faults: ClassVar[tuple[type[Exception], ...]]
    """What the library raises for a call on a stream that is finished or unknown."""

    def __init__(self, quic: Q, setup: Setup, address: Address, now: float) -> None:
        self._quic: Q = quic
        self._address = address
        self._setup = setup
        self._server_name = setup.server_name
        self._alpn = ""
        self._open = False
        self._closed = False
        self._terminated = False
        self._last_received = now
        self._events: list[Event] = []
        self._blocked = [False, False]
        self._stopped: set[int] = set()
        self._final: list[Burst] | None = None
        self._final_answers = 0
        self._linger: float | None = None
        self._ids: dict[bytes, None] = {quic.host_cid: None}
        if setup.initial_id is not None:
            self._ids[setup.initial_id] = None
        self._ids_tuple = tuple(self._ids)

    # What a backend adds

    @abstractmethod
    def _receive(self, datagrams: Sequence[bytes], address: Address, now: float) -> None:
        """Hand UDP payloads to the library."""

    @abstractmethod
    def _transmit(self, now: float) -> list[tuple[bytes, Address]]:
        """Return the datagrams that the library has to send now."""

    @abstractmethod
    def _open_stream(self, unidirectional: bool) -> int:
        """Open a stream that the peer allows, and return its id."""

    @abstractmethod
    def _receiving(self, stream_id: int) -> bool:
        """Return whether the peer may still send on a stream."""

    @abstractmethod
    def _submit_datagram(self, data: bytes) -> None:
        """Hand a datagram that fits into a packet to the library."""

    # From the endpoint

    def feed(self, datagrams: Sequence[bytes], address: Address, now: float) -> None:
        """See :meth:`EngineConnection.feed`."""
        if self._closed:
            self._final_answers += 1
            return
        self._last_received = now
        self._receive(datagrams, address, now)
        self._pull()
        self._look_for_end(now)
        if (self._blocked[0] and self._quic.streams_left(False) > 0) or (
            self._blocked[1] and self._quic.streams_left(True) > 0
        ):
            self._blocked = [False, False]
            if self._open and not self._closed:
                self._events.append(StreamsAvailable())

    def events(self) -> list[Event]:
        """See :meth:`EngineConnection.events`."""
        taken = self._events
        if taken:
            self._events = []
        return taken

    def flush(self, now: float) -> list[Burst]:
        """See :meth:`EngineConnection.flush`."""
        if self._final is not None:
            answers = self._final_answers
            # 1, 2, 4, 8, ... packets that arrived after the close packet
            if answers and answers & (answers - 1) == 0 and not self._terminated:
                self._final_answers += 1
                return self._final
            return []
        bursts = bursts_of(self._transmit(now))
        self._pull()
        if self._closed:
            self._final, self._final_answers = bursts, 0
            self._linger = now + self._closing_period()
            self._quic.end_trace()
        else:
            self._look_for_end(now)
        return bursts

    def next_timer(self) -> float | None:
        """See :meth:`EngineConnection.next_timer`."""
        if self._terminated:
            return None
        if self._closed:
            return self._last_received if self._linger is None else self._linger
        return self._quic.get_timer()

    def on_timer(self, now: float) -> None:
        """See :meth:`EngineConnection.on_timer`."""
        if self._terminated:
            return
        if self._closed:
            # The library's timer is not used: qh3 counts the period from the last packet.
            if self._linger is None:
                self._linger = now + self._closing_period()
            elif now >= self._linger:
                self._terminated = True
            return
        self._quic.handle_timer(now)
        self._pull()
        self._look_for_end(now)

    @property
    def connection_ids(self) -> Sequence[bytes]:
        """See :attr:`EngineConnection.connection_ids`. The tuple is replaced when an id changes."""
        return self._ids_tuple

    @property
    def peer_reset_token(self) -> bytes:
        """See :attr:`EngineConnection.peer_reset_token`."""
        return self._quic.peer_reset_token

    @property
    def terminated(self) -> bool:
        """Whether the closing or draining period is over."""
        return self._terminated

    # Getters

    @property
    def handshake_complete(self) -> bool:
        """See :attr:`EngineConnection.handshake_complete`."""
        return self._open

    @property
    def alpn(self) -> str:
        """See :attr:`EngineConnection.alpn`."""
        return self._alpn

    @property
    def server_name(self) -> str:
        """See :attr:`EngineConnection.server_name`."""
        return self._server_name

    @property
    def server_key_hash(self) -> bytes:
        """See :attr:`EngineConnection.server_key_hash`."""
        if not self._setup.is_client:
            return self._setup.server_key_hash
        certificate = self._quic.server_certificate
        return key_hash(certificate) if certificate else b""

    @property
    def peer_address(self) -> Address:
        """See :attr:`EngineConnection.peer_address`."""
        return self._quic.peer_address or self._address

    @property
    @abstractmethod
    def max_datagram_size(self) -> int:
        """See :attr:`EngineConnection.max_datagram_size`."""

    @abstractmethod
    def stats(self) -> EngineStats:
        """See :meth:`EngineConnection.stats`."""

    # Sending

    @abstractmethod
    def backlog(self, stream_id: int) -> int:
        """See :meth:`EngineConnection.backlog`."""

    def unacknowledged_bytes(self, stream_id: int) -> int:
        """See :meth:`EngineConnection.unacknowledged_bytes`."""
        return self.backlog(stream_id)

    def unacknowledged(self) -> frozenset[int]:
        """See :meth:`EngineConnection.unacknowledged`. Empty if the library does not provide it."""
        return frozenset()

    def unacknowledged_bidirectional(self) -> bool:
        """See :meth:`EngineConnection.unacknowledged_bidirectional`. False if it is not known."""
        return False

    def streams_left(self, unidirectional: bool) -> int:
        """See :meth:`EngineConnection.streams_left`."""
        left = self._quic.streams_left(unidirectional) if self._open and not self._closed else 0
        if left <= 0:
            self._blocked[unidirectional] = True
            return 0
        return left

    def open_stream(self, unidirectional: bool) -> int:
        """See :meth:`EngineConnection.open_stream`."""
        if self.streams_left(unidirectional) == 0:
            kind = "unidirectional" if unidirectional else "bidirectional"
            raise StreamLimitError(f"the peer allows no more {kind} streams now")
        return self._open_stream(unidirectional)

    def write(self, stream_id: int, data: bytes, fin: bool) -> None:
        """See :meth:`EngineConnection.write`."""
        if self._closed:
            return
        try:
            self._quic.send_stream_data(stream_id, data, fin)
        except self.stream_faults:
            return

    def datagram(self, data: bytes) -> None:
        """See :meth:`EngineConnection.datagram`. Drops it if the path has become too small."""
        if not self._closed and len(data) <= self.max_datagram_size:
            self._submit_datagram(data)

    def reset(self, stream_id: int, code: int) -> None:
        """See :meth:`EngineConnection.reset`."""
        if self._closed:
            return
        try:
            self._quic.reset_stream(stream_id, code)
        except self.stream_faults:
            return

    def stop(self, stream_id: int, code: int) -> None:
        """See :meth:`EngineConnection.stop`. Data that arrives later is not reported."""
        if self._closed or stream_id in self._stopped or not self._receiving(stream_id):
            return
        try:
            self._quic.stop_stream(stream_id, code)
        except self.stream_faults:
            return
        self._stopped.add(stream_id)

    def ping(self) -> None:
        """See :meth:`EngineConnection.ping`."""
        if self._open and not self._closed:
            self._quic.send_ping(0)

    def abort(self) -> None:
        """See :meth:`EngineConnection.abort`."""
        self._pull()
        self._closed = self._terminated = True
        self._quic.end_trace()

    def close(self, code: int, reason: str, *, application: bool = True) -> None:
        """See :meth:`EngineConnection.close`. The packet leaves in the next flush."""
        if self._closed:
            return
        self._pull()
        frame_type = None if application else 0
        self._quic.close(error_code=code, frame_type=frame_type, reason_phrase=reason)
        self._finish(Closed(code, reason, False, application))

    # Translation

    def _pull(self) -> None:
        """Translate the library's events, and join adjacent data of one stream."""
        next_event = self._quic.next_event
        event = next_event()
        if event is None:
            return
        data_kind = self.library_events.StreamDataReceived
        stream_id = -1
        parts: list[bytes] = []
        fin = False
        while event is not None:
            if type(event) is data_kind:
                if event.stream_id != stream_id:
                    if parts:
                        self._report_data(stream_id, parts, fin)
                        parts = []
                    stream_id = event.stream_id
                parts.append(event.data)
                fin = event.end_stream
            else:
                if parts:
                    self._report_data(stream_id, parts, fin)
                    parts = []
                stream_id = -1
                self._translate(event)
            event = next_event()
        if parts:
            self._report_data(stream_id, parts, fin)

    def _report_data(self, stream_id: int, parts: list[bytes], fin: bool) -> None:
        if self._closed:
            return
        if stream_id in self._stopped:
            if fin:
                self._stopped.discard(stream_id)
            return
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        self._events.append(StreamData(stream_id, data, fin))

    def _translate(self, event: Any) -> None:
        """Translate one event that is not data of a stream."""
        kinds = self.library_events
        kind = type(event)
        if kind is kinds.DatagramFrameReceived:
            self._report(DatagramReceived(event.data))
        elif kind is kinds.StreamReset:
            self._stopped.discard(event.stream_id)
            self._report(StreamReset(event.stream_id, event.error_code))
        elif kind is kinds.StopSendingReceived:
            self._report(StopSending(event.stream_id, event.error_code))
        elif kind is kinds.ConnectionIdIssued:
            self._ids[event.connection_id] = None
            self._ids_tuple = tuple(self._ids)
        elif kind is kinds.ConnectionIdRetired:
            self._ids.pop(event.connection_id, None)
            self._ids_tuple = tuple(self._ids)
        elif kind is kinds.HandshakeCompleted:
            self._handshake_completed(event.alpn_protocol or "")
        elif kind is kinds.ConnectionTerminated:
            self._terminated = True

    def _report(self, event: Event) -> None:
        if not self._closed:
            self._events.append(event)

    def _handshake_completed(self, alpn: str) -> None:
        setup = self._setup
        if not setup.is_client:
            self._server_name = self._quic.client_server_name
            if setup.initial_id is not None:
                self._ids.pop(setup.initial_id, None)
                self._ids.setdefault(self._quic.host_cid)
        # A new object: the endpoint then looks for the reset token, too.
        self._ids_tuple = tuple(self._ids)
        self._open = True
        self._alpn = alpn
        self._report(Connected(alpn))

    def _look_for_end(self, now: float) -> None:
        """Report a close as soon as the library knows of it, before its draining period."""
        if self._closed:
            return
        event = self._quic.close_event
        if event is None:
            return
        by_peer = self._quic.is_draining
        setup = self._setup
        if not by_peer and event.reason_phrase == "Idle timeout":
            quiet = f"{now - self._last_received:.0f} s"
            text = (
                f"idle timeout: nothing arrived for {quiet}"
                if self._open
                else f"idle timeout: no answer to the handshake within {quiet}"
            )
            self._finish(Closed(0, text, False, False))
            return
        application = event.frame_type is None
        code, reason = event.error_code, event.reason_phrase
        if not application:
            reason = explain(code, reason, by_peer, setup.is_client, setup.alpn)
        self._finish(Closed(code, reason, by_peer, application))

    def _closing_period(self) -> float:
        """Return about three probe timeouts, in seconds (RFC 9000, 10.2)."""
        rtt = self.stats().rtt
        return _CLOSING_UNKNOWN if rtt is None else 3 * (2 * rtt + _MAX_ACK_DELAY)

    def _finish(self, closed: Closed) -> None:
        self._events.append(closed)
        self._closed = True
        self._stopped.clear()


def explain(
    code: int, reason: str, by_peer: bool, is_client: bool, protocols: Sequence[str]
) -> str:
    """Return the text for a transport error; ``protocols`` are those that we offered or accept."""
    alert = code - _CRYPTO_ERROR
    if not 0 <= alert < 0x100:
        return reason
    suffix = f": {reason}" if reason else ""
    # qh3 reports it as a handshake failure; only the reason differs.
    if alert == _ALERTS["no_application_protocol"] or "No common ALPN" in reason:
        ours = ", ".join(protocols) or "none"
        have = "we offered" if is_client else "we take"
        return f"no protocol in common (ALPN): {have} {ours}"
    if alert in _ABOUT_CERTIFICATES:
        if by_peer:
            return f"the peer refused our certificate ({_NAMES[alert]}){suffix}"
        whose = "the server's" if is_client else "the client's"
        return f"{whose} certificate was refused ({_NAMES[alert]}){suffix}"
    return f"TLS alert {_NAMES.get(alert, alert)}{suffix}"
