"""FETCHes that wait for the answer to another one, instead of asking for the same once more.

::

    FETCH a --> our FETCH --objects--> a, and the cache
    FETCH b --joins--------> waits --ends--> from the cache; our own FETCH if that does not do

Many join a live track at once, and each asks for the beginning of the present group. What is behind
the end of the first FETCH comes with the subscription. A FETCH joins once, and not for long: then
it asks by itself.
"""

from __future__ import annotations

from typing import Final

from laps_sdk.edge.ranges import Span
from laps_sdk.edge.records import FetchJob, FetchLeg, Track

__all__ = ["PATIENCE", "FetchJoins"]

PATIENCE: Final = 1.0
"""How long it waits for another one, in seconds: a long answer is not worth that."""


class FetchJoins:
    """Who waits for whom."""

    __slots__ = ("_behind", "_count", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[FetchLeg, dict[FetchJob, None]] = {}
        self._behind: dict[FetchJob, FetchLeg] = {}
        self._count = 0

    def join(self, job: FetchJob, track: Track, span: Span) -> bool:
        """Wait for a FETCH of ours that begins at the same place; whether there is one."""
        if job.joined:
            return False
        for other in track.fetches:
            leg, theirs = other.leg, other.span
            if leg is not None and theirs is not None and theirs.start == span.start:
                job.joined = True
                self._waiting.setdefault(leg, {})[job] = None
                self._behind[job] = leg
                self._count += 1
                return True
        return False

    def leave(self, job: FetchJob) -> bool:
        """It does not wait any more; whether it did."""
        leg = self._behind.pop(job, None)
        if leg is None:
            return False
        waiting = self._waiting[leg]
        del waiting[job]
        if not waiting:
            del self._waiting[leg]
        return True

    def over(self, leg: FetchLeg) -> list[FetchJob]:
        """A FETCH of ours is over: those that waited for it."""
        jobs = list(self._waiting.pop(leg, ()))
        for job in jobs:
            del self._behind[job]
        return jobs

    def take(self) -> int:
        """How many have joined since the last time."""
        count, self._count = self._count, 0
        return count
