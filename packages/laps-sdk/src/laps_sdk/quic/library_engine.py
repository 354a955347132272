"""What the engines of aioquic and qh3 have in common: certificates, qlog, the ids of an Initial."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from laps_sdk.errors import TransportError
from laps_sdk.quic.engine import Engine, EngineOptions
from laps_sdk.quic.library_types import Setup
from laps_sdk.quic.qlog import QlogWriter, TraceFactory
from laps_sdk.quic.tls import ServerCertificate, key_hash, read_server_certificate, read_trust

__all__ = ["LibraryEngine", "long_header_ids"]


def long_header_ids(datagram: bytes) -> tuple[bytes, bytes]:
    """Destination and source connection id of a long header (RFC 8999, 5.1).

    ::

        first byte | version (4) | length | destination id | length | source id | ...
    """
    if len(datagram) < 7 or not datagram[0] & 0x80:
        raise TransportError("not a QUIC packet with a long header")
    source_at = 6 + datagram[5]
    if source_at >= len(datagram):
        raise TransportError("a QUIC packet that ends within its destination id")
    end = source_at + 1 + datagram[source_at]
    if end > len(datagram):
        raise TransportError("a QUIC packet that ends within its source id")
    return datagram[6:source_at], datagram[source_at + 1 : end]


class LibraryEngine(Engine):
    """The common part. A server's certificate is read at once, so that a bad one is told early."""

    def __init__(self, options: EngineOptions, trace_factory: TraceFactory) -> None:
        self._options = options
        self._verify_mode, self._authorities = read_trust(options.tls)
        self._key_hash = b""
        self.qlog: QlogWriter | None = None
        if options.qlog_dir is not None:
            self.qlog = QlogWriter(options.qlog_dir, options.qlog_sample, trace_factory)
        if options.tls.certificate is not None:
            self.reload_certificate()

    @abstractmethod
    def _serve_with(self, certificate: ServerCertificate) -> None:
        """Take a certificate for connections that begin from now on."""

    def _client_setup(self, alpn: Sequence[str], server_name: str | None) -> Setup:
        return Setup(
            is_client=True,
            alpn=tuple(alpn),
            server_name=server_name or "",
            initial_id=None,
        )

    def _server_setup(self, initial_id: bytes) -> Setup:
        return Setup(
            is_client=False,
            alpn=self._options.alpn,
            server_name="",
            initial_id=initial_id,
            server_key_hash=self._key_hash,
        )

    def reload_certificate(self) -> None:
        """See the base class."""
        certificate = read_server_certificate(self._options.tls)
        self._serve_with(certificate)
        self._key_hash = key_hash(certificate.leaf)
