"""The parts of the fast path's packets: frames, integers, and the record of a sent packet.

:class:`FrameCollector` replaces ``QuicPacketBuilder.start_frame``. The methods ``_write_..._frame``
of ``QuicConnection`` ask a builder for a buffer, write a frame and leave a delivery handler. The
collector answers like the builder, hands out a small buffer of its own and keeps the bytes. So
aioquic writes all rare frames (limits, resets, STOP_SENDING, ACKs with many ranges), and overrides
of these methods take effect.

:class:`SentPacket` is the record of a sent packet for loss recovery: the fields of
``QuicSentPacket`` without the dataclass, because one is created for every packet.

:func:`encode_varint` encodes QUIC's variable-length integers (RFC 9000, 16). aioquic writes them
into a ``Buffer``. The fast path joins frames from parts, for which ``bytes`` objects are cheaper.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from aioquic._buffer import Buffer
from aioquic.quic.packet import (
    NON_ACK_ELICITING_FRAME_TYPES,
    QuicPacketType,
)
from aioquic.quic.packet_builder import QuicPacketBuilderStop
from aioquic.tls import Epoch

__all__ = ["FrameCollector", "Handler", "SentPacket", "encode_varint"]

Handler = tuple[Callable[..., None], Sequence[Any]]
"""The function to call with the fate of a packet, and its further arguments."""


class SentPacket:
    """The record of a packet for loss recovery: a ``QuicSentPacket`` of the 1-RTT space."""

    __slots__ = (
        "delivery_handlers",
        "in_flight",
        "is_ack_eliciting",
        "packet_number",
        "sent_bytes",
        "sent_time",
    )

    epoch = Epoch.ONE_RTT
    is_crypto_packet = False
    packet_type = QuicPacketType.ONE_RTT
    quic_logger_frames: Sequence[dict[str, Any]] = ()

    def __init__(
        self,
        packet_number: int,
        sent_time: float,
        sent_bytes: int,
        delivery_handlers: Sequence[Handler],
        ack_eliciting: bool,
    ) -> None:
        self.packet_number = packet_number
        self.sent_time = sent_time
        self.sent_bytes = sent_bytes
        self.delivery_handlers = delivery_handlers
        self.is_ack_eliciting = ack_eliciting
        # It counts against the congestion window if it has more than an ACK.
        self.in_flight = ack_eliciting


class FrameCollector:
    """Replaces ``QuicPacketBuilder`` while one packet is filled."""

    __slots__ = (
        "_buffer",
        "_room_any",
        "ack_eliciting",
        "handlers",
        "packet_number",
        "parts",
        "room",
    )

    quic_logger_frames: None = None

    def __init__(self) -> None:
        self._buffer = Buffer(2048)
        self.begin(0, 0, 0)

    def begin(self, packet_number: int, room: int, room_any: int) -> None:
        """Begin a packet with this room for in-flight frames, and for any frame."""
        self.packet_number = packet_number
        self.room = room
        self._room_any = room_any
        self.parts: list[bytes | bytearray] = []
        self.handlers: list[Handler] = []
        self.ack_eliciting = False

    @property
    def remaining_buffer_space(self) -> int:
        """Bytes left in the packet, less the bytes of the unfinished frame."""
        return self._room_any - self._buffer.tell()

    @property
    def remaining_flight_space(self) -> int:
        """Bytes left for frames that count as in flight."""
        return self.room - self._buffer.tell()

    def start_frame(
        self,
        frame_type: int,
        capacity: int = 1,
        handler: Callable[..., None] | None = None,
        handler_args: Sequence[Any] = (),
    ) -> Buffer:
        """Begin a frame after keeping the last one; raises like the builder if it is full."""
        self.take()
        eliciting = frame_type not in NON_ACK_ELICITING_FRAME_TYPES
        if self._room_any < capacity or (eliciting and self.room < capacity):
            raise QuicPacketBuilderStop
        self._buffer.push_uint_var(frame_type)
        if eliciting:
            self.ack_eliciting = True
        if handler is not None:
            self.handlers.append((handler, handler_args))
        return self._buffer

    def take(self) -> None:
        """Keep the bytes written since the last call."""
        size = self._buffer.tell()
        if size:
            self.parts.append(self._buffer.data)
            self.room -= size
            self._room_any -= size
            self._buffer.seek(0)


_VARINT_1 = [bytes((value,)) for value in range(64)]
"""The integers that take one byte."""

_U16 = struct.Struct(">H").pack
_U32 = struct.Struct(">I").pack
_U64 = struct.Struct(">Q").pack


def encode_varint(value: int) -> bytes:
    """Return the shortest encoding of an integer below 2**62."""
    if value < 0x40:
        return _VARINT_1[value]
    if value < 0x4000:
        return _U16(value | 0x4000)
    if value < 0x4000_0000:
        return _U32(value | 0x8000_0000)
    return _U64(value | 0xC000_0000_0000_0000)
