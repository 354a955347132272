"""The class that puts both sides together."""

from __future__ import annotations

from laps_sdk.quic.aioquic.fast.receive import ReceiveSide
from laps_sdk.quic.aioquic.fast.send import SendSide

__all__ = ["FastQuicConnection"]


class FastQuicConnection(SendSide, ReceiveSide):
    """A ``QuicConnection`` that sends and receives common 1-RTT packets by shorter ways.

    Same constructor and methods, and ``receive_datagrams`` for several datagrams at once.
    """
