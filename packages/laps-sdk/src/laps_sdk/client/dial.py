"""Makes a link from an address: resolves, dials, agrees on a draft, exchanges SETUP.

:class:`ConnectOptions` has the arguments of ``connect``, checked once. A relay without a configured
certificate makes a development certificate in its state directory. Clients of the same user on the
same machine trust that certificate, for loopback addresses only. A file of another user is not
trusted.

:class:`Backoff` has the delays between attempts::

    attempt    0     1     2     3     4   ...
    longest   0.25  0.5   1.0   2.0   4.0  ... cap
    delay     longest * (1 - spread * jitter)

The jitter is an argument, so that tests can choose it. It keeps the clients of a restarted relay
from all connecting again at the same moment.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from laps_sdk.client.link import Link, LinkCallbacks
from laps_sdk.errors import ConnectError, ConnectionLostError
from laps_sdk.quic.base import (
    Address,
    Connection,
    ConnectionLimits,
    EgressLimits,
    Handler,
    IgnoringHandler,
)
from laps_sdk.quic.endpoint import Backend, Endpoint, open_endpoint
from laps_sdk.quic.engine import EngineOptions, Tls
from laps_sdk.quic.moqt import DRAFTS
from laps_sdk.tokens.claims import from_text
from laps_sdk.tokens.constants import TOKEN_TYPE_CAT
from laps_sdk.uri import RelayAddress
from laps_wire.errors import EncodeError
from laps_wire.moqt.codepoints import SessionCode
from laps_wire.moqt.setup import SetupOptions
from laps_wire.moqt.structures import Token
from laps_wire.moqt.top_n import TOP_N_EXTENSIONS, top_n_options
from laps_wire.moqt.versions import Draft

if TYPE_CHECKING:
    from laps_sdk.quic.memory.network import MemoryNetwork

__all__ = [
    "CLIENT_EGRESS",
    "DEAD_AFTER",
    "DEV_CERTIFICATE",
    "IMPLEMENTATION",
    "Backoff",
    "ConnectOptions",
    "DialledLink",
    "TokenLike",
    "development_pin",
    "dial",
    "parse_pin",
    "state_directory",
    "tls_for",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """A schedule of delays, in seconds."""

    first: float = 0.25
    """The longest first delay."""
    factor: float = 2.0
    cap: float = 30.0
    """The longest delay."""
    spread: float = 0.5
    """The largest share of a delay that jitter removes, 0 to 1."""

    def __post_init__(self) -> None:
        if not (0 < self.first <= self.cap and self.factor >= 1 and 0 <= self.spread <= 1):
            raise ValueError(
                f"{self}: must have 0 < first <= cap, factor >= 1 and a spread from 0 to 1"
            )

    def delay(self, attempt: int, jitter: float) -> float:
        """Return the delay before an attempt, counted from 0; ``jitter`` is from 0 to 1."""
        longest = self.first
        for _ in range(attempt):
            longest *= self.factor
            if longest >= self.cap:
                longest = self.cap
                break
        return longest * (1 - self.spread * jitter)


TokenLike: TypeAlias = "str | bytes | Callable[[], str | bytes] | None"
"""A token (bytes, or text as ``laps token mint`` prints it), or a function that returns one for
each connection."""


DEAD_AFTER: Final = 5.0
"""Seconds without a packet after which a relay counts as dead."""

CLIENT_EGRESS: Final = EgressLimits(max_bytes=1 << 30)
"""The limit is never reached: writers of a client wait while the connection is congested, so no
written object is dropped for lack of room."""


def parse_pin(text: str) -> bytes:
    """Return the SHA-256 of a certificate from hex digits, with or without colons."""
    digits = text.replace(":", "").strip()
    try:
        pin = bytes.fromhex(digits)
    except ValueError:
        pin = b""
    if len(pin) != 32:
        raise EncodeError(
            f"pin {text!r}: must be the 64 hex digits that 'laps-relay dev-cert' prints"
        )
    return pin


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectOptions:
    """The arguments of :func:`laps_sdk.connect`, checked."""

    ca_file: str | None = None
    pin: str | None = None
    insecure: bool = False
    token: TokenLike = None
    token_type: int = TOKEN_TYPE_CAT
    transport: Backend = "aioquic"
    drafts: tuple[str, ...] = DRAFTS
    reconnect: bool = True
    timeout: float = 10.0
    backoff: Backoff = field(default_factory=Backoff)
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    keepalive: float | None = None
    dead_after: float = DEAD_AFTER
    egress: EgressLimits = CLIENT_EGRESS
    drain_timeout: float = 5.0
    top_n: int | None = None
    network: MemoryNetwork | None = None

    def __post_init__(self) -> None:
        unknown = [draft for draft in self.drafts if draft not in DRAFTS]
        if unknown or not self.drafts:
            spoken = ", ".join(DRAFTS)
            raise EncodeError(f"drafts {self.drafts!r}: must be one or more of {spoken}")
        if self.insecure and (self.ca_file or self.pin):
            raise EncodeError("insecure accepts any certificate: omit ca_file and pin")
        if self.timeout <= 0:
            raise EncodeError(f"timeout {self.timeout}: must be more than 0 seconds")
        if self.dead_after < 0:
            raise EncodeError(f"dead_after {self.dead_after}: must be 0 or more seconds")
        if self.keepalive is not None and self.keepalive < 0:
            raise EncodeError(f"keepalive {self.keepalive}: must be 0 or more seconds")
        if self.pin is not None:
            parse_pin(self.pin)
        if self.top_n is not None and self.top_n < 1:
            raise EncodeError(f"top_n {self.top_n}: must be 1 or more")

    @property
    def connection_limits(self) -> ConnectionLimits:
        """The limits of the connection, with the times after which a silent relay is dead."""
        keepalive = self.keepalive
        if keepalive is None:
            keepalive = self.dead_after / 4 or self.limits.keepalive
        return replace(self.limits, keepalive=keepalive, dead_after=self.dead_after)

    def token_value(self) -> bytes | None:
        """Return the token for the next connection as bytes; a CAT as text is base64url."""
        token = self.token() if callable(self.token) else self.token
        if not isinstance(token, str):
            return token
        return from_text(token) if self.token_type == TOKEN_TYPE_CAT else token.encode()


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
            options=EngineOptions(tls=tls_for(address, options), limits=options.connection_limits),
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
