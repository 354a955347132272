"""The subscriber node sets of one session, in both directions, and data before its set.

A subscriber node set (SNS) lists the s-relays that data goes to. The sender of the data assigns a
32-bit ID to it. ID and set are valid for one session (seed 000, Source Routing)::

      sender: SnsSender                              receiver: SnsReceiver
      ----------------------                         ----------------------------------
      IDs 1, 2, 3, ... wrap to 1                     a new ID must be later than the last
      {ID: targets} ---- advertise, update, ------>  {ID: targets}
                         withdraw (control stream)
      data with an ID -- uni streams, datagrams -->  live     forward
                                                     unknown  hold: UnknownBuffer
                                                     gone     drop

Data and control use different streams, so data may arrive before its set. IDs only grow (see
:mod:`laps_wire.peering.laps2.forwarding`). An ID later than the last advertised one is still to
come, and its data is held. An earlier ID that is not in the table is gone, and its data is dropped.

Each set has a version that grows by one with every change: an update must follow the version that
it changes, so the receiver detects a lost change. After the control stream has moved, changes may
have been lost. Until the peer has advertised all its sets again (a synchronisation), an update that
does not fit is dropped instead of ending the session.

Held data is bounded in time and in bytes; if the buffer is full, the oldest item is dropped first
(seed 000, SNS Advertisement: "a circular buffer")::

    hold ──> [ oldest │ ... │ newest ] ──> release(set)   the set was advertised: in arrival order
                 │
                 └──> dropped: time, space, gone, closed   each is counted and returned

Dropped items are returned to the caller, which discards the rest of their streams.

:class:`ForwardingState` combines both tables and the buffer: it applies the peer's messages to
them, and yields events and messages for the peer.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum, unique
from typing import Any, Final, Generic, TypeAlias, TypeVar

from laps_wire.errors import StateError
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import SnsViolationError
from laps_wire.peering.laps2.codepoints import MAX_SCOPE_BYTES, MAX_TARGETS, Bases, SnsRefusal
from laps_wire.peering.laps2.forwarding import NO_SNS_ID, is_later, next_free
from laps_wire.peering.laps2.handshake import Settings
from laps_wire.peering.session.dialect import (
    Dialect,
    NodeSet,
    SnsChange,
    SnsDescription,
    SnsDiff,
    SnsOperation,
    SnsRejection,
    SnsSet,
)
from laps_wire.peering.session.events import (
    DataDropped,
    Drop,
    Dropped,
    SnsAdvertised,
    SnsWithdrawn,
)

__all__ = [
    "HELD_ITEM_COST",
    "MAX_MISSED_SETS",
    "Effect",
    "ForwardingState",
    "SnsReceiver",
    "SnsSender",
    "SnsStanding",
    "UnknownBuffer",
]

# The two tables of sets

# The sender's side


class SnsSender:
    """The sets that this side has advertised on a session, within the limits of the peer.

    A set with more targets than one message can hold (``chunk``) is sent in steps. The first step
    describes the set, the others change it, and each step has its own version. Targets are removed
    before others are added, so no intermediate set is larger than both the old and the new set.
    """

    __slots__ = ("_last", "_sets", "chunk", "max_sets", "max_targets")

    def __init__(
        self,
        *,
        max_sets: int,
        max_targets: int,
        chunk: int = MAX_TARGETS,
        last: int = NO_SNS_ID,
    ) -> None:
        self.max_sets = max_sets
        self.max_targets = max_targets
        self.chunk = chunk
        self._last = last
        self._sets: dict[int, SnsSet] = {}

    def __len__(self) -> int:
        return len(self._sets)

    def __contains__(self, sns_id: int) -> bool:
        return sns_id in self._sets

    def __getitem__(self, sns_id: int) -> SnsSet:
        try:
            return self._sets[sns_id]
        except KeyError:
            raise StateError(f"subscriber node set {sns_id} is not live") from None

    def __iter__(self) -> Iterator[SnsSet]:
        """Iterate over the live sets, in the order of their creation."""
        return iter(self._sets.values())

    def advertise(
        self, targets: Iterable[NodeId], *, hops: int = 0, scope: str = ""
    ) -> tuple[SnsDiff, ...]:
        """Create a set and return its steps; IDs of live sets are skipped after a wrap."""
        wanted = self._checked(targets)
        if len(self._sets) >= self.max_sets:
            raise StateError(f"the peer takes at most {self.max_sets} subscriber node sets")
        if len(scope.encode()) > MAX_SCOPE_BYTES:
            raise StateError(f"a scope has at most {MAX_SCOPE_BYTES} bytes")
        # At most all live IDs are skipped, so one more attempt finds a free one.
        sns_id = next_free(self._last, self._sets, limit=len(self._sets) + 1)
        self._last = sns_id
        return self._store(SnsSet(sns_id, 0, frozenset(), hops, scope), wanted)

    def update(self, sns_id: int, targets: Iterable[NodeId]) -> tuple[SnsDiff, ...]:
        """Change a live set in place and return its steps, none if nothing changed."""
        return self._store(self[sns_id], self._checked(targets))

    def empty(self, sns_id: int) -> tuple[SnsDiff, ...]:
        """Remove all targets of a live set and return its steps; withdraw the set right after."""
        return self._store(self[sns_id], frozenset())

    def withdraw(self, sns_id: int) -> SnsSet:
        """Remove a live set and return it."""
        ended = self[sns_id]
        del self._sets[sns_id]
        return ended

    def renew(self) -> tuple[tuple[SnsDiff, ...], ...]:
        """Return the steps that describe each live set completely, the oldest set first."""
        return tuple(
            self._store(replace(old, targets=frozenset()), old.targets) for old in tuple(self)
        )

    def clear(self) -> None:
        """Remove all sets, at the end of the session."""
        self._sets.clear()

    def _checked(self, targets: Iterable[NodeId]) -> NodeSet:
        wanted = frozenset(targets)
        if not wanted:
            raise StateError("a subscriber node set without targets is withdrawn, not sent")
        if len(wanted) > self.max_targets:
            raise StateError(f"the peer takes at most {self.max_targets} targets in a set")
        return wanted

    def _store(self, old: SnsSet, wanted: NodeSet) -> tuple[SnsDiff, ...]:
        removed, added = sorted(old.targets - wanted), sorted(wanted - old.targets)
        steps: list[SnsDiff] = []
        while removed or added:
            version = old.version + len(steps) + 1
            leaving, removed = removed[: self.chunk], removed[self.chunk :]
            room = self.chunk - len(leaving)
            coming, added = added[:room], added[room:]
            steps.append(SnsDiff(old.sns_id, version, tuple(coming), tuple(leaving)))
        self._sets[old.sns_id] = replace(old, version=old.version + len(steps), targets=wanted)
        return tuple(steps)


# The receiver's side


@unique
class SnsStanding(Enum):
    """What a receiver knows about the ID in a data header."""

    LIVE = "live"
    UNKNOWN = "unknown"
    """Not advertised yet; the advertisement may still arrive."""
    GONE = "gone"
    """Withdrawn, refused, or skipped: the set will not be advertised."""


class SnsReceiver:
    """The sets that the peer has advertised on a session, within the limits of this side.

    A set over a limit is not served (:class:`SnsRejection`). A wrong order of IDs or versions
    raises :class:`~laps_wire.peering.errors.SnsViolationError`. ``ordered=False`` is for the C++
    relay, whose IDs follow another counter.
    """

    __slots__ = (
        "_last",
        "_ordered",
        "_sets",
        "_unconfirmed",
        "_unsure",
        "max_sets",
        "max_targets",
    )

    def __init__(self, *, max_sets: int, max_targets: int, ordered: bool = True) -> None:
        self.max_sets = max_sets
        self.max_targets = max_targets
        self._ordered = ordered
        self._last = NO_SNS_ID
        self._sets: dict[int, SnsSet] = {}
        self._unconfirmed: set[int] | None = None  # not advertised yet in this synchronisation
        self._unsure = False  # messages may have been lost since the last synchronisation

    def __len__(self) -> int:
        return len(self._sets)

    def __contains__(self, sns_id: int) -> bool:
        return sns_id in self._sets

    def get(self, sns_id: int) -> SnsSet | None:
        """Return the set; None if it is not live."""
        return self._sets.get(sns_id)

    def standing(self, sns_id: int) -> SnsStanding:
        """Return what is known about an ID that arrived with data."""
        if sns_id in self._sets:
            return SnsStanding.LIVE
        if sns_id == NO_SNS_ID:
            return SnsStanding.GONE
        if self._unsure or not self._ordered or is_later(sns_id, self._last):
            return SnsStanding.UNKNOWN
        return SnsStanding.GONE

    def advertise(
        self,
        sns_id: int,
        version: int,
        targets: Collection[NodeId],
        *,
        hops: int = 0,
        scope: str = "",
    ) -> SnsDiff | SnsRejection:
        """Store a complete set from the peer, a new one or a live one again."""
        known = self._sets.get(sns_id)
        if known is None:
            self._check_new(sns_id)
            if len(self._sets) >= self.max_sets:
                return SnsRejection(sns_id, version, SnsRefusal.TOO_MANY_SETS)
        elif version <= known.version:
            raise SnsViolationError(
                f"set {sns_id}: version {version} advertised after {known.version}"
            )
        if self._unconfirmed is not None:
            self._unconfirmed.discard(sns_id)
        return self._keep(SnsSet(sns_id, version, frozenset(targets), hops, scope))

    def update(
        self, sns_id: int, version: int, add: Collection[NodeId], remove: Collection[NodeId]
    ) -> SnsDiff | SnsRejection:
        """Apply a change from the peer; a set that is not served stays unknown."""
        known = self._sets.get(sns_id)
        if known is None:
            self._check_known(sns_id, "updated")
            return SnsDiff(sns_id, version)
        if version != known.version + 1:
            if self._unsure:
                return SnsDiff(sns_id, known.version)
            raise SnsViolationError(
                f"set {sns_id}: version {version} updated after {known.version}"
            )
        targets = (known.targets - frozenset(remove)) | frozenset(add)
        return self._keep(replace(known, version=version, targets=targets))

    def withdraw(self, sns_id: int) -> SnsDiff:
        """Remove a set that the peer ended; a set that is not served has no effect."""
        if sns_id not in self._sets:
            self._check_known(sns_id, "withdrawn")
            return SnsDiff(sns_id, 0)
        return self._drop(sns_id)

    def refuse(self, sns_id: int) -> SnsDiff:
        """Remove a set that this side no longer serves."""
        return self._drop(sns_id) if sns_id in self._sets else SnsDiff(sns_id, 0)

    def moved(self) -> None:
        """Accept updates that do not fit until the next synchronisation ends."""
        self._unsure, self._unconfirmed = True, None

    def begin_sync(self) -> None:
        """Begin a synchronisation: sets that are not advertised again are removed at its end."""
        self._unconfirmed = set(self._sets)

    def end_sync(self) -> tuple[SnsDiff, ...]:
        """End a synchronisation; return the removal of sets that were not advertised again."""
        gone, self._unconfirmed, self._unsure = self._unconfirmed or set(), None, False
        return tuple(self._drop(sns_id) for sns_id in sorted(gone))

    def clear(self) -> None:
        """Remove all sets, at the end of the session."""
        self._sets.clear()
        self._unconfirmed = None

    def _check_new(self, sns_id: int) -> None:
        if sns_id == NO_SNS_ID:
            raise SnsViolationError("0 is no subscriber node set")
        if is_later(sns_id, self._last):
            self._last = sns_id
        # A synchronisation may repeat lost sets, so any order is allowed there.
        elif self._ordered and self._unconfirmed is None:
            raise SnsViolationError(f"set {sns_id} is made after set {self._last}")

    def _check_known(self, sns_id: int, what: str) -> None:
        if self._ordered and self.standing(sns_id) is SnsStanding.UNKNOWN and not self._unsure:
            raise SnsViolationError(f"set {sns_id} is {what} before it is made")

    def _keep(self, new: SnsSet) -> SnsDiff | SnsRejection:
        old = self._sets.get(new.sns_id)
        before: NodeSet = frozenset() if old is None else old.targets
        if len(new.targets) > self.max_targets:
            if old is not None:
                self._drop(new.sns_id)
            return SnsRejection(
                new.sns_id,
                new.version,
                SnsRefusal.TOO_MANY_TARGETS,
                removed=tuple(sorted(before)),
            )
        self._sets[new.sns_id] = new
        return SnsDiff.between(new.sns_id, new.version, before, new.targets)

    def _drop(self, sns_id: int) -> SnsDiff:
        if self._unconfirmed is not None:
            self._unconfirmed.discard(sns_id)
        gone = self._sets.pop(sns_id)
        return SnsDiff(sns_id, gone.version, removed=gone.ordered)


# Data before its set

T = TypeVar("T")

HELD_ITEM_COST: Final = 64
"""The cost of a held item beyond its bytes, so that empty items fill the buffer too."""


@dataclass(frozen=True, slots=True)
class _Held(Generic[T]):
    sns_id: int
    item: T
    size: int
    deadline: float


class UnknownBuffer(Generic[T]):
    """Held items of any type, by the ID of their set.

    Time is an argument and must not go back. Every method that drops items returns them.
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
        """The longest time for which an item is held."""
        self.max_bytes = max_bytes
        """The most bytes that are held: each item costs its size and :data:`HELD_ITEM_COST`."""
        self.dropped: Counter[Drop] = Counter()
        """The number of dropped items, by reason."""
        self.dropped_bytes: Counter[Drop] = Counter()
        """The number of dropped bytes, by reason."""
        # Serial numbers grow with time, so both dicts are in order of age.
        self._held: dict[int, _Held[T]] = {}
        self._by_id: dict[int, deque[int]] = {}
        self._serial = 0
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._held)

    @property
    def used_bytes(self) -> int:
        """The part of ``max_bytes`` that is in use."""
        return self._bytes

    @property
    def ids(self) -> frozenset[int]:
        """The IDs of the sets for which items are held."""
        return frozenset(self._by_id)

    @property
    def deadline(self) -> float | None:
        """When the oldest item expires; None if there is none."""
        for held in self._held.values():
            return held.deadline
        return None

    def hold(self, now: float, sns_id: int, item: T, size: int) -> tuple[Dropped[T], ...]:
        """Hold an item of ``size`` bytes for its set; return the items dropped for it."""
        dropped = list(self.expire(now))
        cost = size + HELD_ITEM_COST
        if cost > self.max_bytes:
            # The item does not fit an empty buffer: no other item is dropped for it.
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
        """Return the items held for a set that was advertised, in order of arrival."""
        return tuple(self._take(serial).item for serial in self._by_id.pop(sns_id, ()))

    def discard(self, sns_id: int, reason: Drop = Drop.GONE) -> tuple[Dropped[T], ...]:
        """Drop the items held for a set that will not be advertised."""
        serials = self._by_id.pop(sns_id, ())
        return tuple(self._count(self._take(serial), reason) for serial in serials)

    def refuse(self, sns_id: int, item: T, size: int) -> Dropped[T]:
        """Count and return an item that was not held because its set is gone."""
        return self._count(_Held(sns_id, item, size, 0.0), Drop.GONE)

    def expire(self, now: float) -> tuple[Dropped[T], ...]:
        """Drop the items whose time is over."""
        due: list[int] = []
        for serial, held in self._held.items():
            if held.deadline > now:
                break
            due.append(serial)
        return self._drop_all(due, Drop.TIME)

    def clear(self) -> tuple[Dropped[T], ...]:
        """Drop all items, at the end of the session."""
        return self._drop_all(list(self._held), Drop.CLOSED)

    def _drop_all(self, serials: Iterable[int], reason: Drop) -> tuple[Dropped[T], ...]:
        return tuple(self._drop(serial, reason) for serial in serials)

    def _drop(self, serial: int, reason: Drop) -> Dropped[T]:
        held = self._take(serial)
        # The oldest item of all sets is the oldest of its own set.
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


# Both tables, the buffer and the messages

Effect: TypeAlias = "SnsAdvertised | SnsWithdrawn | DataDropped | SnsRejection"
"""An event, or a rejection to send to the peer."""

MAX_MISSED_SETS: Final = 1_024
"""The most unknown sets that are remembered as reported to the peer."""

_MESSAGE_OVERHEAD: Final = 64 + MAX_SCOPE_BYTES
"""An upper bound for the frame and the fields other than targets of a message about a set."""


class ForwardingState:
    """The sets of one session: ``sender`` has those of this side, ``receiver`` those of the peer.

    The object exists before the peer's settings are known (:meth:`apply_settings`), because data
    of the peer may arrive before them.
    """

    __slots__ = ("_dialect", "_missed", "receiver", "sender", "unknown")

    def __init__(self, dialect: Dialect, local: Settings) -> None:
        self._dialect = dialect
        # Unknown sets that were reported to the peer, oldest first: each is reported once.
        self._missed: dict[int, None] = {}
        self.sender = SnsSender(max_sets=0, max_targets=0)
        self.receiver = SnsReceiver(
            max_sets=local.max_sns_sets,
            max_targets=local.max_sns_targets,
            ordered=dialect.ordered_sns,
        )
        self.unknown: UnknownBuffer[Any] = UnknownBuffer(
            seconds=local.unknown_sns_ms / 1000, max_bytes=local.unknown_sns_bytes
        )

    def apply_settings(self, peer: Settings) -> None:
        """Apply the peer's limits; from now on sets can be created."""
        self.sender = SnsSender(
            max_sets=peer.max_sns_sets,
            max_targets=peer.max_sns_targets,
            chunk=min(MAX_TARGETS, (peer.max_message_size - _MESSAGE_OVERHEAD) // 8),
            last=self._dialect.first_sns_id - 1,
        )

    # Sets of the peer

    def receive(self, message: Any) -> Iterator[Effect]:
        """Apply a message of the peer that creates, changes or ends sets."""
        for operation in self._dialect.read_sns(message):
            yield from self._apply(operation)

    def _apply(self, operation: SnsOperation) -> Iterator[Effect]:
        sns_id = operation.sns_id
        before = self.receiver.get(sns_id)
        result: SnsDiff | SnsRejection
        if isinstance(operation, SnsDescription):
            version = operation.version
            if version is None:
                version = 1 if before is None else before.version + 1
            result = self.receiver.advertise(
                sns_id, version, operation.targets, hops=operation.hops, scope=operation.scope
            )
        elif isinstance(operation, SnsChange):
            result = self.receiver.update(
                sns_id, operation.version, operation.add, operation.remove
            )
        else:
            yield from self._ended(self.receiver.withdraw(sns_id))
            return
        if isinstance(result, SnsRejection):
            yield from self._rejected(result, lived=before is not None)
            return
        after = self.receiver.get(sns_id)
        if after is None:
            return  # a change to a set that is not served
        self._missed.pop(sns_id, None)
        released = self.unknown.release(sns_id)
        if (
            result
            or released
            or before is None
            or (before.hops, before.scope) != (after.hops, after.scope)
        ):
            yield SnsAdvertised(
                sns_id=sns_id,
                version=after.version,
                hops=after.hops,
                targets=after.targets,
                added=result.added,
                removed=result.removed,
                released=released,
                scope=after.scope,
            )

    def _ended(self, diff: SnsDiff) -> Iterator[Effect]:
        if diff.version:
            yield SnsWithdrawn(sns_id=diff.sns_id, targets=diff.removed)
        yield from _dropped(self.unknown.discard(diff.sns_id))

    def _rejected(self, rejection: SnsRejection, *, lived: bool) -> Iterator[Effect]:
        if lived:
            yield SnsWithdrawn(sns_id=rejection.sns_id, targets=rejection.removed)
        yield from _dropped(self.unknown.discard(rejection.sns_id))
        yield rejection

    def end_sync(self) -> Iterator[Effect]:
        """End a synchronisation of the peer's sets."""
        for diff in self.receiver.end_sync():
            yield from self._ended(diff)
        # After a move, data of every ID is held; from now on only data of later IDs (6.2).
        for sns_id in sorted(self.unknown.ids):
            if self.receiver.standing(sns_id) is SnsStanding.GONE:
                yield from _dropped(self.unknown.discard(sns_id))

    # Sets of this side

    def advertise(
        self, targets: Iterable[NodeId], hops: int, scope: str = ""
    ) -> tuple[int, list[Any]]:
        """Create a set; return its ID and the messages that describe it."""
        steps = self.sender.advertise(targets, hops=hops, scope=scope)
        made = self.sender[steps[0].sns_id]
        return made.sns_id, list(self._dialect.write_sns(steps, made, whole=True))

    def update(self, sns_id: int, targets: Iterable[NodeId]) -> list[Any]:
        """Change a set; return the messages for it, none if nothing changed."""
        steps = self.sender.update(sns_id, targets)
        if not steps:
            return []
        return list(self._dialect.write_sns(steps, self.sender[sns_id], whole=False))

    def withdraw(self, sns_id: int, *, empty: bool = False) -> list[Any]:
        """End a set and return the messages for it; with ``empty``, remove its targets first."""
        messages: list[Any] = []
        if empty:
            steps = self.sender.empty(sns_id)
            messages += self._dialect.write_sns(steps, self.sender[sns_id], whole=False)
        self.sender.withdraw(sns_id)
        return [*messages, self._dialect.write_sns_end(sns_id)]

    def synchronise(self) -> Iterator[Any]:
        """Yield the messages that describe all sets again; none if the dialect has no such ones."""
        begin = self._dialect.sync(Bases.SNS, begin=True)
        if begin is None:
            return
        yield begin
        for steps in self.sender.renew():
            yield from self._dialect.write_sns(steps, self.sender[steps[0].sns_id], whole=True)
        yield self._dialect.sync(Bases.SNS, begin=False)

    # Data before its set

    def hold(
        self, now: float, sns_id: int, item: Any, size: int
    ) -> tuple[SnsStanding, tuple[Dropped[Any], ...]]:
        """Hold, drop or return data whose set the forwarding plane does not have."""
        standing = self.receiver.standing(sns_id)
        if standing is SnsStanding.UNKNOWN:
            return standing, self.unknown.hold(now, sns_id, item, size)
        if standing is SnsStanding.GONE:
            return standing, (self.unknown.refuse(sns_id, item, size),)
        return standing, ()

    def expire(self, now: float) -> Iterator[Effect]:
        """Drop the data whose time is over, and report each unknown set to the peer once."""
        dropped = self.unknown.expire(now)
        yield from _dropped(dropped)
        for sns_id in sorted({each.sns_id for each in dropped}):
            if sns_id in self._missed:
                continue
            self._missed[sns_id] = None
            if len(self._missed) > MAX_MISSED_SETS:
                del self._missed[next(iter(self._missed))]
            yield SnsRejection(sns_id, 0, SnsRefusal.UNKNOWN_SET)

    def clear(self) -> Iterator[DataDropped]:
        """Remove all sets and held data, at the end of the session."""
        self.sender.clear()
        self.receiver.clear()
        self._missed.clear()
        yield from _dropped(self.unknown.clear())


def _dropped(dropped: tuple[Dropped[Any], ...]) -> Iterator[DataDropped]:
    if dropped:
        yield DataDropped(dropped=dropped)
