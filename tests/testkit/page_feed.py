"""A publisher for the pages' tests: repeats an object until the page has seen enough."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import laps_sdk
from testkit.relay_process import RunningRelay

__all__ = ["PageFeed", "page_feed"]

PACE = 0.03
"""Seconds between two objects."""


class PageFeed:
    """What is published; a test changes it at any time, from any thread."""

    def __init__(self) -> None:
        self.payload = b"the first"
        self.datagrams = False
        self.written = 0


@asynccontextmanager
async def page_feed(
    relay: RunningRelay, namespace: laps_sdk.Namespace, name: bytes, *, timestamps: bool = True
) -> AsyncGenerator[PageFeed]:
    """Publish through the relay for as long as the block lasts."""
    feed = PageFeed()

    async def write(track: laps_sdk.PublishedTrack) -> None:
        while True:
            await track.write(
                feed.payload,
                new_group=feed.written % 10 == 0,
                datagram=feed.datagrams,
            )
            feed.written += 1
            await asyncio.sleep(PACE)

    async with laps_sdk.connect(relay.url, pin=relay.certificate_sha256) as session:
        track = await session.publish(namespace, name, timestamps=timestamps)
        writing = asyncio.create_task(write(track))
        try:
            yield feed
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
