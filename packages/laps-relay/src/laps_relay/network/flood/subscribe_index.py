"""Subscribes by namespace: an announce in, the subscribes that it matches out.

The other direction, a subscribe in and announces out, is
:class:`laps_wire.matching.AnnounceIndex`. This one must stay small for a million tracks: a
namespace is a node of a tree, a track is one entry in its node's dict, and one holder of a track
stands there without a container of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

__all__ = ["SubscribeIndex"]

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
