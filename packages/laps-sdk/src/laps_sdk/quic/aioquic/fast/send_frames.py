"""Frames to send: STREAM, DATAGRAM and ACK in place, the rare ones by the parent's writers.

Takes over ``_write_stream_frame`` with ``QuicStreamSender.get_frame``, ``_write_datagram_frame``,
``_write_ack_frame`` for one range, and the loop of ``_write_application`` over all streams, of
which only busy ones are looked at here. Limits, RESET_STREAM, STOP_SENDING and ACKs of several
ranges are written by aioquic into a :class:`~laps_sdk.quic.aioquic.fast.frames.FrameCollector`.

Safe because ranges, offsets and flow-control counters are changed as ``get_frame`` and its caller
change them, and the delivery handlers are the same methods with the same arguments, so that loss
and acknowledgement undo or complete exactly what was done here.
"""

from __future__ import annotations

import contextlib
import struct
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from aioquic.quic.packet_builder import QuicPacketBuilder, QuicPacketBuilderStop

from laps_sdk.quic.aioquic.fast.base import FastBase
from laps_sdk.quic.aioquic.fast.frames import Handler
from laps_sdk.quic.aioquic.fast.streams import FastSender, ranges_of
from laps_sdk.quic.aioquic.fast.varints import encode_varint

if TYPE_CHECKING:
    from aioquic.quic.connection import Limit
    from aioquic.quic.stream import QuicStream

__all__ = ["Part", "SentFrames"]

_LENGTH = struct.Struct(">H").pack
_OFFSET_2 = struct.Struct(">HH").pack
_OFFSET_4 = struct.Struct(">IH").pack
_OFFSET_8 = struct.Struct(">QH").pack

_STREAM = [bytes((0x08 | bits,)) for bits in range(8)]
_LEN, _OFF = 2, 4
_ACK = b"\x02"

Part = bytes | bytearray
"""A piece of a payload."""


@lru_cache(maxsize=64)
def _datagram_header(size: int) -> bytes:
    """Type and length of a DATAGRAM frame; an application sends few sizes, again and again."""
    return b"\x31" + encode_varint(size)


class SentFrames(FastBase):
    """Fills packets with frames."""

    datagrams_too_long = 0
    """Datagrams dropped because no packet could hold them."""

    def _put_ack(
        self,
        now: float,
        number: int,
        parts: list[Part],
        handlers: list[Handler],
        room: int,
        capacity: int,
    ) -> tuple[int, bool]:
        """An ACK frame; its size, and whether a PING is with it."""
        space = self._space
        ranges = ranges_of(space.ack_queue)
        if len(ranges) != 1:
            collector = self._collector
            collector.begin(number, room, capacity)
            # Stops if the window has no room for the PING that may follow.
            with contextlib.suppress(QuicPacketBuilderStop):
                self._write_ack_frame(
                    builder=cast("QuicPacketBuilder", collector), space=space, now=now
                )
            collector.take()
            frame = b"".join(collector.parts)
            parts.append(frame)
            handlers += collector.handlers
            return len(frame), collector.ack_eliciting
        only = ranges[0]
        delay = now - cast("float", space.largest_received_time)
        frame = b"".join(
            (
                _ACK,
                encode_varint(only.stop - 1),
                encode_varint(int(delay * 1000000) >> self._local_ack_delay_exponent),
                b"\x00",
                encode_varint(only.stop - 1 - only.start),
            )
        )
        parts.append(frame)
        handlers.append((self._on_ack_delivery, (space, space.largest_received_packet)))
        space.ack_at = None
        return len(frame), False

    def _put_control(
        self,
        number: int,
        parts: list[Part],
        handlers: list[Handler],
        room: int,
        stream: QuicStream | None,
    ) -> int:
        """Frames that the parent writes: a stream's, or the connection's limits if None.

        Gives the room that is left, or -1 if something found none.
        """
        collector = self._collector
        builder = cast("QuicPacketBuilder", collector)
        collector.begin(number, room, room)
        full = False
        try:
            if stream is None:
                self._write_connection_limits(builder=builder, space=self._space)
            else:
                self._write_stream_limits(builder=builder, space=self._space, stream=stream)
                if stream.receiver.stop_pending:
                    self._write_stop_sending_frame(builder=builder, stream=stream)
                if stream.sender.reset_pending:
                    self._write_reset_stream_frame(builder=builder, stream=stream)
        except QuicPacketBuilderStop:
            full = True
        collector.take()
        parts += collector.parts
        handlers += collector.handlers
        return -1 if full else collector.room

    def _put_datagrams(self, parts: list[Part], room: int, capacity: int) -> int:
        """As many datagrams as fit, in order; gives the room that is left."""
        datagrams = self._datagrams_pending
        while datagrams:
            data = datagrams[0]
            header = _datagram_header(len(data))
            size = len(header) + len(data)
            if size > room:
                if size <= capacity:
                    break
                self.datagrams_too_long += 1
            else:
                parts += (header, data)
                room -= size
            datagrams.popleft()
        return room

    def _put_streams(  # noqa: PLR0915 - one loop without calls, run for every frame
        self, number: int, parts: list[Part], handlers: list[Handler], room: int
    ) -> bool:
        """Frames of busy streams in turn, until the packet is full or none is busy.

        Says whether streams were discarded, which may give the peer new ones.
        """
        ready = self._ready
        streams = self._streams
        discarded = False
        while ready:
            stream_id, _ = ready.popitem(last=False)
            stream = streams.get(stream_id)
            if stream is None:
                continue
            sender = cast("FastSender", stream.sender)
            receiver = stream.receiver
            if receiver.is_finished and sender.is_finished:
                self._discard(stream_id)
                discarded = True
                continue
            limit = stream.max_stream_data_local
            if sender.reset_pending or (
                limit  # 0 only for streams on which nothing is received
                and (
                    (limit - receiver.highest_offset) * 2 < (self._stream_window or limit)
                    or stream.max_stream_data_local_sent != limit
                    or receiver.stop_pending
                )
            ):
                room = self._put_control(number, parts, handlers, room, stream)
                if room < 0:
                    self._again(stream_id)
                    break
            if sender.buffer_is_empty or stream.is_blocked or sender.reset_pending:
                continue

            # A STREAM frame: type, id, offset unless 0, two bytes of length, data.
            pending = sender.pending
            if pending:
                start = pending[0].start
                stop = pending[0].stop
            elif sender._pending_eof:
                start = stop = cast("int", sender._buffer_fin)
            else:
                sender.buffer_is_empty = True
                continue
            wire_id = sender.wire_id
            overhead = 3 + len(wire_id)
            if start >= 0x4000:
                overhead += 4 if start < 0x4000_0000 else 8
            elif start:
                overhead += 1 if start < 0x40 else 2
            space_left = room - overhead
            if space_left < 0 or (space_left == 0 and stop > start):
                self._again(stream_id)
                break
            if pending:
                highest = sender.highest_offset
                credit = highest + self._remote_max_data - self._remote_max_data_used
                full = stop > start + space_left
                if full:
                    stop = start + space_left
                if stop > credit or stop > stream.max_stream_data_remote:
                    full = False
                    stop = min(credit, stream.max_stream_data_remote)
                    if stop <= start:
                        if credit < stream.max_stream_data_remote:
                            self._parked[stream_id] = None
                        continue  # MAX_DATA or MAX_STREAM_DATA makes it busy again
                if stop == pending[0].stop:
                    del pending[0]
                else:
                    pending[0] = range(stop, pending[0].stop)
                base = sender._buffer_start
                data: Part = sender._buffer[start - base : stop - base]
                if stop > highest:
                    sender.highest_offset = stop
                    self._remote_max_data_used += stop - highest
            else:
                full = False
                data = b""
            fin = sender._buffer_fin == stop
            if fin:
                sender._pending_eof = False
            length = stop - start
            if start >= 0x4000_0000:
                tail = _OFFSET_8(start | 0xC000_0000_0000_0000, length | 0x4000)
            elif start >= 0x4000:
                tail = _OFFSET_4(start | 0x8000_0000, length | 0x4000)
            elif start >= 0x40:
                tail = _OFFSET_2(start | 0x4000, length | 0x4000)
            else:
                tail = (encode_varint(start) if start else b"") + _LENGTH(length | 0x4000)
            parts += (_STREAM[(_LEN | _OFF if start else _LEN) | fin] + wire_id + tail, data)
            handlers.append((sender.on_data_delivery, (start, stop, fin)))
            room -= overhead + length
            if pending or sender._pending_eof:
                ready[stream_id] = None
                if full:
                    break
            else:
                sender.buffer_is_empty = True
        return discarded

    def _again(self, stream_id: int) -> None:
        """A stream whose frame found no room is the first of the next packet."""
        self._ready[stream_id] = None
        self._ready.move_to_end(stream_id, last=False)

    def _discard(self, stream_id: int) -> None:
        """Forget a finished stream; the peer may open another one (RFC 9000, 4.6)."""
        del self._streams[stream_id]
        if (stream_id & 1 == 0) != self._is_client:
            self._stream_limit(stream_id).value += 1

    def _limits_due(self) -> bool:
        """Whether ``_write_connection_limits`` would write a frame."""
        data = self._local_max_data
        window = self._data_window or data.value
        if (data.value - data.used) * 2 < window or data.value != data.sent:
            return True
        limit: Limit = self._local_max_streams_uni
        if limit.sent - limit.used < limit.value - limit.sent:
            return True
        limit = self._local_max_streams_bidi
        return limit.sent - limit.used < limit.value - limit.sent
