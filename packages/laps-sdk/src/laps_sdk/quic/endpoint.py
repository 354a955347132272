"""Endpoints: a UDP socket, an engine and a dispatcher put together.

::

    open_endpoint(backend, options, listener)
        |--> UdpPort or MemoryPort
        |--> Engine: aioquic, aioquic-stock, qh3 or memory; loaded when it is needed
        |--> listener, and WebTransport in front of it for connections with ALPN h3
        '--> Endpoint --> Dispatcher (one turn of the loop), Admission (new connections)
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import replace
from socket import socket
from typing import Final, Literal, TypeAlias

from laps_sdk.errors import ConnectError
from laps_sdk.quic.admission import Admission, AdmissionLimits
from laps_sdk.quic.base import Address, Connection, EgressLimits, Handler, Listener
from laps_sdk.quic.dialing import dial
from laps_sdk.quic.dispatch import Dispatcher
from laps_sdk.quic.engine import Engine, EngineOptions
from laps_sdk.quic.memory.network import MemoryNetwork
from laps_sdk.quic.resets import StatelessResets
from laps_sdk.quic.udp import DatagramPort, UdpPort, bind_udp
from laps_wire.errors import StateError

__all__ = ["Backend", "Endpoint", "open_endpoint"]

Backend: TypeAlias = Literal["aioquic", "aioquic-stock", "qh3", "memory"]
"""The values of ``--transport``: aioquic with or without our fast path, qh3, or memory."""

HTTP3: Final = "h3"


async def open_endpoint(
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    backend: Backend = "aioquic",
    options: EngineOptions,
    egress: EgressLimits | None = None,
    listener: Listener | None = None,
    admission: AdmissionLimits | None = None,
    network: MemoryNetwork | None = None,
    sock: socket | None = None,
    webtransport: bool = True,
) -> Endpoint:
    """Open a UDP socket that dials and, with a ``listener``, accepts connections.

    ``options.alpn`` are the protocols of the listener. With ``webtransport`` they are also served
    over HTTP/3 (ALPN ``h3``). ``sock`` is a bound UDP socket to use instead of host and port. The
    backend ``memory`` needs the ``network`` that its endpoints share.

    Raises ``StateError`` for options that do not fit together, ``CertificateError`` for bad files,
    and ``TransportError`` if the address cannot be bound.
    """
    if listener is not None and backend != "memory" and options.tls.certificate is None:
        raise StateError(
            "an endpoint that listens needs a certificate: set options.tls.certificate and "
            "private_key, or make one with laps_sdk.quic.tls.dev_certificate"
        )
    protocols = tuple(name for name in options.alpn if name != HTTP3)
    if listener is not None and webtransport:
        options = replace(options, alpn=(*protocols, HTTP3))
        listener = _with_http3(listener, protocols)
    if not options.reset_key:
        options = replace(options, reset_key=secrets.token_bytes(32))
    engine = _make_engine(backend, options)
    made: DatagramPort
    if backend == "memory":
        if network is None:
            raise StateError("the memory backend needs the MemoryNetwork that its endpoints share")
        made = network.bind(host, port)
    else:
        made = UdpPort(sock or bind_udp(host, port), asyncio.get_running_loop())
    return Endpoint(
        made,
        engine,
        options,
        egress=egress or EgressLimits(),
        admission=admission or AdmissionLimits(),
        listener=listener,
    )


def _make_engine(backend: Backend, options: EngineOptions) -> Engine:
    # Imported here, so that one library works without loading or installing the others.
    if backend == "memory":
        from laps_sdk.quic.memory.engine import MemoryEngine  # noqa: PLC0415

        return MemoryEngine(options, number=secrets.randbits(31))
    if backend == "qh3":
        from laps_sdk.quic.qh3.engine import Qh3Engine  # noqa: PLC0415

        return Qh3Engine(options)
    if backend in {"aioquic", "aioquic-stock"}:
        from laps_sdk.quic.aioquic.engine import AioquicEngine  # noqa: PLC0415

        return AioquicEngine(options, fast=backend == "aioquic")
    raise StateError(
        f"there is no transport {backend!r}; there are aioquic, aioquic-stock, qh3 and memory"
    )


def _with_http3(listener: Listener, protocols: Sequence[str]) -> Listener:
    """Return a listener that serves connections with ALPN h3 through WebTransport."""

    def choose(connection: Connection) -> Handler:
        if connection.alpn != HTTP3:
            return listener(connection)
        from laps_sdk.quic.webtransport.server import serve_h3  # noqa: PLC0415

        return serve_h3(connection, listener, protocols)

    return choose


class Endpoint:
    """One UDP socket and its connections; made by :func:`open_endpoint`."""

    def __init__(
        self,
        port: DatagramPort,
        engine: Engine,
        options: EngineOptions,
        *,
        egress: EgressLimits,
        admission: AdmissionLimits,
        listener: Listener | None,
    ) -> None:
        self._port = port
        self._engine = engine
        self._dispatcher = Dispatcher(
            asyncio.get_running_loop(),
            port,
            engine,
            limits=options.limits,
            egress=egress,
            admission=Admission(
                admission, key=secrets.token_bytes(32), always_retry=engine.needs_retry
            ),
            resets=StatelessResets(options.reset_key),
            handshake_timeout=admission.handshake_timeout,
            listener=listener,
        )
        self._closed = False

    @property
    def local_address(self) -> Address:
        """The address that the socket is bound to."""
        return self._port.address

    @property
    def connections(self) -> int:
        """How many connections exist, half-open ones included."""
        return len(self._dispatcher.connections)

    @property
    def half_open(self) -> int:
        """Handshakes of clients in progress."""
        return self._dispatcher.half_open

    @property
    def refused(self) -> dict[str, int]:
        """Datagrams without a connection, by reason; "retry" and "version" were answered."""
        return dict(self._dispatcher.refused)

    async def connect(
        self,
        address: Address,
        *,
        handler: Listener,
        alpn: Sequence[str],
        server_name: str | None = None,
        webtransport_path: str | None = None,
        timeout: float = 10.0,  # noqa: ASYNC109 - the error lists what was tried until then
    ) -> Connection:
        """Dial ``address`` and return the connection.

        With ``webtransport_path`` (e.g. ``/moq``) the endpoint opens a WebTransport session over
        HTTP/3, and ``alpn`` are the protocols offered in ``wt-available-protocols``.

        Raises ``ConnectError`` with every address that was tried and why it failed.
        """
        if self._closed:
            raise ConnectError("the endpoint is closed")
        return await dial(
            self._dispatcher,
            self._engine,
            self._port,
            address,
            listener=handler,
            alpn=alpn,
            server_name=server_name,
            webtransport_path=webtransport_path,
            limit=timeout,
        )

    def reload_certificate(self) -> None:
        """Read certificate and key again, for new connections.

        Raises ``CertificateError`` if the files are bad; the old ones then stay in use.
        """
        self._engine.reload_certificate()

    async def close(self, code: int = 0, reason: str = "") -> None:
        """Close all connections, send the closes, and close the socket; callable repeatedly."""
        if not self._closed:
            self._closed = True
            self._dispatcher.stop(code, reason)
            self._port.close()
