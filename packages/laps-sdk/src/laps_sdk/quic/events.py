"""The events of a connection: backends make them, handlers get them.

Events are named tuples, because one is made for every chunk that arrives.

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
    "Pulled",
    "StopSending",
    "StreamData",
    "StreamDropped",
    "StreamReset",
    "StreamsAvailable",
    "Writable",
]


class Connected(NamedTuple):
    """The handshake is complete and data may be sent. This is always the first event."""

    alpn: str


class Closed(NamedTuple):
    """The connection has ended. This is always the last event."""

    code: int
    reason: str
    by_peer: bool
    application: bool
    """Whether ``code`` is the application's. False: a transport error of QUIC, or an idle timeout,
    which has code 0 and a ``reason`` that names it.
    """


class StreamData(NamedTuple):
    """Bytes arrived on a stream, in order. The first event of a stream also opens the stream."""

    stream_id: int
    data: bytes
    fin: bool


class StreamReset(NamedTuple):
    """The peer reset its half of a stream (RESET_STREAM)."""

    stream_id: int
    code: int


class StopSending(NamedTuple):
    """The peer stopped reading our half of a stream (STOP_SENDING).

    The transport has already reset the stream with the same code and dropped its queue.
    """

    stream_id: int
    code: int
    stream: object | None = None
    """The :class:`~laps_sdk.quic.base.OutStream`; engines leave it None and the connection above
    them fills it in.
    """


class DatagramReceived(NamedTuple):
    """An unreliable datagram arrived."""

    data: bytes


class DropReason(Enum):
    """Why the transport dropped data that it was asked to send."""

    EXPIRED = "expired"
    """The deadline passed before QUIC had accepted all data."""
    OVERFLOW = "overflow"
    """The connection's queue was full and this stream was the least urgent."""
    BLOCKED = "blocked"
    """The peer allows no more streams and too many streams wait already."""


class StreamDropped(NamedTuple):
    """The egress dropped an outgoing stream and reset it with its drop code."""

    stream: object
    """The :class:`~laps_sdk.quic.base.OutStream`."""
    reason: DropReason
    lost: int
    """Queued bytes that will not be sent."""


class StreamsAvailable(NamedTuple):
    """The peer allows more bidirectional streams after ``open_bidirectional`` was refused."""


class Writable(NamedTuple):
    """The egress queue exceeded its high mark and has drained to its low mark since."""


class Pulled(NamedTuple):
    """The egress asked sources for bytes: what they changed awaits a turn of their owner."""


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
    | Pulled
)
