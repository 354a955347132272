"""The transport as everything above it sees it: connections, outgoing streams, handlers.

::

    Endpoint     one UDP socket, many connections; listens, dials, or both (endpoint.py)
       |
    Connection   one QUIC connection or one WebTransport session on it: the same interface
       |
    OutStream    the sending half of one stream, with its priority and its deadline

In: a connection's :class:`Handler` gets the events of one turn of the loop as one list. Nothing
is awaited there: a handler must not block, and what it writes goes out at the end of the turn, in
one flush for each connection.

Out: ``write`` never blocks and never fails because of the network. What QUIC does not take at once
waits in the connection's egress queue, most urgent first. The queue is bounded
(:class:`EgressLimits`): over its limit the least urgent *droppable* stream is reset with its drop
code and reported as ``StreamDropped``. Streams that are not droppable (control) are never dropped:
over their own limit the connection is closed. Writers that would rather wait than lose
(publishers) look at ``congested`` and wait for ``Writable``.

Stream ids are QUIC's; on WebTransport they are those of the underlying connection. Bit 0: opened
by the server; bit 1: unidirectional.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, TypeAlias

from laps_sdk.quic.events import Event

__all__ = [
    "BACKGROUND",
    "URGENT",
    "Address",
    "Connection",
    "ConnectionLimits",
    "ConnectionStats",
    "EgressLimits",
    "Handler",
    "Listener",
    "OutStream",
]

URGENT: Final = 0
"""The priority of control streams: before all else."""
BACKGROUND: Final = (1 << 63) - 1
"""The least urgent priority."""

Address = tuple[str, int]
"""Host and port; IPv6 hosts without brackets or scope."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressLimits:
    """How much a connection holds for a peer that does not take it."""

    max_bytes: int = 4 * 1024 * 1024
    """Bytes on droppable streams; over it the least urgent stream is dropped."""
    max_control_bytes: int = 1024 * 1024
    """Bytes on other streams; over it the connection is closed."""
    high_water: int = 512 * 1024
    """``congested`` becomes true above this."""
    low_water: int = 128 * 1024
    """... and false again, with ``Writable``, at or below this."""
    max_waiting_streams: int = 1024
    """Outgoing unidirectional streams that wait for the peer's permission."""
    max_datagrams: int = 512
    """Datagrams queued; the oldest goes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """What a connection lends to its peer."""

    max_streams_bidi: int = 128
    """Bidirectional streams of the peer that may be open at a time."""
    max_streams_uni: int = 1024
    """Unidirectional streams of the peer that may be open at a time."""
    max_data: int = 16 * 1024 * 1024
    """Bytes that the peer may send before we have read them, on all streams."""
    max_stream_data: int = 4 * 1024 * 1024
    """The same on one stream."""
    idle_timeout: float = 30.0
    """Seconds without a packet after which the connection is over."""
    max_datagram_frame: int = 16383
    """The longest DATAGRAM frame that we take."""


class ConnectionStats(NamedTuple):
    """Figures of one connection; None where the backend cannot tell."""

    bytes_sent: int
    bytes_received: int
    packets_sent: int
    packets_received: int
    packets_lost: int | None
    rtt: float | None
    """Smoothed, in seconds."""
    rtt_min: float | None
    congestion_window: int | None
    bytes_in_flight: int | None
    queued_bytes: int
    """In our egress queue, not yet given to QUIC."""
    dropped_streams: int
    dropped_bytes: int
    dropped_datagrams: int


class OutStream(ABC):
    """The sending half of a stream. Methods never block; see the module for what is bounded."""

    __slots__ = ()

    @property
    @abstractmethod
    def stream_id(self) -> int | None:
        """QUIC's id; None while the stream waits for the peer's permission to be opened."""

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Whether nothing more can be written: finished, reset, stopped, dropped, or gone."""

    @property
    @abstractmethod
    def queued(self) -> int:
        """Bytes written here that QUIC has not taken yet."""

    @property
    def unsent(self) -> int:
        """Bytes written here that have not left in a packet yet, as far as is known."""
        return self.queued

    @abstractmethod
    def write(self, data: bytes, fin: bool = False) -> None:
        """Queue bytes; ``fin`` ends the stream behind them.

        ``data`` is kept by reference, never copied: it must not change. Writing to a closed stream
        does nothing: that it was closed is (or was) told by an event.
        """

    @abstractmethod
    def reset(self, code: int) -> None:
        """Abandon the stream: what is queued is forgotten. Does nothing if it is closed."""

    @abstractmethod
    def set_priority(self, priority: int) -> None:
        """Change how urgent what is queued and what follows is."""

    @abstractmethod
    def set_deadline(self, deadline: float | None) -> None:
        """Change when what has not been sent is given up; the clock is ``Connection.now``."""


class Connection(ABC):
    """One QUIC connection, or one WebTransport session: both look the same."""

    __slots__ = ()

    # A. Getters

    @property
    @abstractmethod
    def alpn(self) -> str:
        """The protocol: QUIC's ALPN, or WebTransport's negotiated protocol ("" if none was)."""

    @property
    @abstractmethod
    def is_client(self) -> bool:
        """Whether we dialled."""

    @property
    @abstractmethod
    def is_webtransport(self) -> bool:
        """Whether this is a WebTransport session."""

    @property
    @abstractmethod
    def peer_address(self) -> Address:
        """Where the peer is now; it may move."""

    @property
    @abstractmethod
    def authority(self) -> str:
        """The server name that the client asked for (SNI, or :authority); "" if none."""

    @property
    def server_key_hash(self) -> bytes:
        """SHA-256 of the SubjectPublicKeyInfo in the server's certificate, known on both sides.

        What is signed over it cannot be passed on through somebody in between. "" if there is no
        certificate.
        """
        return b""

    @property
    @abstractmethod
    def path(self) -> str:
        """WebTransport: the path with its query. Raw QUIC: ""."""

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Whether the connection is over or closing."""

    @property
    @abstractmethod
    def congested(self) -> bool:
        """Whether the egress queue went over its high mark and has not drained since."""

    @property
    @abstractmethod
    def max_datagram_size(self) -> int:
        """The longest datagram that can be sent now; 0 if the peer takes none."""

    @property
    @abstractmethod
    def rtt(self) -> float | None:
        """The smoothed round-trip time in seconds, once there is one."""

    @property
    @abstractmethod
    def now(self) -> float:
        """The loop's clock, which deadlines are measured on; read once a turn."""

    @abstractmethod
    def stats(self) -> ConnectionStats:
        """The figures as they stand."""

    def unacknowledged(self) -> frozenset[int]:
        """Unidirectional streams that were handed to QUIC, their end too, and have not all arrived.

        As far as the backend can tell: nothing where it cannot. All of them are looked at, so ask
        when it matters.
        """
        return frozenset()

    def unacknowledged_bidirectional(self) -> bool:
        """Whether something of bidirectional streams was handed to QUIC and has not arrived.

        As far as the backend can tell, too.
        """
        return False

    # B. Streams

    @abstractmethod
    def open_unidirectional(
        self,
        *,
        priority: int = URGENT,
        droppable: bool = False,
        drop_code: int = 0,
        deadline: float | None = None,
    ) -> OutStream:
        """Open a stream to send on; it waits its turn if the peer allows no more yet."""

    @abstractmethod
    def open_bidirectional(self, *, priority: int = URGENT) -> OutStream:
        """Open a stream for both directions; ``stream_id`` is known at once.

        ``StreamLimitError`` if the peer allows no more: ``StreamsAvailable`` follows when it does.
        """

    @abstractmethod
    def reply_stream(self, stream_id: int) -> OutStream:
        """Our half of a bidirectional stream that the peer opened; the same object each time."""

    @abstractmethod
    def stop_sending(self, stream_id: int, code: int) -> None:
        """Ask the peer to abandon its half; data that still arrives is not reported."""

    @abstractmethod
    def pause_reading(self, stream_id: int) -> bool:
        """Give the peer no more credit on this stream; False if the backend cannot.

        What it may send already still arrives.
        """

    @abstractmethod
    def resume_reading(self, stream_id: int) -> None:
        """Undo :meth:`pause_reading`."""

    # C. Datagrams

    @abstractmethod
    def send_datagram(self, data: bytes, deadline: float | None = None) -> bool:
        """Queue a datagram; False if it is too long for the path, or not taken at all.

        A queue that is full drops its oldest; a datagram behind its deadline is dropped. Both are
        counted in ``stats``.
        """

    # D. Life

    @abstractmethod
    def close(self, code: int = 0, reason: str = "") -> None:
        """End the connection; ``Closed`` follows. Calling it again does nothing."""


class Handler(Protocol):
    """The application of a connection.

    ``moqt.MoqtPeer``, the HTTP/3 peers of ``webtransport`` and ``peering.port`` implement it.
    """

    def handle_events(self, events: Sequence[Event]) -> None:
        """Everything that happened on the connection in this turn, in order.

        An exception closes this connection with INTERNAL_ERROR (0x1) and is logged; no other
        connection is touched.
        """


Listener: TypeAlias = Callable[[Connection], Handler]
"""Returns the handler of a new connection; ``Connected`` is the first event that it gets.

It is called when the handshake is complete and, on WebTransport, the request was accepted.
"""
