"""Faults of aioquic 1.7 itself, mended once for its own class and for the fast path.

- A FIN without data that meets a full packet is never sent: aioquic takes it from the sender before
  it asks the packet for room. Here it waits for the next packet.
- What was in flight when a Retry or a Version Negotiation packet makes the client begin anew counts
  as in flight for ever: the packet number spaces are replaced, the count is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from aioquic.buffer import size_uint_var
from aioquic.quic.connection import QuicConnection
from aioquic.quic.packet_builder import QuicPacketBuilderStop

if TYPE_CHECKING:
    from aioquic.quic.packet_builder import QuicPacketBuilder
    from aioquic.quic.recovery import QuicPacketSpace
    from aioquic.quic.stream import QuicStream

__all__ = ["MendedConnection"]


class MendedConnection(QuicConnection):
    """See the module."""

    def _initialize(self, peer_cid: bytes) -> None:
        for space in self._loss.spaces:
            self._loss.discard_space(space)
        super()._initialize(peer_cid)

    def _write_stream_frame(
        self,
        builder: QuicPacketBuilder,
        space: QuicPacketSpace,
        stream: QuicStream,
        max_offset: int,
    ) -> int:
        sender = stream.sender
        if sender._pending_eof and not len(sender._pending):  # its __bool__ raises
            offset = cast("int", sender._buffer_fin)
            size = 3 + size_uint_var(cast("int", stream.stream_id)) + size_uint_var(offset)
            if builder.remaining_flight_space < size:
                raise QuicPacketBuilderStop
        return super()._write_stream_frame(builder, space, stream, max_offset)
