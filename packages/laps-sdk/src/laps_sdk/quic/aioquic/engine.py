"""aioquic as an engine: the default, always installed.

``aioquic`` uses the fast path for 1-RTT packets (:mod:`laps_sdk.quic.aioquic.fast_path`) if it
fits the installed release, and aioquic's own code otherwise; ``aioquic-stock`` always the latter.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from aioquic.quic.configuration import QuicConfiguration

from laps_sdk.quic.aioquic.compat import CONGESTION_CONTROL, BoundedTrace, Tuned
from laps_sdk.quic.aioquic.connection import AioquicConnection
from laps_sdk.quic.aioquic.path_mtu import BASE_SIZE
from laps_sdk.quic.base import Address
from laps_sdk.quic.engine import EngineConnection, EngineOptions
from laps_sdk.quic.library import LibraryEngine, Setup
from laps_sdk.quic.tls import ServerCertificate

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


class AioquicEngine(LibraryEngine[Tuned]):
    """See the module."""

    def __init__(self, options: EngineOptions, *, fast: bool = True) -> None:
        self._class = _connection_class(fast)
        self.name = "aioquic" if fast else "aioquic-stock"
        self.fast = self._class is not Tuned
        """Whether the fast path is in use."""
        super().__init__(options, BoundedTrace)

    def _configuration(self, **common: Any) -> QuicConfiguration:
        return QuicConfiguration(
            congestion_control_algorithm=CONGESTION_CONTROL, max_datagram_size=BASE_SIZE, **common
        )

    def _certify(self, configuration: QuicConfiguration, certificate: ServerCertificate) -> None:
        configuration.certificate = certificate.leaf
        configuration.certificate_chain = list(certificate.chain)
        configuration.private_key = certificate.key

    def _begin(
        self,
        configuration: QuicConfiguration,
        *,
        pins: frozenset[bytes],
        client_id: bytes,  # noqa: ARG002 - of use to qh3 only
        **ids: bytes | None,
    ) -> Tuned:
        return self._class(
            configuration=configuration, limits=self._options.limits, pins=pins, **ids
        )

    def _wrap(
        self, quic: Tuned, setup: Setup, address: Address, *, retried: bool, now: float
    ) -> EngineConnection:
        size = self._options.datagram_size
        return AioquicConnection(quic, setup, address, datagram_size=size, retried=retried, now=now)
