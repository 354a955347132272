"""A connection of qh3: guards around the calls that its core does not guard itself.

Datagrams in qh3 ignore the congestion window: a subscriber that takes too few would fill it with
them, and its streams would never be sent. So datagrams wait here, and go to the core only as far
as the window has room; while streams wait too, they get half of that room.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from types import ModuleType
from typing import ClassVar, Final

from laps_sdk.quic.base import Address
from laps_sdk.quic.engine import EngineStats
from laps_sdk.quic.library import DATAGRAM_FRAME_OVERHEAD, LibraryConnection, Setup
from laps_sdk.quic.qh3.compat import Guarded, QuicConnectionError, events

__all__ = ["Qh3Connection"]

_OVERHEAD: Final = 30
"""A datagram longer than a packet less this is taken by the core and then blocks it for good."""
_BURST: Final = 64
"""Datagrams for one flush: qh3 does not pace them."""


class Qh3Connection(LibraryConnection[Guarded]):
    """See the module."""

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
        """See the base class. The core does not tell its least round-trip time."""
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
        """See the base class. The core does not tell the connection's flow control."""
        if self._closed:
            return 0
        window, in_flight = self._quic.congestion
        return max(0, window - in_flight)

    def _submit_datagram(self, data: bytes) -> None:
        self._datagrams.append(data)
        self._datagram_bytes += len(data)

    def set_reading(self, stream_id: int, on: bool) -> bool:  # noqa: ARG002 - cannot
        """See the base class. qh3 gives credit for what arrives, read or not."""
        return False
