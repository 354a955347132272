"""Fragments of objects: their places, the splitting of objects, their order, and reassembly.

Both seeds put two values into one integer: a place, and in the low bit "this is the last one"::

    offset_and_fin (seed 001)                 FRAGMENT_ID (seed 003)
    +--------------------------+---+          +--------------------------+---+
    | byte offset of the piece | L |          | number of the piece, 1.. | L |
    +--------------------------+---+          +--------------------------+---+
      up to 2**61 - 1                           1 to 32767: the field is a Number16

    an object of 10 bytes in pieces of 4:
      offset 0, 4, 8        ->  0, 8, 17          number 1, 2, 3  ->  2, 4, 7

A relay with smaller packets can split pieces with offsets again, but not numbered ones.

**Stream mode.** A media stream over the control stream is in order, so one of three places may
follow a fragment (seed 001, Fragment Message)::

              previous was not the last of its object           previous was the last
              -------------------------------------             ---------------------------
     1.       same group, same object,
              offset = previous offset + previous length
     2.                                                         same group, object + 1, offset 0
     3.                                                         group + 1, object 0, offset 0

The first fragment is at the START_POINT, or at group 0 object 0 without one. The peer itself is
responsible for the order. A wrong place closes the session with MoQT's "protocol violation", 0x3,
because the seeds have no error codes.

**Reassembly** is for datagrams, which relays forward in any order and may repeat. Memory is
bounded, and each object is returned at most once::

                   first fragment              last missing byte
       (unknown) ------------------> collecting ----------------> complete, returned once
                                        |                               |
                   fault, too large, evicted, expired                   v
                                        '-----------------------> remembered for a while:
                                                                  its later fragments are dropped

The key of a complete or abandoned object is remembered, so a late duplicate does not start a new
collection (a message is unique "within a time period": seed 002, Shortname).

A faulty fragment never raises. Datagrams pass relays that must not change them, so closing the
session would affect the last relay for the fault of one publisher. The object is dropped and
counted:

=============  ============================================================================
DUPLICATE      a fragment without new bytes
LATE           a fragment of an object that is complete or abandoned
EMPTY          a fragment without bytes that is not the last
CONFLICT       an object: two fragments have different bytes for the same place
TWO_ENDS       an object: two fragments mark its end at different places
BEYOND_END     an object: bytes after its end
OVERSIZE       an object: more bytes than ``max_object``
TOO_MANY       an object: more pieces than ``max_pieces``
EVICTED        an object: the oldest incomplete one, when ``max_total`` was reached
EXPIRED        an object: not complete within ``max_age``
=============  ============================================================================

The first three count fragments, the others objects.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from laps_wire.buffer import ByteSource
from laps_wire.errors import EncodeError, LocalError, ProtocolViolation

__all__ = [
    "MAX_FRAGMENT_NUMBER",
    "MAX_OFFSET",
    "MIN_FRAGMENT_ID",
    "OBJECT_COST",
    "PIECE_COST",
    "Drop",
    "FragmentSequence",
    "FragmentSequenceError",
    "NumberedPieces",
    "OffsetPieces",
    "Piece",
    "Reassembler",
    "ReassemblyLimits",
    "pack_fragment_id",
    "pack_offset_and_fin",
    "split_numbered",
    "split_offsets",
    "unpack_place",
]


MAX_OFFSET: Final = (1 << 61) - 1
"""The highest offset: doubled, and with the low bit, it still fits a QUIC varint."""

MAX_FRAGMENT_NUMBER: Final = 0x7FFF
"""The highest fragment number: a FRAGMENT_ID has 16 bits, one of which is the flag (seed 003)."""

MIN_FRAGMENT_ID: Final = 2
"""The lowest FRAGMENT_ID: number 1, not the last."""


class Piece(NamedTuple):
    """One fragment of an object, before any header."""

    place: int
    """``offset_and_fin`` or ``FRAGMENT_ID``, as the header takes it."""
    data: memoryview
    """The bytes; a view of the object, not a copy."""


def pack_offset_and_fin(offset: int, is_last_fragment: bool) -> int:
    """``2 * offset + is_last_fragment`` (seed 001, Fragment Message)."""
    if not 0 <= offset <= MAX_OFFSET:
        raise EncodeError(f"offset {offset} is outside 0..2**61 - 1")
    return offset << 1 | is_last_fragment


def pack_fragment_id(number: int, is_last_fragment: bool) -> int:
    """``2 * number + is_last_fragment``, numbers from 1 (seed 003, Fragmentation)."""
    if not 1 <= number <= MAX_FRAGMENT_NUMBER:
        raise EncodeError(f"fragment number {number} is outside 1..{MAX_FRAGMENT_NUMBER}")
    return number << 1 | is_last_fragment


def unpack_place(place: int) -> tuple[int, bool]:
    """Take either integer apart: the offset or the number, and whether it is the last."""
    return place >> 1, place & 1 == 1


def split_offsets(data: ByteSource, max_payload: int) -> Iterator[Piece]:
    """Cut an object into pieces of at most ``max_payload`` bytes, placed by offset.

    An empty object is one empty piece, which is the last.
    """
    _check_payload(max_payload)
    return (
        Piece(pack_offset_and_fin(start, is_last), chunk)
        for start, chunk, is_last in _chunks(data, max_payload)
    )


def split_numbered(data: ByteSource, max_payload: int) -> Iterator[Piece]:
    """Cut an object into pieces of at most ``max_payload`` bytes, placed by number from 1.

    The number of pieces is checked before the first is given out: half an object helps nobody.
    """
    _check_payload(max_payload)
    if len(data) > max_payload * MAX_FRAGMENT_NUMBER:
        raise EncodeError(
            f"{len(data)} bytes in pieces of {max_payload} are over {MAX_FRAGMENT_NUMBER} fragments"
        )
    return (
        Piece(pack_fragment_id(start // max_payload + 1, is_last), chunk)
        for start, chunk, is_last in _chunks(data, max_payload)
    )


def _check_payload(max_payload: int) -> None:
    if max_payload < 1:
        raise EncodeError(f"pieces of at most {max_payload} bytes can carry nothing")


def _chunks(data: ByteSource, max_payload: int) -> Iterator[tuple[int, memoryview, bool]]:
    view = memoryview(data)
    size = len(view)
    # An empty object still has one piece: range(0, 1, n) gives the start 0 and nothing else.
    for start in range(0, max(size, 1), max_payload):
        stop = start + max_payload
        yield start, view[start:stop], stop >= size


# The order of fragments in stream mode


class FragmentSequenceError(ProtocolViolation):
    """A FRAGMENT in stream mode that none of the three order conditions allows (seed 001)."""

    def __init__(
        self, got: tuple[int, int, int], allowed: tuple[tuple[int, int, int], ...]
    ) -> None:
        wanted = " or ".join(_place(*place) for place in allowed)
        super().__init__(f"fragment at {_place(*got)} where only {wanted} may follow")
        self.got = got
        """(group id, object id, offset) of the fragment that was refused."""
        self.allowed = allowed
        """The places at which a fragment would have been right."""


def _place(group_id: int, object_id: int, offset: int) -> str:
    return f"group {group_id} object {object_id} offset {offset}"


class FragmentSequence:
    """Checks the fragments of one media stream as they come.

    Command: ``start_at`` (a START_POINT came). Input: ``check``. State: ``allowed``,
    ``at_boundary``.
    """

    __slots__ = ("_begun", "allowed")

    def __init__(self) -> None:
        self._begun = False
        self.allowed: tuple[tuple[int, int, int], ...] = ((0, 0, 0),)
        """Where the next fragment may stand: (group id, object id, offset), one place or two."""

    @property
    def at_boundary(self) -> bool:
        """Whether the stream may end here: no object is half sent."""
        return not self._begun or len(self.allowed) == 2

    def start_at(self, group_id: int, object_id: int) -> None:
        """Begin at a START_POINT; it stands before the first fragment (seed 001, Start Point)."""
        if self._begun:
            raise ProtocolViolation("START_POINT after the first fragment")
        self.allowed = ((group_id, object_id, 0),)

    def check(
        self, group_id: int, object_id: int, offset: int, length: int, is_last_fragment: bool
    ) -> None:
        """Accept a fragment that follows the one before it, or raise and change nothing."""
        place = (group_id, object_id, offset)
        if place not in self.allowed:
            raise FragmentSequenceError(place, self.allowed)
        self._begun = True
        if is_last_fragment:
            self.allowed = ((group_id, object_id + 1, 0), (group_id + 1, 0, 0))
        else:
            self.allowed = ((group_id, object_id, offset + length),)


# Reassembly

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
