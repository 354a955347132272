"""A UDP proxy in the test's loop that loses, reorders and redirects packets.

::

    client --> front socket | LossyProxy | one back socket for each client --> server

Randomness is seeded. ``rebind`` gives every client a new back socket: the server sees a new port,
as after a NAT forgot its mapping.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Self

__all__ = ["LossyProxy"]

_HELD_FOR = 0.005
"""Seconds after which a held packet goes on even if no other overtakes it."""


class _Socket(asyncio.DatagramProtocol):
    def __init__(self, received: Callable[[bytes, tuple[str, int]], None]) -> None:
        self._received = received

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._received(data, addr)

    def error_received(self, exc: Exception) -> None:
        """A peer that went away: packets to it are lost, which is what we are for."""


class LossyProxy:
    """Stands between clients and one server; change its fields while it runs."""

    def __init__(self, server: tuple[str, int], *, seed: int = 1) -> None:
        self._server = server
        self._random = random.Random(seed)
        self._front: asyncio.DatagramTransport | None = None
        self._back: dict[tuple[str, int], asyncio.DatagramTransport] = {}
        self._closed: list[asyncio.DatagramTransport] = []
        self.loss = 0.0
        self.reorder = 0.0
        self.blackhole = False
        """Lose everything."""
        self.lost = self.carried = 0

    @property
    def address(self) -> tuple[str, int]:
        """Where clients connect to."""
        assert self._front is not None
        host, port = self._front.get_extra_info("sockname")
        return host, port

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._front, _ = await loop.create_datagram_endpoint(
            lambda: _Socket(self._from_client), local_addr=("127.0.0.1", 0)
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._front is not None
        for transport in (self._front, *self._back.values(), *self._closed):
            transport.close()
        await asyncio.sleep(0)

    async def rebind(self) -> None:
        """Continue from new ports; the old ones stay open but nothing is taken from them."""
        for client in list(self._back):
            self._closed.append(self._back.pop(client))
            self._back[client] = await self._open(client)

    async def _open(self, client: tuple[str, int]) -> asyncio.DatagramTransport:
        def back(data: bytes, _: tuple[str, int]) -> None:
            if self._back.get(client) is transport and self._front is not None:
                self._carry(self._front, data, client)

        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(
            lambda: _Socket(back), local_addr=("127.0.0.1", 0)
        )
        return transport

    async def admit(self, client: tuple[str, int]) -> None:
        """Open the way for a client; call it with the client's address before it dials."""
        self._back[client] = await self._open(client)

    def _from_client(self, data: bytes, client: tuple[str, int]) -> None:
        transport = self._back.get(client)
        if transport is not None:
            self._carry(transport, data, self._server)

    def _carry(
        self, transport: asyncio.DatagramTransport, data: bytes, target: tuple[str, int]
    ) -> None:
        if self.blackhole or self._random.random() < self.loss:
            self.lost += 1
            return
        self.carried += 1
        if self._random.random() < self.reorder:
            loop = asyncio.get_running_loop()
            loop.call_later(_HELD_FOR, self._release, transport, data, target)
        else:
            transport.sendto(data, target)

    @staticmethod
    def _release(
        transport: asyncio.DatagramTransport, data: bytes, target: tuple[str, int]
    ) -> None:
        if not transport.is_closing():
            transport.sendto(data, target)
