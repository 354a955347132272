"""A well-behaved pair beside an attack: every object that is written must arrive, once.

Inside a group they come in order; groups are streams of their own and may overtake one another.

::

    async with witness(edge):
        ...             # what must not hurt others
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import laps_sdk
from testkit.edge_task import Edge

__all__ = ["witness"]

LIMIT = 30.0
"""Seconds for the last objects: generous, since machines are busy."""
PAUSE = 0.005
"""Seconds between two objects; how punctual that is does not matter."""


@asynccontextmanager
async def witness(edge: Edge, *, at_least: int = 20) -> AsyncIterator[None]:
    """Publish and subscribe while the block runs, and check the outcome behind it."""
    received: list[tuple[int, int]] = []  # group and number
    written = 0
    enough = asyncio.Event()

    async with (
        laps_sdk.connect(edge.url(), ca_file=edge.ca_file, reconnect=False) as publisher,
        laps_sdk.connect(edge.url(), ca_file=edge.ca_file, reconnect=False) as subscriber,
    ):
        track = await publisher.publish("witness", "track")

        async def write() -> None:
            nonlocal written
            for number in itertools.count():
                await track.write(b"%d" % number, end_of_group=number % 10 == 9)
                written = number + 1
                if written > at_least:
                    enough.set()
                await asyncio.sleep(PAUSE)

        async def read() -> None:
            async for obj in subscription:
                received.append((obj.group, int(obj.payload)))  # noqa: PERF401 - seen growing

        async with subscriber.subscribe("witness", "track") as subscription:
            reading = asyncio.create_task(read())
            writing = asyncio.create_task(write())
            try:
                yield
                async with asyncio.timeout(LIMIT):
                    await enough.wait()
            finally:
                writing.cancel()
                await asyncio.gather(writing, return_exceptions=True)
            async with asyncio.timeout(LIMIT):
                while len(received) < written and not reading.done():  # noqa: ASYNC110
                    await asyncio.sleep(PAUSE)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
    # A write that was cancelled may have gone out although it was not noted.
    numbers = [number for _, number in received]
    assert sorted(numbers)[:written] == list(range(written))
    assert len(numbers) <= written + 1
    by_group = sorted(received, key=lambda pair: pair[0])  # stable: keeps the order inside a group
    assert [number for _, number in by_group] == sorted(numbers)
