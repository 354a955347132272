"""A stock and a fast connection with the same keys that are told the same: they must stay alike.

::

    twins = Twins(FastQuicConnection)
    twins.feed(b"\x0b\x03\x05hello")   # a packet with this payload, properly sealed, to both
    twins.check()                      # same events, same state, field by field
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple
from typing import Any, Generic, TypeVar

from aioquic.quic.connection import QuicConnection
from aioquic.quic.stream import QuicStream
from aioquic.tls import CipherSuite, Epoch

from laps_sdk.quic.aioquic.compat import BurstPacer
from laps_sdk.quic.aioquic.fast.selfcheck import ADDRESSES, prepared

__all__ = ["Twins", "portrait"]

Kind = TypeVar("Kind", bound=QuicConnection)


def _stream_portrait(stream: QuicStream) -> dict[str, Any]:
    sender, receiver = stream.sender, stream.receiver
    return {
        "limits": (stream.max_stream_data_local, stream.max_stream_data_remote, stream.is_blocked),
        "sent limit": stream.max_stream_data_local_sent,
        "pending": list(sender._pending),
        "acked": list(sender._acked),
        "sender": (
            sender._buffer_start,
            sender._buffer_stop,
            sender._buffer_fin,
            sender._pending_eof,
            sender._reset_error_code,
            sender.reset_pending,
            sender.highest_offset,
            sender.is_finished,
            bytes(sender._buffer),
        ),
        "receiver": (
            receiver.highest_offset,
            receiver.is_finished,
            receiver.stop_pending,
            receiver._buffer_start,
            receiver._final_size,
            bytes(receiver._buffer),
            list(receiver._ranges),
        ),
    }


def portrait(connection: QuicConnection) -> dict[str, Any]:
    """All that matters of a connection's state, to be compared."""
    space = connection._spaces[Epoch.ONE_RTT]
    loss = connection._loss
    window = space.received_packets
    return {
        "state": connection._state,
        "close": connection._close_event and astuple(connection._close_event),
        "closing": connection._close_pending,
        "idle": connection._close_at,
        "timer": connection.get_timer(),
        "packet number": connection._packet_number,
        "ack": (list(space.ack_queue), space.ack_at, space.expected_packet_number),
        "largest": (space.largest_received_packet, space.largest_received_time),
        "seen": (window._lower, {pn for pn in window._received if pn >= window._lower}),
        "spin": (connection._spin_bit, connection._spin_highest_pn),
        "in flight": (loss.bytes_in_flight, loss.congestion_window, list(space.sent_packets)),
        "loss": (space.loss_time, space.ack_eliciting_in_flight, loss._rtt_smoothed),
        "received": (connection._local_max_data.used, connection._local_max_data.value),
        "credit": (connection._remote_max_data, connection._remote_max_data_used),
        "streams allowed": (
            connection._local_max_streams_bidi.used,
            connection._local_max_streams_uni.used,
            connection._remote_max_streams_bidi,
            connection._remote_max_streams_uni,
        ),
        "ids": [each.sequence_number for each in connection._host_cids],
        "key phase": connection._cryptos[Epoch.ONE_RTT].recv.key_phase,
        "streams": {
            key: _stream_portrait(stream) for key, stream in sorted(connection._streams.items())
        },
    }


class Twins(Generic[Kind]):
    """The stock twin, the fast twin, and somebody who can seal packets for them."""

    def __init__(
        self,
        kind: type[Kind],
        *,
        is_client: bool = False,
        suite: CipherSuite = CipherSuite.AES_128_GCM_SHA256,
        **options: Any,
    ) -> None:
        self.now = 1000.0
        arguments: dict[str, Any] = {"now": self.now, "suite": suite, **options}
        self.stock = prepared(QuicConnection, is_client=is_client, **arguments)
        self.fast = prepared(kind, is_client=is_client, **arguments)
        self.both: tuple[QuicConnection, QuicConnection] = (self.stock, self.fast)
        # The pacer is the one difference that is meant.
        self.stock._loss._pacer = BurstPacer(max_datagram_size=self.stock._max_datagram_size)
        self.peer = prepared(QuicConnection, is_client=not is_client, **arguments)
        self.source = ADDRESSES[not is_client]
        self._number = 0
        self._events: tuple[list[Any], list[Any]] = ([], [])

    def do(self, operation: Callable[[QuicConnection], object]) -> None:
        """Do something to both; what one refuses, the other must refuse alike."""
        outcomes = []
        for twin in self.both:
            try:
                outcomes.append(repr(operation(twin)))
            except (ValueError, RuntimeError, AssertionError) as error:
                outcomes.append(repr(error))
        assert outcomes[0] == outcomes[1]

    def seal(self, payload: bytes, *, number: int | None = None, flags: int = 0x41) -> bytes:
        """A packet of the peer; with a long packet number if the payload is very short."""
        if len(payload) < 2:
            flags |= 3  # else there are too few bytes for the sample of header protection
        if number is None:
            number = self._number
            self._number += 1
        pair = self.peer._cryptos[Epoch.ONE_RTT]
        flags |= pair.key_phase << 2
        size = (flags & 3) + 1
        low = (number & ((1 << 8 * size) - 1)).to_bytes(size, "big")
        header = bytes([flags]) + self.peer._peer_cid.cid + low
        return pair.encrypt_packet(header, payload, number)

    def feed(self, payload: bytes, *, number: int | None = None, flags: int = 0x41) -> None:
        """Give both a packet with this payload."""
        self.feed_datagram(self.seal(payload, number=number, flags=flags))

    def feed_datagram(self, datagram: bytes, source: Any = None) -> None:
        """Give both the bytes of a datagram."""
        for twin in self.both:
            twin.receive_datagram(datagram, source or self.source, now=self.now)

    def flush(self) -> list[bytes]:
        """Let both send; they must send the same bytes."""
        stock, fast = (twin.datagrams_to_send(now=self.now) for twin in self.both)
        assert stock == fast
        return [data for data, _ in stock]

    def wait(self, seconds: float) -> None:
        """Let time pass, timers included."""
        self.now += seconds
        for twin in self.both:
            timer = twin.get_timer() if twin._close_at is not None else None
            if timer is not None and timer <= self.now:
                twin.handle_timer(now=self.now)

    def check(self) -> list[Any]:
        """Both are alike; gives the events since the last check."""
        for twin, events in zip(self.both, self._events, strict=True):
            while (event := twin.next_event()) is not None:
                events.append(event)
        assert self._events[0] == self._events[1]
        assert portrait(self.stock) == portrait(self.fast)
        events = list(self._events[0])
        for each in self._events:
            each.clear()
        return events
