"""Something to hear in a network: a publisher that counts, and subscribers that count along."""

from __future__ import annotations

import asyncio
from collections import Counter

import laps_sdk
from testkit.network_task import LIMIT, RunningRelay, until

__all__ = ["Listener", "Show"]


class Listener:
    """A subscriber that counts what it hears."""

    def __init__(self, track: str = "numbers") -> None:
        self.track = track
        self.heard: Counter[int] = Counter()
        self.group_of: dict[int, int] = {}
        self.gaps: list[laps_sdk.Gap] = []
        self.mistaken: set[int] = set()
        """Groups that were told to be missing when they had been heard."""
        self.since: int | None = None
        """From here on it must hear everything: before, it was joining, and streams overtake each
        other."""

    async def run(self, relay: RunningRelay) -> None:
        async with relay.connect() as session:
            await self.follow(session)

    async def follow(self, session: laps_sdk.Session) -> None:
        async with session.subscribe(
            "net", self.track, follow=True, wait=LIMIT, on_gap=self.miss
        ) as numbers:
            async for obj in numbers:
                self.heard[int(obj.payload)] += 1
                self.group_of[int(obj.payload)] = obj.group

    def miss(self, gap: laps_sdk.Gap) -> None:
        """Something is told to be missing."""
        self.gaps.append(gap)
        groups = range(gap.first.group, gap.last.group + 1)
        self.mistaken.update(each for each in self.group_of.values() if each in groups)

    def missing(self, before: int) -> list[int]:
        """Numbers that should have come before that one, and did not."""
        begin = min(self.heard) if self.since is None else self.since
        return [number for number in range(begin, before) if number not in self.heard]

    def told(self) -> set[int]:
        """Groups that were told to be missing since its first object, where each is a number.

        But not what came after all: on a machine that has far too much to do objects are later than
        the SDK waits for them, and it says that they may be.
        """
        came = set(self.group_of.values())
        return {
            group_id
            for gap in self.gaps
            for group_id in range(gap.first.group, gap.last.group + 1)
            if group_id >= min(came) and (group_id not in came or group_id in self.mistaken)
        }

    def doubled(self) -> list[int]:
        return [number for number, times in self.heard.items() if times > 1]


class Show:
    """A publisher that counts, and listeners."""

    def __init__(
        self, group: asyncio.TaskGroup, rate: float = 200.0, track: str = "numbers"
    ) -> None:
        self._group = group
        self._tasks: list[asyncio.Task[None]] = []
        self._rate = rate
        self.track = track
        self.sent = 0
        self.group_ends = False
        """Whether the group ends with the next object, however long it should be."""
        self.hurried = 0
        """Up to this number it does not look at the clock, and objects are as long as a packet."""
        self.silent = False
        """Whether it says nothing for now; what it has begun stays open."""
        self.silent_at = -1
        """How many it had sent when it fell silent."""

    def publish(self, relay: RunningRelay, *, per_group: int = 1) -> None:
        self._tasks.append(self._group.create_task(self._publish(relay, per_group)))

    async def _publish(self, relay: RunningRelay, per_group: int) -> None:
        async with relay.connect() as session:
            track = await session.publish("net", self.track)
            loop = asyncio.get_running_loop()
            begin = loop.time()
            while True:
                if self.silent and self.sent % 7 == 3:  # in the middle of a group
                    self.silent_at = self.sent
                    await until(lambda: not self.silent)
                    begin = loop.time() - self.sent / self._rate
                end = (self.sent + 1) % per_group == 0 or self.group_ends
                self.group_ends = False
                hurried = self.sent < self.hurried
                payload = b"%d" % self.sent
                await track.write(payload.ljust(1400 if hurried else 0), end_of_group=end)
                self.sent += 1
                if not hurried or self.sent % 400 == 0:
                    await asyncio.sleep(max(0.0, begin + self.sent / self._rate - loop.time()))

    def listen(self, relay: RunningRelay) -> Listener:
        listener = Listener(self.track)
        self._tasks.append(self._group.create_task(listener.run(relay)))
        return listener

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def more(self, *listeners: Listener, numbers: int = 50) -> None:
        """Until each has heard so many of what is published from now on."""
        after = self.sent
        await until(
            lambda: all(sum(n >= after for n in each.heard) >= numbers for each in listeners)
        )
        for each in listeners:
            if each.since is None:
                each.since = self.sent

    async def whole(self, *listeners: Listener) -> None:
        """Each hears all that was published since it had joined, and nothing twice.

        What is under way may still come; what never comes ends the test by its limit.
        """
        before = self.sent
        await until(lambda: not any(each.missing(before) for each in listeners))
        assert [each.doubled() for each in listeners] == [[] for _ in listeners]
