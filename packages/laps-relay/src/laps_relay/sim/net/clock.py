"""Virtual time: one heap of events, and randomness that depends on a seed and on nothing else.

Events of the same time happen in the order in which they were planned, so a run is a function of
its seed: no hash order, no clock of the machine, no shared generator. Each purpose (links, clients,
faults ...) has a generator of its own; what one part draws never changes what another part sees.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, TypeAlias

__all__ = ["Clock", "Entry", "Rng"]

Entry: TypeAlias = "list[Any]"
"""``[when, serial, action, arguments]``; without an action it was taken back."""


class Clock:
    """The heap of what is going to happen."""

    __slots__ = ("_heap", "_serial", "events", "now")

    def __init__(self) -> None:
        self.now = 0.0
        self.events = 0
        """How many have happened."""
        self._heap: list[Entry] = []
        self._serial = 0

    def at(self, when: float, action: Callable[..., object], *arguments: object) -> Entry:
        """Plan an event; one in the past happens now, behind what is planned already."""
        self._serial += 1
        if when < self.now:  # noqa: PLR1730 - for every event
            when = self.now
        entry: Entry = [when, self._serial, action, arguments]
        heappush(self._heap, entry)
        return entry

    def after(self, delay: float, action: Callable[..., object], *arguments: object) -> Entry:
        """Plan an event ``delay`` seconds from now."""
        return self.at(self.now + delay, action, *arguments)

    @staticmethod
    def cancel(entry: Entry) -> None:
        """Take an event back; nothing if it has happened."""
        entry[2] = None

    def run(self, until: float) -> None:
        """Let everything happen that is planned up to ``until``, and what follows from it."""
        heap, pop = self._heap, heappop
        while heap and heap[0][0] <= until:
            when, _, action, arguments = pop(heap)
            if action is not None:
                self.now = when
                self.events += 1
                action(*arguments)
        self.now = max(self.now, until)


class Rng:
    """Generators by purpose, all from one seed."""

    __slots__ = ("_seed",)

    def __init__(self, seed: int | str) -> None:
        self._seed = str(seed)

    def of(self, purpose: str) -> random.Random:
        """A generator; the same one, from its beginning, for the same purpose."""
        # A text seeds by SHA-512 of its bytes: the same in every process.
        return random.Random(f"{self._seed}/{purpose}")  # noqa: S311 - replayable, not secret
