"""A publisher whose relay is killed and restarted: real processes, real QUIC."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import laps_sdk
from laps_sdk import Gap, PublishedTrack
from testkit.logs import restored_logging
from testkit.network_task import network, until
from testkit.relay_process import RunningRelay, relay_process

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

BEFORE, UNHEARD, AFTER = 23, 4, 10
"""Objects that are written before the relay is killed, until that is noticed, and later."""


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    with restored_logging():
        yield


def connect(relay: RunningRelay, **options: object) -> laps_sdk.Session:
    return laps_sdk.connect(relay.url, pin=relay.certificate_sha256, **options)  # type: ignore[arg-type]


def free_port() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])


def kill(relay: RunningRelay) -> None:
    relay.process.kill()
    relay.process.wait()


class Writer:
    """Writes numbered objects, five in a group."""

    def __init__(self, track: PublishedTrack) -> None:
        self.track = track
        self.written = 0

    async def write(self, count: int) -> None:
        for number in range(self.written, self.written + count):
            await self.track.write(b"%d" % number, end_of_group=number % 5 == 4)
            self.written += 1
            await asyncio.sleep(0.005)

    async def unheard(self) -> None:
        """Write to a relay that was killed, until the connection is lost."""
        group = self.track.group()
        for number in range(self.written, self.written + UNHEARD):
            group.write_now(b"%d" % number)
            self.written += 1
        await group.end()


class Reader:
    """Reads a subscription to its end."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.gaps: list[Gap] = []

    async def read(self, subscription: laps_sdk.Subscription) -> None:
        async for each in subscription:
            if not each.status:
                self.numbers.append(int(each.payload))

    @property
    def missing(self) -> int:
        return sum(gap.objects or 0 for gap in self.gaps)


async def test_subscribers_of_the_killed_relay_get_every_object_once(tmp_path: Path) -> None:
    flags = ("--port", free_port(), "--state-dir", str(tmp_path))
    with ExitStack() as stack:
        relay = stack.enter_context(relay_process(*flags))
        reader = Reader()
        async with connect(relay) as publisher, connect(relay) as subscriber:
            track = await publisher.publish("demo", "video")
            writer = Writer(track)
            subscription = subscriber.subscribe(
                track.name, follow=True, wait=60.0, on_gap=reader.gaps.append
            )
            async with subscription:
                reading = asyncio.create_task(reader.read(subscription))
                await writer.write(BEFORE)
                await until(lambda: len(reader.numbers) == BEFORE)
                kill(relay)
                await writer.unheard()
                await until(lambda: not publisher.connected)
                assert track.unacknowledged >= UNHEARD
                stack.enter_context(relay_process(*flags))
                await writer.write(AFTER)
                assert track.resent >= UNHEARD
                assert track.lost == 0
                await until(lambda: len(reader.numbers) + reader.missing >= writer.written)
                reading.cancel()
        assert sorted(reader.numbers) == list(range(writer.written))
        assert reader.missing == 0


async def test_subscribers_elsewhere_get_every_object_once_or_know_what_is_missing(
    tmp_path: Path,
) -> None:
    async with network(tmp_path) as net:
        via = await net.relay("via")
        right = await net.relay("edge", via, network={"dynamic": False})
        flags = (
            "--type", "edge", "--node-id", "7:1", "--port", free_port(), "--peer-port", "0",
            "--peer", via.network.contact, "--state-dir", str(tmp_path),
        )  # fmt: skip
        with ExitStack() as stack:
            left = stack.enter_context(relay_process(*flags))
            reader = Reader()
            async with connect(left) as publisher, right.connect() as subscriber:
                track = await publisher.publish("demo", "video")
                writer = Writer(track)
                subscription = subscriber.subscribe(
                    track.name, follow=True, wait=60.0, on_gap=reader.gaps.append
                )
                async with subscription:
                    reading = asyncio.create_task(reader.read(subscription))
                    await writer.write(BEFORE)
                    await until(lambda: len(reader.numbers) == BEFORE)
                    kill(left)
                    await writer.unheard()
                    await until(lambda: not publisher.connected)
                    stack.enter_context(relay_process(*flags))
                    while len(reader.numbers) == BEFORE:
                        await writer.write(AFTER)
                    await writer.write(AFTER)
                    assert track.resent >= UNHEARD
                    assert track.lost == 0
                    await until(lambda: len(reader.numbers) + reader.missing >= writer.written)
                    reading.cancel()
            assert len(set(reader.numbers)) == len(reader.numbers)
            assert set(reader.numbers) <= set(range(writer.written))
            assert len(reader.numbers) + reader.missing == writer.written
