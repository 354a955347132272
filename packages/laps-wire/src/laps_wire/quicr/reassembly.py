"""Objects out of fragments: any order, any repetition, bounded memory, each object at most once.

::

                   first fragment              last missing byte
       (unknown) ------------------> collecting ----------------> complete, given out once
                                        |                               |
                   fault of the peer, too large, evicted, expired       v
                                        '-----------------------> remembered for a while:
                                                                  its later fragments are dropped

Every object has one chance. When it is complete or given up, its key is remembered, so that a
late duplicate neither yields it again nor starts a collection that can never be filled (a message
is unique "within a time period": seed 002, Shortname).

What is wrong with a fragment is never raised. Datagrams come from a publisher through any number
of relays that must not change them, so closing our session would punish the last relay, and all
that it carries, for one publisher's fault. The object is dropped and counted under its kind:

=============  ============================================================================
DUPLICATE      a fragment that says nothing new (its bytes are the ones we have)
LATE           a fragment of an object that is complete or was given up
EMPTY          a fragment without bytes that is not the last: nothing to place
CONFLICT       an object: two fragments give different bytes for the same place
TWO_ENDS       an object: two fragments say that it ends, at different places
BEYOND_END     an object: bytes behind its end
OVERSIZE       an object: more bytes than ``max_object``
TOO_MANY       an object: in more pieces than ``max_pieces``
EVICTED        an object: the oldest incomplete one, when ``max_total`` was reached
EXPIRED        an object: not complete within ``max_age``
=============  ============================================================================

The first three count fragments, the others objects.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Generic, TypeAlias, TypeVar

from laps_wire.errors import LocalError
from laps_wire.quicr.fragments import MAX_FRAGMENT_NUMBER, unpack_place
from laps_wire.varint import ByteSource

__all__ = [
    "OBJECT_COST",
    "PIECE_COST",
    "Drop",
    "NumberedPieces",
    "OffsetPieces",
    "Reassembler",
    "ReassemblyLimits",
]

K = TypeVar("K", bound=Hashable)

OBJECT_COST: Final = 768
"""What an incomplete object counts for besides its bytes: its tables and its key."""

PIECE_COST: Final = 160
"""What a kept piece counts for besides its bytes; one-byte pieces must not be almost free."""


class Drop(Enum):
    """Why a fragment or an object was dropped; the module's table explains each."""

    DUPLICATE = auto()
    LATE = auto()
    EMPTY = auto()
    CONFLICT = auto()
    TWO_ENDS = auto()
    BEYOND_END = auto()
    OVERSIZE = auto()
    TOO_MANY = auto()
    EVICTED = auto()
    EXPIRED = auto()


_FRAGMENT_DROPS: Final = frozenset({Drop.DUPLICATE, Drop.LATE, Drop.EMPTY})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassemblyLimits:
    """What a reassembler may hold, and for how long."""

    max_object: int = 4 << 20
    """The largest object in bytes."""
    max_pieces: int = MAX_FRAGMENT_NUMBER
    """The most pieces of one object that are kept."""
    max_total: int = 64 << 20
    """All incomplete objects together, in bytes, with what each piece and object counts for."""
    max_age: float = 5.0
    """Seconds from an object's first fragment until it is given up."""
    remember_time: float = 120.0
    """Seconds for which a finished object's key is kept; the prototype's cache time (seed 004)."""
    remember_count: int = 4096
    """The most keys that are kept."""


class OffsetPieces:
    """The pieces of one object, placed by offset (seed 001); they may overlap and be cut anew.

    ``_chunks[i]`` begins at ``_starts[i]``. The chunks are sorted and never overlap: of a fragment
    that overlaps only the new parts are kept, after the others were compared.
    """

    FIRST: Final = 0
    __slots__ = ("_chunks", "_end", "_held", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._chunks: list[bytes] = []
        self._held = 0
        self._end: int | None = None

    @property
    def cost(self) -> int:
        """What the object counts for."""
        return OBJECT_COST + PIECE_COST * len(self._chunks) + self._held

    def add(
        self, start: int, is_last: bool, data: ByteSource, limits: ReassemblyLimits
    ) -> Drop | None:
        """Keep what is new in a fragment; otherwise say what is wrong and change nothing."""
        stop = start + len(data)
        if not is_last and stop == start:
            return Drop.EMPTY
        if stop > limits.max_object:
            return Drop.OVERSIZE
        if is_last:
            if self._end is not None and stop != self._end:
                return Drop.TWO_ENDS
            if self._chunks and stop < self._starts[-1] + len(self._chunks[-1]):
                return Drop.BEYOND_END
        elif self._end is not None and stop > self._end:
            return Drop.BEYOND_END
        gaps = self._gaps(start, stop, memoryview(data))
        if gaps is None:
            return Drop.CONFLICT
        if not gaps and (not is_last or self._end is not None):
            return Drop.DUPLICATE
        if len(self._chunks) + len(gaps) > limits.max_pieces:
            return Drop.TOO_MANY
        for begin, chunk in gaps:
            index = bisect_right(self._starts, begin)
            self._starts.insert(index, begin)
            # A copy: a view would keep the whole datagram that it was cut from.
            self._chunks.insert(index, bytes(chunk))
            self._held += len(chunk)
        if is_last:
            self._end = stop
        return None

    def _gaps(self, start: int, stop: int, data: memoryview) -> list[tuple[int, memoryview]] | None:
        """The parts of a fragment that no chunk covers; None if a covered part differs."""
        gaps: list[tuple[int, memoryview]] = []
        index = bisect_right(self._starts, start)
        if index and self._starts[index - 1] + len(self._chunks[index - 1]) > start:
            index -= 1
        here = start
        while index < len(self._starts) and self._starts[index] < stop:
            begin, chunk = self._starts[index], self._chunks[index]
            if here < begin:
                gaps.append((here, data[here - start : begin - start]))
                here = begin
            upto = min(begin + len(chunk), stop)
            if data[here - start : upto - start] != chunk[here - begin : upto - begin]:
                return None
            here = upto
            index += 1
        if here < stop:
            gaps.append((here, data[here - start :]))
        return gaps

    def whole(self) -> bytes | None:
        """The object, if nothing is missing."""
        # The chunks are disjoint and none is behind the end: the sum says it all.
        return b"".join(self._chunks) if self._held == self._end else None


class NumberedPieces:
    """The pieces of one object, numbered from 1 (seed 003); a piece is there or it is not."""

    FIRST: Final = 1
    __slots__ = ("_chunks", "_held", "_highest", "_last")

    def __init__(self) -> None:
        self._chunks: dict[int, bytes] = {}
        self._held = 0
        self._highest = 0
        self._last: int | None = None

    @property
    def cost(self) -> int:
        """What the object counts for."""
        return OBJECT_COST + PIECE_COST * len(self._chunks) + self._held

    def add(
        self, number: int, is_last: bool, data: ByteSource, limits: ReassemblyLimits
    ) -> Drop | None:
        """Keep a new piece; otherwise say what is wrong and change nothing."""
        known = self._chunks.get(number)
        if known is not None:
            if known != data:
                return Drop.CONFLICT
            return Drop.DUPLICATE if is_last == (number == self._last) else Drop.TWO_ENDS
        if is_last:
            if self._last is not None:
                return Drop.TWO_ENDS
            if number < self._highest:
                return Drop.BEYOND_END
        elif self._last is not None and number > self._last:
            return Drop.BEYOND_END
        if self._held + len(data) > limits.max_object:
            return Drop.OVERSIZE
        # The pieces before it must come too, so its number is how many there will be at least.
        if number > limits.max_pieces:
            return Drop.TOO_MANY
        self._chunks[number] = bytes(data)
        self._held += len(data)
        self._highest = max(self._highest, number)
        if is_last:
            self._last = number
        return None

    def whole(self) -> bytes | None:
        """The object, if nothing is missing."""
        if len(self._chunks) != self._last:
            return None
        return b"".join(self._chunks[number] for number in range(1, self._last + 1))


PiecesType: TypeAlias = "type[OffsetPieces | NumberedPieces]"


class Reassembler(Generic[K]):
    """Collects the objects of one or many streams; keys are the caller's (stream, group, object).

    Input: ``add``. Time: ``expire``, ``poll_timeout``. Command: ``forget``. State: ``memory``,
    ``incomplete``, ``completed``, ``drops``. Between two calls ``memory <= max_total`` holds.
    """

    __slots__ = ("_finished", "_limits", "_partial", "_pieces", "completed", "drops", "memory")

    def __init__(self, pieces: PiecesType, limits: ReassemblyLimits | None = None) -> None:
        self._pieces = pieces
        self._limits = ReassemblyLimits() if limits is None else limits
        # Both in the order of time, oldest first: dictionaries keep the order of insertion.
        self._partial: dict[K, tuple[float, OffsetPieces | NumberedPieces]] = {}
        self._finished: dict[K, float] = {}
        self.memory = 0
        """What all incomplete objects count for."""
        self.completed = 0
        """How many objects were given out."""
        self.drops: dict[Drop, int] = dict.fromkeys(Drop, 0)
        """How often each kind of drop happened."""

    @property
    def incomplete(self) -> int:
        """How many objects are being collected."""
        return len(self._partial)

    def add(self, now: float, key: K, place: int, data: ByteSource) -> bytes | None:
        """Take a fragment in; give out the object if this was its last missing part.

        ``place`` is the integer of the header: ``offset_and_fin`` or ``FRAGMENT_ID``.
        """
        position, is_last = unpack_place(place)
        if position < self._pieces.FIRST:
            raise LocalError(
                f"{position} is no fragment's place; the first is {self._pieces.FIRST}"
            )
        self.expire(now)
        if key in self._finished:
            self.drops[Drop.LATE] += 1
            return None
        known = self._partial.get(key)
        born, pieces = (now, self._pieces()) if known is None else known
        before = 0 if known is None else pieces.cost
        drop = pieces.add(position, is_last, data, self._limits)
        if drop is not None:
            if drop in _FRAGMENT_DROPS:
                self.drops[drop] += 1
            else:
                self._give_up(key, drop, now)
            return None
        whole = pieces.whole()
        if whole is not None:
            self._remove(key, before)
            self._remember(key, now)
            self.completed += 1
            return whole
        self._partial[key] = born, pieces
        self.memory += pieces.cost - before
        while self.memory > self._limits.max_total:
            self._give_up(next(iter(self._partial)), Drop.EVICTED, now)
        return None

    def expire(self, now: float) -> None:
        """Give up what is too old, and forget what was remembered for long enough."""
        while self._partial:
            key, (born, _) = next(iter(self._partial.items()))
            if now < born + self._limits.max_age:
                break
            self._give_up(key, Drop.EXPIRED, now)
        while self._finished:
            key, since = next(iter(self._finished.items()))
            if now < since + self._limits.remember_time:
                break
            del self._finished[key]

    def poll_timeout(self) -> float | None:
        """When :meth:`expire` next has an object to give up; None if nothing is collected."""
        for born, _ in self._partial.values():
            return born + self._limits.max_age
        return None

    def forget(self, key: K) -> None:
        """Give the object a new chance: for a caller who asks for it again (SYNC_CATCHUP)."""
        self._finished.pop(key, None)
        if key in self._partial:
            self._remove(key, self._partial[key][1].cost)

    def _give_up(self, key: K, drop: Drop, now: float) -> None:
        """Drop an object, count it, and refuse its later fragments."""
        self.drops[drop] += 1
        if key in self._partial:
            self._remove(key, self._partial[key][1].cost)
        self._remember(key, now)

    def _remove(self, key: K, cost: int) -> None:
        self._partial.pop(key, None)
        self.memory -= cost

    def _remember(self, key: K, now: float) -> None:
        self._finished[key] = now
        if len(self._finished) > self._limits.remember_count:
            del self._finished[next(iter(self._finished))]
