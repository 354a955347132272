"""Received frames: the common ones are handled in place, all others by the parent.

Takes over ``QuicConnection._payload_received`` and the handlers of STREAM, ACK, DATAGRAM, MAX_DATA,
MAX_STREAM_DATA, PADDING and PING frames.

From the first frame on that is of another type, malformed, or breaks a limit, the rest of the
payload goes to the parent. Nothing of such a frame has been applied yet, so the parent sees what it
would have seen and raises its own errors. Frames before it are done, as with the parent, which also
handles frame by frame.

Safe because acknowledgements go to aioquic's loss recovery, stream data into aioquic's receivers,
credit into aioquic's counters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioquic.buffer import UINT_VAR_MAX
from aioquic.quic.connection import QuicReceiveContext
from aioquic.quic.events import DatagramFrameReceived, StreamDataReceived
from aioquic.quic.packet import QuicStreamFrame
from aioquic.quic.rangeset import RangeSet
from aioquic.quic.stream import FinalSizeError, StreamFinishedError
from aioquic.tls import Epoch

from laps_sdk.quic.aioquic.fast.base import FastBase
from laps_sdk.quic.aioquic.fast.streams import ranges_of

if TYPE_CHECKING:
    from aioquic.quic.stream import QuicStream

__all__ = ["ReceivedFrames"]

_NOT_OURS = -1
"""A position: this frame and the rest are the parent's."""


class ReceivedFrames(FastBase):
    """Handles the payload of 1-RTT packets."""

    _parent_was_here = False
    """Whether the parent handled a frame: keys, path or state may be others now."""

    def _receive_payload(self, payload: bytes, cid: bytes, now: float) -> bool:
        """Handle the frames of a packet; whether it is ack-eliciting."""
        position = 0
        end = len(payload)
        eliciting = False
        while position < end:
            kind = payload[position]
            try:
                if 0x08 <= kind <= 0x0F:
                    after = self._receive_stream(payload, position, end)
                elif kind == 0x02:
                    after = self._receive_ack(payload, position + 1, end, now)
                elif kind & 0xFE == 0x30:
                    after = self._receive_datagram_frame(payload, position, end)
                elif kind in (0x10, 0x11):
                    after = self._receive_credit(payload, position)
                elif kind == 0x00:
                    after = end - len(payload[position:].lstrip(b"\x00"))
                else:
                    after = position + 1 if kind == 0x01 else _NOT_OURS
            except IndexError:  # cut short: the parent says so to the peer
                after = _NOT_OURS
            if after == _NOT_OURS:
                return self._parent_payload(payload[position:], cid, now) or eliciting
            eliciting = eliciting or kind not in (0x00, 0x02)
            position = after
        if not end:
            return self._parent_payload(payload, cid, now)
        return eliciting

    def _parent_payload(self, payload: bytes, cid: bytes, now: float) -> bool:
        """Let the parent handle frames; whether they are ack-eliciting."""
        self._parent_was_here = True
        context = QuicReceiveContext(
            epoch=Epoch.ONE_RTT,
            host_cid=cid,
            network_path=self._network_paths[0],
            quic_logger_frames=None,
            time=now,
            version=None,
        )
        return self._payload_received(context, payload)[0]

    def _receive_stream(  # noqa: PLR0915 - no calls: run for every frame
        self, payload: bytes, position: int, end: int
    ) -> int:
        """A STREAM frame (RFC 9000, 19.8); where the next frame begins."""
        kind = payload[position]
        stream_id = payload[position + 1]
        position += 2
        if stream_id >= 0x40:
            stream_id, position = _long_varint(payload, position)
        offset = 0
        if kind & 4:
            offset = payload[position]
            position += 1
            if 0x80 <= offset < 0xC0 and position + 3 < end:
                # The common length written out, here and below: a call costs more than the work.
                position += 3
                offset = int.from_bytes(payload[position - 4 : position], "big") & 0x3FFF_FFFF
            elif offset >= 0x40:
                offset, position = _long_varint(payload, position)
        stop = end
        if kind & 2:
            length = payload[position]
            position += 1
            if 0x40 <= length < 0x80:
                length = (length & 0x3F) << 8 | payload[position]
                position += 1
            elif length >= 0x80:
                length, position = _long_varint(payload, position)
            stop = position + length
            if stop > end:
                return _NOT_OURS
        stream = self._streams.get(stream_id)
        if stream is None:
            if offset + stop - position > UINT_VAR_MAX:
                return _NOT_OURS
            stream = self._stream_of_peer(kind, stream_id)
            if stream is None:
                return stop
        elif stream_id & 3 == self._own_uni:
            return _NOT_OURS
        receiver = stream.receiver
        size = stop - position
        reached = offset + size
        newly = reached - receiver.highest_offset
        limit = self._local_max_data
        if reached > stream.max_stream_data_local or (
            newly > 0 and limit.used + newly > limit.value
        ):
            return _NOT_OURS
        if (
            offset == receiver._buffer_start
            and size
            and not receiver._buffer
            and receiver._final_size is None
            and not receiver.is_finished
        ):
            # In order, nothing waits: straight to the application.
            receiver._buffer_start = reached
            if newly > 0:
                receiver.highest_offset = reached
            fin = kind & 1 == 1
            if fin:
                receiver._final_size = reached
                receiver.is_finished = True
                self._ready[stream_id] = None
            else:
                granted = stream.max_stream_data_local
                if (granted - reached) * 2 < (self._stream_window or granted):
                    self._ready[stream_id] = None
            self._events.append(
                StreamDataReceived(data=payload[position:stop], end_stream=fin, stream_id=stream_id)
            )
        else:
            try:
                event = receiver.handle_frame(
                    QuicStreamFrame(data=payload[position:stop], fin=kind & 1 == 1, offset=offset)
                )
            except FinalSizeError:
                return _NOT_OURS
            if event is not None:
                self._events.append(event)
        if newly > 0:
            limit.used += newly
        return stop

    def _stream_of_peer(self, kind: int, stream_id: int) -> QuicStream | None:
        """The peer's new stream; None if it is one that is over."""
        self._assert_stream_can_receive(kind, stream_id)
        stream = self._next_of_peer(stream_id)
        if stream is not None:
            return stream
        try:
            return self._get_or_create_stream(kind, stream_id)
        except StreamFinishedError:
            return None

    def _receive_ack(self, payload: bytes, position: int, end: int, now: float) -> int:
        """An ACK frame (RFC 9000, 19.3); where the next frame begins."""
        last, position = _varint(payload, position)
        delay, position = _varint(payload, position)
        count, position = _varint(payload, position)
        if count > end:
            return _NOT_OURS
        size, position = _varint(payload, position)
        start = last - size
        ranges = [range(start, last + 1)]
        for _ in range(count):
            gap, position = _varint(payload, position)
            size, position = _varint(payload, position)
            last = start - gap - 2
            start = last - size
            ranges.append(range(start, last + 1))
        if start < 0:
            return _NOT_OURS
        ranges.reverse()
        acknowledged = RangeSet()
        ranges_of(acknowledged).extend(ranges)
        self._loss.on_ack_received(
            ack_rangeset=acknowledged,
            ack_delay=(delay << self._remote_ack_delay_exponent) / 1000000,
            now=now,
            space=self._space,
        )
        return position

    def _receive_datagram_frame(self, payload: bytes, position: int, end: int) -> int:
        """A DATAGRAM frame (RFC 9221, 4); where the next frame begins."""
        start = position + 1
        stop = end
        begin = start
        if payload[position] & 1:
            length = payload[start]
            begin = start + 1
            if 0x40 <= length < 0x80:
                length = (length & 0x3F) << 8 | payload[begin]
                begin += 1
            elif length >= 0x80:
                length, begin = _long_varint(payload, begin)
            stop = begin + length
        longest = self._configuration.max_datagram_frame_size
        if stop > end or longest is None or stop - start >= longest:
            return _NOT_OURS
        self._events.append(DatagramFrameReceived(data=payload[begin:stop]))
        return stop

    def _receive_credit(self, payload: bytes, position: int) -> int:
        """MAX_DATA or MAX_STREAM_DATA (RFC 9000, 19.9, 19.10); where the next frame begins."""
        if payload[position] == 0x10:
            value, position = _varint(payload, position + 1)
            if value > self._remote_max_data:
                self._remote_max_data = value
                self._unpark()
            return position
        stream_id, position = _varint(payload, position + 1)
        value, position = _varint(payload, position)
        stream = self._streams.get(stream_id)
        if stream is None or stream_id & 3 == self._peer_uni:
            return _NOT_OURS
        if value > stream.max_stream_data_remote:
            stream.max_stream_data_remote = value
            self._ready[stream_id] = None
        return position


def _varint(payload: bytes, position: int) -> tuple[int, int]:
    """An integer and where it ends; IndexError if it is cut short."""
    value = payload[position]
    if value < 0x40:
        return value, position + 1
    return _long_varint(payload, position + 1)


def _long_varint(payload: bytes, position: int) -> tuple[int, int]:
    """An integer of more than one byte whose first byte is before ``position``."""
    value = payload[position - 1]
    if value < 0x80:
        return (value & 0x3F) << 8 | payload[position], position + 1
    stop = position + (3 if value < 0xC0 else 7)
    payload[stop - 1]
    return (value & 0x3F) << 8 * (stop - position) | int.from_bytes(
        payload[position:stop], "big"
    ), stop
