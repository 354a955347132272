"""aioquic's congestion control, with the counts and the restraint that aioquic lacks.

aioquic lets the window grow with every acknowledgement, also while the application sends far less
than it allows. Such a window was never tested by the path: when the application (or a receiver
that was away for a moment) then makes use of it, thousands of packets are lost at once. Here the
window grows only while at least half of it is in use (RFC 9002, 7.8).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, cast

from aioquic.quic.congestion.base import register_congestion_control
from aioquic.quic.congestion.reno import RenoCongestionControl
from aioquic.quic.packet_builder import QuicSentPacket

from laps_sdk.quic.path_mtu import BASE_SIZE

__all__ = ["CONGESTION_CONTROL", "CountingReno"]

CONGESTION_CONTROL: Final = "laps-reno"
"""New Reno that counts what it lost, and whose window does not outgrow its use."""


class CountingReno(RenoCongestionControl):
    """New Reno; also how many packets were lost, and how many of them were larger than 1200."""

    packets_lost = 0
    large_lost = 0
    _peak = 0
    """The most bytes that were in flight at once in the present round trip."""
    _round_began = 0.0
    """A packet that was sent later than this, once acknowledged, begins a new round trip."""

    def on_packet_sent(self, *, packet: QuicSentPacket) -> None:
        """As the parent; remembers how much of the window is used."""
        self.on_bytes_sent(packet.sent_bytes)

    def on_bytes_sent(self, size: int) -> None:
        """The same for a burst of packets: the fast path asks for it."""
        in_flight = self.bytes_in_flight = self.bytes_in_flight + size
        self._peak = max(self._peak, in_flight)

    def on_packet_acked(self, *, now: float, packet: QuicSentPacket) -> None:
        """As the parent if the window is used; otherwise the packet is only counted off."""
        if cast("float", packet.sent_time) > self._round_began:
            self._round_began = now
            self._peak = self.bytes_in_flight
        if self.congestion_window < 2 * self._peak:
            super().on_packet_acked(now=now, packet=packet)
        else:
            self.bytes_in_flight -= packet.sent_bytes

    def on_packets_lost(self, *, now: float, packets: Iterable[QuicSentPacket]) -> None:
        """Count, then as the parent."""
        lost = list(packets)
        self.packets_lost += len(lost)
        self.large_lost += sum(packet.sent_bytes > BASE_SIZE for packet in lost)
        super().on_packets_lost(now=now, packets=lost)


register_congestion_control(CONGESTION_CONTROL, CountingReno)
