"""Receiving: packets opened, many at once.

Takes over ``QuicConnection.receive_datagram`` for 1-RTT packets of a confirmed connection that
arrive on its active, validated path with the keys in use. A datagram with anything else goes to
the parent untouched: a long header, another address or connection id (migration), another key
phase (key update), reserved bits, a closing connection.

Safe because what is recorded of a packet (ranges to acknowledge, window of duplicates, spin bit,
idle timer) is what the parent records, in the parent's fields, and a packet that does not open
changes nothing in either class. For the frames see
:mod:`laps_sdk.quic.aioquic.fast.receive_frames`.

``receive_datagrams`` takes several at once: one AES-ECB call for all masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from aioquic.quic.connection import QuicConnectionError, QuicConnectionState
from aioquic.quic.packet import decode_packet_number
from aioquic.quic.recovery import MAX_ACK_RANGES
from cryptography.exceptions import InvalidTag

from laps_sdk.quic.aioquic.fast.base import Address
from laps_sdk.quic.aioquic.fast.protection import Opener, short_header
from laps_sdk.quic.aioquic.fast.receive_frames import ReceivedFrames
from laps_sdk.quic.aioquic.fast.streams import ranges_of

if TYPE_CHECKING:
    from aioquic.quic.crypto import CryptoPair

__all__ = ["ReceiveSide"]

_CONNECTED = QuicConnectionState.CONNECTED

_WINDOW = 2 * MAX_ACK_RANGES
"""How many packet numbers are looked at for duplicates, as in ``QuicPacketNumberWindow``."""
_PRUNE = 2 * _WINDOW
"""When it forgets old ones."""


class ReceiveSide(ReceivedFrames):
    """The receiving side of a fast connection."""

    def receive_datagram(self, data: bytes, addr: Address, now: float) -> None:
        """A datagram arrived."""
        self.receive_datagrams((data,), addr, now)

    def receive_datagrams(self, datagrams: Sequence[bytes], addr: Address, now: float) -> None:
        """Datagrams arrived from one address, in this order."""
        index = 0
        while index < len(datagrams):
            index = self._receive_run(datagrams, index, addr, now)
            if index < 0:
                index = -index
                super().receive_datagram(datagrams[index - 1], addr, now)

    def _current_opener(self) -> Opener | None:
        """The keys to receive with, which a key update replaces; None if they are not ours."""
        if (self._pair is None and not self._take_keys()) or self._state is not _CONNECTED:
            return None
        opener = self._opener
        context = cast("CryptoPair", self._pair).recv
        if opener is None or not opener.is_for(context):
            opener = self._opener = Opener(context)
        return opener

    # Packets

    def _receive_run(  # noqa: PLR0915 - one loop without calls, run for every packet
        self, datagrams: Sequence[bytes], index: int, addr: Address, now: float
    ) -> int:
        """Handle datagrams from ``index`` on, until one or its consequences are not ours.

        Gives the index to go on with; if negative, the one before it is left to the parent.
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
        """Restart the idle timer if a packet was good (RFC 9000, 10.1); gives the index back."""
        if valid and self._state is _CONNECTED:
            self._close_at = now + self._idle_timeout()
            self._ack_eliciting_sent_since_receipt = False
        return index

    def _is_own_cid(self, cid: bytes) -> bool:
        """Whether a client is addressed by another of its ids; on a server it is a migration."""
        return self._is_client and any(each.cid == cid for each in self._host_cids)
