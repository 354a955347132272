"""qh3 as an engine: the extra ``turbo``, for ``--transport qh3``.

Importing this module without the extra raises a ``TransportError`` that names it. What is guarded:
:mod:`laps_sdk.quic.qh3.compat` and :mod:`laps_sdk.quic.qh3.connection`.

Its servers cannot look for the path MTU, so their packets stay at qh3's own 1280 bytes at most.
It lends its peers 100 bidirectional and 103 unidirectional streams, whatever the limits say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from laps_sdk.quic.base import Address
from laps_sdk.quic.engine import EngineConnection, EngineOptions
from laps_sdk.quic.library_engine import LibraryEngine, long_header_ids
from laps_sdk.quic.library_types import CONNECTION_ID_LENGTH
from laps_sdk.quic.qh3.compat import BoundedTrace, Guarded, QuicConfiguration
from laps_sdk.quic.qh3.connection import Qh3Connection
from laps_sdk.quic.tls import CertificateError, ServerCertificate

__all__ = ["Qh3Engine"]

_PACKET_SIZE: Final = 1280


class Qh3Engine(LibraryEngine):
    """See the module."""

    name = "qh3"

    def __init__(self, options: EngineOptions) -> None:
        self._server: QuicConfiguration | None = None
        super().__init__(options, BoundedTrace)

    def _configuration(self, *, is_client: bool, alpn: Sequence[str]) -> QuicConfiguration:
        limits = self._options.limits
        return QuicConfiguration(
            is_client=is_client,
            alpn_protocols=list(alpn),
            connection_id_length=CONNECTION_ID_LENGTH,
            idle_timeout=limits.idle_timeout,
            max_data=limits.max_data,
            max_stream_data=limits.max_stream_data,
            max_datagram_frame_size=limits.max_datagram_frame,
            max_datagram_size=min(self._options.datagram_size, _PACKET_SIZE),
            probe_datagram_size=self._options.datagram_size > _PACKET_SIZE,
            quic_logger=self.qlog,  # type: ignore[arg-type]  # two methods of it are all it needs
        )

    def _serve_with(self, certificate: ServerCertificate) -> None:
        configuration = self._configuration(is_client=False, alpn=self._options.alpn)
        configuration.load_cert_chain(certificate.certificate_pem, certificate.key_pem)
        self._server = configuration

    def dial(
        self, address: Address, *, alpn: Sequence[str], server_name: str | None, now: float
    ) -> EngineConnection:
        """See the base class."""
        configuration = self._configuration(is_client=True, alpn=alpn)
        configuration.server_name = server_name or address[0]
        configuration.verify_mode = self._verify_mode
        configuration.cadata = self._authorities
        quic = Guarded(configuration=configuration, pins=self._options.tls.pinned_sha256)
        quic.connect(address, now)
        setup = self._client_setup(alpn, server_name)
        return Qh3Connection(quic, setup, address, now)

    def accept(
        self,
        datagram: bytes,
        address: Address,
        *,
        original_destination: bytes | None,
        retry_source: bytes | None,
        now: float,
    ) -> EngineConnection:
        """See the base class."""
        if self._server is None:
            raise CertificateError("this endpoint has no certificate: it cannot accept connections")
        destination, client_id = long_header_ids(datagram)
        quic = Guarded(
            configuration=self._server,
            client_id=client_id,
            original_destination_connection_id=original_destination or destination,
            retry_source_connection_id=retry_source,
        )
        return Qh3Connection(quic, self._server_setup(destination), address, now)

    @property
    def needs_retry(self) -> bool:
        """See the base class."""
        return True
