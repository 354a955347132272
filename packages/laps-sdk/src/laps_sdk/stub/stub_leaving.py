"""Leaving a parent: what it still sends of a track that another parent has taken over.

::

    new parent   accepts ------------------------------------------------ serves
    old parent   serves ---- _OVERLAP ----- streams of then end, or _PATIENCE ---- unwanted

What the publisher began before the new parent had the track comes through the old one only: it may
be on its way when the new one accepts, and it may last. What began later comes from both.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from laps_sdk.timers import Timers

__all__ = ["Leaving"]

_OVERLAP: Final = 2.0
"""How long something that began before the new parent accepted may need until it comes, in s."""
_PATIENCE: Final = 10.0
"""How long a stream may last then, in seconds; most parents that drain have closed by then."""

P = TypeVar("P", bound=Hashable)


class Leaving(Generic[P]):
    """The tracks that are still wanted from a parent that is not asked any more."""

    __slots__ = ("_rest", "_timers", "_under_way", "_unwant")

    def __init__(
        self,
        under_way: Callable[[P, int], set[int]],
        unwant: Callable[[float, P, int], None],
    ) -> None:
        """``under_way`` gives a parent's streams of a track; ``unwant`` ends the interest."""
        self._under_way = under_way
        self._unwant = unwant
        self._rest: dict[tuple[P, int], set[int] | None] = {}
        """The streams that are waited for; None: more may come."""
        self._timers: Timers[tuple[P, int]] = Timers()

    def begin(self, now: float, parent: P, key: int) -> None:
        """Another parent has the track; nothing if that is known."""
        if (parent, key) not in self._rest:
            self._rest[parent, key] = None
            self._timers.set((parent, key), now + _OVERLAP)

    def stream_ended(self, now: float, parent: P) -> None:
        """A parent has ended one."""
        for item in [item for item in self._rest if item[0] is parent]:
            self._look(now, item)

    def _look(self, now: float, item: tuple[P, int]) -> None:
        rest = self._rest[item]
        if rest is not None and not rest & self._under_way(*item):
            self._over(now, item)

    def _over(self, now: float, item: tuple[P, int]) -> None:
        self._forget(item)
        self._unwant(now, *item)

    def _forget(self, item: tuple[P, int]) -> None:
        if self._rest.pop(item, self) is not self:
            self._timers.cancel(item)

    def forget_parent(self, parent: P) -> None:
        """It is gone, or everything goes to it again."""
        for item in [item for item in self._rest if item[0] is parent]:
            self._forget(item)

    def forget_key(self, key: int) -> None:
        """Nobody wants the track any more."""
        for item in [item for item in self._rest if item[1] == key]:
            self._forget(item)

    def poll_timeout(self) -> float | None:
        """When :meth:`handle_timeout` wants to be called."""
        return self._timers.next()

    def handle_timeout(self, now: float) -> None:
        """Do what is due."""
        while (item := self._timers.pop(now)) is not None:
            if self._rest[item] is None:
                self._rest[item] = self._under_way(*item)
                self._timers.set(item, now + _PATIENCE)
                self._look(now, item)
            else:
                self._over(now, item)
