"""Relays whose links lose, delay and reorder packets: a proxy stands before each peer port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from laps_sdk.peering.settings import show_contact
from testkit.logs import restored_logging
from testkit.lossy_proxy import LossyProxy
from testkit.network_show import Listener, Show
from testkit.network_task import NetworkTask, RunningRelay, network, until

pytestmark = pytest.mark.anyio

ONE_WAY = 0.02
"""Seconds of each packet under way."""
RATE = 100.0
"""Objects in a second."""
STATIC: dict[str, Any] = {"dynamic": False}


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    with restored_logging():
        yield


class LossyNetwork:
    """Relays that are reached through proxies only, also by those who dial them on demand."""

    def __init__(self, net: NetworkTask, stack: AsyncExitStack, loss: float) -> None:
        self.net = net
        self._stack = stack
        self._loss = loss
        self.paths: dict[str, LossyProxy] = {}
        """The proxy before each relay, by node."""

    async def relay(
        self, kind: str, *peers: RunningRelay, network: dict[str, Any] | None = None, **more: Any
    ) -> RunningRelay:
        path = LossyProxy(seed=len(self.paths) + 1, open_to_all=True)
        path.loss, path.delay, path.reorder = self._loss, ONE_WAY, 0.05
        await self._stack.enter_async_context(path)
        contacts = {"contacts": [show_contact(path.address)]}
        over = [show_contact(self.paths[peer.node].address) for peer in peers]
        relay = await self.net.relay(kind, *over, network=contacts | (network or {}), **more)
        path.server = relay.network.server.address
        self.paths[relay.node] = path
        return relay

    def darken(self, dark: bool) -> None:
        """All links lose everything, or what they lost before."""
        for path in self.paths.values():
            path.blackhole = dark

    def lost(self) -> int:
        return sum(path.lost for path in self.paths.values())


@asynccontextmanager
async def lossy_network(state: Path, loss: float) -> AsyncIterator[LossyNetwork]:
    async with AsyncExitStack() as stack:
        net = await stack.enter_async_context(network(state))
        paths = await stack.enter_async_context(AsyncExitStack())
        yield LossyNetwork(net, paths, loss)


def later(show: Show, number: int) -> bool:
    return show.sent >= number


def knows_nothing(relay: RunningRelay) -> bool:
    return not relay.network.relay.tables.announce_rows()


def parted(*relays: RunningRelay) -> list[str]:
    """Sessions that ended."""
    return [line["node"] for relay in relays for line in relay.logged("peer gone")]


@pytest.mark.parametrize("loss", [0.02, 0.1])
@pytest.mark.parametrize("per_group", [1, 1 << 40], ids=["streams", "one-stream"])
async def test_edge_to_edge(tmp_path: Path, loss: float, per_group: int) -> None:
    """A stream for each object, or one for all: nothing is lost, nothing comes twice."""
    async with lossy_network(tmp_path, loss) as lossy, asyncio.TaskGroup() as group:
        left = await lossy.relay("edge")
        right = await lossy.relay("edge", left)
        await lossy.net.settled()
        show = Show(group, RATE)
        show.publish(left, per_group=per_group)
        ears = [show.listen(right), show.listen(right)]
        await show.more(*ears, numbers=200)
        await show.whole(*ears)
        assert lossy.lost() > 0
        assert [len(row.egress) for row in left.network.relay.tables.fib()] == [1]
        assert parted(left, right) == []
        show.stop()


@pytest.mark.parametrize("per_group", [10, 1 << 40], ids=["groups", "one-stream"])
async def test_a_via_comes_and_goes(tmp_path: Path, per_group: int) -> None:
    """A third copy brings the Via in, and it drains while objects flow."""
    near = {"region": "us", "via_hold": "500ms"}
    far = {"region": "eu", "dynamic": False, "unsubscribe_delay": "500ms"}
    patient = {"listen": {"drain_timeout": "40s"}}
    async with lossy_network(tmp_path, 0.02) as lossy, asyncio.TaskGroup() as group:
        via = await lossy.relay("via", network=far, **patient)
        origin = await lossy.relay("edge", via, network=near)
        edges = [await lossy.relay("edge", via, origin, network=far) for _ in range(3)]
        await lossy.net.settled()
        show = Show(group, RATE)
        show.publish(origin, per_group=per_group)
        ears = [show.listen(edge) for edge in edges[:2]]
        await show.more(*ears)
        assert origin.sends_to() == {edges[0].node, edges[1].node}
        ears.append(show.listen(edges[2]))
        await until(lambda: origin.sends_to() == {via.node})
        await show.more(*ears, numbers=100)
        # Its only way goes away: three copies again, though they are more than should be.
        await lossy.net.stop(via, drain=True)
        assert origin.sends_to() == {edge.node for edge in edges}
        await show.more(*ears, numbers=100)
        await show.whole(*ears)
        assert lossy.lost() > 0
        show.stop()


async def test_a_via_is_injected_and_not_needed_any_more(tmp_path: Path) -> None:
    near = {"region": "us", "via_hold": "500ms"}
    far = {"region": "eu", "dynamic": False, "unsubscribe_delay": "500ms"}
    async with lossy_network(tmp_path, 0.1) as lossy, asyncio.TaskGroup() as group:
        via = await lossy.relay("via", network=far)
        origin = await lossy.relay("edge", via, network=near)
        edges = [await lossy.relay("edge", via, origin, network=far) for _ in range(3)]
        await lossy.net.settled()
        show = Show(group, RATE)
        show.publish(origin, per_group=10)
        ears = [show.listen(edge) for edge in edges[:2]]
        await show.more(*ears)
        third = group.create_task(Listener().run(edges[2]))
        await until(lambda: origin.sends_to() == {via.node})
        await show.more(*ears, numbers=100)
        third.cancel()
        await until(lambda: origin.sends_to() == {edges[0].node, edges[1].node})
        await show.more(*ears, numbers=100)
        await show.whole(*ears)
        assert parted(via, origin, *edges) == []
        show.stop()


@pytest.mark.parametrize("per_group", [1, 1 << 40], ids=["streams", "one-stream"])
async def test_a_short_darkness_costs_nothing(tmp_path: Path, per_group: int) -> None:
    """Nothing gets through for many round trips, and the session lives: what waited comes."""
    async with lossy_network(tmp_path, 0.02) as lossy, asyncio.TaskGroup() as group:
        left = await lossy.relay("edge")
        right = await lossy.relay("edge", left)
        await lossy.net.settled()
        show = Show(group, RATE)
        show.publish(left, per_group=per_group)
        ear = show.listen(right)
        await show.more(ear)
        for _ in range(2):
            lossy.darken(True)
            unheard = show.sent + 100
            await until(partial(later, show, unheard))
            heard = max(ear.heard)
            lossy.darken(False)
            assert heard < unheard - 50  # it was dark indeed
            await show.more(ear, numbers=50)
        await show.whole(ear)
        assert parted(left, right) == []
        show.stop()


async def test_a_long_darkness_takes_nothing_with_it(tmp_path: Path) -> None:
    """Both ends give each other up, find each other again, and repair what was lost meanwhile."""
    quick = {"hold": "1s"}
    async with lossy_network(tmp_path, 0.0) as lossy, asyncio.TaskGroup() as group:
        left = await lossy.relay("edge", network=quick)
        right = await lossy.relay("edge", left, network=quick)
        await lossy.net.settled()
        show = Show(group, RATE)
        show.publish(left)
        ear = show.listen(right)
        await show.more(ear)
        some = min(ear.heard)
        lossy.darken(True)
        await until(lambda: parted(left) and parted(right))
        lossy.darken(False)
        await show.more(ear, numbers=100)
        before = show.sent
        await show.more(ear, numbers=50)
        ear.since = some
        await until(lambda: not ear.missing(before))
        assert ear.doubled() == []
        show.stop()


async def test_many_tracks_at_once(tmp_path: Path) -> None:
    """Handshakes, and all names and wishes of many clients in one moment, where a tenth is lost."""
    names = [f"track {number}" for number in range(60)]
    async with lossy_network(tmp_path, 0.1) as lossy:
        via = await lossy.relay("via")
        left = await lossy.relay("edge", via, network=STATIC)
        right = await lossy.relay("edge", via, network=STATIC)
        await lossy.net.settled()
        ears = [Listener(name) for name in names]
        async with asyncio.TaskGroup() as group:

            async def publish() -> None:
                async with left.connect() as session:
                    tracks = [await session.publish("net", name) for name in names]
                    number = 0
                    while True:
                        for track in tracks:
                            await track.write(b"%d" % number, end_of_group=True)
                        number += 1
                        await asyncio.sleep(0.1)

            async def listen() -> None:
                async with right.connect() as session, asyncio.TaskGroup() as listeners:
                    for ear in ears:
                        listeners.create_task(ear.follow(session))

            tasks = [group.create_task(publish()), group.create_task(listen())]
            await until(lambda: all(len(ear.heard) >= 3 for ear in ears))
            assert len(right.network.relay.tables.announce_rows()) == len(names)
            assert len(left.network.relay.tables.subscribe_rows()) == len(names)
            for task in tasks:
                task.cancel()
        # All of it is withdrawn, too.
        for relay in (left, via, right):
            await until(partial(knows_nothing, relay))
        assert [ear.doubled() for ear in ears] == [[]] * len(names)
        assert parted(left, via, right) == []
        assert lossy.lost() > 0
