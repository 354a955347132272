"""A well-behaved pair beside an attack: every object that is written must arrive, once, in order.

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
    received: list[bytes] = []
    written: list[bytes] = []
    enough = asyncio.Event()

    async with (
        laps_sdk.connect(edge.url(), ca_file=edge.ca_file, reconnect=False) as publisher,
        laps_sdk.connect(edge.url(), ca_file=edge.ca_file, reconnect=False) as subscriber,
    ):
        track = await publisher.publish("witness", "track")

        async def write() -> None:
            for number in itertools.count():
                payload = b"%d" % number
                await track.write(payload, end_of_group=number % 10 == 9)
                written.append(payload)
                if number >= at_least:
                    enough.set()
                await asyncio.sleep(PAUSE)

        async def read() -> None:
            async for obj in subscription:
                received.append(obj.payload)  # noqa: PERF401 - seen while it grows

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
                while len(received) < len(written) and not reading.done():  # noqa: ASYNC110
                    await asyncio.sleep(PAUSE)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
    # A write that was cancelled may have gone out although it was not noted.
    assert received[: len(written)] == written
    assert len(received) <= len(written) + 1
