"""Who gets what: subscribes against announces, and short names against subscriptions.

**Tracks** (seed 000, Matching Subscribes to Announcements). Elements are compared whole, exactly
and in order. An announce with fewer elements matches every subscribe that begins with them::

    announce (example.net, team2)          matches   (example.net, team2)            report
                                           matches   (example.net, team2, project_x) report
                                           not       (example.net)                   report
    announce (example.net, team2) report   matches   (example.net, team2)            report only

An announce with a name is of one track: then all of the namespace and the name must be equal. An
element is any hashable value, so one algorithm serves hashes (``laps-2`` peers) and bytes (full
names, which the origin compares as well because hashes can collide).

**Short names** (seed 002, Subscriptions). A session may subscribe to a prefix and to others inside
it; only the least specific counts, so that nobody gets an object twice.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from laps_wire.hashing import KeyedHasher
from laps_wire.names import FullTrackName, Namespace
from laps_wire.shortname import BITS, ShortName

__all__ = [
    "Announce",
    "AnnounceIndex",
    "PrefixChange",
    "RelayPrefixes",
    "SessionPrefixes",
    "Subscribe",
    "announce_of",
    "hashed_announce_of",
    "hashed_subscribe_of",
    "matches",
    "subscribe_of",
]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V", bound=Hashable)


# Subscribes against announces


@dataclass(frozen=True, slots=True)
class Announce(Generic[K]):
    """What a publisher offers: a namespace with everything in it, or one track."""

    namespace: tuple[K, ...]
    name: K | None = None
    """The track's name; ``None`` if the whole namespace is offered."""


@dataclass(frozen=True, slots=True)
class Subscribe(Generic[K]):
    """The track that a subscriber asks for."""

    namespace: tuple[K, ...]
    name: K


def announce_of(namespace: Namespace, name: bytes | None = None) -> Announce[bytes]:
    """An announce by its names."""
    return Announce(namespace.fields, name)


def subscribe_of(track: FullTrackName) -> Subscribe[bytes]:
    """A subscribe by its names."""
    return Subscribe(track.namespace.fields, track.name)


def hashed_announce_of(
    hasher: KeyedHasher, namespace: Namespace, name: bytes | None = None
) -> Announce[int]:
    """An announce by the hashes of its names, as ``laps-2`` carries it."""
    hashed = None if name is None else hasher.name(name)
    return Announce(hasher.elements(namespace.fields), hashed)


def hashed_subscribe_of(hasher: KeyedHasher, track: FullTrackName) -> Subscribe[int]:
    """A subscribe by the hashes of its names, as ``laps-2`` carries it."""
    return Subscribe(hasher.elements(track.namespace.fields), hasher.name(track.name))


def matches(announce: Announce[K], subscribe: Subscribe[K]) -> bool:
    """Whether the publisher of ``announce`` gets ``subscribe``."""
    if announce.name is not None:
        return (announce.namespace, announce.name) == (subscribe.namespace, subscribe.name)
    return subscribe.namespace[: len(announce.namespace)] == announce.namespace


@dataclass(slots=True)
class _Node(Generic[K, V]):
    """One namespace in the tree; dicts without values are sets that keep their order."""

    children: dict[K, _Node[K, V]] = field(default_factory=dict)
    offers: dict[V, None] = field(default_factory=dict)
    """Who announced this whole namespace."""
    tracks: dict[K, dict[V, None]] = field(default_factory=dict)
    """Who announced one track in this namespace, by name."""

    @property
    def is_empty(self) -> bool:
        return not (self.children or self.offers or self.tracks)


class AnnounceIndex(Generic[K, V]):
    """All announces, so kept that a subscribe finds its own in as many steps as it has elements.

    A value says who announced (a session, a node ID); one announce may have many.
    """

    __slots__ = ("_root", "_size")

    def __init__(self) -> None:
        self._root: _Node[K, V] = _Node()
        self._size = 0

    def __len__(self) -> int:
        """How many (announce, value) pairs are in."""
        return self._size

    def add(self, announce: Announce[K], value: V) -> bool:
        """Put a pair in; ``False`` if it was in already."""
        node = self._root
        for element in announce.namespace:
            node = node.children.setdefault(element, _Node())
        if announce.name is None:
            holders = node.offers
        else:
            holders = node.tracks.setdefault(announce.name, {})
        if value in holders:
            return False
        holders[value] = None
        self._size += 1
        return True

    def remove(self, announce: Announce[K], value: V) -> bool:
        """Take a pair out; ``False`` if it was not in."""
        path = [self._root]
        for element in announce.namespace:
            child = path[-1].children.get(element)
            if child is None:
                return False
            path.append(child)
        node = path[-1]
        holders = node.offers if announce.name is None else node.tracks.get(announce.name, {})
        if value not in holders:
            return False
        del holders[value]
        self._size -= 1
        if announce.name is not None and not holders:
            del node.tracks[announce.name]
        # Branches that lead nowhere go, or withdrawn announces would fill the memory.
        for element, parent, child in zip(
            reversed(announce.namespace), reversed(path[:-1]), reversed(path), strict=False
        ):
            if not child.is_empty:
                break
            del parent.children[element]
        return True

    def match(self, subscribe: Subscribe[K]) -> list[V]:
        """Everyone whose announce matches, each once, the least specific announce first."""
        found: dict[V, None] = {}
        node = self._root
        for element in subscribe.namespace:
            found |= node.offers
            child = node.children.get(element)
            if child is None:
                return list(found)
            node = child
        found |= node.offers
        found |= node.tracks.get(subscribe.name, {})
        return list(found)


# Short names against subscriptions


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
