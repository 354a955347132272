"""The engine on qh3: the extra ``turbo``, for ``--transport qh3``.

Importing this module without the extra raises a ``TransportError`` that names it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from types import ModuleType
from typing import Any, ClassVar, Final

from laps_sdk.quic.base import Address
from laps_sdk.quic.engine import EngineConnection, EngineOptions, EngineStats
from laps_sdk.quic.library import (
    DATAGRAM_FRAME_OVERHEAD,
    LibraryConnection,
    LibraryEngine,
    Setup,
)
from laps_sdk.quic.qh3.compat import (
    Guarded,
    QuicConfiguration,
    QuicConnectionError,
    QuicLoggerTrace,
    events,
)
from laps_sdk.quic.tls import ServerCertificate

__all__ = ["Qh3Connection", "Qh3Engine"]

_PACKET_SIZE: Final = 1280
_OVERHEAD: Final = 30
"""Bytes of a packet without its datagram. The core accepts a longer datagram and then never sends
anything again.
"""
_BURST: Final = 64
"""The most datagrams in one flush, because qh3 does not pace them."""


class Qh3Connection(LibraryConnection[Guarded]):
    """A connection of qh3, with checks around calls that its core does not check itself.

    Datagrams in qh3 ignore the congestion window. For a subscriber that reads too slowly, datagrams
    would fill the window and its streams would never be sent. So datagrams wait in this class and
    go to the core only as the window has room. While streams wait too, datagrams get half of that
    room.
    """

    __slots__ = ("_datagram_bytes", "_datagrams")

    library_events: ClassVar[ModuleType] = events
    stream_faults: ClassVar[tuple[type[Exception], ...]] = (ValueError, QuicConnectionError)

    def __init__(self, quic: Guarded, setup: Setup, address: Address, now: float) -> None:
        super().__init__(quic, setup, address, now)
        self._datagrams: deque[bytes] = deque()
        self._datagram_bytes = 0

    # From the endpoint

    def _receive(self, datagrams: Sequence[bytes], address: Address, now: float) -> None:
        try:
            self._quic.receive_many_datagrams(list(datagrams), address, now)
        except QuicConnectionError as error:
            self.close(error.error_code, error.reason_phrase, application=False)

    def _transmit(self, now: float) -> list[tuple[bytes, Address]]:
        quic = self._quic
        built = quic.poll(now)
        if not self._datagrams or self._closed:
            return built
        # Streams first: what is left of the window is for datagrams.
        window, in_flight = quic.congestion
        room = window - in_flight
        if quic.get_send_buffer_size() > 0:
            room //= 2
        count = 0
        while self._datagrams and count < _BURST:
            size = len(self._datagrams[0]) + _OVERHEAD
            if size > room and in_flight > 0:
                break
            data = self._datagrams.popleft()
            self._datagram_bytes -= len(data)
            if len(data) <= self.max_datagram_size:
                quic.send_datagram_frame(data)
                room -= size
                in_flight += size
                count += 1
        return built + quic.poll(now) if count else built

    # Getters

    @property
    def max_datagram_size(self) -> int:
        """See the base class."""
        quic = self._quic
        allowed = quic.peer_datagram_frame
        if not allowed:
            return 0
        return max(0, min(allowed - DATAGRAM_FRAME_OVERHEAD, quic.packet_size - _OVERHEAD))

    def stats(self) -> EngineStats:
        """See the base class. The core does not provide the least round-trip time."""
        quic = self._quic
        window, in_flight = quic.congestion
        return EngineStats(quic.lost, quic.rtt, None, window, in_flight)

    # Sending

    def _open_stream(self, unidirectional: bool) -> int:
        return self._quic.open_stream(unidirectional)

    def _receiving(self, stream_id: int) -> bool:  # noqa: ARG002 - the core refuses what is over
        return True

    def backlog(self, stream_id: int) -> int:
        """See the base class."""
        return self._quic.get_send_buffer_size(stream_id)

    def total_backlog(self) -> int:
        """See the base class."""
        return self._quic.get_send_buffer_size() + self._datagram_bytes

    def send_window(self) -> int:
        """See the base class. The core does not provide the connection's flow control."""
        if self._closed:
            return 0
        window, in_flight = self._quic.congestion
        return max(0, window - in_flight)

    def _submit_datagram(self, data: bytes) -> None:
        self._datagrams.append(data)
        self._datagram_bytes += len(data)

    def set_reading(self, stream_id: int, on: bool) -> bool:  # noqa: ARG002 - cannot
        """See the base class. qh3 extends flow control as bytes arrive, read or not."""
        return False

    def withhold(self, size: int) -> bool:  # noqa: ARG002 - cannot
        """See the base class."""
        return False


class Qh3Engine(LibraryEngine[Guarded]):
    """The engine that makes connections of qh3.

    Servers of qh3 cannot probe for the path MTU, so their packets have at most qh3's 1280 bytes.
    qh3 allows its peers 100 bidirectional and 103 unidirectional streams, whatever the limits are.
    """

    name = "qh3"
    needs_retry = True
    """True: qh3 counts amplification wrongly, so every client must get a Retry."""

    def __init__(self, options: EngineOptions) -> None:
        super().__init__(options, QuicLoggerTrace)

    def _configuration(self, **common: Any) -> QuicConfiguration:
        size = self._options.datagram_size
        return QuicConfiguration(
            max_datagram_size=min(size, _PACKET_SIZE),
            probe_datagram_size=size > _PACKET_SIZE,
            **common,
        )

    def _certify(self, configuration: QuicConfiguration, certificate: ServerCertificate) -> None:
        configuration.load_cert_chain(certificate.certificate_pem, certificate.key_pem)

    def _begin(
        self,
        configuration: QuicConfiguration,
        *,
        pins: frozenset[bytes],
        client_id: bytes,
        **ids: bytes | None,
    ) -> Guarded:
        return Guarded(
            configuration=configuration,
            pins=pins,
            client_id=client_id,
            reset_token=self._reset_token,
            **ids,
        )

    def _wrap(
        self,
        quic: Guarded,
        setup: Setup,
        address: Address,
        *,
        retried: bool,  # noqa: ARG002 - always
        now: float,
    ) -> EngineConnection:
        return Qh3Connection(quic, setup, address, now)
