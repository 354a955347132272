"""Makes a link from an address: resolves, dials, agrees on a draft, exchanges SETUP.

A relay without a configured certificate makes a development certificate in its state directory.
Clients of the same user on the same machine trust that certificate, for loopback addresses only.
A file of another user is not trusted.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import ssl
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from laps_sdk.client.link import Link, LinkCallbacks
from laps_sdk.client.options import ConnectOptions, parse_pin
from laps_sdk.errors import ConnectError, ConnectionLostError
from laps_sdk.quic.base import Address, Connection, Handler, IgnoringHandler
from laps_sdk.quic.endpoint import Endpoint, open_endpoint
from laps_sdk.quic.engine import EngineOptions, Tls
from laps_sdk.uri import RelayAddress
from laps_wire.moqt.codepoints import SessionCode
from laps_wire.moqt.setup import SetupOptions
from laps_wire.moqt.structures import Token
from laps_wire.moqt.top_n import TOP_N_EXTENSIONS, top_n_options
from laps_wire.moqt.versions import Draft

__all__ = [
    "DEV_CERTIFICATE",
    "IMPLEMENTATION",
    "DialledLink",
    "development_pin",
    "dial",
    "state_directory",
    "tls_for",
]

IMPLEMENTATION = "laps-sdk"
"""The name of our software in SETUP."""


_HEAD_START: Final = 0.25
"""Seconds until the next address of a host is dialled as well (RFC 8305)."""


class DialledLink:
    """A link and its socket."""

    __slots__ = ("endpoint", "link")

    def __init__(self, link: Link, endpoint: Endpoint) -> None:
        self.link = link
        self.endpoint = endpoint

    async def close(self, code: int = 0, reason: str = "") -> None:
        """Close the session, then the socket."""
        self.link.close(code, reason)
        await self.endpoint.close(code, reason)


async def dial(
    address: RelayAddress, options: ConnectOptions, callbacks: LinkCallbacks
) -> DialledLink:
    """Return a link after SETUP; raises ``ConnectError`` with every attempt."""
    faults: list[str] = []
    # Outside of the attempts: an error of the token function goes to the caller.
    setup = _setup(address, options)
    try:
        async with asyncio.timeout(options.timeout):
            targets = await _resolve(address, options)
            return await _race(targets, address, options, setup, callbacks, faults)
    except TimeoutError:
        faults.append(f"no answer in {options.timeout:g} s")
    raise ConnectError(f"{address}: {'; '.join(faults)}")


async def _race(
    targets: list[Address],
    address: RelayAddress,
    options: ConnectOptions,
    setup: SetupOptions,
    callbacks: LinkCallbacks,
    faults: list[str],
) -> DialledLink:
    """Return a link to the first address that answers, dialled one after the other (RFC 8305).

    Many hosts have an IPv6 address without a relay, and UDP reports no refusal.
    """
    waiting = list(reversed(targets))
    tasks: set[asyncio.Task[DialledLink]] = set()
    code: int | None = None
    try:
        while waiting or tasks:
            if waiting:
                dialling = _dial_one(waiting.pop(), address, options, setup, callbacks)
                tasks.add(asyncio.create_task(dialling))
            done, tasks = await asyncio.wait(
                tasks,
                timeout=_HEAD_START if waiting else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            for task in done:
                error = task.exception()
                if error is None:
                    tasks |= done - {task}
                    return task.result()
                if not isinstance(error, ConnectError | ConnectionLostError):
                    raise error
                faults.append(str(error))
                if isinstance(error, ConnectionLostError) and error.by_peer:
                    code = error.code
    finally:
        for task in tasks:
            task.cancel()
        for dialled in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(dialled, DialledLink):  # another address was faster
                await dialled.close()
    raise ConnectError(f"{address}: {'; '.join(faults)}", code=code)


async def _resolve(address: RelayAddress, options: ConnectOptions) -> list[Address]:
    """Return the addresses of a host in the order of the system."""
    if options.network is not None or _is_literal(address.host):
        return [(address.host, address.port)]
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_DGRAM)
    except OSError as error:
        raise ConnectError(
            f"{address}: the host has no address: {error.strerror or error}"
        ) from error
    targets = dict.fromkeys((str(info[4][0]), address.port) for info in found)
    return list(targets)


def _is_literal(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


async def _dial_one(
    target: Address,
    address: RelayAddress,
    options: ConnectOptions,
    setup: SetupOptions,
    callbacks: LinkCallbacks,
) -> DialledLink:
    try:
        endpoint = await open_endpoint(
            host="::" if ":" in target[0] else "0.0.0.0",  # noqa: S104 - a client's own port
            port=0,
            backend="memory" if options.network is not None else options.transport,
            options=EngineOptions(tls=tls_for(address, options), limits=options.limits),
            egress=options.egress,
            network=options.network,
        )
    except OSError as error:
        raise ConnectError(f"no socket: {error}") from error
    try:
        link = await _handshake(endpoint, target, address, options, setup, callbacks)
        await link.ready()
    except BaseException:
        await endpoint.close()
        raise
    return DialledLink(link, endpoint)


async def _handshake(
    endpoint: Endpoint,
    target: Address,
    address: RelayAddress,
    options: ConnectOptions,
    setup: SetupOptions,
    callbacks: LinkCallbacks,
) -> Link:
    links: list[Link] = []

    def connected(connection: Connection) -> Handler:
        draft = Draft.from_alpn(connection.alpn)
        if draft is None or connection.alpn not in options.drafts:
            words = f"the relay chose {connection.alpn!r}, offered were {options.drafts}"
            connection.close(SessionCode.VERSION_NEGOTIATION_FAILED, words)
            return IgnoringHandler()
        link = Link(
            connection,
            address,
            callbacks,
            draft=draft,
            options=setup,
            extensions=TOP_N_EXTENSIONS,
        )
        links.append(link)
        return link.peer

    await endpoint.connect(
        target,
        handler=connected,
        alpn=options.drafts,
        # Without a name the transport asks for none: addresses are no names (RFC 6066, 3).
        server_name=None if _is_literal(address.host) else address.host,
        webtransport_path=address.path if address.webtransport else None,
        timeout=options.timeout,
    )
    if not links:
        offered = ", ".join(options.drafts)
        raise ConnectError(f"{address}: the relay speaks none of the drafts offered: {offered}")
    return links[0]


def _setup(address: RelayAddress, options: ConnectOptions) -> SetupOptions:
    token = options.token_value()
    native = not address.webtransport
    return SetupOptions(
        # Over WebTransport HTTP says both (moq-transport-16, 9.3.1).
        path=address.path or None if native else None,
        authority=address.authority if native else None,
        authorization_tokens=(
            () if token is None else (Token.use_value(options.token_type, token),)
        ),
        moqt_implementation=IMPLEMENTATION,
        unknown=() if options.top_n is None else top_n_options(options.top_n),
    )


DEV_CERTIFICATE = "dev-cert.pem"
"""The name of the development certificate in the relay's state directory."""


def state_directory() -> Path:
    """Return the relay's state directory: $LAPS_STATE_DIR, or ~/.local/state/laps."""
    named = os.environ.get("LAPS_STATE_DIR")
    return Path(named) if named else Path.home() / ".local" / "state" / "laps"


def development_pin(path: Path) -> bytes | None:
    """Return the SHA-256 of a development certificate; None if this user owns none."""
    try:
        with path.open("rb") as file:
            if hasattr(os, "getuid") and os.fstat(file.fileno()).st_uid != os.getuid():
                return None
            text = file.read(65536).decode("ascii", errors="replace")
    except OSError:
        return None
    start = text.find("-----BEGIN CERTIFICATE-----")
    end = text.find("-----END CERTIFICATE-----", start)
    if start < 0 or end < 0:
        return None
    try:
        der = ssl.PEM_cert_to_DER_cert(text[start : end + len("-----END CERTIFICATE-----")])
    except ValueError:
        return None
    return hashlib.sha256(der).digest()


def tls_for(address: RelayAddress, options: ConnectOptions) -> Tls:
    """Return the TLS settings for an address."""
    pins: frozenset[bytes] = frozenset()
    if options.pin is not None:
        pins = frozenset({parse_pin(options.pin)})
    elif not options.ca_file and not options.insecure and address.is_loopback:
        found = development_pin(state_directory() / DEV_CERTIFICATE)
        if found is not None:
            pins = frozenset({found})
    return Tls(ca_file=options.ca_file, pinned_sha256=pins, verify=not options.insecure)
