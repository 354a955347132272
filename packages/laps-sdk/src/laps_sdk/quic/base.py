"""The transport as its users see it: connections, outgoing streams and handlers.

::

    Endpoint     one UDP socket, many connections; listens, dials, or both (endpoint.py)
       |
    Connection   one QUIC connection, or one WebTransport session on it: the same interface
       |
    OutStream    the sending half of one stream, with its priority and its deadline

Receiving: the :class:`Handler` of a connection gets the events of one turn of the loop as one list.
A handler must not block. What it writes is sent at the end of the turn, in one flush for each
connection.

Sending: ``write`` never blocks and never fails because of the network. Bytes that QUIC does not
accept at once wait in the connection's egress queue, the most urgent first. The queue is bounded
(:class:`EgressLimits`):

- Over the limit, the connection resets the least urgent *droppable* stream with its drop code and
  reports ``StreamDropped``.
- Other streams (control) are never dropped. Over their own limit, the connection is closed.
- A writer that must not lose data (a publisher) checks ``congested`` and waits for ``Writable``.
- A writer that can read its data again later (a relay's track log) offers it: ``offer`` refuses
  bytes that would only wait, and ``pull_from`` names who writes them once the stream has room.

Stream ids are QUIC's. On WebTransport they are the ids of the underlying connection. Bit 0 is set
if the server opened the stream, bit 1 if the stream is unidirectional.
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
    "IgnoringHandler",
    "Listener",
    "OutStream",
    "PullSource",
]

URGENT: Final = 0
"""The priority of control streams, before all other priorities."""
BACKGROUND: Final = (1 << 63) - 1
"""The least urgent priority."""

Address = tuple[str, int]
"""Host and port; an IPv6 host has no brackets and no scope."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressLimits:
    """How much a connection queues for a peer that reads too slowly."""

    max_bytes: int = 4 * 1024 * 1024
    """Bytes on droppable streams; above it, the least urgent stream is dropped.

    Offered bytes are refused above half of it, so that they make no stream drop.
    """
    max_control_bytes: int = 1024 * 1024
    """Bytes on all other streams; above it, the connection is closed."""
    high_water: int = 512 * 1024
    """Queued bytes above which ``congested`` becomes true."""
    low_water: int = 128 * 1024
    """Queued bytes at which ``congested`` becomes false and ``Writable`` is reported."""
    max_waiting_streams: int = 1024
    """Outgoing unidirectional streams that wait for the peer's permission."""
    max_datagrams: int = 512
    """Queued datagrams; a full queue drops the oldest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """What a connection allows its peer."""

    max_streams_bidi: int = 128
    """Bidirectional streams that the peer may have open at a time."""
    max_streams_uni: int = 1024
    """Unidirectional streams that the peer may have open at a time."""
    max_data: int = 16 * 1024 * 1024
    """Bytes that the peer may send on all streams before they are read."""
    max_stream_data: int = 4 * 1024 * 1024
    """Bytes that the peer may send on one stream before they are read."""
    idle_timeout: float = 30.0
    """Seconds without a packet after which the connection ends; both ends use the lesser value."""
    keepalive: float = 10.0
    """Seconds without a packet of the peer after which it gets a PING; 0: never."""
    dead_after: float = 10.0
    """Seconds without a packet of the peer, in spite of PINGs, after which the connection ends.

    It is no part of the handshake. 0: only ``idle_timeout`` ends the connection.
    """
    max_datagram_frame: int = 16383
    """The longest DATAGRAM frame that the connection accepts."""


class ConnectionStats(NamedTuple):
    """Statistics of one connection; None if the backend does not know a value."""

    bytes_sent: int
    bytes_received: int
    packets_sent: int
    packets_received: int
    packets_lost: int | None
    rtt: float | None
    """The smoothed round-trip time in seconds."""
    rtt_min: float | None
    congestion_window: int | None
    bytes_in_flight: int | None
    queued_bytes: int
    """Bytes in the egress queue that QUIC has not accepted yet."""
    dropped_streams: int
    dropped_bytes: int
    dropped_datagrams: int


PullSource: TypeAlias = Callable[[float], None]
"""What writes more to a stream that has room; it gets the time."""


class OutStream(ABC):
    """The sending half of a stream. Its methods never block; the module lists the limits."""

    __slots__ = ()

    @property
    @abstractmethod
    def stream_id(self) -> int | None:
        """QUIC's stream id; None while the stream waits for the peer's permission."""

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Whether writing has ended: finished, reset, stopped, dropped, or connection closed."""

    @property
    @abstractmethod
    def queued(self) -> int:
        """Bytes written to this stream that QUIC has not accepted yet."""

    @property
    def unsent(self) -> int:
        """Bytes written to this stream that are in no packet yet, as far as the backend knows."""
        return self.queued

    @property
    def unacknowledged(self) -> int:
        """Bytes written to this stream that the peer has not acknowledged; 0 after a reset.

        The value stays after the end of the connection. qh3 counts only bytes in no packet yet.
        """
        return self.unsent

    @abstractmethod
    def write(self, data: bytes, fin: bool = False) -> None:
        """Queue bytes; ``fin`` ends the stream after them.

        The stream keeps ``data`` by reference, so the caller must not change it. Writing to a
        closed stream does nothing: an event reports the close.
        """

    @abstractmethod
    def offer(self, data: bytes, fin: bool = False) -> bool:
        """Write bytes unless enough of the stream or of the connection is queued already.

        Returns False if the stream refused them. A closed stream takes everything, as in
        :meth:`write`.
        """

    @abstractmethod
    def pull_from(self, source: PullSource) -> None:
        """Call ``source`` with the time, once, when the stream has room: it may write then.

        The calls are made in the order of the streams' priorities, while packets are filled.
        """

    @abstractmethod
    def reset(self, code: int) -> None:
        """Reset the stream and forget its queued bytes; does nothing on a closed stream."""

    @abstractmethod
    def set_priority(self, priority: int) -> None:
        """Change the priority of queued and later bytes."""

    @abstractmethod
    def set_deadline(self, deadline: float | None) -> None:
        """Change when unsent bytes are dropped; the clock is ``Connection.now``."""


class Connection(ABC):
    """One QUIC connection or one WebTransport session, behind the same interface."""

    __slots__ = ()

    # A. Getters

    @property
    @abstractmethod
    def alpn(self) -> str:
        """The protocol: QUIC's ALPN or WebTransport's negotiated protocol; "" if there is none."""

    @property
    @abstractmethod
    def is_client(self) -> bool:
        """Whether this side dialled."""

    @property
    @abstractmethod
    def is_webtransport(self) -> bool:
        """Whether this is a WebTransport session."""

    @property
    @abstractmethod
    def peer_address(self) -> Address:
        """The peer's present address; it changes when the peer migrates."""

    @property
    @abstractmethod
    def authority(self) -> str:
        """The server name that the client asked for (SNI, or :authority); "" if none."""

    @property
    def server_key_hash(self) -> bytes:
        """SHA-256 of the SubjectPublicKeyInfo in the server's certificate; b"" without one.

        Both sides know it. A signature over it cannot be relayed by a third party in between.
        """
        return b""

    @property
    @abstractmethod
    def path(self) -> str:
        """The path and query of a WebTransport session; "" on raw QUIC."""

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Whether the connection has ended or is closing."""

    @property
    @abstractmethod
    def congested(self) -> bool:
        """Whether the egress queue exceeded its high mark and has not drained since."""

    @property
    @abstractmethod
    def max_datagram_size(self) -> int:
        """The longest datagram that can be sent now; 0 if the peer accepts none."""

    @property
    @abstractmethod
    def rtt(self) -> float | None:
        """The smoothed round-trip time in seconds; None before it is measured."""

    @property
    @abstractmethod
    def now(self) -> float:
        """The event loop's clock, read once a turn; deadlines use this clock."""

    @abstractmethod
    def stats(self) -> ConnectionStats:
        """Return the present statistics."""

    def unacknowledged(self) -> frozenset[int]:
        """Return unidirectional streams whose end was sent and is not acknowledged yet.

        The set is empty if the backend does not know. The call checks every stream, so it is slow.
        """
        return frozenset()

    def unacknowledged_bidirectional(self) -> bool:
        """Return whether sent bytes of bidirectional streams are not acknowledged yet.

        The result is False if the backend does not know.
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
        """Open a stream to send on; the stream waits if the peer allows no more yet."""

    @abstractmethod
    def open_bidirectional(self, *, priority: int = URGENT) -> OutStream:
        """Open a stream for both directions; its ``stream_id`` is known at once.

        Raises ``StreamLimitError`` if the peer allows no more streams. ``StreamsAvailable`` is
        reported when the peer allows more.
        """

    @abstractmethod
    def reply_stream(self, stream_id: int) -> OutStream:
        """Return our half of a bidirectional stream of the peer, the same object each time."""

    @abstractmethod
    def stop_sending(self, stream_id: int, code: int) -> None:
        """Ask the peer to reset its half; later data of the stream is not reported."""

    @abstractmethod
    def pause_reading(self, stream_id: int) -> bool:
        """Stop extending the peer's flow control on a stream; return False if the backend cannot.

        Bytes that the peer may already send still arrive.
        """

    @abstractmethod
    def resume_reading(self, stream_id: int) -> None:
        """Undo :meth:`pause_reading`."""

    @abstractmethod
    def withhold(self, size: int) -> bool:
        """Give the peer no credit for ``size`` bytes, which the application has not read yet.

        The size replaces that of the last call; 0 gives all credit. From about the size of
        ``ConnectionLimits.max_data`` on, the peer can send on no stream, control streams included,
        once it has used the credit that it has. Returns False if the backend cannot.
        """

    # C. Datagrams

    @abstractmethod
    def send_datagram(self, data: bytes, deadline: float | None = None) -> bool:
        """Queue a datagram; return False if it is too long for the path or the peer accepts none.

        A full queue drops its oldest datagram, and a datagram past its deadline is dropped.
        ``stats`` counts both.
        """

    # D. Life

    @abstractmethod
    def close(self, code: int = 0, reason: str = "") -> None:
        """Close the connection; ``Closed`` is reported. A second call does nothing."""


class Handler(Protocol):
    """The application of a connection.

    ``moqt.MoqtPeer``, the HTTP/3 peers of ``webtransport`` and ``peering.port`` implement it.
    """

    def handle_events(self, events: Sequence[Event]) -> None:
        """Handle everything that happened on the connection in this turn, in order.

        An exception closes this connection with INTERNAL_ERROR (0x1) and is logged. Other
        connections are not affected.
        """


class IgnoringHandler:
    """The handler of a connection that was refused or given up: it ignores all events."""

    def handle_events(self, events: Sequence[Event]) -> None:
        """Ignore the events."""


Listener: TypeAlias = Callable[[Connection], Handler]
"""Returns the handler of a new connection; ``Connected`` is the first event that it gets.

It is called when the handshake is complete and, on WebTransport, the request was accepted.
"""
