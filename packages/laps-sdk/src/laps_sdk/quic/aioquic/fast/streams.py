"""Halves of streams that mark their stream as ready when there is something to send.

The classes derive from ``QuicStreamSender`` and ``QuicStreamReceiver``. For every packet, aioquic
asks every open stream for data, a reset, a new limit or its end. So a packet costs more the
more streams are open. Here, each change that may give a stream something to send puts its id into
the connection's queue of ready streams. Sending looks at that queue only.

An id in the queue is a hint: the stream has nothing to send if its data left in a packet
of the parent class. Such a hint costs little. No hint is missing, because aioquic makes all changes
through these methods.

The classes also extend ranges at one end in the common case (in order, nothing lost), for which the
general methods of ``RangeSet`` are slow.

A half holds the queue and the id but not the stream, so that there is no reference cycle.
"""

from __future__ import annotations

from collections import OrderedDict
from operator import attrgetter
from typing import TYPE_CHECKING, cast

from aioquic.quic.packet_builder import QuicDeliveryState
from aioquic.quic.stream import QuicStream, QuicStreamReceiver, QuicStreamSender

from laps_sdk.quic.aioquic.fast.frames import encode_varint

if TYPE_CHECKING:
    from collections.abc import Callable

    from aioquic.quic.events import StreamDataReceived, StreamReset
    from aioquic.quic.packet import QuicStreamFrame
    from aioquic.quic.rangeset import RangeSet

__all__ = ["FastReceiver", "FastSender", "FastStream", "Ready", "adopt", "ranges_of"]

Ready = OrderedDict[int, None]
"""Ids of streams that may have something to send, in the order of service."""

ranges_of = cast("Callable[[RangeSet], list[range]]", attrgetter("_RangeSet__ranges"))
"""Returns the list in a ``RangeSet``, which changes in place and is never replaced."""

_ACKED = QuicDeliveryState.ACKED


class FastSender(QuicStreamSender):
    """The sending half of a stream."""

    _stream_id: int
    ready: Ready
    pending: list[range]
    """The ranges in ``_pending``."""
    acked: list[range]
    """The ranges in ``_acked``."""
    wire_id: bytes
    """The stream's id as a varint."""

    def write(self, data: bytes, end_stream: bool = False) -> None:
        """Append to the buffer like the parent; extend the last pending range if possible."""
        if self._buffer_fin is not None or self._reset_error_code is not None or not data:
            super().write(data, end_stream)
        else:
            start = self._buffer_stop
            stop = start + len(data)
            pending = self.pending
            if pending and pending[-1].stop == start:
                pending[-1] = range(pending[-1].start, stop)
            else:
                pending.append(range(start, stop))
            self._buffer += data
            self._buffer_stop = stop
            self.buffer_is_empty = False
            if end_stream:
                self._buffer_fin = stop
                self._pending_eof = True
        self.ready[self._stream_id] = None

    def reset(self, error_code: int) -> None:
        """Reset the stream and mark it as ready for RESET_STREAM."""
        super().reset(error_code)
        self.ready[self._stream_id] = None

    def on_data_delivery(
        self, delivery: QuicDeliveryState, start: int, stop: int, fin: bool
    ) -> None:
        """Record that a packet with data was acknowledged or lost."""
        if (
            delivery is _ACKED
            and start == self._buffer_start
            and not self.acked
            and not self._acked_fin
            and self._reset_error_code is None
        ):
            # The oldest data, nothing acknowledged beyond it: the parent would add a range and
            # take it out again.
            self._buffer_start = stop
            del self._buffer[: stop - start]
            if fin:
                self._acked_fin = self.is_finished = True
                self.ready[self._stream_id] = None
            return
        super().on_data_delivery(delivery, start, stop, fin)
        if delivery is not _ACKED or self.is_finished:
            self.ready[self._stream_id] = None

    def on_reset_delivery(self, delivery: QuicDeliveryState) -> None:
        """Record that RESET_STREAM was acknowledged, or lost and must be sent again."""
        super().on_reset_delivery(delivery)
        self.ready[self._stream_id] = None


class FastReceiver(QuicStreamReceiver):
    """The receiving half of a stream."""

    _stream_id: int
    ready: Ready

    def handle_frame(self, frame: QuicStreamFrame) -> StreamDataReceived | None:
        """Process data; the stream may be finished or need a new limit."""
        event = super().handle_frame(frame)
        self.ready[self._stream_id] = None
        return event

    def handle_reset(self, *, final_size: int, error_code: int = 0) -> StreamReset | None:
        """Process the peer's reset; the stream may be finished."""
        event = super().handle_reset(final_size=final_size, error_code=error_code)
        self.ready[self._stream_id] = None
        return event

    def stop(self, error_code: int = 0) -> None:
        """Mark the stream as ready for STOP_SENDING."""
        super().stop(error_code)
        self.ready[self._stream_id] = None

    def on_stop_sending_delivery(self, delivery: QuicDeliveryState) -> None:
        """Record that STOP_SENDING was acknowledged, or lost and must be sent again."""
        super().on_stop_sending_delivery(delivery)
        if delivery is not _ACKED:
            self.ready[self._stream_id] = None


class FastStream(QuicStream):
    """A stream whose halves are of our classes from the start."""

    receiver: FastReceiver
    sender: FastSender
    stream_id: int

    def __init__(
        self, stream_id: int, local: int, remote: int, halves: tuple[bool, bool], ready: Ready
    ) -> None:
        self.is_blocked = False
        self.max_stream_data_local = local
        self.max_stream_data_local_sent = local
        self.max_stream_data_remote = remote
        receiver = FastReceiver(stream_id, halves[0])
        receiver.ready = ready
        self.receiver = receiver
        sender = FastSender(stream_id, halves[1])
        sender.ready = ready
        sender.pending = ranges_of(sender._pending)
        sender.acked = ranges_of(sender._acked)
        sender.wire_id = encode_varint(stream_id)
        self.sender = sender
        self.stream_id = stream_id


def adopt(stream: QuicStream, ready: Ready) -> None:
    """Change the halves of a new stream of aioquic to our classes, with the same state."""
    sender = stream.sender
    sender.__class__ = FastSender
    fast = cast("FastSender", sender)
    fast.ready = ready
    fast.pending = ranges_of(sender._pending)
    fast.acked = ranges_of(sender._acked)
    fast.wire_id = encode_varint(cast("int", stream.stream_id))
    receiver = stream.receiver
    receiver.__class__ = FastReceiver
    cast("FastReceiver", receiver).ready = ready
