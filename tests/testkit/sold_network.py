"""Two tenants in a network of real relays, and clients that count every byte for themselves.

::

    publishers --> left (0.5:0.1) --> one of two Vias --> right (0.7:0.1) --> listeners

The Via that carries the tracks is started again while they go on, and then the Edge of the
listeners, between two objects: what was sent and not yet heard would be counted by one side only.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import laps_sdk
from testkit.network_task import LIMIT, NetworkTask, RunningRelay, network, until

__all__ = ["LEFT", "RIGHT", "TENANTS", "Sold", "sell"]

LEFT, RIGHT = "0.5:0.1", "0.7:0.1"
_VIAS: Final = ("0.6:0.1", "0.6:0.2")
TENANTS: Final = {"acme": 2, "globex": 1}
"""Each has a track of its name, and so many listeners."""


@dataclass
class Sold:
    """What clients counted: payload, by tenant."""

    folder: Path
    tracks: dict[str, str] = field(default_factory=dict)
    """Tenant to the hash of its track, as relays write it."""
    published: Counter[str] = field(default_factory=Counter)
    received: Counter[str] = field(default_factory=Counter)
    objects: Counter[str] = field(default_factory=Counter)
    """Objects that listeners got."""
    missed: Counter[str] = field(default_factory=Counter)
    """Payload of objects that were published between two that a listener got, and did not come."""


def _sizes(seed: int) -> Iterator[int]:
    """Lengths of objects: from one byte to more than a packet, and no two tenants alike."""
    at = seed
    while True:
        at = (at * 1_103_515_245 + 12_345) % 2**31
        yield 1 + at % 2_900


class _Tenant:
    """A publisher that goes on when it is told to, and listeners that add up what they get."""

    def __init__(self, name: str, sold: Sold) -> None:
        self.name = name
        self.sent = 0
        """Objects."""
        self.wanted = 0
        """So many are to be sent."""
        self.sizes = _sizes(len(name))
        self.lengths: list[int] = []
        """Of what was published."""
        self.heard: list[set[int]] = []
        self.sold = sold

    async def publish(self, relay: RunningRelay) -> None:
        async with relay.connect() as session:
            track = await session.publish("net", self.name)
            while True:
                await until(lambda: self.sent < self.wanted)
                number = b"%06d" % self.sent
                payload = number + bytes(next(self.sizes))
                self.sold.published[self.name] += len(payload)
                self.lengths.append(len(payload))
                self.sent += 1
                await track.write(payload, end_of_group=self.sent % 7 == 0)
                await asyncio.sleep(0.005)  # as live tracks do, and not all at once

    async def listen(self, relay: RunningRelay) -> None:
        heard: set[int] = set()
        self.heard.append(heard)
        async with (
            relay.connect() as session,
            session.subscribe("net", self.name, follow=True, wait=LIMIT) as objects,
        ):
            async for obj in objects:
                self.sold.received[self.name] += len(obj.payload)
                self.sold.objects[self.name] += 1
                number = int(obj.payload[:6])
                assert number not in heard
                heard.add(number)

    def leave(self) -> None:
        """Nobody listens any more; what they missed is added up."""
        for heard in self.heard:
            missed = set(range(min(heard), max(heard))) - heard
            self.sold.missed[self.name] += sum(self.lengths[number] for number in missed)
        self.heard.clear()

    async def go_on(self, objects: int, *, whole: bool = True) -> None:
        """Until all who listen have heard so many more: ``whole``, or the last of them at least."""
        begin = self.sent
        self.wanted = begin + objects
        asked = set(range(begin, self.wanted)) if whole else {self.wanted - 1}
        await until(lambda: all(heard >= asked for heard in self.heard))


async def sell(tmp_path: Path, *, drain: bool = True) -> Sold:
    """The whole story. Without ``drain`` the Via is gone at once, with what it had in hand."""
    sold = Sold(tmp_path / "telemetry")
    settings = {"telemetry_dir": sold.folder, "sample_interval": "500ms"}

    async def start(net: NetworkTask, kind: str, name: str, *peers: RunningRelay) -> RunningRelay:
        part: dict[str, Any] = {"region": name[:3], "dynamic": False}
        patient = {"drain_timeout": f"{LIMIT}s"}
        return await net.relay(
            kind, *peers, node=name, observe=settings, network=part, listen=patient
        )

    async with network(tmp_path / "state") as net:
        vias = {name: await start(net, "via", name) for name in _VIAS}
        left = await start(net, "edge", LEFT, *vias.values())
        right = await start(net, "edge", RIGHT, *vias.values())
        await net.settled()
        for name in TENANTS:
            full = laps_sdk.FullTrackName(laps_sdk.Namespace.of(b"net"), name.encode())
            sold.tracks[name] = f"{left.network.relay.key(full):016x}"
        tenants = [_Tenant(name, sold) for name in TENANTS]
        async with asyncio.TaskGroup() as group:
            work = [group.create_task(each.publish(left)) for each in tenants]

            async def listen() -> list[asyncio.Task[None]]:
                found = []
                for each in tenants:
                    found += [
                        group.create_task(each.listen(right)) for _ in range(TENANTS[each.name])
                    ]
                for each in tenants:
                    # One object at a time, until everybody has joined.
                    while len(each.heard) < TENANTS[each.name] or not all(each.heard):
                        each.wanted = each.sent + 1
                        await asyncio.sleep(0.05)
                return found

            ears = await listen()
            for each in tenants:
                await each.go_on(60)
            used = min(left.sends_to())
            # Who listens hears the rest over the other one; what broke off on the way may be lost.
            going = [group.create_task(each.go_on(400, whole=False)) for each in tenants]
            await until(lambda: all(each.sent > 100 for each in tenants))
            await net.stop(vias[used], drain=drain)
            vias[used] = await start(net, "via", used)
            await asyncio.gather(*going)
            for each in tenants:
                await each.go_on(60)
            for task in ears:
                task.cancel()
            for each in tenants:
                each.leave()
            await until(lambda: len(right.app.view.sessions()) <= 1)
            await net.stop(right)
            right = await start(net, "edge", RIGHT, *vias.values())
            await net.settled()
            ears = await listen()
            for each in tenants:
                await each.go_on(60)
            for task in (*ears, *work):
                task.cancel()
            for each in tenants:
                each.leave()
        edges = (left, right)
        await until(lambda: all(len(edge.app.view.sessions()) <= 1 for edge in edges))
    return sold
