"""Sending: a burst of up to 64 packets built at once.

Takes over ``QuicConnection.datagrams_to_send``, ``_write_application``, the frame writers of
STREAM, DATAGRAM and (of one range) ACK, ``QuicPacketBuilder`` and ``_flush_builder``, for a
connection whose handshake is confirmed and which has nothing unusual to send
(:meth:`~laps_sdk.transport._fast.base.FastBase._needs_parent`); else the parent sends this time.

Packets have aioquic's layout: ACK if due, limits, datagrams, stream frames; STREAM frames always
carry a length. For one busy stream they are the parent's, byte by byte, which the self-check uses.

Safe because everything that is changed here is what the parent changes when it sends the same
packet: ranges of the stream senders, flow-control counters, ``ack_at``, packet number, records and
counters of loss recovery, bytes in flight, pacer, idle timer. Differences, all in when, not what:

- A packet that the congestion window would cut below 600 bytes waits for the next ACK.
- The pacer lets 64 packets go at once; a paced ACK goes alone.
- A datagram too long for any packet is dropped; with the parent it would block all after it.
"""

from __future__ import annotations

import contextlib
import struct
from typing import TYPE_CHECKING, Any, cast

from aioquic.quic.connection import QuicConnectionState
from aioquic.quic.packet_builder import QuicPacketBuilder, QuicPacketBuilderStop

from laps_sdk.transport._fast.base import Address, FastBase
from laps_sdk.transport._fast.frames import Handler, SentPacket
from laps_sdk.transport._fast.pacing import BURST, BurstPacer
from laps_sdk.transport._fast.protection import TAG_SIZE, Sealer
from laps_sdk.transport._fast.streams import FastSender, ranges_of
from laps_sdk.transport._fast.varints import encode_varint

if TYPE_CHECKING:
    from aioquic.quic.connection import Limit
    from aioquic.quic.crypto import CryptoPair
    from aioquic.quic.stream import QuicStream

__all__ = ["SendSide"]

_SMALLEST_CUT = 600
"""Bytes: below, a packet is not cut to what the congestion window has left."""

_LENGTH = struct.Struct(">H").pack
_OFFSET_2 = struct.Struct(">HH").pack
_OFFSET_4 = struct.Struct(">IH").pack
_OFFSET_8 = struct.Struct(">QH").pack

_STREAM = [bytes((0x08 | bits,)) for bits in range(8)]
_LEN, _OFF = 2, 4
_DATAGRAM = b"\x31"
_ACK = b"\x02"

_CONNECTED = QuicConnectionState.CONNECTED

Part = bytes | bytearray


class SendSide(FastBase):
    """The sending side of a fast connection."""

    datagrams_too_long = 0
    """Datagrams dropped because no packet could hold them."""

    def datagrams_to_send(self, now: float) -> list[tuple[bytes, Address]]:
        """Packets to send now, as the parent's method; at most 64 a call on the fast path.

        If more could go, ``get_timer`` says "now".
        """
        if (self._pair is None and not self._take_keys()) or self._needs_parent():
            return self._parent_send(now)
        if not self._queue_is_ours:
            self._take_queue()
        self._pacing_at = None
        ack_at = self._space.ack_at
        if (ack_at is not None and ack_at <= now) or self._ready or self._datagrams_pending:
            return self._send_burst(now, self._limits_due())
        if self._limits_due():
            return self._send_burst(now, True)
        return []

    def get_timer(self) -> float | None:
        """When ``handle_timer`` is due.

        The parent's answer for one validated path and one packet number space in use, the others
        being discarded when the handshake is confirmed.
        """
        if (
            self._pair is None
            or self._state is not _CONNECTED
            or not self._network_paths[0].is_validated
        ):
            return super().get_timer()
        timer_at = cast("float", self._close_at)
        space = self._space
        if space.ack_at is not None and space.ack_at < timer_at:
            timer_at = space.ack_at
        loss = self._loss
        loss_at = space.loss_time
        if loss_at is None and space.ack_eliciting_in_flight:
            loss_at = loss._time_of_last_sent_ack_eliciting_packet + (
                loss.get_probe_timeout() * (2**loss._pto_count)
            )
        self._loss_at = loss_at
        if loss_at is not None and loss_at < timer_at:
            timer_at = loss_at
        if self._pacing_at is not None and self._pacing_at < timer_at:
            timer_at = self._pacing_at
        return timer_at

    # A burst

    def _send_burst(  # noqa: PLR0915 - one loop, run for every packet
        self, now: float, limits_due: bool
    ) -> list[tuple[bytes, Address]]:
        space = self._space
        recovery = self._loss
        control = recovery._cc
        pacer = cast("BurstPacer", recovery._pacer)
        ready = self._ready
        datagrams = self._datagrams_pending
        peer_cid = self._peer_cid.cid
        overhead = 3 + len(peer_cid) + TAG_SIZE
        capacity = self._max_datagram_size - overhead
        in_flight = control.bytes_in_flight
        window = control.congestion_window - in_flight
        allowance = pacer.allowance(now)
        number = self._packet_number
        ack_due = space.ack_at is not None and space.ack_at <= now
        payloads: list[bytes] = []
        packets: list[SentPacket] = []
        sent_in_flight = 0
        blocked = False

        while len(payloads) < BURST:
            parts: list[Part] = []
            handlers: list[Handler] = []
            eliciting = False
            room = min(capacity, window - overhead)
            if ack_due:
                ack_due = False
                used, eliciting = self._put_ack(now, number, parts, handlers, room, capacity)
                room -= used
            if sent_in_flight >= allowance or (
                room < _SMALLEST_CUT and room < capacity and in_flight
            ):
                blocked = True
            else:
                if limits_due:
                    limits_due = False
                    room = self._put_control(number, parts, handlers, room, None)
                if datagrams:
                    room = self._put_datagrams(parts, room, capacity)
                if ready:
                    discarded = self._put_streams(number, parts, handlers, room)
                    if discarded and self._limits_due():
                        limits_due = True
            if not parts:
                if limits_due and not blocked:
                    continue
                break
            payload = b"".join(parts)
            size = len(payload) + overhead
            # What is not an ACK is ack-eliciting: an ACK is the first part, without a PING.
            eliciting = eliciting or len(parts) > 1 or payload[0] != 2
            payloads.append(payload)
            packets.append(SentPacket(number, now, size, handlers, eliciting))
            number += 1
            if eliciting:
                sent_in_flight += 1
                in_flight += size
                window -= size

        if sent_in_flight:
            pacer.spend(sent_in_flight)
        if ready or datagrams or limits_due:
            # Held back by pacing: when to go on. By the size of a burst: at once. By the window:
            # an ACK or a timer of loss recovery comes first.
            self._pacing_at = pacer.next_send_time(now)
            if self._pacing_at is None and len(payloads) >= BURST:
                self._pacing_at = now
        return self._finish(now, payloads, packets) if payloads else []

    def _finish(
        self, now: float, payloads: list[bytes], packets: list[SentPacket]
    ) -> list[tuple[bytes, Address]]:
        """Protect the packets and tell loss recovery of them."""
        pair = cast("CryptoPair", self._pair)
        sealer = self._sealer
        if sealer is None or not sealer.is_for(pair.send):
            sealer = self._sealer = Sealer(pair.send)
        first = 0x41 | self._spin_bit << 5 | pair.recv.key_phase << 2
        sealed = sealer.seal(first, self._peer_cid.cid, self._packet_number, payloads)
        self._packet_number += len(sealed)

        recovery = self._loss
        space = self._space
        sent_packets = cast("dict[int, Any]", space.sent_packets)
        on_packet_sent = cast("Any", recovery._cc.on_packet_sent)
        eliciting = 0
        for packet in packets:
            sent_packets[packet.packet_number] = packet
            if packet.is_ack_eliciting:
                eliciting += 1
                on_packet_sent(packet=packet)
        if eliciting:
            space.ack_eliciting_in_flight += eliciting
            recovery._time_of_last_sent_ack_eliciting_packet = now
            if not self._ack_eliciting_sent_since_receipt:
                self._close_at = now + self._idle_timeout()
                self._ack_eliciting_sent_since_receipt = True
        path = self._network_paths[0]
        path.bytes_sent += sum(map(len, sealed))
        address = path.addr
        return [(packet, address) for packet in sealed]

    # Frames

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
            length = encode_varint(len(data))
            size = 1 + len(length) + len(data)
            if size > room:
                if size <= capacity:
                    break
                self.datagrams_too_long += 1
            else:
                parts += (_DATAGRAM + length, data)
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
            if (
                receiver.stop_pending
                or sender.reset_pending
                or stream.max_stream_data_local_sent != limit
                or (limit and receiver.highest_offset * 2 > limit)
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
        if data.used * 2 > data.value or data.value != data.sent:
            return True
        limit: Limit = self._local_max_streams_uni
        if limit.sent - limit.used < limit.value - limit.sent:
            return True
        limit = self._local_max_streams_bidi
        return limit.sent - limit.used < limit.value - limit.sent
