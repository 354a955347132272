"""What a connection tells: the events that backends make and handlers get.

They are plain slotted tuples: one is made for every chunk that arrives.

::

    life      Connected   Closed
    incoming  StreamData  StreamReset  DatagramReceived
    outgoing  StopSending  StreamDropped  StreamsAvailable  Writable
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, TypeAlias

__all__ = [
    "Closed",
    "Connected",
    "DatagramReceived",
    "DropReason",
    "Event",
    "StopSending",
    "StreamData",
    "StreamDropped",
    "StreamReset",
    "StreamsAvailable",
    "Writable",
]


class Connected(NamedTuple):
    """The handshake is complete: streams and datagrams may be sent. Always the first event."""

    alpn: str


class Closed(NamedTuple):
    """The connection is over; always the last event."""

    code: int
    reason: str
    by_peer: bool
    application: bool
    """Whether ``code`` is the application's; False: a transport error of QUIC, or an idle
    timeout, which has code 0 and says so in ``reason``."""


class StreamData(NamedTuple):
    """Bytes arrived on a stream, in order. The first of a stream also opens it."""

    stream_id: int
    data: bytes
    fin: bool


class StreamReset(NamedTuple):
    """The peer abandoned its half of a stream (RESET_STREAM)."""

    stream_id: int
    code: int


class StopSending(NamedTuple):
    """The peer wants no more on our half of a stream.

    The transport has already reset it with the same code and dropped what was queued.
    """

    stream_id: int
    code: int
    stream: object | None = None
    """The :class:`~laps_sdk.quic.base.OutStream`: engines leave it None, the connection above
    them fills it in."""


class DatagramReceived(NamedTuple):
    """An unreliable datagram arrived."""

    data: bytes


class DropReason(Enum):
    """Why the transport gave up data that it was asked to send."""

    EXPIRED = "expired"
    """The deadline passed before all of it was handed to QUIC."""
    OVERFLOW = "overflow"
    """The connection's queue was full and this was the least urgent."""
    BLOCKED = "blocked"
    """The peer allows no more streams and too many wait already."""


class StreamDropped(NamedTuple):
    """The egress gave up an outgoing stream: it was reset with its drop code."""

    stream: object
    """The :class:`~laps_sdk.quic.base.OutStream`."""
    reason: DropReason
    lost: int
    """Bytes that were queued and will not be sent."""


class StreamsAvailable(NamedTuple):
    """The peer allows more bidirectional streams after ``open_bidirectional`` was refused."""


class Writable(NamedTuple):
    """The queue has drained below its low mark after it was over its high mark."""


Event: TypeAlias = (
    Connected
    | Closed
    | StreamData
    | StreamReset
    | StopSending
    | DatagramReceived
    | StreamDropped
    | StreamsAvailable
    | Writable
)
