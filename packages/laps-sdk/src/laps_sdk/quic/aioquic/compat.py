"""Everything private of aioquic 1.7 that the backend reads or changes; nobody else touches it.

:class:`Tuned` is a layer over a connection class (aioquic's own, or the fast path's) that adds:

- receive windows that slide. aioquic doubles its windows for ever, so a peer may send without
  bound what nobody reads. Here a window stays as long as configured, counted from what was
  delivered, and a paused stream gets no more credit (RFC 9000, 4.2);
- as many streams for the peer as configured (aioquic: always 128);
- the name that a client asks for (SNI), which aioquic parses and forgets;
- pinned certificates, checked where aioquic would check the chain;
- probe packets for the path MTU, which aioquic lacks.

It also corrects two faults of aioquic 1.7:

- A FIN without data that meets a full packet is never sent: aioquic removes it from the sender
  before it asks the packet for room. ``_write_stream_frame`` leaves it to the next packet.
- After a Retry or a Version Negotiation packet the client begins again with new packet number
  spaces, but what was in flight before counts as in flight for ever. ``_initialize`` discards it.

:class:`CountingReno` is aioquic's congestion control with a loss counter and a restraint. aioquic
lets the window grow with every acknowledgement, even while the application sends far less than the
window allows. The path has never carried such a window: when the application then uses it,
thousands of packets are lost at once. So the window grows only while at least half of it is in use
(RFC 9002, 7.8).

:class:`BurstPacer` is aioquic's pacer with a bucket for 64 packets. aioquic lets at most 16 packets
go at once and asks for a timer for each packet. Timers of an event loop have a resolution of a
millisecond, in which the fast path sends hundreds of packets. 64 is what one ``sendmsg`` with GSO
takes; the congestion window bounds such bursts in any case (RFC 9002, 7.7).

All private names are listed in ``_NAMES`` and checked at import. Another release of aioquic
therefore fails at import with the list of what is missing, and not within a connection.
"""

from __future__ import annotations

import math
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
"""Of a short header packet, without its connection id: flags, packet number, tag."""

CONGESTION_CONTROL: Final = "laps-reno"
"""New Reno that counts what it lost, and whose window does not outgrow its use."""

BURST = 64
"""The most packets that are built at once."""

_WAKE_PACKETS = 16
_WAKE_SECONDS = 0.001
"""A pause is long enough for this many packets, but not longer than this: a wake-up costs more
than a packet."""

_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "QuicConnection": (
        "_close_event", "_cryptos", "_datagrams_pending", "_events", "_flush_builder",
        "_handshake_confirmed", "_host_cid_seq", "_host_cids", "_initialize", "_local_max_data",
        "_local_max_streams_bidi",
        "_local_max_streams_uni", "_local_next_stream_id_bidi", "_local_next_stream_id_uni",
        "_loss", "_max_datagram_size", "_network_paths", "_on_connection_limit_delivery",
        "_on_max_stream_data_delivery", "_packet_number", "_peer_cid", "_quic_logger",
        "_remote_max_data", "_remote_max_data_used", "_remote_max_datagram_frame_size",
        "_remote_max_streams_bidi", "_remote_max_streams_uni", "_spaces", "_spin_bit", "_state",
        "_streams", "_version", "_write_connection_limits", "_write_stream_limits",
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
    "QuicStreamSender": ("_buffer_stop", "_reset_error_code", "highest_offset"),
    "tls.Context": (
        "_client_handle_certificate_verify", "_peer_certificate", "_server_handle_hello",
    ),
    "QuicLoggerTrace": ("_events",),
}  # fmt: skip


def missing_names() -> list[str]:
    """What this release of aioquic lacks of the names that are used here."""
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
    """Raise if this release of aioquic is not the one that this module was written for."""
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
        """Take a new rate; the bucket holds a burst at any rate."""
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
        """How many packets may go now, at most :data:`BURST`."""
        if self.packet_time is None:
            return BURST
        self.update_bucket(now=now)
        # As aioquic: a packet may go while anything is left, then the bucket is empty.
        return min(BURST, math.ceil(self.bucket_time / self.packet_time))

    def spend(self, packets: int) -> None:
        """Packets were sent."""
        if self.packet_time is not None:
            self.bucket_time = max(0.0, self.bucket_time - packets * self.packet_time)


class CountingReno(RenoCongestionControl):
    """New Reno; also how many packets were lost, and how many of them were larger than 1200."""

    packets_lost = 0
    large_lost = 0
    _peak = 0
    """The most bytes that were in flight at once in the present round trip."""
    _round_began = 0.0
    """A packet that was sent later than this, once acknowledged, begins a new round trip."""

    def on_packet_sent(self, *, packet: QuicSentPacket) -> None:
        """As the parent; remembers how much of the window is used."""
        self.on_bytes_sent(packet.sent_bytes)

    def on_bytes_sent(self, size: int) -> None:
        """The same for a burst of packets: the fast path asks for it."""
        in_flight = self.bytes_in_flight = self.bytes_in_flight + size
        self._peak = max(self._peak, in_flight)

    def on_packet_acked(self, *, now: float, packet: QuicSentPacket) -> None:
        """As the parent if the window is used; otherwise the packet is only counted off."""
        if cast("float", packet.sent_time) > self._round_began:
            self._round_began = now
            self._peak = self.bytes_in_flight
        if self.congestion_window < 2 * self._peak:
            super().on_packet_acked(now=now, packet=packet)
        else:
            self.bytes_in_flight -= packet.sent_bytes

    def on_packets_lost(self, *, now: float, packets: Iterable[QuicSentPacket]) -> None:
        """Count, then as the parent."""
        lost = list(packets)
        self.packets_lost += len(lost)
        self.large_lost += sum(packet.sent_bytes > BASE_SIZE for packet in lost)
        super().on_packets_lost(now=now, packets=lost)


register_congestion_control(CONGESTION_CONTROL, CountingReno)


class Tuned(QuicConnection):
    """See the module. Made with the limits that it grants, and the size that packets may reach."""

    on_probe: Callable[[int, bool], None] | None = None
    """Told the size of each probe and whether it arrived."""
    client_server_name = ""
    """A server: what the client asked for."""

    def __init__(
        self,
        *,
        limits: ConnectionLimits,
        pins: frozenset[bytes] = frozenset(),
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._pins = pins
        self._data_window = limits.max_data
        self._stream_window = limits.max_stream_data
        self._paused: dict[int, int] = {}
        """Streams that get no credit, and what each had received when it was paused."""
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
        """Datagrams arrived from one address: the fast path takes them at once."""
        at_once: Any = getattr(self, "receive_datagrams", None)
        if at_once is not None:
            at_once(datagrams, address, now)
        else:
            for datagram in datagrams:
                self.receive_datagram(datagram, address, now)

    # Figures

    @property
    def ids_made(self) -> int:
        """How many connection ids were made so far; it grows when ``host_ids`` does."""
        return self._host_cid_seq

    @property
    def host_ids(self) -> list[bytes]:
        """The connection ids under which the peer may send, also those it does not know yet."""
        return [each.cid for each in self._host_cids]

    @property
    def server_certificate(self) -> bytes:
        """A client: what the server showed, DER; b"" before."""
        shown = cast("Any", self.tls)._peer_certificate
        return b"" if shown is None else bytes(shown.public_bytes(Encoding.DER))

    @property
    def started(self) -> bool:
        """Whether there is somebody to send to: a server's has seen a good packet."""
        return bool(self._network_paths)

    @property
    def peer_address(self) -> Address | None:
        """Where packets go."""
        return self._network_paths[0].addr if self._network_paths else None

    @property
    def close_event(self) -> Any:
        """Why the connection is closing, None while it is not."""
        return self._close_event

    @property
    def is_draining(self) -> bool:
        """Whether it was the peer who closed."""
        return self._state is QuicConnectionState.DRAINING

    @property
    def rtt(self) -> tuple[float | None, float | None]:
        """The smoothed and the least round-trip time."""
        loss = self._loss
        return (loss._rtt_smoothed, loss._rtt_min) if loss._rtt_initialized else (None, None)

    @property
    def congestion(self) -> tuple[int, int]:
        """Congestion window and bytes in flight."""
        return self._loss.congestion_window, self._loss.bytes_in_flight

    @property
    def lost(self) -> tuple[int, int]:
        """Packets lost: all, and those larger than 1200 bytes."""
        control = cast("CountingReno", self._loss._cc)
        return control.packets_lost, control.large_lost

    @property
    def unanswered_probes(self) -> int:
        """How often in a row the probe timeout has passed (RFC 9002, 6.2)."""
        return self._loss._pto_count

    @property
    def send_window(self) -> int:
        """What congestion control and the connection's flow control let go now."""
        loss = self._loss
        window = loss.congestion_window - loss.bytes_in_flight
        credit = self._remote_max_data - self._remote_max_data_used
        return max(0, min(window, credit))

    def streams_left(self, unidirectional: bool) -> int:
        """How many more streams the peer allows."""
        if unidirectional:
            return self._remote_max_streams_uni - self._local_next_stream_id_uni // 4
        return self._remote_max_streams_bidi - self._local_next_stream_id_bidi // 4

    def backlog(self, stream_id: int) -> int:
        """Bytes of a stream that were in no packet yet."""
        stream = self._streams.get(stream_id)
        if stream is None or stream.sender._reset_error_code is not None:
            return 0
        return stream.sender._buffer_stop - stream.sender.highest_offset

    @property
    def unacknowledged(self) -> frozenset[int]:
        """Our unidirectional streams that have ended, and whose last bytes may still get lost."""
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
        """Bytes of datagrams that wait."""
        return sum(map(len, self._datagrams_pending)) if self._datagrams_pending else 0

    def receiving(self, stream_id: int) -> bool:
        """Whether the peer's half of a stream is not finished."""
        stream = self._streams.get(stream_id)
        return stream is not None and not stream.receiver.is_finished

    @property
    def datagram_room(self) -> int:
        """The longest datagram frame that fits into a packet, and that the peer takes."""
        allowed = self._remote_max_datagram_frame_size
        if not allowed:
            return 0
        room = self._max_datagram_size - _PACKET_OVERHEAD - len(self._peer_cid.cid)
        return min(allowed, room)

    def end_trace(self) -> None:
        """Hand the qlog trace back before the draining period is over."""
        trace, self._quic_logger = self._quic_logger, None
        logger = self._configuration.quic_logger
        if trace is not None and logger is not None:
            logger.end_trace(trace)

    def address_is_valid(self) -> None:
        """The client came back from a Retry: the limit on amplification does not apply."""
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
        """Stop or go on giving credit on a stream."""
        stream = self._streams.get(stream_id)
        if on:
            self._paused.pop(stream_id, None)
        elif stream is not None and not stream.receiver.is_finished:
            self._paused.setdefault(stream_id, stream.receiver.highest_offset)
        # The fast path looks only at streams that it holds for busy.
        busy: Any = getattr(self, "_ready", None)
        if on and stream is not None and busy is not None:
            busy[stream_id] = None

    def _held(self) -> int:
        """Bytes that arrived on paused streams: they are not read, so they give no credit."""
        held = 0
        for stream_id, seen in list(self._paused.items()):
            stream = self._streams.get(stream_id)
            if stream is None or stream.receiver.is_finished:
                del self._paused[stream_id]
            else:
                held += stream.receiver.highest_offset - seen
        return held

    def _data_credit(self) -> int:
        """What MAX_DATA should be: the same as now, unless half of the window is used."""
        data = self._local_max_data
        window = self._data_window
        if (data.value - data.used) * 2 >= window:
            return data.value
        credit = data.used + window - (self._held() if self._paused else 0)
        return credit if (credit - data.value) * 4 >= window else data.value

    def _limits_due(self) -> bool:
        """Whether ``_write_connection_limits`` would write a frame; the fast path asks."""
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
        """MAX_DATA and MAX_STREAMS, as the parent but for the window that slides."""
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
        """MAX_STREAM_DATA, with a window that slides; none for streams of which no more comes."""
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
        """Whether a probe packet makes sense now: the path answers, and is the one in use."""
        return (
            self._handshake_confirmed
            and self._state is QuicConnectionState.CONNECTED
            and self._close_event is None
            and self._loss._pto_count == 0
            and self._network_paths[0].is_validated
        )

    def send_probe(self, size: int, now: float) -> list[tuple[bytes, Address]]:
        """A packet of PING and PADDING with ``size`` bytes, outside of congestion control."""
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
        # Losing a probe says nothing about congestion (RFC 9000, 14.4).
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
