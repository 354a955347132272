"""A network inside the process, which the in-memory backend uses instead of UDP.

::

    port A --send--> MemoryNetwork (loss, delay, reordering, moved addresses) --> port B

The network loses, delays and reorders packets as configured, with a seeded generator, so that a run
can be repeated. It uses the loop's time: on a loop with virtual time, the network is virtual too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from laps_sdk.errors import TransportError
from laps_sdk.quic.base import Address
from laps_sdk.quic.engine import Burst
from laps_sdk.quic.udp import Unreachable

__all__ = ["MemoryNetwork", "MemoryPort"]


class MemoryNetwork:
    """All ports that can reach one another, and the quality of the paths."""

    def __init__(
        self,
        *,
        loss: float = 0.0,
        delay: float = 0.0,
        jitter: float = 0.0,
        seed: int = 0,
    ) -> None:
        self.loss = loss
        """The share of packets that is lost."""
        self.delay = delay
        """Seconds that each packet takes."""
        self.jitter = jitter
        """The most seconds of random extra delay, which reorders packets."""
        self.drop: Callable[[bytes], bool] | None = None
        """Returns whether to lose a packet, in addition to ``loss``."""
        self.lost = 0
        self.delivered = 0
        self._random = Random(seed)  # noqa: S311 - repeatable, not secret
        self._ports: dict[Address, MemoryPort] = {}
        self._alias: dict[Address, Address] = {}  # the address of a moved port as others see it
        self._next = 1024

    def bind(self, host: str, port: int) -> MemoryPort:
        """Return a new port; 0 chooses a free number. Raises ``TransportError`` if it is in use."""
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
        """Give a port a new address as seen by others, like a NAT that lost its mapping."""
        self._next += 1
        seen = (address[0], self._next)
        self._alias[address] = seen
        self._ports[seen] = self._ports[address]
        return seen

    def unbind(self, port: MemoryPort) -> None:
        """Remove a port with all its addresses."""
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
    """The port of an endpoint on a :class:`MemoryNetwork`."""

    def __init__(self, network: MemoryNetwork, address: Address) -> None:
        self._network = network
        self.address = address
        self._queue: list[tuple[list[bytes], Address]] = []
        self._callback: Callable[[], None] | None = None
        self._scheduled = False

    def start(self, callback: Callable[[], None]) -> None:
        """See :meth:`DatagramPort.start`."""
        self._callback = callback

    def put(self, datagram: bytes, source: Address) -> None:
        """Accept a packet from the network; the callback runs in the next turn of the loop."""
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
        """See :meth:`DatagramPort.receive`."""
        queue, self._queue = self._queue, []
        return queue

    def unreachable(self) -> list[Unreachable]:
        """See :meth:`DatagramPort.unreachable`; this network reports none."""
        return []

    def send(self, burst: Burst) -> None:
        """See :meth:`DatagramPort.send`."""
        for datagram in burst.datagrams:
            self._network.send(datagram, self.address, burst.address)

    def local(self, address: Address) -> Address | None:
        """See :meth:`DatagramPort.local`."""
        return address

    def close(self) -> None:
        """Leave the network."""
        self._callback = None
        self._network.unbind(self)
