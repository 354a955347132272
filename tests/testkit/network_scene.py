"""A small network in which somebody publishes and somebody listens, beside an attack.

::

    async with scene(tmp_path) as show:
        async with hostile_peer(show.net, show.via) as mallory:
            ...                     # what must not hurt others

Behind the block every object that was published has arrived, once, and no session between good
relays has ended.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from testkit.network_task import NetworkTask, RunningRelay, network, until

__all__ = ["Scene", "scene"]

PAUSE = 0.01
"""Seconds between two objects; how punctual that is does not matter."""
AFTERWARDS = 20
"""Objects that must still get through when the attack is over."""


class Scene:
    """``left`` publishes, ``right`` listens, ``via`` is between them."""

    def __init__(
        self, net: NetworkTask, left: RunningRelay, via: RunningRelay, right: RunningRelay
    ) -> None:
        self.net = net
        self.left, self.via, self.right = left, via, right
        self.written = 0
        self.heard: Counter[int] = Counter()

    @property
    def relays(self) -> tuple[RunningRelay, RunningRelay, RunningRelay]:
        return self.left, self.via, self.right

    async def write(self) -> None:
        async with self.left.connect(reconnect=False) as session:
            track = await session.publish("scene", "numbers")
            for number in itertools.count():
                self.written = number + 1
                await track.write(b"%d" % number, end_of_group=number % 10 == 9)
                await asyncio.sleep(PAUSE)

    async def read(self) -> None:
        async with (
            self.right.connect(reconnect=False) as session,
            session.subscribe("scene", "numbers", wait=40.0) as numbers,
        ):
            async for obj in numbers:
                self.heard[int(obj.payload)] += 1

    async def more(self, count: int = AFTERWARDS) -> None:
        """Until so many objects were heard that are published from now on."""
        after = self.written
        await until(lambda: sum(number >= after for number in self.heard) >= count)

    def check(self) -> None:
        """Nothing is missing, nothing came twice, and good relays have lost nobody."""
        whole = range(min(self.heard), max(self.heard) + 1)
        assert [number for number in whole if number not in self.heard] == []
        assert [number for number, times in self.heard.items() if times > 1] == []
        good = {relay.node for relay in self.relays}
        for relay in self.relays:
            assert [line for line in relay.logged("peer gone") if line["node"] in good] == []


@asynccontextmanager
async def scene(
    state: Path, each: Callable[[str], dict[str, Any]] = lambda _: {}, **options: Any
) -> AsyncIterator[Scene]:
    """Relays with these options of the section ``network``, and a track that goes through them.

    ``each`` gives more of them for a node id.
    """
    options = {"hold": "60s", "dynamic": False, **options}
    async with network(state) as net:
        via = await net.relay("via", network=options | each("1:1"))
        contact = f"127.0.0.1:{via.network.server.address[1]}"
        left = await net.relay("edge", contact, network=options | each("2:1"))
        right = await net.relay("edge", contact, network=options | each("3:1"))
        show = Scene(net, left, via, right)
        await net.settled()
        tasks = [asyncio.create_task(show.write()), asyncio.create_task(show.read())]
        try:
            await show.more(5)
            yield show
            await show.more()
            show.check()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
