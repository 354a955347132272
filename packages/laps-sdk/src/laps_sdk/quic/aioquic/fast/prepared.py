"""Connections that stand without a handshake: for the self-check, and for tests that compare bytes.

Keys, ids and limits are given, so two connections of different classes that are prepared alike
make the same packets, which connections after a handshake with fresh keys never do.
"""

from __future__ import annotations

from typing import Any, TypeVar

from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import (
    QuicConnection,
    QuicConnectionId,
    QuicConnectionState,
    QuicNetworkPath,
)
from aioquic.quic.packet import QuicProtocolVersion
from aioquic.tls import CipherSuite, Epoch

__all__ = ["ADDRESSES", "prepared"]

_Kind = TypeVar("_Kind", bound=QuicConnection)

ADDRESSES = {True: ("192.0.2.1", 1), False: ("192.0.2.2", 2)}
"""Where a client and a server are."""

_IDS = {True: b"client-0", False: b"server-0"}
_LIMIT = 1 << 20


def prepared(
    kind: type[_Kind],
    *,
    is_client: bool,
    now: float,
    suite: CipherSuite = CipherSuite.AES_128_GCM_SHA256,
    **options: Any,
) -> _Kind:
    """A connection after its handshake, by fiat; its peer is ``prepared`` with the other role."""
    configuration = QuicConfiguration(
        is_client=is_client, max_datagram_frame_size=65536, max_data=_LIMIT, **options
    )
    arguments: dict[str, Any] = {"configuration": configuration}
    if not is_client:
        # No handshake will look at them, but the constructor wants to see them.
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
