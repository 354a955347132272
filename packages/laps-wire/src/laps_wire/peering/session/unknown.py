"""Data that came before its subscriber node set: it waits, bounded in time and in bytes.

The set comes on the control stream, the data on other streams, so either may be first. Data for a
set that is not known yet waits for the time that both sides agreed on; if room runs out before, the
oldest leaves first (seed 000, SNS Advertisement: "a circular buffer")::

    hold ──> [ oldest │ ... │ newest ] ──> release(set)   the set has come: in order of arrival
                 │
                 └──> dropped: time, space, gone, closed   each counted, and handed back

Dropped items are handed back to the caller, for the rest of their stream has to go too.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, unique
from typing import Final, Generic, TypeVar

__all__ = ["HELD_ITEM_COST", "Drop", "Dropped", "UnknownBuffer"]

T = TypeVar("T")

HELD_ITEM_COST: Final = 64
"""What one waiting item is counted as beyond its bytes, so that empty items fill the buffer too."""


@unique
class Drop(Enum):
    """Why data did not reach its set."""

    TIME = "time"
    """The set did not come in time."""
    SPACE = "space"
    """Newer data needed the room, or the item is larger than the whole buffer."""
    GONE = "gone"
    """The set was refused, or can not come any more."""
    CLOSED = "closed"
    """The session ended."""


@dataclass(frozen=True, slots=True)
class Dropped(Generic[T]):
    """One item that will not be forwarded."""

    sns_id: int
    item: T
    reason: Drop


@dataclass(frozen=True, slots=True)
class _Held(Generic[T]):
    sns_id: int
    item: T
    size: int
    deadline: float


class UnknownBuffer(Generic[T]):
    """Items of any kind, by the id of the set that they wait for; only their size is looked at.

    Time is an argument and must not go back. Every method that drops items gives them back.
    """

    __slots__ = (
        "_by_id",
        "_bytes",
        "_held",
        "_serial",
        "dropped",
        "dropped_bytes",
        "max_bytes",
        "seconds",
    )

    def __init__(self, *, seconds: float, max_bytes: int) -> None:
        self.seconds = seconds
        """How long an item waits."""
        self.max_bytes = max_bytes
        """How much may wait: the items' bytes and :data:`HELD_ITEM_COST` for each."""
        self.dropped: Counter[Drop] = Counter()
        """How many items were dropped, by reason."""
        self.dropped_bytes: Counter[Drop] = Counter()
        """How many bytes they had, by reason."""
        # Serial numbers grow with time, so both dicts are in order of age.
        self._held: dict[int, _Held[T]] = {}
        self._by_id: dict[int, deque[int]] = {}
        self._serial = 0
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._held)

    @property
    def used_bytes(self) -> int:
        """How much of ``max_bytes`` is in use."""
        return self._bytes

    @property
    def ids(self) -> frozenset[int]:
        """The sets that something waits for."""
        return frozenset(self._by_id)

    @property
    def deadline(self) -> float | None:
        """When the oldest item has waited long enough."""
        for held in self._held.values():
            return held.deadline
        return None

    def hold(self, now: float, sns_id: int, item: T, size: int) -> tuple[Dropped[T], ...]:
        """Let an item of ``size`` bytes wait for its set; gives what had to leave for it."""
        dropped = list(self.expire(now))
        cost = size + HELD_ITEM_COST
        if cost > self.max_bytes:
            # Nothing else has to leave for what can not stay.
            dropped.append(self._count(_Held(sns_id, item, size, now), Drop.SPACE))
            return tuple(dropped)
        while self._bytes + cost > self.max_bytes:
            dropped.append(self._drop(next(iter(self._held)), Drop.SPACE))
        self._held[self._serial] = _Held(sns_id, item, size, now + self.seconds)
        self._by_id.setdefault(sns_id, deque()).append(self._serial)
        self._serial += 1
        self._bytes += cost
        return tuple(dropped)

    def release(self, sns_id: int) -> tuple[T, ...]:
        """The set has come: give what waited for it, in order of arrival."""
        return tuple(self._take(serial).item for serial in self._by_id.pop(sns_id, ()))

    def discard(self, sns_id: int, reason: Drop = Drop.GONE) -> tuple[Dropped[T], ...]:
        """The set will not come: drop what waited for it."""
        serials = self._by_id.pop(sns_id, ())
        return tuple(self._count(self._take(serial), reason) for serial in serials)

    def refuse(self, sns_id: int, item: T, size: int) -> Dropped[T]:
        """Count an item whose set can not come any more, and that never waited."""
        return self._count(_Held(sns_id, item, size, 0.0), Drop.GONE)

    def expire(self, now: float) -> tuple[Dropped[T], ...]:
        """Drop what has waited long enough."""
        due: list[int] = []
        for serial, held in self._held.items():
            if held.deadline > now:
                break
            due.append(serial)
        return self._drop_all(due, Drop.TIME)

    def clear(self) -> tuple[Dropped[T], ...]:
        """The session has ended: drop everything."""
        return self._drop_all(list(self._held), Drop.CLOSED)

    def _drop_all(self, serials: Iterable[int], reason: Drop) -> tuple[Dropped[T], ...]:
        return tuple(self._drop(serial, reason) for serial in serials)

    def _drop(self, serial: int, reason: Drop) -> Dropped[T]:
        held = self._take(serial)
        # The oldest of all is the oldest of its set.
        waiting = self._by_id[held.sns_id]
        waiting.popleft()
        if not waiting:
            del self._by_id[held.sns_id]
        return self._count(held, reason)

    def _take(self, serial: int) -> _Held[T]:
        held = self._held.pop(serial)
        self._bytes -= held.size + HELD_ITEM_COST
        return held

    def _count(self, held: _Held[T], reason: Drop) -> Dropped[T]:
        self.dropped[reason] += 1
        self.dropped_bytes[reason] += held.size
        return Dropped(held.sns_id, held.item, reason)
