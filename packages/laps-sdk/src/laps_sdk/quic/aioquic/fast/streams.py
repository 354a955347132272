"""Halves of streams that say when they have something to do.

Takes over ``QuicStreamSender`` and ``QuicStreamReceiver`` by subclassing them. aioquic asks every
open stream for every packet whether it has data, a reset, a new limit, or is finished; the cost of
a packet grows with the number of streams. Here each change that could give a stream something to
do puts its id into the connection's queue of busy streams, which is all that sending looks at.

An id in the queue is a hint: sending looks at the stream and may find nothing (its data went out
in a packet of the parent class). So a hint too many costs little, and every change below is one
that aioquic's own code makes through these methods, so none is missing.

The second purpose: in the common case (in order, nothing lost) ranges are extended at one end,
for which the general ``RangeSet`` methods are long.

Halves hold the queue and the id but not the stream: no reference cycle, nothing for the collector.
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
"""Ids of streams that may have something to do, in the order of service."""

ranges_of = cast("Callable[[RangeSet], list[range]]", attrgetter("_RangeSet__ranges"))
"""The list in a ``RangeSet``; it is changed in place, never replaced."""

_ACKED = QuicDeliveryState.ACKED


class FastSender(QuicStreamSender):
    """The sending half of a stream."""

    ready: Ready
    pending: list[range]
    """The ranges in ``_pending``."""
    acked: list[range]
    """The ranges in ``_acked``."""
    wire_id: bytes
    """The stream's id as a varint."""

    def write(self, data: bytes, end_stream: bool = False) -> None:
        """Append to the buffer; as the parent does, with the last pending range extended."""
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
        self.ready[cast("int", self._stream_id)] = None

    def reset(self, error_code: int) -> None:
        """Give up sending; RESET_STREAM is due."""
        super().reset(error_code)
        self.ready[cast("int", self._stream_id)] = None

    def on_data_delivery(
        self, delivery: QuicDeliveryState, start: int, stop: int, fin: bool
    ) -> None:
        """A packet with data was acknowledged or lost."""
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
                self.ready[cast("int", self._stream_id)] = None
            return
        super().on_data_delivery(delivery, start, stop, fin)
        if delivery is not _ACKED or self.is_finished:
            self.ready[cast("int", self._stream_id)] = None

    def on_reset_delivery(self, delivery: QuicDeliveryState) -> None:
        """RESET_STREAM was acknowledged (the stream may be finished) or lost (it is due again)."""
        super().on_reset_delivery(delivery)
        self.ready[cast("int", self._stream_id)] = None


class FastReceiver(QuicStreamReceiver):
    """The receiving half of a stream."""

    ready: Ready

    def handle_frame(self, frame: QuicStreamFrame) -> StreamDataReceived | None:
        """Data arrived: the stream may be finished or need a new limit."""
        event = super().handle_frame(frame)
        self.ready[cast("int", self._stream_id)] = None
        return event

    def handle_reset(self, *, final_size: int, error_code: int = 0) -> StreamReset | None:
        """The peer gave up: the stream may be finished."""
        event = super().handle_reset(final_size=final_size, error_code=error_code)
        self.ready[cast("int", self._stream_id)] = None
        return event

    def stop(self, error_code: int = 0) -> None:
        """STOP_SENDING is due."""
        super().stop(error_code)
        self.ready[cast("int", self._stream_id)] = None

    def on_stop_sending_delivery(self, delivery: QuicDeliveryState) -> None:
        """STOP_SENDING was acknowledged, or lost and is due again."""
        super().on_stop_sending_delivery(delivery)
        if delivery is not _ACKED:
            self.ready[cast("int", self._stream_id)] = None


class FastStream(QuicStream):
    """A stream made with our halves at once."""

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
    """Make a stream's halves, just made by aioquic, halves of ours: same state, more methods."""
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
