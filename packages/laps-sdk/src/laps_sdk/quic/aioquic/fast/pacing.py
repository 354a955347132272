"""A pacer whose bucket holds a burst of 64 packets.

Takes over aioquic's ``QuicPacketPacer`` (same rate: one congestion window a round trip). aioquic
lets at most 16 packets go at once and asks for a timer a packet; timers of an event loop have a
resolution of a millisecond, in which a fast path is worth hundreds of packets. A burst of 64 is
what one ``sendmsg`` with GSO takes, and bursts of this size are within what RFC 9002, 7.7 allows
after a pause in practice: the congestion window bounds them in any case.

Safe because it is the same class with the same fields, so aioquic's own sending code uses it too.
"""

from __future__ import annotations

import math

from aioquic.quic.recovery import QuicPacketPacer

__all__ = ["BURST", "BurstPacer"]

BURST = 64
"""The most packets that are built at once."""

_WAKE_PACKETS = 16
_WAKE_SECONDS = 0.001
"""A pause is long enough for this many packets, but not longer than this: a wake-up costs more
than a packet."""


class BurstPacer(QuicPacketPacer):
    """A token bucket of :data:`BURST` packets."""

    def update_rate(self, congestion_window: int, smoothed_rtt: float) -> None:
        """Take a new rate; the bucket holds a burst at any rate."""
        super().update_rate(congestion_window=congestion_window, smoothed_rtt=smoothed_rtt)
        if self.packet_time is not None:
            self.bucket_max = BURST * self.packet_time

    def next_send_time(self, now: float) -> float | None:  # type: ignore[override]
        """When to go on if the bucket is empty; None if it is not (aioquic's hint lacks None)."""
        if self.packet_time is None:
            return None
        self.update_bucket(now=now)
        if self.bucket_time > 0:
            return None
        pause = min(_WAKE_PACKETS * self.packet_time, _WAKE_SECONDS)
        return now + max(pause, self.packet_time)

    def allowance(self, now: float) -> int:
        """How many packets may go now, at most :data:`BURST`."""
        if self.packet_time is None:
            return BURST
        self.update_bucket(now=now)
        # As aioquic: a packet may go while anything is left, then the bucket is empty.
        return min(BURST, math.ceil(self.bucket_time / self.packet_time))

    def spend(self, packets: int) -> None:
        """Packets were sent."""
        if self.packet_time is not None:
            self.bucket_time = max(0.0, self.bucket_time - packets * self.packet_time)
