"""Two viewers of one Edge over real QUIC, one of whom reports: and what the Edge wrote.

::

    publisher --> edge (0.1:0.1) --> viewer that reports: started, stalled, resumed, quit
                                 --> viewer that says nothing
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from laps_sdk import Reporter, Session
from laps_wire.telemetry import ClientReport, Event
from testkit.network_task import RunningRelay, network, until
from testkit.recorded_network import events_of

__all__ = ["NAME_KEY", "Watched", "counted", "watch"]

NAME_KEY = "viewers"
OBSERVE = {"sample_interval": "200ms", "reports": {"enabled": True}, "name_key": NAME_KEY}
ALICE = "/?CMCD=sid%3D%22alice%22%2Ccid%3D%22film%20of%20the%20week%22"
"""She says who she is when she connects, too."""


@dataclass
class Watched:
    """What was written, and what the viewers had."""

    folder: Path
    heard: dict[str, int] = field(default_factory=dict)
    """The last number of each viewer."""
    reporter: Reporter | None = None
    logged: list[dict[str, object]] = field(default_factory=list)

    def events(self) -> list[Event]:
        return list(events_of(self.folder))

    def reports(self, by: str) -> list[ClientReport]:
        bodies = [event.body for event in self.events()]
        return [
            body for body in bodies if isinstance(body, ClientReport) and body.measured_by == by
        ]


def counted(relay: RunningRelay, name: str, **labels: str) -> float:
    """A counter of a relay."""
    return relay.app.metrics.registry.get_sample_value(name, labels) or 0.0


async def _publish(session: Session, stop: asyncio.Event) -> None:
    track = await session.publish("live", "video")
    number = 0
    while not stop.is_set():
        await track.write(b"%d" % number, end_of_group=number % 10 == 9)
        number += 1
        await asyncio.sleep(0.005)
    await track.end()


async def _listen(session: Session, found: Watched, name: str, ready: asyncio.Event) -> None:
    async with session.subscribe("live", "video", wait=20.0) as video:
        async for item in video:
            found.heard[name] = int(item.payload)
            ready.set()


async def _report(session: Session, found: Watched) -> None:
    """What a player says: its words come a second apart at least."""
    async with session.reports("film of the week", playback="alice") as reporter:
        found.reporter = reporter
        reporter.measured(buffer=2.0, latency=0.9, bitrate=5e6)
        reporter.started(0.4)
        await until(lambda: reporter.sent >= 1)
        reporter.stalled()
        await until(lambda: reporter.sent >= 2)
        reporter.resumed()
        reporter.failed("decode")


async def watch(
    tmp_path: Path,
    beside: Callable[[RunningRelay, Watched], Awaitable[None]] | None = None,
    *,
    node: str = "0.1:0.1",
) -> Watched:
    """Let the show run while one viewer reports; ``beside`` happens meanwhile."""
    found = Watched(tmp_path / "telemetry")
    async with network(tmp_path / "state") as net:
        relay = await net.relay(
            "edge",
            node=node,
            observe={**OBSERVE, "telemetry_dir": found.folder},
            network={"region": "eu"},
        )
        stop, ready = asyncio.Event(), [asyncio.Event(), asyncio.Event()]
        async with (
            relay.connect() as publisher,
            relay.connect(ALICE) as alice,
            relay.connect() as bob,
            asyncio.TaskGroup() as group,
        ):
            group.create_task(_publish(publisher, stop))
            group.create_task(_listen(alice, found, "alice", ready[0]))
            group.create_task(_listen(bob, found, "bob", ready[1]))
            for each in ready:
                await each.wait()
            async with asyncio.TaskGroup() as talk:
                talk.create_task(_report(alice, found))
                if beside is not None:
                    talk.create_task(_as_coroutine(beside(relay, found)))
            stop.set()
        found.logged = relay.logged("reports of a player refused")
    return found


async def _as_coroutine(awaitable: Awaitable[None]) -> None:
    await awaitable
