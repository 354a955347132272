"""A network inside the process: what the in-memory backend has instead of UDP.

It loses, delays and reorders as it is told, by a seeded generator, so that a run can be repeated.
Time is the loop's: on a loop with virtual time everything here is virtual too.

::

    port A --send--> MemoryNetwork (loss, delay, reordering, moved addresses) --> port B
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from laps_sdk.errors import TransportError
from laps_sdk.quic.base import Address
from laps_sdk.quic.engine import Burst

__all__ = ["MemoryNetwork", "MemoryPort"]


class MemoryNetwork:
    """All the ports that can reach one another, and how well."""

    def __init__(
        self,
        *,
        loss: float = 0.0,
        delay: float = 0.0,
        jitter: float = 0.0,
        seed: int = 0,
    ) -> None:
        self.loss = loss
        """The share of packets that never arrive."""
        self.delay = delay
        """Seconds that each packet takes."""
        self.jitter = jitter
        """Up to so many seconds more, so that packets overtake one another."""
        self.drop: Callable[[bytes], bool] | None = None
        """Chooses packets that are lost besides."""
        self.lost = 0
        self.delivered = 0
        self._random = Random(seed)  # noqa: S311 - repeatable, not secret
        self._ports: dict[Address, MemoryPort] = {}
        self._alias: dict[Address, Address] = {}  # how the others see a port that moved
        self._next = 1024

    def bind(self, host: str, port: int) -> MemoryPort:
        """A new port; 0 chooses a free number."""
        while port == 0:
            self._next += 1
            if (host, self._next) not in self._ports:
                port = self._next
        address = (host, port)
        if address in self._ports:
            raise TransportError(f"{host} port {port} is in use on this network")
        self._ports[address] = made = MemoryPort(self, address)
        return made

    def rebind(self, address: Address) -> Address:
        """Let others see a port under a new address, as a NAT does that forgot its mapping."""
        self._next += 1
        seen = (address[0], self._next)
        self._alias[address] = seen
        self._ports[seen] = self._ports[address]
        return seen

    def unbind(self, port: MemoryPort) -> None:
        """The port is gone, under all its addresses."""
        for address in [a for a, p in self._ports.items() if p is port]:
            del self._ports[address]
            self._alias.pop(address, None)

    def send(self, datagram: bytes, source: Address, target: Address) -> None:
        """Carry a packet, or lose it."""
        if (self.loss and self._random.random() < self.loss) or (
            self.drop is not None and self.drop(datagram)
        ):
            self.lost += 1
            return
        delay = self.delay
        if self.jitter:
            delay += self._random.random() * self.jitter
        source = self._alias.get(source, source)
        if delay:
            loop = asyncio.get_running_loop()
            loop.call_later(delay, self._arrive, datagram, source, target)
        else:
            self._arrive(datagram, source, target)

    def _arrive(self, datagram: bytes, source: Address, target: Address) -> None:
        port = self._ports.get(target)
        if port is not None:
            self.delivered += 1
            port.put(datagram, source)


class MemoryPort:
    """What an endpoint has instead of a socket."""

    def __init__(self, network: MemoryNetwork, address: Address) -> None:
        self._network = network
        self.address = address
        self._queue: list[tuple[list[bytes], Address]] = []
        self._callback: Callable[[], None] | None = None
        self._scheduled = False

    def start(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` when there is something to receive."""
        self._callback = callback

    def put(self, datagram: bytes, source: Address) -> None:
        """A packet arrived; the callback runs in the loop's next turn."""
        queue = self._queue
        if queue and queue[-1][1] == source:
            queue[-1][0].append(datagram)
        else:
            queue.append(([datagram], source))
        if not self._scheduled and self._callback is not None:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._ready)

    def _ready(self) -> None:
        self._scheduled = False
        if self._callback is not None:
            self._callback()

    def receive(self) -> list[tuple[list[bytes], Address]]:
        """What arrived, by sender."""
        queue, self._queue = self._queue, []
        return queue

    def unreachable(self) -> list[Address]:
        """Where nothing listens; this network never says so."""
        return []

    def send(self, burst: Burst) -> None:
        """Give packets to the network."""
        for datagram in burst.datagrams:
            self._network.send(datagram, self.address, burst.address)

    def local(self, address: Address) -> Address | None:
        """The address as this port can reach it; None if it cannot."""
        return address

    def close(self) -> None:
        """Leave the network."""
        self._callback = None
        self._network.unbind(self)
