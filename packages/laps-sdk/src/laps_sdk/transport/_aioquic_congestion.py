"""aioquic's congestion control, with the counts that aioquic does not keep."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from aioquic.quic.congestion.base import register_congestion_control
from aioquic.quic.congestion.reno import RenoCongestionControl
from aioquic.quic.packet_builder import QuicSentPacket

from laps_sdk.transport.path_mtu import BASE_SIZE

__all__ = ["CONGESTION_CONTROL", "CountingReno"]

CONGESTION_CONTROL: Final = "laps-reno"
"""New Reno that counts what it lost."""


class CountingReno(RenoCongestionControl):
    """New Reno; also how many packets were lost, and how many of them were larger than 1200."""

    packets_lost = 0
    large_lost = 0

    def on_packets_lost(self, *, now: float, packets: Iterable[QuicSentPacket]) -> None:
        """Count, then as the parent."""
        lost = list(packets)
        self.packets_lost += len(lost)
        self.large_lost += sum(packet.sent_bytes > BASE_SIZE for packet in lost)
        super().on_packets_lost(now=now, packets=lost)


register_congestion_control(CONGESTION_CONTROL, CountingReno)
