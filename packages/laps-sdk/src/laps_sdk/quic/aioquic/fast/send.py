"""Sending: a burst of up to 64 packets built at once.

Takes over ``QuicConnection.datagrams_to_send``, ``_write_application``, ``_flush_builder`` and
``QuicPacketBuilder``, for a connection whose handshake is confirmed and which has nothing unusual
to send (``FastBase._needs_parent``); else the parent sends this time. Frames are written by
:mod:`laps_sdk.quic.aioquic.fast.send_frames`.

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

from typing import TYPE_CHECKING, Any, cast

from aioquic.quic.connection import QuicConnectionState

from laps_sdk.quic.aioquic.fast.base import Address
from laps_sdk.quic.aioquic.fast.frames import Handler, SentPacket
from laps_sdk.quic.aioquic.fast.pacing import BURST, BurstPacer
from laps_sdk.quic.aioquic.fast.protection import TAG_SIZE, Sealer
from laps_sdk.quic.aioquic.fast.send_frames import Part, SentFrames

if TYPE_CHECKING:
    from aioquic.quic.crypto import CryptoPair

__all__ = ["SendSide"]

_SMALLEST_CUT = 600
"""Bytes: below, a packet is not cut to what the congestion window has left."""

_CONNECTED = QuicConnectionState.CONNECTED


class SendSide(SentFrames):
    """The sending side of a fast connection."""

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
        if (ready or datagrams or limits_due) and window - overhead >= min(_SMALLEST_CUT, capacity):
            # Held back by pacing: when to go on. By the size of a burst: at once. If it was the
            # window, an ACK or a timer of loss recovery comes first.
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
