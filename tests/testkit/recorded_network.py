"""An Edge, a Via and an Edge over real QUIC that write telemetry of a show, and what they counted.

::

    publisher --> left (0.1:0.1) --> via (0.2:0.1) --> right (0.3:0.1) --> two listeners
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from laps_relay.peer_forwarding.forwarding import PeerPlaneCounters
from laps_wire.telemetry import Event, load_line
from testkit.network_show import Show
from testkit.network_task import RunningRelay, network, until

__all__ = ["LEFT", "RIGHT", "VIA", "Recorded", "events_of", "record"]

LEFT, VIA, RIGHT = "0.1:0.1", "0.2:0.1", "0.3:0.1"


@dataclass
class Recorded:
    """What was written, and what the relays' own counters said at the end."""

    folder: Path
    network: dict[str, PeerPlaneCounters] = field(default_factory=dict)
    sent: int = 0
    """Objects."""

    @property
    def published(self) -> int:
        """Bytes of all objects: each is its number."""
        return sum(len(b"%d" % number) for number in range(self.sent))

    def events(self) -> list[Event]:
        return list(events_of(self.folder))


def events_of(folder: Path) -> Iterator[Event]:
    """All records of a directory, in the order of each relay."""
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            yield load_line(line)


async def record(tmp_path: Path, *, numbers: int = 300, **observe: Any) -> Recorded:
    """Let a show run until the listeners heard so many numbers, and all relays end."""
    found = Recorded(tmp_path / "telemetry")
    settings = {"telemetry_dir": found.folder, "sample_interval": "500ms", **observe}
    async with network(tmp_path / "state") as net:
        alone = {"dynamic": False}
        via = await net.relay("via", node=VIA, observe=settings, network=alone | {"region": "eu"})
        left = await net.relay(
            "edge", via, node=LEFT, observe=settings, network=alone | {"region": "us"}
        )
        right = await net.relay(
            "edge", via, node=RIGHT, observe=settings, network=alone | {"region": "as"}
        )
        await net.settled()
        async with asyncio.TaskGroup() as group:
            show = Show(group)
            show.publish(left, per_group=5)
            ears = [show.listen(right), show.listen(right)]
            await show.more(*ears, numbers=numbers)
            await show.whole(*ears)
            show.stop()
        found.sent = show.sent
        for relay in (left, via, right):
            await _quiet(relay)
            found.network[relay.node] = relay.network.relay.plane.counters()
    return found


async def _quiet(relay: RunningRelay) -> None:
    """Until clients are gone and nothing is under way."""
    await until(lambda: len(relay.app.view.sessions()) <= 1)
    await until(lambda: relay.network.relay.plane.counters().held_bytes == 0)
