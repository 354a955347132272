"""A client process: several tracks, or several subscriptions, on one session of the SDK.

    python -m faults.client publish|subscribe

The first line of standard input is the task, as JSON; further lines are orders. The process prints
its state as lines of JSON, writes its history to a file, and ends when standard input ends.

| order | who | meaning |
| --- | --- | --- |
| ``{"rate": 50}`` | publisher | write so many objects a second on each track; 0: none |
| ``{"end": true}`` | publisher | end the tracks |
| ``{"pause": 30}`` | subscriber | read nothing for so many seconds |
| ``{"finish": 10}`` | subscriber | no track will go on; wait so many seconds for the ends |
| ``{"begin": true}`` | both | measure the process's own lateness from now on |
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import laps_sdk
from faults.history import pack, unpack
from laps_wire.errors import LapsError

NAMESPACE: Final = "faults"
_TICK: Final = 0.05
_STATUS: Final = 0.5
_WAIT: Final = 60.0
"""How long a subscription waits for its publisher."""
_PIECE: Final = 0.25
"""Seconds until a source looks at its rate again."""
_CATCH_UP: Final = 1.0
"""Seconds of a delay that a source makes up for; after a longer one it begins anew."""
_AGAIN: Final = 0.25
"""Seconds until a client repeats what failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a client does."""

    url: str
    history: str
    names: list[tuple[str, str]]
    """Pairs of the name of a subscription and its track; for publishers both are the track."""
    rate: float = 10.0
    per_group: int = 25
    """Objects in a group; 0: one group without end."""
    size: int = 200


class Client:
    """What publishers and subscribers have in common: orders, state, history, lateness."""

    def __init__(self, task: Task, session: laps_sdk.Session, history: IO[str]) -> None:
        self.task = task
        self.session = session
        self._history = history
        self._lateness: list[float] = []
        self.done = asyncio.Event()

    def record(self, *fields: object) -> None:
        """Write one line of the history."""
        self._history.write(json.dumps(fields, separators=(",", ":")) + "\n")

    def say(self, **fields: object) -> None:
        """Print one line of state."""
        self._history.flush()
        print(json.dumps(fields), flush=True)

    def order(self, order: dict[str, Any]) -> None:
        """Follow an order."""
        if "begin" in order:
            self._lateness.clear()

    def state(self) -> dict[str, object]:
        """Return the state that is printed twice a second."""
        return {"url": str(self.session.address)}

    async def work(self) -> None:
        """Publish or subscribe until ``done``."""
        raise NotImplementedError

    async def watch(self) -> None:
        """Measure how late this process runs, and print its state."""
        due = time.monotonic() + _TICK
        said = 0.0
        while True:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            now = time.monotonic()
            self._lateness.append(now - due)
            due = max(due + _TICK, now)
            if now - said >= _STATUS:
                said = now
                self.say(**self.state())

    def lateness(self) -> dict[str, float]:
        """Return how late timers fired since the run began."""
        ordered = sorted(self._lateness) or [0.0]
        return {"p99": ordered[int(len(ordered) * 0.99)], "max": ordered[-1]}


class Publisher(Client):
    """Writes numbered objects on each track, at a constant rate.

    A write that waits for a connection stops its source, and no burst follows.
    """

    def __init__(self, task: Task, session: laps_sdk.Session, history: IO[str]) -> None:
        super().__init__(task, session, history)
        self._rate = task.rate
        self._ending = False

    def order(self, order: dict[str, Any]) -> None:
        """Follow an order."""
        super().order(order)
        self._rate = order.get("rate", self._rate)
        self._ending = self._ending or "end" in order

    async def work(self) -> None:
        """Publish all tracks."""
        tracks = [await self.session.publish(NAMESPACE, name) for name, _ in self.task.names]
        self.say(ready=True)
        async with asyncio.TaskGroup() as group:
            for index, track in enumerate(tracks):
                group.create_task(self._publish(track, index / len(tracks)))
        await self.done.wait()

    async def _publish(self, track: laps_sdk.PublishedTrack, phase: float) -> None:
        name, sequence = track.name.name.decode(), 0
        while not self._ending:
            try:
                sequence = await self._write(track, name, sequence, phase)
                await track.end()
            except LapsError as error:
                self.record("ended", name, time.monotonic(), f"{type(error).__name__}: {error}")
                track = await self._publish_again(name)

    async def _publish_again(self, name: str) -> laps_sdk.PublishedTrack:
        while True:
            await asyncio.sleep(_AGAIN)
            try:
                return await self.session.publish(NAMESPACE, name)
            except LapsError as error:
                print(f"publish {name}: {error}", file=sys.stderr)

    async def _write(
        self, track: laps_sdk.PublishedTrack, name: str, sequence: int, phase: float
    ) -> int:
        """Write until the tracks are to end; return the next sequence number."""
        per_group, size = self.task.per_group, self.task.size
        last = time.monotonic() - (1 - phase) / self.task.rate
        while not self._ending:
            now = time.monotonic()
            due = last + 1 / self._rate if self._rate else now + _STATUS
            if now < due:
                # In short pieces, so that a new rate takes effect soon.
                await asyncio.sleep(min(due - now, _PIECE))
                continue
            last = due if now - due < _CATCH_UP else now
            place = await track.write(
                pack(name, sequence, now, size),
                new_group=bool(per_group) and not sequence % per_group,
                end_of_group=bool(per_group) and not (sequence + 1) % per_group,
            )
            self.record("published", name, sequence, place.group, place.object, now)
            sequence += 1
        return sequence


class Subscriber(Client):
    """Reads several subscriptions; one that ends before its track is made again."""

    def __init__(self, task: Task, session: laps_sdk.Session, history: IO[str]) -> None:
        super().__init__(task, session, history)
        self._newest = {name: 0.0 for name, _ in task.names}
        self._objects = 0
        self._reading = asyncio.Event()
        self._reading.set()
        self._finishing = False
        self._over = asyncio.Event()

    def order(self, order: dict[str, Any]) -> None:
        """Follow an order."""
        super().order(order)
        loop = asyncio.get_running_loop()
        if "pause" in order:
            self._reading.clear()
            loop.call_later(order["pause"], self._reading.set)
        if "finish" in order:
            self._finishing = True
            loop.call_later(order["finish"], self._over.set)

    def state(self) -> dict[str, object]:
        """Return the state: the oldest of the newest objects of all subscriptions."""
        return {
            **super().state(),
            "newest": min(self._newest.values()),
            "objects": self._objects,
            "subscriptions": len(self._newest),
        }

    async def work(self) -> None:
        """Read until all subscriptions have ended."""
        for name, track in self.task.names:
            self.record("subscription", name, track)
        self.say(ready=True)
        tasks = [asyncio.create_task(self._subscribe(*names)) for names in self.task.names]
        over = asyncio.create_task(self._end_in_time(tasks))
        await asyncio.wait(tasks)
        over.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        for (name, _), result in zip(self.task.names, results, strict=True):
            if isinstance(result, asyncio.CancelledError):
                self.record("ended", name, time.monotonic(), "did not end with its track")
            elif result is not None:
                raise result

    async def _end_in_time(self, tasks: list[asyncio.Task[None]]) -> None:
        await self._over.wait()
        for task in tasks:
            task.cancel()

    async def _subscribe(self, name: str, track: str) -> None:
        while True:
            reason = "end of track"
            started = False
            subscription = self.session.subscribe(
                NAMESPACE, track, follow=True, wait=_WAIT, on_gap=lambda gap: self._gap(name, gap)
            )
            try:
                async with subscription:
                    started = True
                    await self._read(subscription, name, track)
            except LapsError as error:
                reason = f"{type(error).__name__}: {error}"
            finally:
                if subscription.duplicates:
                    self.record("discarded", name, subscription.duplicates)
            if self._finishing:
                return
            if started:
                self.record("ended", name, time.monotonic(), reason)
            await asyncio.sleep(_AGAIN)

    async def _read(self, subscription: laps_sdk.Subscription, name: str, track: str) -> None:
        async for obj in subscription:
            now = time.monotonic()
            sequence, sent, intact = unpack(track, obj.payload)
            self._newest[name] = max(self._newest[name], sent)
            self._objects += 1
            subgroup = -1 if obj.subgroup is None else obj.subgroup
            self.record(
                "delivered", name, sequence, obj.group, obj.object, subgroup, sent, now, intact
            )
            if not self._reading.is_set():
                await self._reading.wait()

    def _gap(self, name: str, gap: laps_sdk.Gap) -> None:
        first, last, cause = gap.first, gap.last, gap.cause.value
        now = time.monotonic()
        self.record(
            "reported", name, first.group, first.object, last.group, last.object, now, cause
        )


async def _standard_input() -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    return reader


async def _orders(client: Client, lines: asyncio.StreamReader) -> None:
    """Follow orders; the end of standard input is the order to stop."""
    while line := await lines.readline():
        client.order(json.loads(line))
    client.done.set()


async def main(kind: type[Client]) -> None:
    """Work until all is done, or until standard input ends."""
    lines = await _standard_input()
    fields = json.loads(await lines.readline())
    task = Task(**fields | {"names": [tuple(pair) for pair in fields["names"]]})
    with Path(task.history).open("w", encoding="utf-8") as history:  # noqa: ASYNC230 - once
        async with laps_sdk.connect(task.url, timeout=20.0) as session:
            client = kind(task, session, history)
            work = asyncio.create_task(client.work())
            others = [
                asyncio.create_task(client.watch()),
                asyncio.create_task(_orders(client, lines)),
            ]
            await asyncio.wait([work, *others], return_when=asyncio.FIRST_COMPLETED)
            if client.done.is_set():
                await asyncio.wait([work], timeout=_STATUS)
            for each in (work, *others):
                each.cancel()
            results = await asyncio.gather(work, *others, return_exceptions=True)
            client.say(done=True, lateness=client.lateness())
            for result in results:
                if isinstance(result, Exception):
                    raise result


if __name__ == "__main__":
    asyncio.run(main(Publisher if sys.argv[1] == "publish" else Subscriber))
