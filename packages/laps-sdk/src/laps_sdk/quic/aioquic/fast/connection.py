"""A ``QuicConnection`` whose common 1-RTT packets are built and read at a third of aioquic's cost.

:class:`FastQuicConnection` has the constructor and the methods of aioquic's class, and keeps all
state where that class keeps it. "Parent" below means aioquic's ``QuicConnection``::

    send_stream_data --> streams mark themselves ready --> _ready (ids in the order of service)
                                                              |
    datagrams_to_send --> _needs_parent()? --yes--> _parent_send: aioquic builds the packets
                              | no
                              v
                          _send_burst: up to 64 packets
                              _put_ack, _put_control, _put_datagrams, _put_streams
                          _finish: all packets sealed at once, loss recovery informed

    receive_datagrams --> _receive_run: header protection of all datagrams removed in one call
                              |-- a datagram that is not common --> parent's receive_datagram
                              v
                          _receive_payload: STREAM, ACK, DATAGRAM, MAX_DATA, MAX_STREAM_DATA
                              '-- from the first other frame on --> parent's _payload_received

What is replaced, and why each part is safe:

- Streams. The parent creates them, and ``adopt`` then replaces the class of their halves
  (:mod:`laps_sdk.quic.aioquic.fast.streams`). ``_streams_queue``, the parent's list of all
  streams, stays empty while the fast path sends. Removing a finished stream costs time in
  proportion to the open ones. ``_parent_send`` rebuilds the list from ``_streams`` and the ready
  queue. So the parent always has every stream, the ready ones first.
- Sending, for a connection whose handshake is confirmed and that has nothing unusual to send
  (``_needs_parent``). Packets have aioquic's layout: ACK if due, limits, datagrams, stream frames.
  For one busy stream they equal the parent's byte by byte, which the self-check uses. All state
  changes as the parent changes it: ranges, offsets, flow-control counters, ``ack_at``, packet
  numbers, records of loss recovery, pacer and idle timer. Delivery handlers are methods of the
  parent with the same arguments. aioquic writes limits, RESET_STREAM, STOP_SENDING and ACKs of
  several ranges into a :class:`~laps_sdk.quic.aioquic.fast.frames.FrameCollector`. Three
  differences concern the time of sending, not the content:

  - A packet that the congestion window would cut below 600 bytes waits for the next ACK.
  - The pacer lets 64 packets go at once; an ACK that meets an empty pacer is sent alone.
  - A datagram too long for any packet is dropped; with the parent it would block all after it.
- Receiving, for 1-RTT packets on the active, validated path under the keys in use. The parent gets
  datagrams with a long header, another address or connection id (migration), another key phase
  (key update) or reserved bits. It also gets all datagrams of a closing connection. The fast path
  records of a packet what the parent records, in the parent's fields. A packet that fails
  authentication changes nothing in either class.
- Received frames. A frame that is malformed or breaks a limit goes to the parent before any of it
  is applied. So the parent raises its own errors.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from aioquic.buffer import UINT_VAR_MAX
from aioquic.quic.connection import (
    QuicConnection,
    QuicConnectionError,
    QuicConnectionState,
    QuicReceiveContext,
)
from aioquic.quic.events import DatagramFrameReceived, StreamDataReceived
from aioquic.quic.packet import QuicStreamFrame, decode_packet_number
from aioquic.quic.packet_builder import QuicPacketBuilder, QuicPacketBuilderStop
from aioquic.quic.rangeset import RangeSet
from aioquic.quic.recovery import MAX_ACK_RANGES
from aioquic.quic.stream import FinalSizeError, StreamFinishedError
from aioquic.tls import Epoch
from cryptography.exceptions import InvalidTag

from laps_sdk.quic.aioquic.compat import BURST, BurstPacer
from laps_sdk.quic.aioquic.fast.frames import FrameCollector, Handler, SentPacket, encode_varint
from laps_sdk.quic.aioquic.fast.protection import (
    AES_SUITES,
    TAG_SIZE,
    Opener,
    Sealer,
    short_header,
)
from laps_sdk.quic.aioquic.fast.streams import FastStream, Ready, adopt, ranges_of

if TYPE_CHECKING:
    from aioquic._buffer import Buffer
    from aioquic.quic.connection import Limit
    from aioquic.quic.crypto import CryptoPair
    from aioquic.quic.recovery import QuicPacketSpace
    from aioquic.quic.stream import QuicStream

__all__ = ["FastQuicConnection"]

Address = Any
"""The caller's address, of any type, as in aioquic."""

Part = bytes | bytearray
"""A piece of a payload."""

_CONNECTED = QuicConnectionState.CONNECTED

_SMALLEST_CUT = 600
"""The least size in bytes to which a small congestion window cuts a packet."""

_LENGTH = struct.Struct(">H").pack
_OFFSET_2 = struct.Struct(">HH").pack
_OFFSET_4 = struct.Struct(">IH").pack
_OFFSET_8 = struct.Struct(">QH").pack

_STREAM = [bytes((0x08 | bits,)) for bits in range(8)]
_LEN, _OFF = 2, 4
_ACK = b"\x02"

_WINDOW = 2 * MAX_ACK_RANGES
"""How many packet numbers are checked for duplicates, as in ``QuicPacketNumberWindow``."""
_PRUNE = 2 * _WINDOW
"""The number of entries at which ``QuicPacketNumberWindow`` forgets old ones."""

_NOT_OURS = -1
"""A position: the parent handles this frame and the rest of the payload."""


class FastQuicConnection(QuicConnection):
    """A ``QuicConnection`` with faster code for common 1-RTT packets; see the module.

    It adds ``receive_datagrams`` for several datagrams at once.
    """

    _data_window = 0
    _stream_window = 0
    """Receive windows of a subclass that writes its own limits: a limit is due when less than half
    of the window is left. At 0, half of all that was ever granted counts, as in aioquic.
    """
    datagrams_too_long = 0
    """Datagrams dropped because they fit into no packet."""
    _parent_was_here = False
    """Whether the parent handled a frame: keys, path or state may have changed."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._loss._pacer = BurstPacer(max_datagram_size=self._max_datagram_size)
        self._ready: Ready = Ready()
        self._parked: dict[int, None] = {}
        """Ids of streams that wait for the connection's flow control (MAX_DATA)."""
        self._queue_is_ours = False
        self._collector = FrameCollector()
        self._own_uni = 2 if self._is_client else 3
        self._peer_uni = 3 if self._is_client else 2
        self._pair: CryptoPair | None = None
        """The 1-RTT keys, after the handshake and if their cipher suite is supported."""
        self._space: QuicPacketSpace = cast("QuicPacketSpace", None)
        """The 1-RTT packet number space, set with ``_pair``."""
        self._crypto_stream: QuicStream = cast("QuicStream", None)
        """The CRYPTO stream of 1-RTT packets (session tickets), set with ``_pair``."""
        self._sealer: Sealer | None = None
        self._opener: Opener | None = None

    # Keys

    def _take_keys(self) -> bool:
        """Return whether 1-RTT packets can be handled here; take the keys once they can."""
        if not self._handshake_confirmed or self._quic_logger is not None:
            return False
        if self._pair is None:
            pair = self._cryptos[Epoch.ONE_RTT]
            if pair.send.cipher_suite not in AES_SUITES:
                return False
            if pair.recv.cipher_suite not in AES_SUITES:
                return False
            self._pair = pair
            self._space = self._spaces[Epoch.ONE_RTT]
            self._crypto_stream = self._crypto_streams[Epoch.ONE_RTT]
        return True

    # Streams

    def _get_or_create_stream(self, frame_type: int, stream_id: int) -> QuicStream:
        stream = self._streams.get(stream_id)
        if stream is None:
            known = len(self._streams_queue)
            stream = super()._get_or_create_stream(frame_type, stream_id)
            self._adopt_new(known)
        return stream

    def _get_or_create_stream_for_send(self, stream_id: int) -> QuicStream:
        known = len(self._streams_queue)
        stream = super()._get_or_create_stream_for_send(stream_id)
        self._adopt_new(known)
        return stream

    def _adopt_new(self, known: int) -> None:
        """Adopt the streams that the parent has just added at the end of its list."""
        made = self._streams_queue[known:]
        if made:
            for stream in made:
                adopt(stream, self._ready)
            if self._queue_is_ours:
                self._streams_queue.clear()

    def _next_of_peer(self, stream_id: int) -> QuicStream | None:
        """Make the peer's next stream of its kind; return None for any other stream.

        It repeats ``_get_or_create_stream`` with the checks for this case only.
        """
        if stream_id & 2:
            limit = self._local_max_streams_uni
            local, remote = self._local_max_stream_data_uni, 0
        else:
            limit = self._local_max_streams_bidi
            local = self._local_max_stream_data_bidi_remote
            remote = self._remote_max_stream_data_bidi_local
        index = stream_id >> 2
        if index != limit.used or index >= limit.value or not self._queue_is_ours:
            return None
        if (stream_id & 1 == 0) == self._is_client:
            return None
        limit.used = index + 1
        stream = FastStream(stream_id, local, remote, (True, not stream_id & 2), self._ready)
        self._streams[stream_id] = stream
        return stream

    def _next_of_ours(self, stream_id: int) -> QuicStream | None:
        """Make our next unidirectional stream; return None for any other or a blocked stream.

        It repeats ``_get_or_create_stream_for_send`` for this case.
        """
        if (
            stream_id != self._local_next_stream_id_uni
            or stream_id >> 2 >= self._remote_max_streams_uni
            or not self._queue_is_ours
        ):
            return None
        self._local_next_stream_id_uni = stream_id + 4
        remote = self._remote_max_stream_data_uni
        stream = FastStream(stream_id, 0, remote, (False, True), self._ready)
        self._streams[stream_id] = stream
        return stream

    def send_stream_data(self, stream_id: int, data: bytes, end_stream: bool = False) -> None:
        """Send data on a stream; open the stream if it is ours and new."""
        stream = self._streams.get(stream_id) or self._next_of_ours(stream_id)
        if stream is None or stream_id & 3 == self._peer_uni:
            super().send_stream_data(stream_id, data, end_stream)
        else:
            stream.sender.write(data, end_stream)

    # Credit

    def _unblock_streams(self, is_unidirectional: bool) -> None:
        waiting = self._streams_blocked_uni if is_unidirectional else self._streams_blocked_bidi
        before = list(waiting)
        super()._unblock_streams(is_unidirectional)
        for stream in before:
            if not stream.is_blocked:
                self._ready[cast("int", stream.stream_id)] = None

    def _unpark(self) -> None:
        """Mark parked streams as ready, because the connection has credit again."""
        if self._parked:
            self._ready.update(self._parked)
            self._parked.clear()

    def _handle_max_data_frame(
        self, context: QuicReceiveContext, frame_type: int, buf: Buffer
    ) -> None:
        super()._handle_max_data_frame(context, frame_type, buf)
        self._unpark()

    def _handle_max_stream_data_frame(
        self, context: QuicReceiveContext, frame_type: int, buf: Buffer
    ) -> None:
        start = buf.tell()
        stream_id = buf.pull_uint_var()
        buf.seek(start)
        super()._handle_max_stream_data_frame(context, frame_type, buf)
        self._ready[stream_id] = None

    def _on_max_stream_data_delivery(self, delivery: Any, stream: QuicStream) -> None:
        super()._on_max_stream_data_delivery(delivery, stream)
        if stream.max_stream_data_local_sent != stream.max_stream_data_local:
            self._ready[cast("int", stream.stream_id)] = None

    # Handing over to the parent

    def _parent_send(self, now: float) -> list[tuple[bytes, Address]]:
        """Let the parent send, with its list of streams restored."""
        if self._queue_is_ours:
            streams = self._streams
            queue = [streams[key] for key in self._ready if key in streams]
            queue += [stream for key, stream in streams.items() if key not in self._ready]
            self._streams_queue = queue
            self._queue_is_ours = False
        return super().datagrams_to_send(now)

    def _take_queue(self) -> None:
        """Clear the parent's list of streams: all busy streams are in ``_ready``."""
        self._streams_queue = []
        self._queue_is_ours = True

    def _needs_parent(self) -> bool:
        """Return whether something waits that only the parent's sending code handles."""
        pair = self._pair
        paths = self._network_paths
        if (
            pair is None
            or self._state is not _CONNECTED
            or self._close_pending
            or self._probe_pending
            or self._ping_pending
            or pair._update_key_requested
            or self._handshake_done_pending
            or self._retire_connection_ids
            or self._streams_blocked_pending
            or self._remote_preferred_address is not None
            or self._quic_logger is not None
            or not paths[0].is_validated
            or paths[0].remote_challenges
            or not self._crypto_stream.sender.buffer_is_empty
        ):
            return True
        for connection_id in self._host_cids:
            if not connection_id.was_sent:
                return True
        return len(paths) > 1 and any(
            path.remote_challenges or not (path.is_validated or path.local_challenge_sent)
            for path in paths[1:]
        )

    # Sending

    def datagrams_to_send(self, now: float) -> list[tuple[bytes, Address]]:
        """Return the packets to send now, like the parent; at most 64 a call on the fast path.

        If more could be sent, ``get_timer`` returns a time that is due.
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
        """Return when to call ``handle_timer``.

        This is the parent's result for one validated path and one packet number space. The other
        spaces are discarded when the handshake is confirmed.
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
        if (ready or datagrams or limits_due) and window - overhead >= min(_SMALLEST_CUT, capacity):
            # Send again when the pacer allows it, or at once after a full burst. If the window was
            # full, an ACK or a timer of loss recovery comes first.
            self._pacing_at = pacer.pause_end(now)
            if self._pacing_at is None and len(payloads) >= BURST:
                self._pacing_at = now
        return self._finish(now, payloads, packets) if payloads else []

    def _finish(
        self, now: float, payloads: list[bytes], packets: list[SentPacket]
    ) -> list[tuple[bytes, Address]]:
        """Protect the packets and report them to loss recovery."""
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
        control = cast("Any", recovery._cc)
        at_once = getattr(control, "on_bytes_sent", None)
        eliciting = size = 0
        for packet in packets:
            sent_packets[packet.packet_number] = packet
            if packet.is_ack_eliciting:
                eliciting += 1
                size += packet.sent_bytes
                if at_once is None:
                    control.on_packet_sent(packet=packet)
        if at_once is not None:
            at_once(size)
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

    # Frames to send

    def _put_ack(
        self,
        now: float,
        number: int,
        parts: list[Part],
        handlers: list[Handler],
        room: int,
        capacity: int,
    ) -> tuple[int, bool]:
        """Append an ACK frame; return its size and whether a PING is with it."""
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
        """Append frames that the parent writes: of a stream, or for None the connection's limits.

        Returns the room that is left, or -1 if a frame did not fit.
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
        """Append as many datagrams as fit, in order; return the room that is left."""
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
        """Append frames of busy streams in turn, until the packet is full or no stream is busy.

        Returns whether streams were discarded, which may allow the peer new ones.
        """
        ready = self._ready
        # ``adopt`` has given all streams the halves of a FastStream.
        streams = cast("dict[int, FastStream]", self._streams)
        discarded = False
        while ready:
            stream_id, _ = ready.popitem(last=False)
            stream = streams.get(stream_id)
            if stream is None:
                continue
            sender = stream.sender
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
        """Put a stream whose frame did not fit first into the next packet."""
        self._ready[stream_id] = None
        self._ready.move_to_end(stream_id, last=False)

    def _discard(self, stream_id: int) -> None:
        """Forget a finished stream; the peer may open another one (RFC 9000, 4.6)."""
        del self._streams[stream_id]
        if (stream_id & 1 == 0) != self._is_client:
            self._stream_limit(stream_id).value += 1

    def _limits_due(self) -> bool:
        """Return whether ``_write_connection_limits`` would write a frame."""
        data = self._local_max_data
        window = self._data_window or data.value
        if (data.value - data.used) * 2 < window or data.value != data.sent:
            return True
        limit: Limit = self._local_max_streams_uni
        if limit.sent - limit.used < limit.value - limit.sent:
            return True
        limit = self._local_max_streams_bidi
        return limit.sent - limit.used < limit.value - limit.sent

    # Receiving

    def receive_datagram(self, data: bytes, addr: Address, now: float) -> None:
        """Process a datagram."""
        self.receive_datagrams((data,), addr, now)

    def receive_datagrams(self, datagrams: Sequence[bytes], addr: Address, now: float) -> None:
        """Process datagrams from one address, in this order."""
        index = 0
        while index < len(datagrams):
            index = self._receive_run(datagrams, index, addr, now)
            if index < 0:
                index = -index
                super().receive_datagram(datagrams[index - 1], addr, now)

    def _current_opener(self) -> Opener | None:
        """Return the keys to receive with, after a key update new ones; None if unsupported."""
        if (self._pair is None and not self._take_keys()) or self._state is not _CONNECTED:
            return None
        opener = self._opener
        context = cast("CryptoPair", self._pair).recv
        if opener is None or not opener.is_for(context):
            opener = self._opener = Opener(context)
        return opener

    def _receive_run(  # noqa: PLR0915 - one loop without calls, run for every packet
        self, datagrams: Sequence[bytes], index: int, addr: Address, now: float
    ) -> int:
        """Process datagrams from ``index`` on, until one of them needs the parent.

        Returns the index to go on with. If negative, the parent must process the datagram before
        it.
        """
        opener = self._current_opener()
        path = self._network_paths[0] if self._network_paths else None
        if (
            opener is None
            or path is None
            or path.addr != addr
            or not path.is_validated
            or self._quic_logger is not None
        ):
            return -(index + 1)
        own_cid = self.host_cid
        cid_end = 1 + len(own_cid)
        header = short_header(len(own_cid)).pack
        decrypt = opener.decrypt
        iv = opener.iv
        # Short header, fixed bit, reserved bits 0, key phase in use; spin and length are free.
        expected_flags = 0x40 | cast("CryptoPair", self._pair).recv.key_phase << 2
        space = self._space
        window = space.received_packets
        ranges = ranges_of(space.ack_queue)
        sample = cid_end + 4
        # Whole samples only: part of a block would stay in the cipher and shift masks after it.
        masks = opener.mask(
            b"".join(
                [
                    data[sample : sample + 16]
                    for data in datagrams[index:]
                    if len(data) >= sample + 16
                ]
            )
        )
        mask = 0
        valid = False
        while index < len(datagrams):
            data = datagrams[index]
            index += 1
            if len(data) < sample + 16:
                return self._run_ends(-index, valid, now)
            first = data[0] ^ masks[mask] & 0x1F
            if first & 0xDC != expected_flags:
                return self._run_ends(-index, valid, now)
            cid = own_cid
            if not data.startswith(own_cid, 1):
                cid = data[1:cid_end]
                if not self._is_own_cid(cid):
                    return self._run_ends(-index, valid, now)
            expected = space.expected_packet_number
            if first & 3 == 1:
                number = (data[cid_end] ^ masks[mask + 1]) << 8 | (
                    data[cid_end + 1] ^ masks[mask + 2]
                )
                plain = header(first, cid, number)
                number |= expected & ~0xFFFF
                if not expected - 0x8000 < number <= expected + 0x8000:
                    number = decode_packet_number(number & 0xFFFF, 16, expected)
            else:
                length = (first & 3) + 1
                number = int.from_bytes(data[cid_end : cid_end + length], "big")
                number ^= int.from_bytes(masks[mask + 1 : mask + 1 + length], "big")
                plain = bytes((first,)) + cid + number.to_bytes(length, "big")
                number = decode_packet_number(number, 8 * length, expected)
            mask += 16
            try:
                payload = decrypt((iv ^ number).to_bytes(12, "big"), data[len(plain) :], plain)
            except InvalidTag:
                continue  # not for us, or damaged
            if number < window._lower or number in window._received:
                continue

            if number > expected:
                space.expected_packet_number = number + 1
            if number > self._spin_highest_pn:
                self._spin_bit = (first & 0x20 != 0) != self._is_client
                self._spin_highest_pn = number
            try:
                eliciting = self._receive_payload(payload, cid, now)
            except QuicConnectionError as error:
                self._logger.warning(error)
                self.close(
                    error_code=error.error_code,
                    frame_type=error.frame_type,
                    reason_phrase=error.reason_phrase,
                )
                return self._run_ends(index, valid, now)
            if self._close_pending or self._state is not _CONNECTED:
                # As the parent: a packet that comes while closing is not recorded.
                return self._run_ends(index, valid, now)
            valid = True
            if number > space.largest_received_packet:
                space.largest_received_packet = number
                space.largest_received_time = now
            if ranges and ranges[-1].stop == number:
                ranges[-1] = range(ranges[-1].start, number + 1)
            else:
                space.ack_queue.add(number)
                if len(ranges) > MAX_ACK_RANGES:
                    space.ack_queue.shift()
            seen = window._received
            if len(seen) < _PRUNE and number >= window._lower:
                seen.add(number)
                if number - _WINDOW >= window._lower:
                    window._lower = number - _WINDOW + 1
            else:
                window.add(number)
            if eliciting and space.ack_at is None:
                space.ack_at = now + self._ack_delay
            if self._parent_was_here:
                self._parent_was_here = False
                break
        return self._run_ends(index, valid, now)

    def _run_ends(self, index: int, valid: bool, now: float) -> int:
        """Restart the idle timer if a packet was good (RFC 9000, 10.1); return the index."""
        if valid and self._state is _CONNECTED:
            self._close_at = now + self._idle_timeout()
            self._ack_eliciting_sent_since_receipt = False
        return index

    def _is_own_cid(self, cid: bytes) -> bool:
        """Return whether a client is addressed by another of its ids; on a server, migration."""
        return self._is_client and any(each.cid == cid for each in self._host_cids)

    # Received frames

    def _receive_payload(self, payload: bytes, cid: bytes, now: float) -> bool:
        """Process the frames of a packet; return whether it is ack-eliciting."""
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
            except IndexError:  # cut short: the parent reports it to the peer
                after = _NOT_OURS
            if after == _NOT_OURS:
                return self._parent_payload(payload[position:], cid, now) or eliciting
            eliciting = eliciting or kind not in (0x00, 0x02)
            position = after
        if not end:
            return self._parent_payload(payload, cid, now)
        return eliciting

    def _parent_payload(self, payload: bytes, cid: bytes, now: float) -> bool:
        """Let the parent process frames; return whether they are ack-eliciting."""
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
        """Process a STREAM frame (RFC 9000, 19.8); return where the next frame begins."""
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
        """Return the peer's new stream; None if the stream has ended before."""
        self._assert_stream_can_receive(kind, stream_id)
        stream = self._next_of_peer(stream_id)
        if stream is not None:
            return stream
        try:
            return self._get_or_create_stream(kind, stream_id)
        except StreamFinishedError:
            return None

    def _receive_ack(self, payload: bytes, position: int, end: int, now: float) -> int:
        """Process an ACK frame (RFC 9000, 19.3); return where the next frame begins."""
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
        """Process a DATAGRAM frame (RFC 9221, 4); return where the next frame begins."""
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
        """Process MAX_DATA or MAX_STREAM_DATA (RFC 9000, 19.9, 19.10).

        Returns where the next frame begins.
        """
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


@lru_cache(maxsize=64)
def _datagram_header(size: int) -> bytes:
    """Return type and length of a DATAGRAM frame; cached, because sizes repeat."""
    return b"\x31" + encode_varint(size)


def _varint(payload: bytes, position: int) -> tuple[int, int]:
    """Return an integer and where it ends; raises IndexError if it is cut short."""
    value = payload[position]
    if value < 0x40:
        return value, position + 1
    return _long_varint(payload, position + 1)


def _long_varint(payload: bytes, position: int) -> tuple[int, int]:
    """Return an integer of more than one byte whose first byte is before ``position``."""
    value = payload[position - 1]
    if value < 0x80:
        return (value & 0x3F) << 8 | payload[position], position + 1
    stop = position + (3 if value < 0xC0 else 7)
    payload[stop - 1]
    return (value & 0x3F) << 8 * (stop - position) | int.from_bytes(
        payload[position:stop], "big"
    ), stop
