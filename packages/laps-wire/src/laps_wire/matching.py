"""Match subscribes to announces (seed 000, Matching Subscribes to Announcements).

Elements are compared whole, exactly
and in order. An announce with fewer elements matches every subscribe that begins with them::

    announce (example.net, team2)          matches   (example.net, team2)            report
                                           matches   (example.net, team2, project_x) report
                                           not       (example.net)                   report
    announce (example.net, team2) report   matches   (example.net, team2)            report only

An announce with a name is of one track: then all of the namespace and the name must be equal. An
element is any hashable value, so one algorithm serves hashes (``laps-2`` peers) and bytes (full
names, which the origin compares as well because hashes can collide).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from laps_wire.hashing import KeyedHasher
from laps_wire.names import FullTrackName, Namespace

__all__ = [
    "Announce",
    "AnnounceIndex",
    "Subscribe",
    "announce_of",
    "hashed_announce_of",
    "hashed_subscribe_of",
    "matches",
    "subscribe_of",
]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V", bound=Hashable)


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
