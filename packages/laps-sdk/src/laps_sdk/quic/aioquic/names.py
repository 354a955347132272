"""The private names of aioquic 1.7 that :mod:`.compat` uses, and a check that they exist.

Another release of aioquic so fails at import, with the list of what is missing, and not in the
middle of a connection.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

from aioquic import tls
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.congestion.reno import RenoCongestionControl
from aioquic.quic.connection import QuicConnection
from aioquic.quic.logger import QuicLoggerTrace
from aioquic.quic.packet_builder import QuicPacketBuilder
from aioquic.quic.recovery import QuicPacketPacer
from aioquic.quic.stream import QuicStream

from laps_sdk.errors import TransportError
from laps_sdk.quic.aioquic.path_mtu import BASE_SIZE

__all__ = ["check", "missing_names"]

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
    return [
        f"{owner}.{name}"
        for owner, names in _NAMES.items()
        for name in names
        if not hasattr(samples[owner], name)
    ]


def check() -> None:
    """Raise if this release of aioquic is not the one that this module was written for."""
    missing = missing_names()
    if missing:
        raise TransportError(
            f"aioquic {version('aioquic')} lacks {', '.join(missing)}; "
            "the transport needs aioquic>=1.7,<1.8"
        )
