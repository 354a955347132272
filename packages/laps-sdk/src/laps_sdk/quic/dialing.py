"""Dialling: resolve the name, try one address after the other, report what was tried.

::

    connect("relay.example", 4433)
      --resolve--> [addresses that the socket can reach]
                     |  for each address: an equal share of the time that is left
                     v
                   _Attempt --handshake--> Connection
                            --HTTP/3-----> WebTransport session
                     |  all failed
                     v
                   ConnectError: every address, and why it failed
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Final

from laps_sdk.errors import ConnectError
from laps_sdk.quic.base import Address, Connection, Handler, Listener
from laps_sdk.quic.connection import QuicTransportConnection
from laps_sdk.quic.dispatch import Dispatcher
from laps_sdk.quic.engine import Engine
from laps_sdk.quic.events import Closed
from laps_sdk.quic.udp import DatagramPort

__all__ = ["dial", "show"]

_NO_PROTOCOL: Final = 0x178
"""CRYPTO_ERROR with TLS's no_application_protocol (RFC 9001, 4.8)."""


def show(address: Address) -> str:
    """Return an address as text, with brackets around an IPv6 host."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def resolve(address: Address, port: DatagramPort) -> list[Address]:
    """Return the numeric addresses of a name that this port can reach.

    Raises ``ConnectError`` if the name is unknown or the port reaches none of the addresses.
    """
    host, number = address
    try:
        ip_address(host.partition("%")[0])
        found = [address]
    except ValueError:
        loop = asyncio.get_running_loop()
        name = _ascii(address)
        try:
            answers = await loop.getaddrinfo(name, number, type=socket.SOCK_DGRAM)
        except OSError as error:
            raise ConnectError(f"cannot connect to {show(address)}: {error.strerror}") from error
        found = [(str(answer[4][0]), number) for answer in answers]
    reachable = [local for each in found if (local := port.local(each)) is not None]
    if not reachable:
        tried = ", ".join(show(each) for each in found)
        raise ConnectError(
            f"cannot connect to {show(address)}: our socket at {show(port.address)} cannot reach "
            f"{tried} (bind it to an address of the same family)"
        )
    return list(dict.fromkeys(reachable))


async def dial(
    dispatcher: Dispatcher,
    engine: Engine,
    port: DatagramPort,
    address: Address,
    *,
    listener: Listener,
    alpn: Sequence[str],
    server_name: str | None,
    webtransport_path: str | None,
    limit: float,
) -> Connection:
    """Connect to the first address that answers; see :meth:`Endpoint.connect`.

    Raises ``ConnectError`` if no address does so within ``limit`` seconds.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + limit
    targets = await resolve(address, port)
    name = server_name if server_name is not None else _name(address)
    failures: list[str] = []
    for index, target in enumerate(targets):
        share = max(0.0, end - loop.time()) / (len(targets) - index)
        attempt = _Attempt(dispatcher, engine, target, name, alpn)
        try:
            async with asyncio.timeout(share):
                if webtransport_path is None:
                    return await attempt.raw(listener)
                authority = f"{name or address[0]}:{address[1]}"
                return await attempt.webtransport(listener, webtransport_path, authority)
        except TimeoutError:
            failures.append(f"{show(target)} gave no answer within {share:.1f} s")
        except ConnectError as error:
            failures.append(f"{show(target)}: {error}")
        finally:
            attempt.end()
    if targets == [address]:
        failures[0] = failures[0].removeprefix(show(address)).removeprefix(":").strip()
    raise ConnectError(f"cannot connect to {show(address)}: {'; '.join(failures)}")


def _name(address: Address) -> str | None:
    """Return the server name to send; None for an address (RFC 6066, 3)."""
    try:
        ip_address(address[0].partition("%")[0])
    except ValueError:
        return _ascii(address)
    return None


def _ascii(address: Address) -> str:
    """Return the name in ASCII, as DNS and TLS use it; raise ``ConnectError`` if it has none."""
    try:
        return address[0].encode("idna").decode("ascii")
    except UnicodeError as error:
        raise ConnectError(
            f"cannot connect to {show(address)[:80]!a}: no host has such a name (its parts are of "
            f"1 to 63 letters, digits and hyphens)"
        ) from error


class _Attempt:
    """One handshake with one address."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        engine: Engine,
        target: Address,
        server_name: str | None,
        alpn: Sequence[str],
    ) -> None:
        self._dispatcher = dispatcher
        self._engine = engine
        self._target = target
        self._server_name = server_name
        self._alpn = alpn
        self._connection: QuicTransportConnection | None = None
        self._done = False

    async def raw(self, listener: Listener) -> Connection:
        """Return a QUIC connection with one of the protocols."""
        connection = await self._handshake(listener, self._alpn)
        self._done = True
        return connection

    async def webtransport(self, listener: Listener, path: str, authority: str) -> Connection:
        """Return a WebTransport session on an HTTP/3 connection."""
        from laps_sdk.quic.webtransport.client import H3Client, dial_h3  # noqa: PLC0415

        made: list[H3Client] = []

        def begin(connection: Connection) -> Handler:
            handler = dial_h3(
                connection,
                listener=listener,
                path=path,
                authority=authority,
                protocols=self._alpn,
            )
            made.append(handler)
            return handler

        await self._handshake(begin, ("h3",))
        session = await made[0].established
        self._done = True
        return session

    async def _handshake(self, listener: Listener, alpn: Sequence[str]) -> Connection:
        future: asyncio.Future[Closed | None] = asyncio.get_running_loop().create_future()

        def outcome(event: Closed | None) -> None:
            if not future.done():
                future.set_result(event)

        begun = self._engine.dial(
            self._target,
            alpn=alpn,
            server_name=self._server_name,
            now=self._dispatcher.clock(),
        )
        self._connection = connection = self._dispatcher.dial(begun, listener, outcome)
        failure = await future
        if failure is not None:
            raise ConnectError(_explain(failure, alpn))
        return connection

    def end(self) -> None:
        """Close the connection if the attempt did not succeed."""
        if not self._done and self._connection is not None:
            self._dispatcher.give_up(self._connection)


def _explain(event: Closed, alpn: Sequence[str]) -> str:
    if event.code == _NO_PROTOCOL or "no protocol in common" in event.reason:
        return f"no protocol in common (ALPN): we offered {', '.join(alpn)}"
    reason = event.reason or "no reason given"
    if not event.code:
        return reason
    who = "the server" if event.by_peer else "we"
    return f"{who} closed with code {event.code:#x} during the handshake: {reason}"
