"""Match the short names of objects to subscribed prefixes (seed 002, Subscriptions).

A session may subscribe to a prefix and to others inside it. Only the least specific prefix counts,
so that no session gets an object twice::

    SUBSCRIBE -> SessionPrefixes.add -> PrefixChange -> RelayPrefixes.apply
    object name -> RelayPrefixes.match -> the sessions that get the object
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from laps_wire.quicr.shortname import BITS, ShortName

__all__ = ["PrefixChange", "RelayPrefixes", "SessionPrefixes"]

V = TypeVar("V", bound=Hashable)


@dataclass(frozen=True, slots=True)
class PrefixChange:
    """What a session's change of mind means for the relay's prefixes.

    A session that minds gaps more than duplicates has ``install`` done before ``withdraw``; one
    that minds duplicates more, after it (seed 002, Per Session Subscriber Tree).
    """

    install: tuple[ShortName, ...] = ()
    withdraw: tuple[ShortName, ...] = ()
    covered_by: ShortName | None = None
    """The least specific subscription that makes this one redundant, if there is one."""


class SessionPrefixes:
    """What one session subscribed to; the least specific of it is active, the rest waits."""

    __slots__ = ("_lengths", "_names")

    def __init__(self) -> None:
        # Sorted: all that a prefix covers stands right behind it.
        self._names: list[ShortName] = []
        self._lengths: Counter[int] = Counter()

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: ShortName) -> bool:
        at = bisect_left(self._names, name)
        return at < len(self._names) and self._names[at] == name

    def active(self) -> tuple[ShortName, ...]:
        """The subscriptions that no other covers: what the relay's tree holds of the session."""
        return _least_specific(self._names)

    def add(self, name: ShortName) -> PrefixChange:
        """Subscribe; subscribing again to the same changes nothing."""
        covering = self._covering(name)
        if name in self:
            return PrefixChange(covered_by=covering)
        inside = _least_specific(self._inside(name))
        insort(self._names, name)
        self._lengths[name.length] += 1
        if covering is not None:
            return PrefixChange(covered_by=covering)
        return PrefixChange(install=(name,), withdraw=inside)

    def remove(self, name: ShortName) -> PrefixChange:
        """Unsubscribe; what the name covered becomes active unless something else covers it."""
        covering = self._covering(name)
        if name not in self:
            return PrefixChange(covered_by=covering)
        del self._names[bisect_left(self._names, name)]
        _count_down(self._lengths, name.length)
        if covering is not None:
            return PrefixChange(covered_by=covering)
        return PrefixChange(install=_least_specific(self._inside(name)), withdraw=(name,))

    def _covering(self, name: ShortName) -> ShortName | None:
        """The least specific subscription that covers ``name`` and is not ``name`` itself."""
        for length in sorted(self._lengths):
            if length < name.length and name.prefix(length) in self:
                return name.prefix(length)
        return None

    def _inside(self, name: ShortName) -> list[ShortName]:
        """The subscriptions that ``name`` covers, itself aside."""
        last = ShortName(name.value | (1 << (BITS - name.length)) - 1)
        return self._names[bisect_right(self._names, name) : bisect_right(self._names, last)]


def _least_specific(names: list[ShortName]) -> tuple[ShortName, ...]:
    """Of sorted names those that no other of them covers."""
    kept: list[ShortName] = []
    for name in names:
        if not kept or not kept[-1].covers(name):
            kept.append(name)
    return tuple(kept)


def _count_down(lengths: Counter[int], length: int) -> None:
    """One prefix of this length less; only lengths in use are kept, for each costs a lookup."""
    lengths[length] -= 1
    if not lengths[length]:
        del lengths[length]


class RelayPrefixes(Generic[V]):
    """Every session's active prefixes: an object's name in, the sessions that get it out."""

    __slots__ = ("_lengths", "_sessions")

    def __init__(self) -> None:
        self._sessions: dict[ShortName, dict[V, None]] = {}
        self._lengths: Counter[int] = Counter()

    def __len__(self) -> int:
        """How many prefixes have a session or more."""
        return len(self._sessions)

    def install(self, name: ShortName, session: V) -> None:
        """Send what ``name`` covers to ``session``."""
        if name not in self._sessions:
            self._sessions[name] = {}
            self._lengths[name.length] += 1
        self._sessions[name][session] = None

    def withdraw(self, name: ShortName, session: V) -> None:
        """Stop sending what ``name`` covers to ``session``; nothing, if it was not sent."""
        sessions = self._sessions.get(name, {})
        sessions.pop(session, None)
        if name in self._sessions and not sessions:
            del self._sessions[name]
            _count_down(self._lengths, name.length)

    def apply(self, change: PrefixChange, session: V, *, gapless: bool = False) -> None:
        """Do what a session's change asks; ``gapless`` installs before it withdraws."""
        if gapless:
            for name in change.install:
                self.install(name, session)
        for name in change.withdraw:
            self.withdraw(name, session)
        if not gapless:
            for name in change.install:
                self.install(name, session)

    def match(self, name: ShortName) -> list[V]:
        """The sessions that get an object called ``name``, each once."""
        found: dict[V, None] = {}
        for length in self._lengths:
            if length <= name.length:
                found |= self._sessions.get(name.prefix(length), {})
        return list(found)
