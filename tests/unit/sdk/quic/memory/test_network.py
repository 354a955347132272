from __future__ import annotations

import asyncio

import pytest

from laps_sdk.errors import TransportError
from laps_sdk.quic.engine import Burst
from laps_sdk.quic.memory.network import MemoryNetwork, MemoryPort

pytestmark = pytest.mark.anyio


class Catcher:
    def __init__(self, port: MemoryPort) -> None:
        self.port = port
        self.batches: list[tuple[list[bytes], tuple[str, int]]] = []
        self._changed = asyncio.Event()
        port.start(self._readable)

    def _readable(self) -> None:
        self.batches += self.port.receive()
        self._changed.set()

    @property
    def got(self) -> list[bytes]:
        return [datagram for datagrams, _ in self.batches for datagram in datagrams]

    async def until(self, count: int) -> None:
        async with asyncio.timeout(30):
            while len(self.got) < count:
                self._changed.clear()
                await self._changed.wait()


async def test_packets_arrive_in_order_and_by_sender() -> None:
    network = MemoryNetwork()
    one, two, target = (network.bind("10.0.0.1", 0) for _ in range(3))
    catcher = Catcher(target)
    one.send(Burst([b"1", b"2"], target.address))
    two.send(Burst([b"3"], target.address))
    one.send(Burst([b"4"], ("10.0.0.1", 9)))
    await catcher.until(3)
    assert catcher.batches == [([b"1", b"2"], one.address), ([b"3"], two.address)]
    assert network.delivered == 3
    assert one.unreachable() == []
    assert one.local(("10.0.0.9", 1)) == ("10.0.0.9", 1)


async def test_addresses_are_unique() -> None:
    network = MemoryNetwork()
    port = network.bind("10.0.0.1", 1025)
    with pytest.raises(TransportError, match="in use"):
        network.bind("10.0.0.1", 1025)
    assert network.bind("10.0.0.1", 0).address != port.address
    port.close()
    network.bind("10.0.0.1", 1025)


async def test_loss_is_repeatable() -> None:
    async def run(seed: int) -> list[bytes]:
        network = MemoryNetwork(loss=0.5, seed=seed)
        source, target = network.bind("a", 0), network.bind("b", 0)
        catcher = Catcher(target)
        source.send(Burst([b"%d" % n for n in range(50)], target.address))
        network.loss = 0.0
        source.send(Burst([b"end"], target.address))
        await catcher.until(network.delivered)
        assert network.lost + network.delivered == 51
        return catcher.got

    assert await run(1) == await run(1)
    assert await run(1) != await run(2)


async def test_jitter_reorders_and_delay_does_not() -> None:
    network = MemoryNetwork(delay=0.001)
    source, target = network.bind("a", 0), network.bind("b", 0)
    catcher = Catcher(target)
    sent = [b"%d" % n for n in range(30)]
    source.send(Burst(sent, target.address))
    await catcher.until(30)
    assert catcher.got == sent
    network.jitter = 0.01
    source.send(Burst(sent, target.address))
    await catcher.until(60)
    assert catcher.got[30:] != sent
    assert sorted(catcher.got[30:]) == sorted(sent)


async def test_a_chosen_packet_can_be_lost() -> None:
    network = MemoryNetwork()
    network.drop = lambda datagram: datagram == b"2"
    source, target = network.bind("a", 0), network.bind("b", 0)
    catcher = Catcher(target)
    source.send(Burst([b"1", b"2", b"3"], target.address))
    await catcher.until(2)
    assert catcher.got == [b"1", b"3"]


async def test_a_port_that_moved_is_seen_and_reached_at_its_new_address() -> None:
    network = MemoryNetwork()
    source, target = network.bind("a", 0), network.bind("b", 0)
    at_target, at_source = Catcher(target), Catcher(source)
    seen = network.rebind(source.address)
    source.send(Burst([b"moved"], target.address))
    await at_target.until(1)
    assert at_target.batches == [([b"moved"], seen)]
    target.send(Burst([b"answer"], seen))
    await at_source.until(1)
    source.close()
    target.send(Burst([b"nobody"], seen))
    assert network.delivered == 2


async def test_what_arrives_before_anybody_listens_waits_and_a_closed_port_is_silent() -> None:
    network = MemoryNetwork()
    source, target = network.bind("a", 0), network.bind("b", 0)
    source.send(Burst([b"early"], target.address))
    catcher = Catcher(target)
    source.send(Burst([b"next"], target.address))
    await catcher.until(2)
    source.send(Burst([b"last"], target.address))
    target.close()
    await asyncio.sleep(0)
    assert catcher.got == [b"early", b"next"]
