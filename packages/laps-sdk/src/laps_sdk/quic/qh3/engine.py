"""qh3 as an engine: the extra ``turbo``, for ``--transport qh3``.

Importing this module without the extra raises a ``TransportError`` that names it. What is guarded:
:mod:`laps_sdk.quic.qh3.compat` and :mod:`laps_sdk.quic.qh3.connection`.

Its servers cannot look for the path MTU, so their packets stay at qh3's own 1280 bytes at most.
It lends its peers 100 bidirectional and 103 unidirectional streams, whatever the limits say.
"""

from __future__ import annotations

from typing import Any, Final

from laps_sdk.quic.base import Address
from laps_sdk.quic.engine import EngineConnection, EngineOptions
from laps_sdk.quic.library import LibraryEngine, Setup
from laps_sdk.quic.qh3.compat import BoundedTrace, Guarded, QuicConfiguration
from laps_sdk.quic.qh3.connection import Qh3Connection
from laps_sdk.quic.tls import ServerCertificate

__all__ = ["Qh3Engine"]

_PACKET_SIZE: Final = 1280


class Qh3Engine(LibraryEngine[Guarded]):
    """See the module."""

    name = "qh3"
    needs_retry = True
    """qh3 counts amplification wrongly, so every client must be sent a Retry."""

    def __init__(self, options: EngineOptions) -> None:
        super().__init__(options, BoundedTrace)

    def _configuration(self, **common: Any) -> QuicConfiguration:
        size = self._options.datagram_size
        return QuicConfiguration(
            max_datagram_size=min(size, _PACKET_SIZE),
            probe_datagram_size=size > _PACKET_SIZE,
            **common,
        )

    def _certify(self, configuration: QuicConfiguration, certificate: ServerCertificate) -> None:
        configuration.load_cert_chain(certificate.certificate_pem, certificate.key_pem)

    def _begin(
        self,
        configuration: QuicConfiguration,
        *,
        pins: frozenset[bytes],
        client_id: bytes,
        **ids: bytes | None,
    ) -> Guarded:
        return Guarded(configuration=configuration, pins=pins, client_id=client_id, **ids)

    def _wrap(
        self,
        quic: Guarded,
        setup: Setup,
        address: Address,
        *,
        retried: bool,  # noqa: ARG002 - always
        now: float,
    ) -> EngineConnection:
        return Qh3Connection(quic, setup, address, now)
