"""Entries that rest: whoever gave one to us gives it no more, and others only seem to.

Entries have no path, so nobody sees whether he gives back what he was given. ::

    source --X-- A ---- B        A lost the source. B and C have it from A, and each of them
                 |      |        gives it to the other one: both take that for another way,
                 '-- C -'        and give it back to A. So it would go round for ever.

So an entry whose primary has gone is taken back from everybody, and given again only after a rest,
by who is still given it then. Bad news is not delayed and good news is, so what goes round is
overtaken by its end. And no circle is silent: whoever turns to another giver has taken back all
that the other one could have had from it.

A rest is longer than changes are collected for. What the source itself gives needs none.
"""

from __future__ import annotations

from typing import Any, Final, Generic, TypeVar

from laps_relay.network.flood.entries import Flooded
from laps_relay.network.flood.flood_records import Record
from laps_sdk.timers import Timers

__all__ = ["REST", "Rests"]

REST: Final = 2.0
"""How long a rest is, in batching times."""

E = TypeVar("E", bound=Flooded)
W = TypeVar("W", bound=Flooded)


class Rests(Generic[E, W]):
    """The entries of a flood table that are told to nobody for a moment."""

    __slots__ = ("_time", "_timers")

    def __init__(self, batch: float) -> None:
        """``batch``: for how long changes are collected, in seconds."""
        self._time = REST * batch
        self._timers: Timers[Record[E, W]] = Timers()

    def __len__(self) -> int:
        return len(self._timers)

    def __contains__(self, record: Record[E, W]) -> bool:
        return self._timers.when(record) is not None

    def begin(self, now: float, record: Record[E, W]) -> None:
        """Its primary has gone, now or again."""
        self._timers.set(record, now + self._time)

    def end(self, record: Record[E, W]) -> None:
        """Something newer is known, or its source gives it."""
        self._timers.cancel(record)

    @property
    def clocks(self) -> tuple[Timers[Any], ...]:
        """Its timers, for who asks several parts together."""
        return (self._timers,)

    def poll_timeout(self) -> float | None:
        """When :meth:`pop` has something."""
        return self._timers.next()

    def pop(self, now: float) -> Record[E, W] | None:
        """One whose rest is over."""
        return self._timers.pop(now)
