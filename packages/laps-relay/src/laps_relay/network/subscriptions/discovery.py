"""Matching of announces and subscribes.

:class:`Discovery` has the announces of other relays: who may serve a track, and which names our
clients discover.

:class:`SubscribeIndex` has subscribes by namespace: it returns those that an announce matches. The
other direction is :class:`laps_wire.matching.AnnounceIndex`. A :class:`SubscribeIndex` must stay
small for a million tracks: a namespace is a node of a tree, a track is one entry in its node's
dict, and one holder of a track stands there without a container of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from laps_relay.network.flood.floods import Change
from laps_sdk.upstream.interfaces import LocalSide
from laps_wire.hashing import KeyedHasher
from laps_wire.matching import Announce, AnnounceIndex, Subscribe
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import AnnounceInfo, AnnounceKind
from laps_wire.peering.laps2.information import AnnounceIdentity

__all__ = ["Discovery", "SubscribeIndex"]


class Discovery:
    """The announces of all other nodes."""

    __slots__ = ("_hasher", "_index", "_local", "_names", "clients", "false_names")

    def __init__(self, local: NodeId, hasher: KeyedHasher) -> None:
        self._local = local
        self._hasher = hasher
        self._index: AnnounceIndex[int, NodeId] = AnnounceIndex()
        self._names: dict[tuple[AnnounceKind, FullTrackName], dict[NodeId, None]] = {}
        self.clients: LocalSide | None = None
        """The relay's own clients, who may discover names; None until they are attached."""
        self.false_names = 0
        """Plaintext names without the hashes that came with them; they are ignored."""

    def sizes(self) -> tuple[int, int]:
        """Return how many names and how many announces are known."""
        return len(self._names), len(self._index)

    def changed(
        self, now: float, changes: Iterable[Change[AnnounceIdentity, AnnounceInfo]]
    ) -> list[AnnounceInfo]:
        """Apply changes of the announces; return the new entries."""
        new: list[AnnounceInfo] = []
        for change in changes:
            if change.identity[0] == self._local:
                continue
            if change.previous is not None:
                self._index.remove(_announce(change.previous), change.previous.source)
            if change.entry is not None:
                self._index.add(_announce(change.entry), change.entry.source)
                new.append(change.entry)
            self._name(now, change)
        return new

    def _name(self, now: float, change: Change[AnnounceIdentity, AnnounceInfo]) -> None:
        old = self._name_of(change.previous)
        entry = change.entry
        new = self._name_of(entry)
        if entry is not None and new is not None:
            holders = self._names.setdefault((entry.kind, new), {})
            first = not holders
            holders[entry.source] = None
            if first and self.clients is not None:
                self.clients.announce_added(now, entry)
        if old is not None and old != new:
            kind, source = change.identity[1], change.identity[0]
            holders = self._names[kind, old]
            holders.pop(source, None)
            if not holders:
                del self._names[kind, old]
                if self.clients is not None:
                    self.clients.announce_removed(now, kind, old)

    def _name_of(self, entry: AnnounceInfo | None) -> FullTrackName | None:
        """Return the name of an announce if it has one with the right hashes, else None."""
        if entry is None or entry.plaintext is None:
            return None
        fields, name = entry.plaintext.namespace.fields, entry.plaintext.name
        hasher = self._hasher
        if (
            hasher.full_name(fields, name) != entry.full_name_hash
            or hasher.elements(fields) != entry.element_hashes
        ):
            self.false_names += 1
            return None
        return entry.plaintext

    def announcers(self, elements: tuple[int, ...], name_hash: int) -> list[NodeId]:
        """Return the nodes that announced what covers a track."""
        return self._index.match(Subscribe(elements, name_hash))


def _announce(entry: AnnounceInfo) -> Announce[int]:
    return Announce(entry.element_hashes, entry.name_hash)


V = TypeVar("V", bound=int)


class _Space(Generic[V]):
    """One namespace."""

    __slots__ = ("children", "tracks")

    def __init__(self) -> None:
        self.children: dict[int, _Space[V]] | None = None
        self.tracks: dict[int, V | tuple[V, ...]] | None = None
        """Who holds a track, by full-name hash: one, or several."""


class SubscribeIndex(Generic[V]):
    """Which values (s-relays) stand for a track in which namespace, all by hashes."""

    __slots__ = ("_root", "_size")

    def __init__(self) -> None:
        self._root: _Space[V] = _Space()
        self._size = 0

    def __len__(self) -> int:
        """How many (track, value) pairs are in."""
        return self._size

    def add(self, elements: tuple[int, ...], key: int, value: V) -> bool:
        """Put a pair in; False if it was in already."""
        space = self._root
        for element in elements:
            if space.children is None:
                space.children = {}
            child = space.children.get(element)
            if child is None:
                child = space.children[element] = _Space()
            space = child
        if space.tracks is None:
            space.tracks = {}
        held = space.tracks.get(key)
        values = _values(held)
        if value in values:
            return False
        space.tracks[key] = value if held is None else (*values, value)
        self._size += 1
        return True

    def remove(self, elements: tuple[int, ...], key: int, value: V) -> bool:
        """Take a pair out; False if it was not in."""
        path = [self._root]
        for element in elements:
            child = (path[-1].children or {}).get(element)
            if child is None:
                return False
            path.append(child)
        tracks = path[-1].tracks or {}
        values = _values(tracks.get(key))
        if value not in values:
            return False
        rest = tuple(other for other in values if other != value)
        if rest:
            tracks[key] = rest[0] if len(rest) == 1 else rest
        else:
            del tracks[key]
        self._size -= 1
        if not tracks:
            path[-1].tracks = None
        # Branches that lead nowhere go, or unsubscribed tracks would fill the memory.
        for element, parent, child in zip(
            reversed(elements), reversed(path[:-1]), reversed(path), strict=False
        ):
            if child.children or child.tracks or parent.children is None:
                break
            del parent.children[element]
            if not parent.children:
                parent.children = None
        return True

    def track(self, elements: tuple[int, ...], key: int) -> tuple[V, ...]:
        """Who holds one track."""
        space = self._find(elements)
        return () if space is None or space.tracks is None else _values(space.tracks.get(key))

    def below(self, elements: tuple[int, ...]) -> Iterator[tuple[int, V]]:
        """Every (full-name hash, value) in a namespace and in all namespaces below it."""
        space = self._find(elements)
        todo = [] if space is None else [space]
        while todo:
            space = todo.pop()
            for key, held in (space.tracks or {}).items():
                for value in _values(held):
                    yield key, value
            todo.extend(reversed((space.children or {}).values()))

    def _find(self, elements: tuple[int, ...]) -> _Space[V] | None:
        space = self._root
        for element in elements:
            child = (space.children or {}).get(element)
            if child is None:
                return None
            space = child
        return space


def _values(held: V | tuple[V, ...] | None) -> tuple[V, ...]:
    if held is None:
        return ()
    return held if isinstance(held, tuple) else (held,)
