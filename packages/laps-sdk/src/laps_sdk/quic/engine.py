"""The border between our shell and a QUIC library: what a backend has to bring.

An :class:`Engine` is one library set up for one endpoint; it makes the :class:`EngineConnection`s.
Neither touches a socket or a clock. The endpoint owns both and drives them::

    socket --recvmsg--> feed(datagrams) --> events() --> egress, handler
                                                             |
    socket <--sendmsg-- flush(now) <---- write / datagram <--+        one flush a turn
                        next_timer / on_timer                         one timer heap

Events are those of :mod:`laps_sdk.quic.events` but ``StreamDropped`` and ``Writable``, which
the egress above makes. ``StreamsAvailable`` means here: look at ``streams_left`` again.
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
    """All but the last of a run have ``segment_size`` bytes, so that GSO can send them at once."""
    address: Address


class EngineStats(NamedTuple):
    """What the library knows; None where it does not."""

    packets_lost: int | None
    rtt: float | None
    rtt_min: float | None
    congestion_window: int | None
    bytes_in_flight: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Certificates, as paths; read by :mod:`laps_sdk.quic.tls`."""

    certificate: str | None = None
    """PEM chain of a server."""
    private_key: str | None = None
    ca_file: str | None = None
    """What a client trusts instead of the system's authorities."""
    pinned_sha256: frozenset[bytes] = frozenset()
    """SHA-256 of leaf certificates that a client trusts whatever their chain says, as a browser
    does with ``serverCertificateHashes``."""
    verify: bool = True
    """False: take any certificate. For tests; the CLI calls it ``--insecure``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """How an endpoint wants its connections."""

    alpn: tuple[str, ...] = ()
    """What a server takes, in its order of preference."""
    tls: Tls = field(default_factory=Tls)
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    datagram_size: int = 1452
    """The UDP payload to grow to when the path takes it; connections begin at 1200."""
    qlog_dir: str | None = None
    qlog_sample: float = 1.0
    """The share of connections that get a qlog file, chosen by their id."""


class EngineConnection(Protocol):
    """One connection of an engine: ``LibraryConnection`` or ``MemoryConnection``.

    Calls on finished streams and on closed connections do nothing.
    """

    # From the endpoint

    @abstractmethod
    def feed(self, datagrams: Sequence[bytes], address: Address, now: float) -> None:
        """UDP payloads arrived, in order, from one address."""

    @abstractmethod
    def events(self) -> list[Event]:
        """What happened; taken once. Adjacent ``StreamData`` of one stream may be joined."""

    @abstractmethod
    def flush(self, now: float) -> list[Burst]:
        """What must be sent now, within congestion and pacing limits."""

    @abstractmethod
    def next_timer(self) -> float | None:
        """When ``on_timer`` wants to be called; may be in the past."""

    @abstractmethod
    def on_timer(self, now: float) -> None:
        """The time of ``next_timer`` has come."""

    @property
    @abstractmethod
    def connection_ids(self) -> Sequence[bytes]:
        """Connection ids under which the peer may send to us now."""

    @property
    @abstractmethod
    def terminated(self) -> bool:
        """Whether it is over, draining included: the endpoint forgets it."""

    # Getters

    @property
    @abstractmethod
    def handshake_complete(self) -> bool:
        """Whether application data may be sent."""

    @property
    @abstractmethod
    def alpn(self) -> str:
        """The negotiated protocol, "" before."""

    @property
    @abstractmethod
    def server_name(self) -> str:
        """SNI, "" if none."""

    @property
    def server_key_hash(self) -> bytes:
        """See :attr:`Connection.server_key_hash`."""
        return b""

    @property
    @abstractmethod
    def peer_address(self) -> Address:
        """The validated address that we send to."""

    @property
    @abstractmethod
    def max_datagram_size(self) -> int:
        """The longest DATAGRAM payload that the peer and the path take now; 0 if none."""

    @abstractmethod
    def stats(self) -> EngineStats:
        """The library's figures."""

    # Sending

    @abstractmethod
    def streams_left(self, unidirectional: bool) -> int:
        """How many more streams of this kind the peer allows."""

    @abstractmethod
    def open_stream(self, unidirectional: bool) -> int:
        """The id of a new stream; only if ``streams_left`` allows it."""

    @abstractmethod
    def write(self, stream_id: int, data: bytes, fin: bool) -> None:
        """Hand bytes to the library. The egress sees to it that ``backlog`` stays small."""

    @abstractmethod
    def backlog(self, stream_id: int) -> int:
        """Bytes of one stream that the library holds and has not put into a packet yet."""

    @abstractmethod
    def total_backlog(self) -> int:
        """The same over all streams and datagrams."""

    def unacknowledged(self) -> frozenset[int]:
        """See :meth:`Connection.unacknowledged`; nothing if the library does not tell."""
        return frozenset()

    def unacknowledged_bidirectional(self) -> bool:
        """Whether bytes of bidirectional streams wait for acknowledgement; False if unknown."""
        return False

    @abstractmethod
    def send_window(self) -> int:
        """About how many bytes the library would put into packets now.

        Congestion window and connection flow control, less what is in flight. 0: giving it more
        only grows ``backlog``.
        """

    @abstractmethod
    def datagram(self, data: bytes) -> None:
        """Hand over a datagram of at most ``max_datagram_size``."""

    @abstractmethod
    def reset(self, stream_id: int, code: int) -> None:
        """RESET_STREAM."""

    @abstractmethod
    def stop(self, stream_id: int, code: int) -> None:
        """STOP_SENDING."""

    @abstractmethod
    def set_reading(self, stream_id: int, on: bool) -> bool:
        """Whether to give more flow-control credit on a stream; False if the library cannot."""

    @abstractmethod
    def close(self, code: int, reason: str, *, application: bool = True) -> None:
        """CONNECTION_CLOSE."""


class Engine(Protocol):
    """A QUIC library set up for one endpoint: ``LibraryEngine`` or ``MemoryEngine``."""

    name: str
    """What ``--transport`` calls it."""

    @abstractmethod
    def dial(
        self, address: Address, *, alpn: Sequence[str], server_name: str | None, now: float
    ) -> EngineConnection:
        """Begin a connection; ``flush`` gives its first packet."""

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
        """Begin a server's connection for an Initial, which is then fed like any other datagram.

        The two ids are set if the client came back from a Retry that
        :mod:`laps_sdk.quic.admission` sent and checked.
        """

    @property
    @abstractmethod
    def needs_retry(self) -> bool:
        """Whether every client must be sent a Retry (qh3: its amplification limit is wrong)."""

    @abstractmethod
    def reload_certificate(self) -> None:
        """Read certificate and key again, for new connections; raises if they are bad."""
