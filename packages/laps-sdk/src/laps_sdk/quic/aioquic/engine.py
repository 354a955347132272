"""aioquic as an engine: the default, always installed.

``aioquic`` uses the fast path for 1-RTT packets (:mod:`laps_sdk.quic.aioquic.fast_path`) if it
fits the installed release, and aioquic's own code otherwise; ``aioquic-stock`` always the latter.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Final

from aioquic.quic.configuration import QuicConfiguration

from laps_sdk.quic.aioquic.compat import CONGESTION_CONTROL, BoundedTrace, Tuned
from laps_sdk.quic.aioquic.connection import AioquicConnection
from laps_sdk.quic.aioquic.path_mtu import BASE_SIZE
from laps_sdk.quic.base import Address
from laps_sdk.quic.engine import EngineConnection, EngineOptions
from laps_sdk.quic.library_engine import LibraryEngine, long_header_ids
from laps_sdk.quic.library_types import CONNECTION_ID_LENGTH, Setup
from laps_sdk.quic.tls import CertificateError, ServerCertificate

__all__ = ["AioquicEngine"]

_FAST_MODULE: Final = "laps_sdk.quic.aioquic.fast_path"


def _connection_class(fast: bool) -> type[Tuned]:
    """The class of connections: our layer over the fast path, or over aioquic's own."""
    if fast:
        try:
            module = import_module(_FAST_MODULE)
        except ModuleNotFoundError as error:
            if error.name != _FAST_MODULE:
                raise
        else:
            if module.available:
                return type("TunedFast", (Tuned, module.FastQuicConnection), {})
    return Tuned


class AioquicEngine(LibraryEngine):
    """See the module."""

    def __init__(self, options: EngineOptions, *, fast: bool = True) -> None:
        self._class = _connection_class(fast)
        self.name = "aioquic" if fast else "aioquic-stock"
        self.fast = self._class is not Tuned
        """Whether the fast path is in use."""
        self._server: QuicConfiguration | None = None
        super().__init__(options, BoundedTrace)

    def _configuration(self, *, is_client: bool, alpn: Sequence[str]) -> QuicConfiguration:
        limits = self._options.limits
        return QuicConfiguration(
            is_client=is_client,
            alpn_protocols=list(alpn),
            congestion_control_algorithm=CONGESTION_CONTROL,
            connection_id_length=CONNECTION_ID_LENGTH,
            idle_timeout=limits.idle_timeout,
            max_data=limits.max_data,
            max_stream_data=limits.max_stream_data,
            max_datagram_frame_size=limits.max_datagram_frame,
            max_datagram_size=BASE_SIZE,
            quic_logger=self.qlog,  # type: ignore[arg-type]  # two methods of it are all it needs
        )

    def _serve_with(self, certificate: ServerCertificate) -> None:
        configuration = self._configuration(is_client=False, alpn=self._options.alpn)
        configuration.certificate = certificate.leaf
        configuration.certificate_chain = list(certificate.chain)
        configuration.private_key = certificate.key
        self._server = configuration

    def dial(
        self, address: Address, *, alpn: Sequence[str], server_name: str | None, now: float
    ) -> EngineConnection:
        """See the base class."""
        configuration = self._configuration(is_client=True, alpn=alpn)
        configuration.server_name = server_name or address[0]
        configuration.verify_mode = self._verify_mode
        configuration.cadata = self._authorities
        quic = self._class(
            configuration=configuration,
            limits=self._options.limits,
            pins=self._options.tls.pinned_sha256,
        )
        quic.connect(address, now)
        setup = self._client_setup(alpn, server_name)
        return self._connection(quic, setup, address, retried=False, now=now)

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
        destination, _ = long_header_ids(datagram)
        quic = self._class(
            configuration=self._server,
            limits=self._options.limits,
            original_destination_connection_id=original_destination or destination,
            retry_source_connection_id=retry_source,
        )
        setup = self._server_setup(destination)
        return self._connection(quic, setup, address, retried=retry_source is not None, now=now)

    def _connection(
        self, quic: Tuned, setup: Setup, address: Address, *, retried: bool, now: float
    ) -> EngineConnection:
        return AioquicConnection(
            quic,
            setup,
            address,
            datagram_size=self._options.datagram_size,
            retried=retried,
            now=now,
        )

    @property
    def needs_retry(self) -> bool:
        """See the base class."""
        return False
