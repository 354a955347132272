"""A UDP proxy in the test's loop that loses, delays, reorders and redirects packets.

::

    client --> front socket | LossyProxy | one back socket for each client --> server

Randomness is seeded. ``rebind`` gives every client a new back socket: the server sees a new port,
as after a NAT forgot its mapping. Who was not admitted is carried too if it is open to all:
relays dial each other when they like.
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

    def __init__(
        self, server: tuple[str, int] | None = None, *, seed: int = 1, open_to_all: bool = False
    ) -> None:
        """A server that is told later must be there before anybody dials."""
        self.server = server
        self._open_to_all = open_to_all
        self._opening: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._random = random.Random(seed)
        self._front: asyncio.DatagramTransport | None = None
        self._back: dict[tuple[str, int], asyncio.DatagramTransport] = {}
        self._closed: list[asyncio.DatagramTransport] = []
        self.loss = 0.0
        self.reorder = 0.0
        self.delay = 0.0
        """Seconds for each packet, in each direction."""
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
        opening = list(self._opening.values())
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
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
        if transport is not None and self.server is not None:
            self._carry(transport, data, self.server)
        elif self._open_to_all and client not in self._opening:
            # This packet is lost: so are packets of whoever comes here.
            self._opening[client] = asyncio.create_task(self.admit(client))

    def _carry(
        self, transport: asyncio.DatagramTransport, data: bytes, target: tuple[str, int]
    ) -> None:
        if self.blackhole or self._random.random() < self.loss:
            self.lost += 1
            return
        self.carried += 1
        held = self.delay + (_HELD_FOR if self._random.random() < self.reorder else 0.0)
        if held:
            loop = asyncio.get_running_loop()
            loop.call_later(held, self._release, transport, data, target)
        else:
            transport.sendto(data, target)

    @staticmethod
    def _release(
        transport: asyncio.DatagramTransport, data: bytes, target: tuple[str, int]
    ) -> None:
        if not transport.is_closing():
            transport.sendto(data, target)
