"""The interface between the endpoint and a QUIC library: what a backend implements.

An :class:`Engine` is one library set up for one endpoint; it makes the :class:`EngineConnection`s.
Neither uses a socket or a clock. The endpoint owns both and drives the connections::

    socket --recvmsg--> feed(datagrams) --> events() --> egress, handler
                                                             |
    socket <--sendmsg-- flush(now) <---- write / datagram <--+        one flush a turn
                        next_timer / on_timer                         one timer heap

An engine reports the events of :mod:`laps_sdk.quic.events` except ``StreamDropped`` and
``Writable``, which the egress adds. ``StreamsAvailable`` of an engine means that ``streams_left``
has changed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from laps_sdk.quic.base import Address, ConnectionLimits
from laps_sdk.quic.events import Event

__all__ = [
    "Burst",
    "Engine",
    "EngineConnection",
    "EngineOptions",
    "EngineStats",
    "Tls",
]


class Burst(NamedTuple):
    """Datagrams for one address, in the order in which they must go out."""

    datagrams: list[bytes]
    """All but the last of a run have the same size, so that GSO can send them in one call."""
    address: Address


class EngineStats(NamedTuple):
    """Statistics of the library; None if the library does not provide a value."""

    packets_lost: int | None
    rtt: float | None
    rtt_min: float | None
    congestion_window: int | None
    bytes_in_flight: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Paths of certificates; :mod:`laps_sdk.quic.tls` reads the files."""

    certificate: str | None = None
    """The PEM chain of a server."""
    private_key: str | None = None
    ca_file: str | None = None
    """The authorities that a client trusts instead of the system's."""
    pinned_sha256: frozenset[bytes] = frozenset()
    """SHA-256 of leaf certificates that a client trusts whatever their chain is, like
    ``serverCertificateHashes`` in a browser.
    """
    verify: bool = True
    """False accepts any certificate. For tests; the CLI option is ``--insecure``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """The set-up of an endpoint and its connections."""

    alpn: tuple[str, ...] = ()
    """The protocols that a server accepts, in its order of preference."""
    tls: Tls = field(default_factory=Tls)
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    datagram_size: int = 1452
    """The largest UDP payload to probe for; connections begin at 1200 bytes."""
    qlog_dir: str | None = None
    qlog_sample: float = 1.0
    """The share of connections that get a qlog file, chosen by their connection id."""
    reset_key: bytes = b""
    """The key of stateless resets, which should outlive a restart; b"": the endpoint draws one."""


class EngineConnection(Protocol):
    """One connection of an engine: ``LibraryConnection`` or ``MemoryConnection``.

    Calls on finished streams and on closed connections do nothing.
    """

    # From the endpoint

    @abstractmethod
    def feed(self, datagrams: Sequence[bytes], address: Address, now: float) -> None:
        """Process UDP payloads that arrived in this order from one address."""

    @abstractmethod
    def events(self) -> list[Event]:
        """Return the events since the last call.

        Adjacent ``StreamData`` of one stream may be joined.
        """

    @abstractmethod
    def flush(self, now: float) -> list[Burst]:
        """Return the datagrams to send now, within congestion and pacing limits."""

    @abstractmethod
    def next_timer(self) -> float | None:
        """Return when to call ``on_timer``, possibly a time in the past; None for never."""

    @abstractmethod
    def on_timer(self, now: float) -> None:
        """Handle the timers that are due."""

    @property
    @abstractmethod
    def connection_ids(self) -> Sequence[bytes]:
        """Connection ids that the peer may send to now."""

    @property
    def peer_reset_token(self) -> bytes:
        """The token of a stateless reset by the peer (RFC 9000, 10.3); b"" if there is none.

        It belongs to the id that packets are sent to. ``connection_ids`` is another object after
        it has changed.
        """
        return b""

    @property
    @abstractmethod
    def terminated(self) -> bool:
        """Whether the connection has ended, draining included; the endpoint then forgets it."""

    # Getters

    @property
    @abstractmethod
    def handshake_complete(self) -> bool:
        """Whether application data may be sent."""

    @property
    @abstractmethod
    def alpn(self) -> str:
        """The negotiated protocol; "" before the handshake is complete."""

    @property
    @abstractmethod
    def server_name(self) -> str:
        """The server name of TLS (SNI); "" if there is none."""

    @property
    def server_key_hash(self) -> bytes:
        """See :attr:`Connection.server_key_hash`."""
        return b""

    @property
    @abstractmethod
    def peer_address(self) -> Address:
        """The validated address that packets are sent to."""

    @property
    @abstractmethod
    def max_datagram_size(self) -> int:
        """The longest DATAGRAM payload that peer and path accept now; 0 if none."""

    @abstractmethod
    def stats(self) -> EngineStats:
        """Return the library's statistics."""

    # Sending

    @abstractmethod
    def streams_left(self, unidirectional: bool) -> int:
        """Return how many more streams of this kind the peer allows."""

    @abstractmethod
    def open_stream(self, unidirectional: bool) -> int:
        """Open a stream and return its id; call it only if ``streams_left`` allows it."""

    @abstractmethod
    def write(self, stream_id: int, data: bytes, fin: bool) -> None:
        """Pass bytes to the library. The egress keeps ``backlog`` small."""

    @abstractmethod
    def backlog(self, stream_id: int) -> int:
        """Return the bytes of one stream that the library holds and has put into no packet yet."""

    @abstractmethod
    def total_backlog(self) -> int:
        """Return the bytes of all streams and datagrams that are in no packet yet."""

    def unacknowledged_bytes(self, stream_id: int) -> int:
        """Return the bytes of one stream that the library holds and the peer did not acknowledge.

        A library that does not know returns the backlog.
        """
        return self.backlog(stream_id)

    def unacknowledged(self) -> frozenset[int]:
        """See :meth:`Connection.unacknowledged`; empty if the library does not know."""
        return frozenset()

    def unacknowledged_bidirectional(self) -> bool:
        """Return whether bytes of bidirectional streams are unacknowledged; False if unknown."""
        return False

    @abstractmethod
    def send_window(self) -> int:
        """Return about how many bytes the library would put into packets now.

        This is the congestion window and the connection's flow control, less the bytes in flight.
        At 0, writing more only makes ``backlog`` longer.
        """

    @abstractmethod
    def datagram(self, data: bytes) -> None:
        """Pass a datagram of at most ``max_datagram_size`` bytes to the library."""

    @abstractmethod
    def reset(self, stream_id: int, code: int) -> None:
        """Send RESET_STREAM."""

    @abstractmethod
    def stop(self, stream_id: int, code: int) -> None:
        """Send STOP_SENDING."""

    @abstractmethod
    def set_reading(self, stream_id: int, on: bool) -> bool:
        """Extend the peer's flow control on a stream, or stop extending it.

        Returns False if the library cannot stop it.
        """

    @abstractmethod
    def withhold(self, size: int) -> bool:
        """See :meth:`Connection.withhold`; new credit leaves with the next flush."""

    @abstractmethod
    def ping(self) -> None:
        """Send a PING with the next flush, which the peer has to acknowledge."""

    @abstractmethod
    def close(self, code: int, reason: str, *, application: bool = True) -> None:
        """Send CONNECTION_CLOSE."""

    @abstractmethod
    def abort(self) -> None:
        """End the connection without a packet: the peer does not know it any more."""


class Engine(Protocol):
    """A QUIC library set up for one endpoint: ``LibraryEngine`` or ``MemoryEngine``."""

    name: str
    """The name of the backend in ``--transport``."""

    @abstractmethod
    def dial(
        self, address: Address, *, alpn: Sequence[str], server_name: str | None, now: float
    ) -> EngineConnection:
        """Begin a connection; ``flush`` returns its first packet."""

    @abstractmethod
    def accept(
        self,
        datagram: bytes,
        address: Address,
        *,
        original_destination: bytes | None,
        retry_source: bytes | None,
        now: float,
    ) -> EngineConnection:
        """Begin a server's connection for an Initial packet, which the caller then feeds to it.

        The two ids are set if the client came back from a Retry that
        :mod:`laps_sdk.quic.admission` sent and checked.
        """

    @property
    @abstractmethod
    def needs_retry(self) -> bool:
        """Whether every client must get a Retry (qh3: its amplification limit is wrong)."""

    @abstractmethod
    def reload_certificate(self) -> None:
        """Read certificate and key again, for new connections.

        Raises ``CertificateError`` if the files are bad.
        """
