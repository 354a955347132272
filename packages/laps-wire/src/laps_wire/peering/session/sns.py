"""Subscriber node sets of one session: the sets that we sent, and the sets that we got.

A subscriber node set (SNS) says which s-relays data goes to. It is named by a 32-bit id that the
sender of the data hands out, and both live and die with the session (seed 000, Source Routing)::

      sender: SnsSender                              receiver: SnsReceiver
      ----------------------                         ----------------------------------
      ids 1, 2, 3, ... wrap to 1                     a new id must be later than the last
      {id: targets} ---- advertise, update, ------>  {id: targets}
                         withdraw (control stream)
      data with an id -- uni streams, datagrams -->  live     forward
                                                     unknown  wait (session.unknown)
                                                     gone     drop

Data and control travel on different streams, so data may be there before its set. Because ids only
grow (:mod:`laps_wire.peering.laps2.sns`), the receiver can tell an id that *will* come (later than
the last one it was told) from one that *was* (earlier, and not in its table): only the first is
worth waiting for.

Each set has a version that grows by one with every change, so a lost change is seen: an update must
follow the version that it changes. After the control stream has moved, changes may have been lost;
until the peer has named all its sets again (a synchronisation), an update that does not fit is
dropped instead of ending the session.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum, unique
from typing import TypeAlias

from laps_wire.errors import StateError
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import SnsViolationError
from laps_wire.peering.laps2.codepoints import SnsRefusal
from laps_wire.peering.laps2.limits import MAX_SCOPE_BYTES, MAX_TARGETS
from laps_wire.peering.laps2.sns import NO_SNS_ID, is_later, next_free

__all__ = [
    "NodeSet",
    "SnsDiff",
    "SnsReceiver",
    "SnsRejection",
    "SnsSender",
    "SnsSet",
    "SnsStanding",
]


@dataclass(frozen=True, slots=True)
class SnsSet:
    """One set, as its sender has described it."""

    sns_id: int
    version: int
    targets: NodeSet
    hops: int = 0
    """How many sets deep the chain is: 0 at the o-relay."""
    scope: str = ""
    """The class of service that policy gave the data; "" if none."""

    @property
    def ordered(self) -> tuple[NodeId, ...]:
        """The targets, lowest first: as they stand on the wire."""
        return tuple(sorted(self.targets))


NodeSet: TypeAlias = frozenset[NodeId]
"""Targets of a set."""


@dataclass(frozen=True, slots=True)
class SnsDiff:
    """What changed in a set; both in ascending order, disjoint. False if nothing did."""

    sns_id: int
    version: int
    added: tuple[NodeId, ...] = ()
    removed: tuple[NodeId, ...] = ()

    @classmethod
    def between(cls, sns_id: int, version: int, old: NodeSet, new: NodeSet) -> SnsDiff:
        """What makes ``new`` out of ``old``."""
        return cls(sns_id, version, tuple(sorted(new - old)), tuple(sorted(old - new)))

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)


@dataclass(frozen=True, slots=True)
class SnsRejection:
    """A set that the receiver does not serve; the session goes on."""

    sns_id: int
    version: int
    code: SnsRefusal
    targets: tuple[NodeId, ...] = ()
    """The targets that get nothing; empty: the whole set."""
    removed: tuple[NodeId, ...] = ()
    """The targets that were served until now."""


# The sender's side


class SnsSender:
    """The sets that this side has advertised on a session, within what the peer said it takes.

    A set with more targets than one message holds (``chunk``) is sent in steps: the first one
    describes the set, each other one changes it, and each has a version of its own. Targets leave
    before others come, so no step is larger than the larger one of the old and the new set.
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
        """Every live set, in the order in which they were made."""
        return iter(self._sets.values())

    def advertise(
        self, targets: Iterable[NodeId], *, hops: int = 0, scope: str = ""
    ) -> tuple[SnsDiff, ...]:
        """Make a set; gives its steps. Ids of live sets are skipped when ids have wrapped."""
        wanted = self._checked(targets)
        if len(self._sets) >= self.max_sets:
            raise StateError(f"the peer takes at most {self.max_sets} subscriber node sets")
        if len(scope.encode()) > MAX_SCOPE_BYTES:
            raise StateError(f"a scope has at most {MAX_SCOPE_BYTES} bytes")
        # At most every live id is in the way, so one more look finds a free one.
        sns_id = next_free(self._last, self._sets, limit=len(self._sets) + 1)
        self._last = sns_id
        return self._store(SnsSet(sns_id, 0, frozenset(), hops, scope), wanted)

    def update(self, sns_id: int, targets: Iterable[NodeId]) -> tuple[SnsDiff, ...]:
        """Change a live set in place; gives its steps, none if nothing changed."""
        return self._store(self[sns_id], self._checked(targets))

    def empty(self, sns_id: int) -> tuple[SnsDiff, ...]:
        """Take all targets out of a live set; gives its steps. It must be withdrawn at once."""
        return self._store(self[sns_id], frozenset())

    def withdraw(self, sns_id: int) -> SnsSet:
        """End a live set; gives what it was."""
        ended = self[sns_id]
        del self._sets[sns_id]
        return ended

    def renew(self) -> tuple[tuple[SnsDiff, ...], ...]:
        """The steps that describe every live set from the beginning, the oldest set first."""
        return tuple(
            self._store(replace(old, targets=frozenset()), old.targets) for old in tuple(self)
        )

    def clear(self) -> None:
        """The session has ended, and its sets with it."""
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
    """What a receiver knows about an id that stands before data."""

    LIVE = "live"
    UNKNOWN = "unknown"
    """Not advertised yet; it may be on its way."""
    GONE = "gone"
    """Withdrawn, refused, or skipped: it will not come any more."""


class SnsReceiver:
    """The sets that the peer has advertised on a session, within the limits that we set.

    A set over a limit is not served (:class:`SnsRejection`); what breaks the order of ids or
    versions raises :class:`~laps_wire.peering.errors.SnsViolationError`. ``ordered=False`` is for
    the C++ relay, whose ids follow another counter.
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
        self._unconfirmed: set[int] | None = None  # not named yet in this synchronisation
        self._unsure = False  # something may have been lost since the last synchronisation

    def __len__(self) -> int:
        return len(self._sets)

    def __contains__(self, sns_id: int) -> bool:
        return sns_id in self._sets

    def get(self, sns_id: int) -> SnsSet | None:
        """The set, if it is live."""
        return self._sets.get(sns_id)

    def standing(self, sns_id: int) -> SnsStanding:
        """Where an id that came with data stands."""
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
        """The peer described a set in full: a new one, or a live one anew."""
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
        """The peer changed a set. One that we do not serve changes nothing."""
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
        """The peer ended a set. One that we do not serve ends without an effect."""
        if sns_id not in self._sets:
            self._check_known(sns_id, "withdrawn")
            return SnsDiff(sns_id, 0)
        return self._drop(sns_id)

    def refuse(self, sns_id: int) -> SnsDiff:
        """We ourselves do not serve a set any longer."""
        return self._drop(sns_id) if sns_id in self._sets else SnsDiff(sns_id, 0)

    def moved(self) -> None:
        """Messages may have been lost: be lenient until all sets have been named again."""
        self._unsure, self._unconfirmed = True, None

    def begin_sync(self) -> None:
        """The peer names all its sets anew; those that it does not name are gone at the end."""
        self._unconfirmed = set(self._sets)

    def end_sync(self) -> tuple[SnsDiff, ...]:
        """The peer has named all its sets; gives the end of those that it did not name."""
        gone, self._unconfirmed, self._unsure = self._unconfirmed or set(), None, False
        return tuple(self._drop(sns_id) for sns_id in sorted(gone))

    def clear(self) -> None:
        """The session has ended, and its sets with it."""
        self._sets.clear()
        self._unconfirmed = None

    def _check_new(self, sns_id: int) -> None:
        if sns_id == NO_SNS_ID:
            raise SnsViolationError("0 is no subscriber node set")
        if is_later(sns_id, self._last):
            self._last = sns_id
        # A synchronisation may name again what got lost, so any order is right there.
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
