"""``laps bench``: measure throughput and delay through a relay.

One publisher and some subscribers, each with its own connection, run in this process. The figures
therefore hold for the relay, the path to it and this client together. The project's benchmarks
measure a relay alone.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated

import typer

from laps_sdk.cli.bench_report import Sample, Summary, draw, histogram, need_plotting
from laps_sdk.cli.options import AsJson, Link, Quiet, dials
from laps_sdk.cli.output import UsageFault, Voice, run
from laps_sdk.client.publication import PublishedTrack
from laps_sdk.client.subscription import Subscription
from laps_wire.errors import LapsError
from laps_wire.names import FullTrackName, Namespace

__all__ = ["bench"]

PATIENCE = 5.0
"""Seconds to wait for the last objects."""


@dials
def bench(
    link: Link,
    *,
    subscribers: Annotated[
        int,
        typer.Option(
            "--subscribers",
            "-s",
            min=1,
            help="Number of subscribers, each with its own connection.",
        ),
    ] = 2,
    rate: Annotated[
        float, typer.Option("--rate", "-r", min=0.1, help="Objects per second; see also --flood.")
    ] = 100.0,
    flood: Annotated[
        bool, typer.Option("--flood", help="Send as fast as the relay accepts objects.")
    ] = False,
    size: Annotated[int, typer.Option("--size", min=1, help="Bytes per object.")] = 1200,
    per_group: Annotated[int, typer.Option("--per-group", min=1, help="Objects per group.")] = 30,
    seconds: Annotated[
        float, typer.Option("--for", min=0.1, metavar="SECONDS", help="Send for this long.")
    ] = 5.0,
    datagrams: Annotated[
        bool, typer.Option("--datagrams", help="Send objects as datagrams, which may be lost.")
    ] = False,
    png: Annotated[
        Path | None, typer.Option("--png", help="Draw the distribution of delays into this file.")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Measure throughput and delay through a relay."""
    if png is not None:
        need_plotting()  # before the measurement
        if not png.resolve().parent.is_dir():
            raise UsageFault(f"--png {png}: no such directory")
    voice = Voice(as_json=as_json, quiet=quiet)
    load = Load(
        size=size, rate=None if flood else rate, per_group=per_group, datagrams=datagrams,
        seconds=seconds,
    )  # fmt: skip
    run(_bench(link, voice, load, subscribers, png))


class Load:
    """The load to send."""

    def __init__(
        self,
        *,
        size: int,
        rate: float | None,
        per_group: int,
        datagrams: bool,
        seconds: float,
    ) -> None:
        self.payload = bytes(size)
        self.rate = rate
        self.per_group = per_group
        self.datagrams = datagrams
        self.seconds = seconds
        self.written = 0

    async def run(self, published: PublishedTrack, voice: Voice) -> float:
        """Send the load; return the seconds that it took."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while (passed := loop.time() - began) < self.seconds:
            if self.rate is not None and self.written > passed * self.rate:
                await asyncio.sleep(self.written / self.rate - passed)
                continue
            await published.write(
                self.payload,
                end_of_group=(self.written + 1) % self.per_group == 0,
                datagram=self.datagrams,
            )
            self.written += 1
            if self.written % 64 == 0:
                await asyncio.sleep(0)  # let the subscribers run
                voice.status(f"{self.written} objects written, {passed:.1f} s")
        return loop.time() - began


async def _receive(heard: Subscription, sample: Sample) -> None:
    async for obj in heard:
        if not obj.status:
            sample.note(len(obj.payload), obj.latency)


async def _bench(link: Link, voice: Voice, load: Load, subscribers: int, png: Path | None) -> None:
    track = FullTrackName(Namespace((b"laps-bench", str(time.time_ns()).encode())), b"load")
    samples = [Sample() for _ in range(subscribers)]
    async with AsyncExitStack() as sessions:
        publisher = await sessions.enter_async_context(link.session())
        published = await publisher.publish(track)
        others = [await sessions.enter_async_context(link.session()) for _ in samples]
        heard = [await sessions.enter_async_context(other.subscribe(track)) for other in others]
        receivers = [
            asyncio.create_task(_receive(subscription, sample))
            for subscription, sample in zip(heard, samples, strict=True)
        ]
        try:
            took = await load.run(published, voice)
            await _settle(load, samples, receivers)
        finally:
            voice.end_status()
            for task in receivers:
                task.cancel()
            ended = await asyncio.gather(*receivers, return_exceptions=True)
    for fault in ended:
        if isinstance(fault, LapsError):  # without all subscriptions the figures mean nothing
            raise fault
    summary = Summary.of(samples, written=load.written, seconds=took, size=len(load.payload))
    if voice.as_json:
        voice.record(summary.record())
    else:
        for line in summary.lines():
            voice.line(line)
        for line in histogram(summary.delays):
            voice.line(line)
    if png is not None:
        draw(summary, png)
        voice.remark(f"wrote {png}")


async def _settle(load: Load, samples: list[Sample], receivers: list[asyncio.Task[None]]) -> None:
    """Wait for objects in flight, for ``PATIENCE`` seconds at most."""
    until = time.monotonic() + PATIENCE
    while any(sample.objects < load.written for sample in samples):
        if time.monotonic() > until or any(task.done() for task in receivers):
            return
        await asyncio.sleep(0.02)
