"""Checks that the installed aioquic fits the fast path, and that both make the same packets.

Private names may change in any release. So before the fast path is used:

1. The version must be 1.7.*.
2. Methods that are called or overridden must exist with the parameters that the fast path passes.
   Objects must have the attributes that it reads and writes.
3. A known-answer test: a stock and a fast connection with the same keys send the same stream and
   datagrams. Their packets must be equal, byte by byte. Stock and fast peers must read the same
   from them and answer with equal ACKs, which both senders must accept.

The check takes some milliseconds, once, without a handshake. It returns a fault and does not raise:
the caller then uses the stock class.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, TypeVar

import aioquic
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import (
    QuicConnection,
    QuicConnectionId,
    QuicConnectionState,
    QuicNetworkPath,
)
from aioquic.quic.events import DatagramFrameReceived, StreamDataReceived
from aioquic.quic.packet import QuicProtocolVersion
from aioquic.quic.packet_builder import QuicPacketBuilder, QuicSentPacket
from aioquic.quic.rangeset import RangeSet
from aioquic.quic.recovery import MAX_ACK_RANGES, QuicPacketPacer, QuicPacketRecovery
from aioquic.quic.stream import QuicStreamReceiver, QuicStreamSender
from aioquic.tls import CipherSuite, Epoch

from laps_sdk.quic.aioquic.fast.connection import FastQuicConnection
from laps_sdk.quic.aioquic.fast.frames import FrameCollector, SentPacket
from laps_sdk.quic.aioquic.fast.streams import FastStream, Ready

__all__ = ["ADDRESSES", "fault", "prepared"]

_Kind = TypeVar("_Kind", bound=QuicConnection)

ADDRESSES = {True: ("192.0.2.1", 1), False: ("192.0.2.2", 2)}
"""The addresses of a client and a server."""

_IDS = {True: b"client-0", False: b"server-0"}
_LIMIT = 1 << 20

VERSIONS = "1.7."

METHODS: dict[type, dict[str, str]] = {
    QuicConnection: {
        "_assert_stream_can_receive": "frame_type stream_id",
        "_get_or_create_stream": "frame_type stream_id",
        "_get_or_create_stream_for_send": "stream_id",
        "_handle_max_data_frame": "context frame_type buf",
        "_handle_max_stream_data_frame": "context frame_type buf",
        "_idle_timeout": "",
        "_on_ack_delivery": "delivery space highest_acked",
        "_on_max_stream_data_delivery": "delivery stream",
        "_payload_received": "context plain crypto_frame_required",
        "_stream_limit": "stream_id",
        "_unblock_streams": "is_unidirectional",
        "_write_ack_frame": "builder space now",
        "_write_connection_limits": "builder space",
        "_write_reset_stream_frame": "builder stream",
        "_write_stop_sending_frame": "builder stream",
        "_write_stream_frame": "builder space stream max_offset",
        "_write_stream_limits": "builder space stream",
        "close": "error_code frame_type reason_phrase",
        "datagrams_to_send": "now",
        "get_timer": "",
        "receive_datagram": "data addr now",
        "send_stream_data": "stream_id data end_stream",
    },
    QuicPacketBuilder: {"start_frame": "frame_type capacity handler handler_args"},
    QuicPacketPacer: {
        "next_send_time": "now",
        "update_bucket": "now",
        "update_rate": "congestion_window smoothed_rtt",
    },
    QuicPacketRecovery: {
        "get_probe_timeout": "include_max_ack_delay",
        "on_ack_received": "ack_rangeset ack_delay now space",
    },
    QuicStreamReceiver: {
        "__init__": "stream_id readable",
        "handle_frame": "frame",
        "handle_reset": "final_size error_code",
        "on_stop_sending_delivery": "delivery",
        "stop": "error_code",
    },
    QuicStreamSender: {
        "__init__": "stream_id writable",
        "on_data_delivery": "delivery start stop fin",
        "on_reset_delivery": "delivery",
        "reset": "error_code",
        "write": "data end_stream",
    },
}
"""Methods and their parameters after ``self``."""

CONNECTION = """
_ack_delay _ack_eliciting_sent_since_receipt _close_at _close_pending _configuration
_crypto_streams _cryptos _datagrams_pending _events _handshake_confirmed _handshake_done_pending
_host_cids _is_client _local_ack_delay_exponent _local_max_data _local_max_stream_data_bidi_remote
_local_max_stream_data_uni _local_max_streams_bidi _local_max_streams_uni
_local_next_stream_id_uni _logger _loss _loss_at _max_datagram_size _network_paths _pacing_at
_packet_number _peer_cid _ping_pending _probe_pending _quic_logger _remote_ack_delay_exponent
_remote_max_data _remote_max_data_used _remote_max_stream_data_bidi_local
_remote_max_stream_data_uni _remote_max_streams_uni _remote_preferred_address
_retire_connection_ids _spaces _spin_bit _spin_highest_pn _state _streams _streams_blocked_bidi
_streams_blocked_pending _streams_blocked_uni _streams_queue host_cid
"""
RECOVERY = "_cc _pacer _pto_count _time_of_last_sent_ack_eliciting_packet"
SPACE = """
ack_at ack_eliciting_in_flight ack_queue expected_packet_number largest_received_packet
largest_received_time loss_time received_packets sent_packets
"""
WINDOW = "_lower _received _size"
PACER = "bucket_max bucket_time packet_time"
PAIR = "_update_key_requested recv send"
CONTEXT = "aead cipher_suite hp key_phase"
PATH = "addr bytes_sent is_validated local_challenge_sent remote_challenges"
LIMIT = "sent used value"
STREAM = """
is_blocked max_stream_data_local max_stream_data_local_sent max_stream_data_remote receiver sender
stream_id
"""
SENDER = """
_acked _acked_fin _buffer _buffer_fin _buffer_start _buffer_stop _pending _pending_eof
_reset_error_code _stream_id buffer_is_empty highest_offset is_finished reset_pending
"""
RECEIVER = "_buffer _buffer_start _final_size _stream_id highest_offset is_finished stop_pending"


def fault() -> str:
    """Return what is wrong with the installed aioquic; "" if nothing is."""
    version = getattr(aioquic, "__version__", "unknown")
    if not version.startswith(VERSIONS):
        return f"aioquic {version} is installed, the fast path knows {VERSIONS}*"
    try:
        return next(_faults(), "")
    except (
        ArithmeticError,
        AssertionError,
        AttributeError,
        LookupError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        return f"the self-check stopped: {type(error).__name__}: {error}"


def _faults() -> Iterator[str]:
    yield from _missing_methods()
    yield from _missing_attributes()
    for suite in (CipherSuite.AES_128_GCM_SHA256, CipherSuite.AES_256_GCM_SHA384):
        yield from _wrong_answers(suite)


def _missing_methods() -> Iterator[str]:
    for owner, methods in METHODS.items():
        for name, parameters in methods.items():
            method = getattr(owner, name, None)
            if method is None:
                yield f"{owner.__name__}.{name} is gone"
                continue
            found = " ".join(list(inspect.signature(method).parameters)[1:])
            if found != parameters:
                yield f"{owner.__name__}.{name} takes ({found}), not ({parameters})"


def _missing_attributes() -> Iterator[str]:
    connection = prepared(QuicConnection, is_client=True, now=0.0)
    connection.send_stream_data(0, b"x")
    stream = connection._streams[0]
    space = connection._spaces[Epoch.ONE_RTT]
    pair = connection._cryptos[Epoch.ONE_RTT]
    looked_at: list[tuple[object, str]] = [
        (connection, CONNECTION),
        (connection._loss, RECOVERY),
        (connection._loss._cc, "bytes_in_flight congestion_window on_packet_sent"),
        (connection._loss._pacer, PACER),
        (space, SPACE),
        (space.received_packets, WINDOW),
        (pair, PAIR),
        (pair.send, CONTEXT),
        (pair.send.aead, "_aead _iv"),
        (pair.send.hp, "_encryptor"),
        (connection._network_paths[0], PATH),
        (connection._local_max_data, LIMIT),
        (stream, STREAM),
        (stream.sender, SENDER),
        (stream.receiver, RECEIVER),
        (RangeSet(), "_RangeSet__ranges"),
        (SentPacket(0, 0.0, 0, (), True), " ".join(QuicSentPacket.__dataclass_fields__)),
        (FastStream(0, 0, 0, (True, True), Ready()), " ".join(vars(stream))),
        (FrameCollector(), "packet_number quic_logger_frames remaining_buffer_space"),
    ]
    if space.received_packets._size != 2 * MAX_ACK_RANGES:
        yield "QuicPacketNumberWindow has another size"
    for thing, names in looked_at:
        for name in names.split():
            if not hasattr(thing, name):
                yield f"{type(thing).__name__}.{name} is gone"


def _wrong_answers(suite: CipherSuite) -> Iterator[str]:
    """Yield how packets or events of the two classes differ, in both roles."""
    now = 1000.0
    data = bytes(range(256)) * 20
    senders: list[QuicConnection] = [
        prepared(QuicConnection, is_client=True, now=now, suite=suite),
        prepared(FastQuicConnection, is_client=True, now=now, suite=suite),
    ]
    receivers: list[QuicConnection] = [
        prepared(QuicConnection, is_client=False, now=now, suite=suite),
        prepared(FastQuicConnection, is_client=False, now=now, suite=suite),
    ]
    for sender in senders:
        sender.send_datagram_frame(b"datagram")
        sender.send_stream_data(2, data, end_stream=True)
    sent = _common([sender.datagrams_to_send(now=now) for sender in senders])
    if sent is None:
        yield f"{suite.name}: packets differ from those of the stock class"
        return
    for receiver in receivers:
        for packet, _ in sent:
            receiver.receive_datagram(packet, ADDRESSES[True], now=now)
    expected = b"".join([b"datagram", data])
    for receiver in receivers:
        got = b""
        while (event := receiver.next_event()) is not None:
            if isinstance(event, DatagramFrameReceived | StreamDataReceived):
                got += event.data
        if got != expected:
            yield f"{suite.name}: {type(receiver).__name__} did not read what was sent"
    now += 0.1
    answers = _common([receiver.datagrams_to_send(now=now) for receiver in receivers])
    if answers is None:
        yield f"{suite.name}: acknowledgements differ from those of the stock class"
        return
    for sender in senders:
        for packet, _ in answers:
            sender.receive_datagram(packet, ADDRESSES[False], now=now)
        sender.datagrams_to_send(now=now)
        if sender._loss.bytes_in_flight or sender._streams:
            yield f"{suite.name}: {type(sender).__name__} did not take the acknowledgements"


def _common(both: list[list[Any]]) -> list[Any] | None:
    """Return the equal result of both classes; None if they differ or have none."""
    return both[0] if both[0] == both[1] and both[0] else None


def prepared(
    kind: type[_Kind],
    *,
    is_client: bool,
    now: float,
    suite: CipherSuite = CipherSuite.AES_128_GCM_SHA256,
    **options: Any,
) -> _Kind:
    """Return a connection in the state after its handshake, without a handshake.

    Its peer is ``prepared`` with the other role. Keys, ids and limits are fixed, so connections of
    two classes build the same packets; after real handshakes the keys would differ.
    """
    configuration = QuicConfiguration(
        is_client=is_client, max_datagram_frame_size=65536, max_data=_LIMIT, **options
    )
    arguments: dict[str, Any] = {"configuration": configuration}
    if not is_client:
        # No handshake uses them, but the constructor requires them.
        configuration.certificate = object()
        configuration.private_key = object()
        arguments["original_destination_connection_id"] = bytes(8)
    connection = kind(**arguments)
    connection._version = QuicProtocolVersion.VERSION_1
    connection._host_cids[0].cid = connection.host_cid = _IDS[is_client]
    connection._initialize(bytes(8))
    connection._peer_cid = QuicConnectionId(cid=_IDS[not is_client], sequence_number=0)
    connection._network_paths = [QuicNetworkPath(ADDRESSES[not is_client], is_validated=True)]
    size = 48 if suite is CipherSuite.AES_256_GCM_SHA384 else 32
    keys = connection._cryptos[Epoch.ONE_RTT]
    for context, sender in ((keys.send, is_client), (keys.recv, not is_client)):
        context.setup(
            cipher_suite=suite,
            secret=bytes([1 + sender]) * size,
            version=QuicProtocolVersion.VERSION_1,
        )
    connection._remote_max_data = _LIMIT
    connection._remote_max_stream_data_bidi_local = _LIMIT
    connection._remote_max_stream_data_bidi_remote = _LIMIT
    connection._remote_max_stream_data_uni = _LIMIT
    connection._remote_max_streams_bidi = connection._remote_max_streams_uni = 128
    connection._remote_max_datagram_frame_size = 65536
    connection._discard_epoch(Epoch.INITIAL)
    connection._handshake_complete = True
    connection._confirm_handshake()
    connection._state = QuicConnectionState.CONNECTED
    connection._close_at = now + 60.0
    return connection
