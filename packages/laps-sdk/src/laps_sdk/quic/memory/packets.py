"""Frames and packets of the in-memory backend: Python objects behind a QUIC header."""

from __future__ import annotations

from typing import NamedTuple

from laps_sdk.quic.base import ConnectionLimits

__all__ = [
    "Ack",
    "Close",
    "Datagram",
    "Frame",
    "Hello",
    "MaxData",
    "MaxStreams",
    "MemoryPacket",
    "Ping",
    "Reset",
    "Stop",
    "Stream",
]


class Hello(NamedTuple):
    """The handshake: what TLS and the transport parameters carry in QUIC."""

    alpn: tuple[str, ...]
    server_name: str
    limits: ConnectionLimits
    source: bytes


class Ack(NamedTuple):
    """Acknowledged packet numbers."""

    numbers: tuple[int, ...]


class Stream(NamedTuple):
    """STREAM."""

    stream_id: int
    offset: int
    data: bytes
    fin: bool


class Reset(NamedTuple):
    """RESET_STREAM."""

    stream_id: int
    code: int


class Stop(NamedTuple):
    """STOP_SENDING."""

    stream_id: int
    code: int


class MaxData(NamedTuple):
    """MAX_DATA; with a stream, MAX_STREAM_DATA."""

    stream_id: int | None
    limit: int


class MaxStreams(NamedTuple):
    """MAX_STREAMS."""

    unidirectional: bool
    limit: int


class Datagram(NamedTuple):
    """DATAGRAM."""

    data: bytes


class Ping(NamedTuple):
    """PING, which only asks for an acknowledgement."""


class Close(NamedTuple):
    """CONNECTION_CLOSE."""

    code: int
    reason: str
    application: bool


Frame = Hello | Ack | Stream | Reset | Stop | MaxData | MaxStreams | Datagram | Ping | Close


class MemoryPacket(bytes):
    """A QUIC header, padded to the length of the packet, with its frames."""

    number: int
    frames: tuple[Frame, ...]

    @classmethod
    def make(
        cls, header: bytes, length: int, number: int, frames: tuple[Frame, ...]
    ) -> MemoryPacket:
        """Return a packet of ``length`` bytes."""
        packet = cls(header.ljust(length, b"\0"))
        packet.number = number
        packet.frames = frames
        return packet
