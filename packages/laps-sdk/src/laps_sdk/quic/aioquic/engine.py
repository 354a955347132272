"""The engine on aioquic, the default backend.

``aioquic`` uses the fast path for 1-RTT packets (:mod:`laps_sdk.quic.aioquic.fast`) if it fits the
installed release, and aioquic's own code otherwise. ``aioquic-stock`` always uses aioquic's code.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import Any, ClassVar, Final, NamedTuple

from aioquic.quic import events
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.logger import QuicLoggerTrace

from laps_sdk.quic.aioquic.compat import CONGESTION_CONTROL, Tuned
from laps_sdk.quic.aioquic.path_mtu import BASE_SIZE, PathMtu
from laps_sdk.quic.base import Address
from laps_sdk.quic.engine import EngineConnection, EngineOptions, EngineStats
from laps_sdk.quic.library import (
    DATAGRAM_FRAME_OVERHEAD,
    LibraryConnection,
    LibraryEngine,
    Setup,
)
from laps_sdk.quic.tls import ServerCertificate

__all__ = ["AioquicConnection", "AioquicEngine", "FastPath", "fast_path"]

_SWITCH: Final = "LAPS_FAST_PATH"
"""The environment variable that switches the fast path off if it is "0"."""
_SUSPICIOUS_LOSSES: Final = 10
"""Large packets lost since the size was last confirmed, after which it is probed again."""
_BLACK_HOLE_TIMEOUTS: Final = 3
"""Probe timeouts in a row after which large packets are given up."""


class FastPath(NamedTuple):
    """Whether the fast path can be used in this process."""

    quic: type[Tuned] | None
    """The class of its connections; None if it cannot be used."""
    why_not: str
    """Why it cannot be used; empty if it can."""


@cache
def fast_path() -> FastPath:
    """Import the fast path and run its self-check, once in a process."""
    if os.environ.get(_SWITCH) == "0":
        return FastPath(None, f"switched off by {_SWITCH}=0")
    try:
        from laps_sdk.quic.aioquic.fast.connection import FastQuicConnection  # noqa: PLC0415
        from laps_sdk.quic.aioquic.fast.selfcheck import fault  # noqa: PLC0415
    except (ImportError, AttributeError, TypeError) as error:
        # Another release of aioquic that lacks a name the modules need.
        return FastPath(None, f"this aioquic lacks something: {error}")
    why_not = fault()
    if why_not:
        return FastPath(None, why_not)
    return FastPath(type("TunedFast", (Tuned, FastQuicConnection), {}), "")


class AioquicConnection(LibraryConnection[Tuned]):
    """A connection of aioquic.

    Packets begin at 1200 bytes and grow when a probe of a larger size was acknowledged
    (:mod:`laps_sdk.quic.aioquic.path_mtu`). They return to 1200 bytes on a new path, when the path
    drops large packets, and when the peer does not answer at all.
    """

    __slots__ = (
        "_backlogged",
        "_id_changes",
        "_large_lost",
        "_mtu",
        "_retried",
    )

    library_events: ClassVar[ModuleType] = events
    stream_faults: ClassVar[tuple[type[Exception], ...]] = (ValueError, RuntimeError)

    def __init__(
        self,
        quic: Tuned,
        setup: Setup,
        address: Address,
        *,
        datagram_size: int,
        retried: bool,
        now: float,
    ) -> None:
        super().__init__(quic, setup, address, now)
        self._retried = retried
        self._id_changes = quic.id_changes
        self._backlogged: set[int] = set()
        self._mtu = PathMtu(datagram_size)
        self._large_lost = 0
        quic.on_probe = self._probe_ended

    # From the endpoint

    def _receive(self, datagrams: Sequence[bytes], address: Address, now: float) -> None:
        quic = self._quic
        quic.receive_all(datagrams, address, now)
        if self._retried and quic.started:
            quic.address_is_valid()
            self._retried = False
        if quic.id_changes != self._id_changes:
            # Before the peer gets them, because its next packet may use one.
            self._id_changes = quic.id_changes
            self._ids.update(dict.fromkeys(quic.host_ids))
            self._ids_tuple = tuple(self._ids)
        if address != self._address:
            self._follow(quic.peer_address)

    def _follow(self, address: Address | None) -> None:
        """Reset the packet size if the peer has moved to another path."""
        if address is not None and address != self._address:
            self._address = address
            self._mtu.reset()
            self._quic.set_packet_size(BASE_SIZE)

    def _transmit(self, now: float) -> list[tuple[bytes, Address]]:
        quic = self._quic
        if not quic.started:
            return []
        datagrams: list[tuple[bytes, Address]] = quic.datagrams_to_send(now)
        if self._open and (size := self._mtu.probe()) is not None and quic.may_probe:
            self._mtu.sent(size)
            datagrams += quic.send_probe(size, now)
        return datagrams

    def on_timer(self, now: float) -> None:
        """See the base class. Also detects a path that drops large packets."""
        super().on_timer(now)
        quic = self._quic
        if self._mtu.size == BASE_SIZE or self._closed:
            return
        if quic.unanswered_probes >= _BLACK_HOLE_TIMEOUTS:
            self._mtu.reset()
            quic.set_packet_size(BASE_SIZE)
        elif quic.lost[1] - self._large_lost >= _SUSPICIOUS_LOSSES:
            self._large_lost = quic.lost[1]
            self._mtu.suspect()
        self._follow(quic.peer_address)

    def _probe_ended(self, size: int, arrived: bool) -> None:
        changed = self._mtu.acked(size) if arrived else self._mtu.lost(size)
        if changed:
            self._large_lost = self._quic.lost[1]
            self._quic.set_packet_size(self._mtu.size)

    # Getters

    @property
    def max_datagram_size(self) -> int:
        """See the base class."""
        return max(0, self._quic.datagram_room - DATAGRAM_FRAME_OVERHEAD)

    def stats(self) -> EngineStats:
        """See the base class."""
        quic = self._quic
        rtt, rtt_min = quic.rtt
        window, in_flight = quic.congestion
        return EngineStats(quic.lost[0], rtt, rtt_min, window, in_flight)

    # Sending

    def _open_stream(self, unidirectional: bool) -> int:
        quic = self._quic
        stream_id = quic.get_next_available_stream_id(unidirectional)
        quic.send_stream_data(stream_id, b"")  # takes the id; nothing is sent for it yet
        return stream_id

    def _receiving(self, stream_id: int) -> bool:
        return self._quic.receiving(stream_id)

    def write(self, stream_id: int, data: bytes, fin: bool) -> None:
        """See the base class. Repeats its code, because it is called for every piece."""
        if self._closed:
            return
        try:
            self._quic.send_stream_data(stream_id, data, fin)
        except (ValueError, RuntimeError):
            return
        self._backlogged.add(stream_id)

    def backlog(self, stream_id: int) -> int:
        """See the base class."""
        return self._quic.backlog(stream_id)

    def unacknowledged_bytes(self, stream_id: int) -> int:
        """See the base class."""
        return self._quic.unacknowledged_bytes(stream_id)

    def unacknowledged(self) -> frozenset[int]:
        """See the base class."""
        return self._quic.unacknowledged

    def unacknowledged_bidirectional(self) -> bool:
        """See the base class."""
        return self._quic.unacknowledged_bidirectional

    def total_backlog(self) -> int:
        """See the base class. Checks only streams written to since they were last empty."""
        quic = self._quic
        total = quic.datagram_backlog
        if self._backlogged:
            backlog = quic.backlog
            held = [
                (stream_id, size) for stream_id in self._backlogged if (size := backlog(stream_id))
            ]
            self._backlogged = {stream_id for stream_id, _ in held}
            total += sum(size for _, size in held)
        return total

    def send_window(self) -> int:
        """See the base class."""
        return 0 if self._closed else self._quic.send_window

    def _submit_datagram(self, data: bytes) -> None:
        self._quic.send_datagram_frame(data)

    def set_reading(self, stream_id: int, on: bool) -> bool:
        """See the base class."""
        self._quic.set_reading(stream_id, on)
        return True

    def withhold(self, size: int) -> bool:
        """See the base class."""
        self._quic.withheld = size
        return True


class AioquicEngine(LibraryEngine[Tuned]):
    """The engine that makes connections of aioquic, with or without the fast path."""

    def __init__(self, options: EngineOptions, *, fast: bool = True) -> None:
        quic = fast_path().quic if fast else None
        self._class = quic or Tuned
        self.name = "aioquic" if fast else "aioquic-stock"
        self.fast = quic is not None
        """Whether the fast path is in use."""
        super().__init__(options, QuicLoggerTrace)

    def _configuration(self, **common: Any) -> QuicConfiguration:
        return QuicConfiguration(
            congestion_control_algorithm=CONGESTION_CONTROL, max_datagram_size=BASE_SIZE, **common
        )

    def _certify(self, configuration: QuicConfiguration, certificate: ServerCertificate) -> None:
        configuration.certificate = certificate.leaf
        configuration.certificate_chain = list(certificate.chain)
        configuration.private_key = certificate.key

    def _begin(
        self,
        configuration: QuicConfiguration,
        *,
        pins: frozenset[bytes],
        client_id: bytes,  # noqa: ARG002 - of use to qh3 only
        **ids: bytes | None,
    ) -> Tuned:
        return self._class(
            configuration=configuration,
            limits=self._options.limits,
            pins=pins,
            reset_token=self._reset_token,
            **ids,
        )

    def _wrap(
        self, quic: Tuned, setup: Setup, address: Address, *, retried: bool, now: float
    ) -> EngineConnection:
        size = self._options.datagram_size
        return AioquicConnection(quic, setup, address, datagram_size=size, retried=retried, now=now)
