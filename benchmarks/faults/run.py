"""One run: relays, clients, faults of one kind, and the account of all objects.

::

    publishers --- edge-1 ---+--- via-1 ---+--- edge-2 --- subscribers
                             |             |
                             +--- via-2 ---+--- edge-3 --- subscribers
                       control server: peers with all of them, carries no data

Publishers write slowly until every subscription receives; only then the run begins.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from faults.checker import Event, Outcome, Total, check, total
from faults.client import Task
from faults.history import read_publishers, read_subscribers
from faults.kinds import Kind, Load
from faults.processes import ClientProcess, FaultsError, Processes, Relay

__all__ = ["SUBSCRIBERS", "Options", "Result", "Run", "run_kind"]

_SETTINGS: Final = {"network.dynamic": "false"}
"""Edges must not dial each other: all data goes over a Via."""
_PATIENCE: Final = 90.0
_SPACING: Final = 4.0
"""Seconds from the recovery after an event to the next event, so that events stay apart."""
_REPORTS: Final = 5.0
"""Seconds in which the SDK reports what is missing (``gap_after`` is 3 s)."""
_ENDS: Final = 45.0
"""Seconds in which subscriptions must end after their tracks have ended."""
_PUBLISHERS: Final = 2
"""Processes that publish."""
SUBSCRIBERS: Final = 4
"""Processes that subscribe; each of them subscribes to a track at most once."""
_STILL: Final = 5.0
"""Seconds without an object after which nothing more is expected."""
_SLOW_P99: Final = 0.1
_SLOW_MAX: Final = 0.5
"""Lateness of clients, in seconds, above which the machine was too slow for a judgement of time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a run is to do."""

    load: Load = field(default_factory=Load)
    times: int = 10
    pause: float = 30.0
    quiet_every: float = 40.0
    quiet_for: float = 120.0
    settings: dict[str, str] = field(default_factory=dict)
    """Configuration of all relays, by key."""
    tell: Callable[[str], None] = print
    """Gets a line for each step."""


@dataclass(slots=True, kw_only=True)
class Result:
    """What a run showed."""

    kind: str
    load: Load
    begin: float
    seconds: float
    events: list[Event]
    total: Total
    outcomes: list[Outcome]
    ends: list[str]
    """Why subscriptions and publications ended early."""
    unrecovered: int
    """Events after which not all subscriptions received again in time."""
    lateness_p99: float
    lateness_max: float
    """How late timers of the clients fired, in seconds."""

    @property
    def exact(self) -> bool:
        """Whether the sum is exact for every subscription."""
        return not self.total.broken and self.total.published > 0

    @property
    def passed(self) -> bool:
        """Whether the sum is exact, and no subscription ended before its track."""
        return self.exact and not self.total.ended

    @property
    def slow(self) -> bool:
        """Whether the machine was too slow for pauses and recovery times to mean much."""
        return self.lateness_p99 > _SLOW_P99 or self.lateness_max > _SLOW_MAX


class Run:
    """The processes of a run; :func:`run_kind` makes it."""

    def __init__(self, options: Options, processes: Processes) -> None:
        self.options = options
        self.processes = processes
        self.events: list[Event] = []
        self.unrecovered = 0
        self.control = Relay("control", "control", "9:1", [])
        self.vias = [Relay(f"via-{number}", "via", f"2:{number}", []) for number in (1, 2)]
        self.edges = [Relay(f"edge-{number}", "edge", f"1:{number}", []) for number in (1, 2, 3)]
        self.publishers: list[ClientProcess] = []
        self.subscribers: list[ClientProcess] = []

    # For kinds

    def note_event(self, target: str) -> None:
        """Note the time and the target of a fault."""
        self.events.append(Event(at=time.monotonic(), target=target))
        self.options.tell(f"event {len(self.events)}: {target}")

    async def via_in_use(self) -> Relay:
        """Return the Via that receives the most data now."""
        before = [await self._bytes_received(via) for via in self.vias]
        await asyncio.sleep(0.5)
        after = [await self._bytes_received(via) for via in self.vias]
        gained = [now - was for was, now in zip(before, after, strict=True)]
        return self.vias[gained.index(max(gained))]

    @staticmethod
    async def _bytes_received(via: Relay) -> int:
        return sum(row["bytes_received"] or 0 for row in await via.table("network/peers"))

    def edge_of(self, clients: Sequence[ClientProcess]) -> Relay:
        """Return the Edge that most of these clients are connected to."""
        ports = Counter(str(client.state["url"]).rpartition(":")[2] for client in clients)
        port = ports.most_common(1)[0][0]
        for edge in self.edges:
            if edge.url.rpartition(":")[2] == port:
                return edge
        raise FaultsError(f"no Edge listens on port {port}")

    # Start

    async def start(self) -> None:
        """Start relays and clients, and wait until every subscription receives."""
        self.options.tell("starting six relays")
        await self.processes.start(self.control)
        control = f"{self.control.peer_address}/control"
        for via in self.vias:
            via.peers = [control]
        await asyncio.gather(*(self.processes.start(via) for via in self.vias))
        for edge in self.edges:
            edge.peers = [control, *(via.peer_address for via in self.vias)]
        await asyncio.gather(*(self.processes.start(edge) for edge in self.edges))
        await self._until("the relays to know each other", self._settled)
        self.options.tell("starting clients")
        await self._start_publishers()
        await self._start_subscribers()
        await self._until("every subscription to receive", lambda: self._newest_since(0.1))
        for client in self._clients():
            client.order(rate=self.options.load.rate)
        await asyncio.sleep(2.0)
        for client in self._clients():
            client.order(begin=True)

    async def _settled(self) -> bool:
        for edge in self.edges:
            nodes = await edge.table("network/nodes")
            reached = sum(row["next_hop"] is not None for row in nodes)
            peers = await edge.table("network/peers")
            # Control servers carry no data, so that no path leads to them.
            if reached < len(self.edges + self.vias) - 1 or len(peers) < len(edge.peers):
                return False
        return True

    async def _start_publishers(self) -> None:
        load = self.options.load
        tracks = [f"track-{number}" for number in range(load.tracks)]
        for number in range(min(_PUBLISHERS, load.tracks)):
            names = [(track, track) for track in tracks[number::_PUBLISHERS]]
            task = self._task(f"publisher-{number}", self.edges[0], names)
            self.publishers.append(
                await self.processes.start_client(f"publisher-{number}", "publish", task)
            )
        for client in self.publishers:
            await client.until_ready()

    async def _start_subscribers(self) -> None:
        load = self.options.load
        processes = min(SUBSCRIBERS, load.subscriptions)
        names: list[list[tuple[str, str]]] = [[] for _ in range(processes)]
        for number in range(load.subscriptions):
            turn, track = divmod(number, load.tracks)
            # A track is subscribed to once in a process: a second time at the other Edge.
            names[(track + turn) % processes].append((f"subscription-{number}", f"track-{track}"))
        for number, own in enumerate(names):
            task = self._task(f"subscriber-{number}", self.edges[1 + number % 2], own)
            self.subscribers.append(
                await self.processes.start_client(f"subscriber-{number}", "subscribe", task)
            )
        for client in self.subscribers:
            await client.until_ready()

    def _task(self, name: str, edge: Relay, names: list[tuple[str, str]]) -> Task:
        load = self.options.load
        return Task(
            url=edge.url,
            history=str(self.processes.folder / f"{name}.jsonl"),
            names=names,
            per_group=load.per_group,
            size=load.size,
        )

    # Waiting

    def _clients(self) -> list[ClientProcess]:
        return [*self.publishers, *self.subscribers]

    def _newest_since(self, moment: float) -> bool:
        """Return whether every subscription has got an object that was written since a moment."""
        return all(client.state.get("newest", 0.0) >= moment for client in self.subscribers)

    async def _until(self, what: str, done: Callable[[], Any]) -> None:
        limit = time.monotonic() + _PATIENCE
        while True:
            answer = done()
            if await answer if asyncio.iscoroutine(answer) else answer:
                return
            if time.monotonic() > limit:
                raise FaultsError(f"waited {_PATIENCE:.0f} s for {what}")
            for client in self._clients():
                client.check()
            await asyncio.sleep(0.1)

    async def until_recovered(self) -> None:
        """Wait until every subscription receives what is written now, and a little longer."""
        moment = time.monotonic()
        try:
            await self._until("recovery", lambda: self._newest_since(moment))
        except FaultsError as error:
            for client in self._clients():
                client.check()
            self.options.tell(str(error))
            self.unrecovered += 1
        await asyncio.sleep(_SPACING)

    async def until_still(self) -> None:
        """Wait until no subscription receives any more."""
        last, since = -1, time.monotonic()
        limit = since + _PATIENCE
        while time.monotonic() < min(limit, since + _STILL):
            count = sum(client.state.get("objects", 0) for client in self.subscribers)
            if count != last:
                last, since = count, time.monotonic()
            await asyncio.sleep(0.2)

    # End

    async def finish(self) -> None:
        """Stop writing, end the tracks, and wait for the clients to end."""
        for client in self.publishers:
            client.order(rate=0)
        self.options.tell("waiting for the rest")
        await self.until_still()
        for client in self.subscribers:
            client.order(finish=_ENDS)
        for client in self.publishers:
            client.order(end=True)
        for client in self.subscribers:
            await client.until_ended()
        for client in self.publishers:
            client.close()
            await client.until_ended()

    def lateness(self, which: str) -> float:
        """Return the largest lateness of all clients."""
        return max(float(client.state["lateness"][which]) for client in self._clients())


async def run_kind(name: str, kind: Kind, options: Options, folder: Path) -> Result:
    """Run one kind of fault, and account for every object."""
    settings = {
        "LAPS_" + key.upper().replace(".", "__"): value
        for key, value in (_SETTINGS | options.settings).items()
    }
    async with Processes(folder, settings) as processes:
        run = Run(options, processes)
        await run.start()
        begin = time.monotonic()
        for number in range(1 if kind.once else options.times):
            await kind.act(run, number)
            if not kind.once:
                await run.until_recovered()
        await asyncio.sleep(_REPORTS)
        seconds = time.monotonic() - begin
        await run.finish()
    published = read_publishers(client.history for client in run.publishers)
    subscribed = read_subscribers(client.history for client in run.subscribers)
    outcomes = [
        check(published[each.track], each, begin, run.events) for each in subscribed.values()
    ]
    ends = Counter(f"publication: {end.reason}" for e in published.values() for end in e.ended)
    ends += Counter(f"subscription: {end.reason}" for e in subscribed.values() for end in e.ended)
    return Result(
        kind=name,
        load=options.load,
        begin=begin,
        seconds=seconds,
        events=run.events,
        total=total(outcomes, len(run.events)),
        outcomes=outcomes,
        ends=[f"{count} x {reason}" for reason, count in ends.most_common()],
        unrecovered=run.unrecovered,
        lateness_p99=run.lateness("p99"),
        lateness_max=run.lateness("max"),
    )
