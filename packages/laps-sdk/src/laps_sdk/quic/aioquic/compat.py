"""All private names of aioquic 1.7 that the backend uses or changes; no other module uses them.

:class:`Tuned` is a layer over a connection class (aioquic's own, or the fast path's). It adds:

- Sliding receive windows. aioquic doubles its windows without bound, so a peer may send without
  bound what nobody reads. ``Tuned`` keeps the configured window, counted from the delivered bytes.
  A paused stream gets no more credit (RFC 9000, 4.2).
- The configured number of streams for the peer (aioquic: always 128).
- The server name of the client (SNI), which aioquic parses and discards.
- Pinned certificates, checked at the time when aioquic would check the chain.
- Probe packets for the path MTU, which aioquic lacks.
- Tokens of stateless resets from a key that outlives the process (aioquic: random).

It also corrects two faults of aioquic 1.7:

- A FIN without data that meets a full packet is never sent. aioquic removes it from the sender
  before it asks the packet for room. ``_write_stream_frame`` leaves it to the next packet.
- After a Retry or a Version Negotiation packet, the client begins again with new packet number
  spaces. It counts the earlier packets as in flight for ever. ``_initialize`` discards them.

:class:`CountingReno` is aioquic's congestion control with a loss counter and a limit on growth.
aioquic grows the window with every acknowledgement, even if the application sends much less than
the window allows. The path has never carried such a window, so using it later loses thousands of
packets at once. The window therefore grows only while at least half of it is in use
(RFC 9002, 7.8).

:class:`BurstPacer` is aioquic's pacer with a bucket for 64 packets. aioquic sends at most 16
packets at once and asks for a timer for each packet. Timers of an event loop have a resolution of a
millisecond, in which the fast path sends hundreds of packets. One ``sendmsg`` with GSO takes 64
packets. The congestion window also bounds such bursts (RFC 9002, 7.7).

``_NAMES`` lists all private names, and the module checks them at import. So another release of
aioquic fails at import, with the list of missing names, and not within a connection.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from typing import Any, Final, cast

from aioquic import tls
from aioquic.buffer import size_uint_var
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.congestion.base import register_congestion_control
from aioquic.quic.congestion.reno import RenoCongestionControl
from aioquic.quic.connection import (
    CONNECTION_LIMIT_FRAME_CAPACITY,
    MAX_STREAM_DATA_FRAME_CAPACITY,
    QuicConnection,
    QuicConnectionState,
    QuicNetworkPath,
)
from aioquic.quic.logger import QuicLoggerTrace
from aioquic.quic.packet import QuicFrameType, QuicPacketType
from aioquic.quic.packet_builder import (
    QuicDeliveryState,
    QuicPacketBuilder,
    QuicPacketBuilderStop,
    QuicSentPacket,
)
from aioquic.quic.recovery import QuicPacketPacer, QuicPacketSpace
from aioquic.quic.stream import QuicStream
from cryptography.hazmat.primitives.serialization import Encoding

from laps_sdk.errors import TransportError
from laps_sdk.quic import library
from laps_sdk.quic.aioquic.path_mtu import BASE_SIZE
from laps_sdk.quic.base import Address, ConnectionLimits
from laps_sdk.quic.library import watch_handshake

__all__ = [
    "BURST",
    "CONGESTION_CONTROL",
    "BurstPacer",
    "CountingReno",
    "Tuned",
    "check",
    "missing_names",
]

_PACKET_OVERHEAD: Final = 1 + 2 + 16
"""Bytes of a short header packet without its connection id: flags, packet number, tag."""

CONGESTION_CONTROL: Final = "laps-reno"
"""New Reno with a loss counter, whose window does not outgrow its use."""

BURST = 64
"""The most packets that are built at once."""

_WAKE_PACKETS = 16
_WAKE_SECONDS = 0.001
"""A pause lasts for ``_WAKE_PACKETS`` packets but at most this long, because a wake-up costs
more than a packet.
"""

_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "QuicConnection": (
        "_close_event", "_cryptos", "_datagrams_pending", "_events", "_flush_builder",
        "_handshake_confirmed", "_host_cid_seq", "_host_cids", "_initialize", "_local_max_data",
        "_consume_peer_cid", "_local_max_streams_bidi",
        "_local_max_streams_uni", "_local_next_stream_id_bidi", "_local_next_stream_id_uni",
        "_loss", "_max_datagram_size", "_network_paths", "_on_connection_limit_delivery",
        "_on_max_stream_data_delivery", "_packet_number", "_peer_cid", "_quic_logger",
        "_remote_max_data", "_remote_max_data_used", "_remote_max_datagram_frame_size",
        "_remote_max_streams_bidi", "_remote_max_streams_uni", "_replenish_connection_ids",
        "_spaces", "_spin_bit", "_state", "_streams", "_use_reserved_peer_cid", "_version",
        "_write_connection_limits", "_write_stream_limits",
    ),
    "QuicPacketRecovery": (
        "_cc", "_pacer", "_pto_count", "_rtt_initialized", "_rtt_min", "_rtt_smoothed",
        "bytes_in_flight", "congestion_window",
    ),
    "QuicPacketPacer": ("_max_datagram_size",),
    "RenoCongestionControl": ("_max_datagram_size", "on_packets_lost"),
    "QuicPacketBuilder": ("_datagram_needs_padding",),
    "QuicStream": (
        "max_stream_data_local", "max_stream_data_local_sent", "receiver", "sender",
    ),
    "QuicStreamReceiver": ("_buffer_start", "highest_offset", "is_finished", "stop_pending"),
    "QuicStreamSender": ("_buffer_start", "_buffer_stop", "_reset_error_code", "highest_offset"),
    "tls.Context": (
        "_client_handle_certificate_verify", "_peer_certificate", "_server_handle_hello",
    ),
    "QuicLoggerTrace": ("_events",),
}  # fmt: skip


def missing_names() -> list[str]:
    """Return the used names that the installed aioquic lacks."""
    configuration = QuicConfiguration(is_client=True)
    connection = QuicConnection(configuration=configuration)
    stream = QuicStream(stream_id=0)
    samples: dict[str, object] = {
        "QuicConnection": connection,
        "QuicPacketRecovery": getattr(connection, "_loss", None),
        "QuicPacketPacer": QuicPacketPacer(max_datagram_size=BASE_SIZE),
        "RenoCongestionControl": RenoCongestionControl(max_datagram_size=BASE_SIZE),
        "QuicPacketBuilder": QuicPacketBuilder(
            host_cid=b"", peer_cid=b"", version=1, is_client=True, max_datagram_size=BASE_SIZE
        ),
        "QuicStream": stream,
        "QuicStreamReceiver": getattr(stream, "receiver", None),
        "QuicStreamSender": getattr(stream, "sender", None),
        "tls.Context": tls.Context(is_client=True),
        "QuicLoggerTrace": QuicLoggerTrace(is_client=True, odcid=b""),
    }
    return library.missing_names(_NAMES, samples)


def check() -> None:
    """Raise ``TransportError`` if the installed aioquic lacks a used name."""
    missing = missing_names()
    if missing:
        raise TransportError(
            f"aioquic {version('aioquic')} lacks {', '.join(missing)}; "
            "the transport needs aioquic>=1.7,<1.8"
        )


check()


class BurstPacer(QuicPacketPacer):
    """A token bucket of :data:`BURST` packets."""

    def update_rate(self, congestion_window: int, smoothed_rtt: float) -> None:
        """Set a new rate; the bucket holds a burst at any rate."""
        super().update_rate(congestion_window=congestion_window, smoothed_rtt=smoothed_rtt)
        if self.packet_time is not None:
            self.bucket_max = BURST * self.packet_time

    def next_send_time(self, now: float) -> float:
        """Return :meth:`pause_end` to aioquic, whose own annotation lacks the None."""
        return cast("float", self.pause_end(now))

    def pause_end(self, now: float) -> float | None:
        """Return when to send again if the bucket is empty; None if it is not."""
        if self.packet_time is None:
            return None
        self.update_bucket(now=now)
        if self.bucket_time > 0:
            return None
        pause = min(_WAKE_PACKETS * self.packet_time, _WAKE_SECONDS)
        return now + max(pause, self.packet_time)

    def allowance(self, now: float) -> int:
        """Return how many packets may be sent now, at most :data:`BURST`."""
        if self.packet_time is None:
            return BURST
        self.update_bucket(now=now)
        # As aioquic: a packet may go while anything is left, then the bucket is empty.
        return min(BURST, math.ceil(self.bucket_time / self.packet_time))

    def spend(self, packets: int) -> None:
        """Take sent packets out of the bucket."""
        if self.packet_time is not None:
            self.bucket_time = max(0.0, self.bucket_time - packets * self.packet_time)


class CountingReno(RenoCongestionControl):
    """New Reno that counts lost packets, and lost packets larger than 1200 bytes."""

    packets_lost = 0
    large_lost = 0
    _peak = 0
    """The most bytes in flight at once in the present round trip."""
    _round_began = 0.0
    """The acknowledgement of a packet sent later than this begins a new round trip."""

    def on_packet_sent(self, *, packet: QuicSentPacket) -> None:
        """Count a packet like the parent, and record how much of the window is used."""
        self.on_bytes_sent(packet.sent_bytes)

    def on_bytes_sent(self, size: int) -> None:
        """Count a burst of packets; the fast path calls this once a burst."""
        in_flight = self.bytes_in_flight = self.bytes_in_flight + size
        self._peak = max(self._peak, in_flight)

    def on_packet_acked(self, *, now: float, packet: QuicSentPacket) -> None:
        """Grow the window like the parent if it is used; otherwise only count the packet."""
        if (packet.sent_time or 0.0) > self._round_began:
            self._round_began = now
            self._peak = self.bytes_in_flight
        if self.congestion_window < 2 * self._peak:
            super().on_packet_acked(now=now, packet=packet)
        else:
            self.bytes_in_flight -= packet.sent_bytes

    def on_packets_lost(self, *, now: float, packets: Iterable[QuicSentPacket]) -> None:
        """Count lost packets, then act like the parent."""
        lost = list(packets)
        self.packets_lost += len(lost)
        self.large_lost += sum(packet.sent_bytes > BASE_SIZE for packet in lost)
        super().on_packets_lost(now=now, packets=lost)


register_congestion_control(CONGESTION_CONTROL, CountingReno)


class Tuned(QuicConnection):
    """A connection of aioquic with the additions and corrections of the module."""

    on_probe: Callable[[int, bool], None] | None = None
    """Called with the size of each probe and whether it was acknowledged."""
    client_server_name = ""
    """On a server, the name that the client asked for."""

    def __init__(
        self,
        *,
        limits: ConnectionLimits,
        pins: frozenset[bytes] = frozenset(),
        reset_token: Callable[[bytes], bytes] = lambda _: os.urandom(16),
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._pins = pins
        self._reset_token = reset_token
        self._peer_ids_used = 0
        if not self._is_client:
            self._host_cids[0].stateless_reset_token = reset_token(self.host_cid)
        self._data_window = limits.max_data
        self._stream_window = limits.max_stream_data
        self.withheld = 0
        """Bytes that arrived and give the peer no credit yet."""
        self._paused: set[int] = set()
        """Streams without credit."""
        self._purge_at = 64
        for limit, value in (
            (self._local_max_streams_bidi, limits.max_streams_bidi),
            (self._local_max_streams_uni, limits.max_streams_uni),
        ):
            limit.value = limit.sent = value
        if type(self._loss._pacer) is QuicPacketPacer:
            self._loss._pacer = BurstPacer(max_datagram_size=self._max_datagram_size)

    def _initialize(self, peer_cid: bytes) -> None:
        for space in self._loss.spaces:
            self._loss.discard_space(space)
        super()._initialize(peer_cid)
        context = cast("Any", self.tls)
        watch_handshake(
            context,
            tls,
            pins=self._pins,
            leaf=lambda: context._peer_certificate,
            on_server_name=None if self._is_client else self._server_name_read,
        )

    def _server_name_read(self, name: str) -> None:
        self.client_server_name = name

    def receive_all(self, datagrams: Sequence[bytes], address: Address, now: float) -> None:
        """Process datagrams from one address; the fast path takes them in one call."""
        at_once: Any = getattr(self, "receive_datagrams", None)
        if at_once is not None:
            at_once(datagrams, address, now)
        else:
            for datagram in datagrams:
                self.receive_datagram(datagram, address, now)

    # Connection ids and their reset tokens

    def _replenish_connection_ids(self) -> None:
        before = len(self._host_cids)
        super()._replenish_connection_ids()
        for made in self._host_cids[before:]:
            made.stateless_reset_token = self._reset_token(made.cid)

    def _consume_peer_cid(self) -> None:
        super()._consume_peer_cid()
        self._peer_ids_used += 1

    def _use_reserved_peer_cid(self, network_path: QuicNetworkPath) -> None:
        super()._use_reserved_peer_cid(network_path)
        self._peer_ids_used += 1

    @property
    def peer_reset_token(self) -> bytes:
        """The reset token of the id that packets are sent to; b"" if there is none."""
        return self._peer_cid.stateless_reset_token or b""

    @property
    def id_changes(self) -> int:
        """A number that grows when ``host_ids`` or ``peer_reset_token`` changes."""
        return self._host_cid_seq + self._peer_ids_used

    @property
    def host_ids(self) -> list[bytes]:
        """The connection ids that the peer may send to, including those not announced yet."""
        return [each.cid for each in self._host_cids]

    # Figures

    @property
    def server_certificate(self) -> bytes:
        """On a client, the server's certificate in DER; b"" before it is known."""
        shown = cast("Any", self.tls)._peer_certificate
        return b"" if shown is None else bytes(shown.public_bytes(Encoding.DER))

    @property
    def started(self) -> bool:
        """Whether there is a path to send on; a server has one after its first valid packet."""
        return bool(self._network_paths)

    @property
    def peer_address(self) -> Address | None:
        """The address that packets are sent to; None before there is a path."""
        return self._network_paths[0].addr if self._network_paths else None

    @property
    def close_event(self) -> Any:
        """The event with the reason of the close; None while the connection is open."""
        return self._close_event

    @property
    def is_draining(self) -> bool:
        """Whether the peer closed the connection."""
        return self._state is QuicConnectionState.DRAINING

    @property
    def rtt(self) -> tuple[float | None, float | None]:
        """The smoothed and the least round-trip time; None before the first measurement."""
        loss = self._loss
        return (loss._rtt_smoothed, loss._rtt_min) if loss._rtt_initialized else (None, None)

    @property
    def congestion(self) -> tuple[int, int]:
        """The congestion window and the bytes in flight."""
        return self._loss.congestion_window, self._loss.bytes_in_flight

    @property
    def lost(self) -> tuple[int, int]:
        """Lost packets: all, and those larger than 1200 bytes."""
        control = cast("CountingReno", self._loss._cc)
        return control.packets_lost, control.large_lost

    @property
    def unanswered_probes(self) -> int:
        """How often in a row the probe timeout has expired (RFC 9002, 6.2)."""
        return self._loss._pto_count

    @property
    def send_window(self) -> int:
        """The bytes that congestion control and the connection's flow control allow now."""
        loss = self._loss
        window = loss.congestion_window - loss.bytes_in_flight
        credit = self._remote_max_data - self._remote_max_data_used
        return max(0, min(window, credit))

    def streams_left(self, unidirectional: bool) -> int:
        """Return how many more streams the peer allows."""
        if unidirectional:
            return self._remote_max_streams_uni - self._local_next_stream_id_uni // 4
        return self._remote_max_streams_bidi - self._local_next_stream_id_bidi // 4

    def backlog(self, stream_id: int) -> int:
        """Return the bytes of a stream that were in no packet yet."""
        stream = self._streams.get(stream_id)
        if stream is None or stream.sender._reset_error_code is not None:
            return 0
        return stream.sender._buffer_stop - stream.sender.highest_offset

    def unacknowledged_bytes(self, stream_id: int) -> int:
        """Return the bytes of a stream that were not acknowledged."""
        stream = self._streams.get(stream_id)
        if stream is None or stream.sender._reset_error_code is not None:
            return 0
        return stream.sender._buffer_stop - stream.sender._buffer_start

    @property
    def unacknowledged(self) -> frozenset[int]:
        """Our unidirectional streams that ended and are not acknowledged completely."""
        ours = 2 if self._is_client else 3
        return frozenset(
            stream_id
            for stream_id, stream in self._streams.items()
            if stream_id & 3 == ours
            and (sender := stream.sender)._buffer_fin is not None
            and sender._reset_error_code is None
            and not sender.is_finished
        )

    @property
    def unacknowledged_bidirectional(self) -> bool:
        """Whether bytes of bidirectional streams have not been acknowledged."""
        return any(
            sender._buffer_start < sender._buffer_stop and sender._reset_error_code is None
            for stream_id, stream in self._streams.items()
            if not stream_id & 2
            for sender in (stream.sender,)
        )

    @property
    def datagram_backlog(self) -> int:
        """Bytes of queued datagrams."""
        return sum(map(len, self._datagrams_pending)) if self._datagrams_pending else 0

    def receiving(self, stream_id: int) -> bool:
        """Return whether the peer's half of a stream is not finished."""
        stream = self._streams.get(stream_id)
        return stream is not None and not stream.receiver.is_finished

    @property
    def datagram_room(self) -> int:
        """The longest DATAGRAM frame that fits into a packet and that the peer accepts."""
        allowed = self._remote_max_datagram_frame_size
        if not allowed:
            return 0
        room = self._max_datagram_size - _PACKET_OVERHEAD - len(self._peer_cid.cid)
        return min(allowed, room)

    def end_trace(self) -> None:
        """Hand the qlog trace back before the draining period ends."""
        trace, self._quic_logger = self._quic_logger, None
        logger = self._configuration.quic_logger
        if trace is not None and logger is not None:
            logger.end_trace(trace)

    def address_is_valid(self) -> None:
        """Lift the amplification limit, because the client answered a Retry."""
        if self._network_paths:
            self._network_paths[0].is_validated = True

    # Faults of aioquic

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

    # Receive windows

    def set_reading(self, stream_id: int, on: bool) -> None:
        """Extend the flow control of a stream, or stop extending it."""
        stream = self._streams.get(stream_id)
        if on:
            self._paused.discard(stream_id)
        elif stream is not None and not stream.receiver.is_finished:
            self._paused.add(stream_id)
            if len(self._paused) > self._purge_at:
                self._paused = {each for each in self._paused if self.receiving(each)}
                self._purge_at = 64 + 2 * len(self._paused)
        # The fast path looks only at streams in its ready queue.
        busy: Any = getattr(self, "_ready", None)
        if on and stream is not None and busy is not None:
            busy[stream_id] = None

    def _data_credit(self) -> int:
        """Return the value for MAX_DATA, unchanged until half of the window is used."""
        data = self._local_max_data
        window = self._data_window
        if (data.value - data.used) * 2 >= window:
            return data.value
        credit = data.used + window - self.withheld
        return credit if (credit - data.value) * 4 >= window else data.value

    def _limits_due(self) -> bool:
        """Return whether ``_write_connection_limits`` would write a frame, for the fast path."""
        data = self._local_max_data
        if data.value != data.sent or self._data_credit() != data.value:
            return True
        return any(
            limit.sent - limit.used < limit.value - limit.sent
            for limit in (self._local_max_streams_uni, self._local_max_streams_bidi)
        )

    def _write_connection_limits(
        self,
        builder: QuicPacketBuilder,
        space: QuicPacketSpace,  # noqa: ARG002 - overrides
    ) -> None:
        """Write MAX_DATA and MAX_STREAMS like the parent, with a sliding window."""
        data = self._local_max_data
        data.value = max(data.value, self._data_credit())
        for limit in (data, self._local_max_streams_bidi, self._local_max_streams_uni):
            # MAX_STREAMS waits until it gives more than the peer has left.
            if limit.value == limit.sent or (
                limit is not data and limit.sent - limit.used >= limit.value - limit.sent
            ):
                continue
            buffer = builder.start_frame(
                limit.frame_type,
                capacity=CONNECTION_LIMIT_FRAME_CAPACITY,
                handler=self._on_connection_limit_delivery,
                handler_args=(limit,),
            )
            buffer.push_uint_var(limit.value)
            limit.sent = limit.value
            if self._quic_logger is not None and builder.quic_logger_frames is not None:
                builder.quic_logger_frames.append(
                    self._quic_logger.encode_connection_limit_frame(
                        frame_type=limit.frame_type, maximum=limit.value
                    )
                )

    def _write_stream_limits(
        self,
        builder: QuicPacketBuilder,
        space: QuicPacketSpace,  # noqa: ARG002 - overrides
        stream: QuicStream,
    ) -> None:
        """Write MAX_STREAM_DATA with a sliding window, unless the stream is finished."""
        limit = stream.max_stream_data_local
        receiver = stream.receiver
        if not limit or receiver.is_finished:
            return
        window = self._stream_window
        delivered = receiver._buffer_start
        if (limit - delivered) * 2 < window and stream.stream_id not in self._paused:
            stream.max_stream_data_local = limit = delivered + window
        if stream.max_stream_data_local_sent == limit:
            return
        buffer = builder.start_frame(
            QuicFrameType.MAX_STREAM_DATA,
            capacity=MAX_STREAM_DATA_FRAME_CAPACITY,
            handler=self._on_max_stream_data_delivery,
            handler_args=(stream,),
        )
        stream_id = cast("int", stream.stream_id)
        buffer.push_uint_var(stream_id)
        buffer.push_uint_var(limit)
        stream.max_stream_data_local_sent = limit
        if self._quic_logger is not None and builder.quic_logger_frames is not None:
            builder.quic_logger_frames.append(
                self._quic_logger.encode_max_stream_data_frame(maximum=limit, stream_id=stream_id)
            )

    # Path MTU

    @property
    def may_probe(self) -> bool:
        """Whether a probe packet makes sense now: the path answers and is the active one."""
        return (
            self._handshake_confirmed
            and self._state is QuicConnectionState.CONNECTED
            and self._close_event is None
            and self._loss._pto_count == 0
            and self._network_paths[0].is_validated
        )

    def send_probe(self, size: int, now: float) -> list[tuple[bytes, Address]]:
        """Return a packet of PING and PADDING with ``size`` bytes, outside congestion control."""
        path = self._network_paths[0]
        builder = QuicPacketBuilder(
            host_cid=self.host_cid,
            is_client=self._is_client,
            max_datagram_size=size,
            packet_number=self._packet_number,
            peer_cid=self._peer_cid.cid,
            quic_logger=self._quic_logger,
            spin_bit=self._spin_bit,
            version=cast("int", self._version),
        )
        number = self._packet_number
        try:
            builder.start_packet(QuicPacketType.ONE_RTT, self._cryptos[tls.Epoch.ONE_RTT])
            builder.start_frame(
                QuicFrameType.PING, handler=self._on_probe_delivery, handler_args=(size,)
            )
        except QuicPacketBuilderStop:  # pragma: no cover - an empty packet has room for a PING
            return []
        builder._datagram_needs_padding = True
        datagrams = self._flush_builder(
            builder=builder, network_path=path, peer_cid=self._peer_cid.cid, now=now
        )
        packet = self._spaces[tls.Epoch.ONE_RTT].sent_packets[number]
        # A lost probe is no sign of congestion (RFC 9000, 14.4).
        packet.in_flight = False
        self._loss._cc.bytes_in_flight -= packet.sent_bytes
        return datagrams

    def _on_probe_delivery(self, delivery: QuicDeliveryState, size: int) -> None:
        if self.on_probe is not None:
            self.on_probe(size, delivery is QuicDeliveryState.ACKED)

    def set_packet_size(self, size: int) -> None:
        """Build packets of this size from now on."""
        self._max_datagram_size = size
        cast("CountingReno", self._loss._cc)._max_datagram_size = size
        self._loss._pacer._max_datagram_size = size
        # A datagram that fits no packet any more would keep all behind it waiting.
        room = self.datagram_room - 3
        waiting = self._datagrams_pending
        if any(len(data) > room for data in waiting):
            self._datagrams_pending = deque(data for data in waiting if len(data) <= room)
