"""Values by namespace, found from both sides.

::

    covering((a, b, c))   what stands at (), (a), (a, b), (a, b, c): who publishes or watches this
    under((a, b))         what stands at (a, b) and anywhere below: what a new prefix asks for

Both take as many steps as there are fields, plus one for each value found
(moq-transport-16, 8.5: whole fields, compared in order). :mod:`laps_wire.matching` answers the
first question for peers; the second is only the Edge's.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from laps_wire.names import Namespace

__all__ = ["NamespaceTree"]

V = TypeVar("V", bound=Hashable)


@dataclass(slots=True)
class _Node(Generic[V]):
    children: dict[bytes, _Node[V]] = field(default_factory=dict)
    values: dict[V, None] = field(default_factory=dict)


class NamespaceTree(Generic[V]):
    """A set of values, each at a namespace."""

    __slots__ = ("_root", "_size")

    def __init__(self) -> None:
        self._root: _Node[V] = _Node()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, namespace: Namespace, value: V) -> None:
        """Add a value at a namespace; nothing happens if it is there."""
        node = self._root
        for item in namespace.fields:
            node = node.children.setdefault(item, _Node())
        self._size += value not in node.values
        node.values[value] = None

    def remove(self, namespace: Namespace, value: V) -> None:
        """Remove a value; nothing happens if it is not there."""
        path = [self._root]
        for item in namespace.fields:
            child = path[-1].children.get(item)
            if child is None:
                return
            path.append(child)
        if value not in path[-1].values:
            return
        del path[-1].values[value]
        self._size -= 1
        # Branches that lead nowhere go, or names that come and go would fill the memory.
        for depth in range(len(path) - 1, 0, -1):
            if path[depth].values or path[depth].children:
                break
            del path[depth - 1].children[namespace.fields[depth - 1]]

    def at(self, namespace: Namespace) -> list[V]:
        """Return the values at exactly this namespace."""
        levels = self._levels(namespace)
        return levels[-1] if len(levels) == len(namespace.fields) + 1 else []

    def covering(self, namespace: Namespace, *, longest: bool = False) -> list[V]:
        """Return the values at all prefixes of a namespace, the shortest first.

        ``longest``: only those of the longest prefix that has any.
        """
        levels = self._levels(namespace)
        if longest:
            return next((level for level in reversed(levels) if level), [])
        return [value for level in levels for value in level]

    def _levels(self, namespace: Namespace) -> list[list[V]]:
        node: _Node[V] | None = self._root
        levels = [list(self._root.values)]
        for item in namespace.fields:
            node = node.children.get(item) if node is not None else None
            if node is None:
                break
            levels.append(list(node.values))
        return levels

    def under(self, prefix: Namespace) -> Iterator[V]:
        """Iterate over the values at a namespace and below; the tree must not change meanwhile."""
        node = self._root
        for item in prefix.fields:
            child = node.children.get(item)
            if child is None:
                return
            node = child
        stack = [node]
        while stack:
            node = stack.pop()
            yield from node.values
            stack.extend(reversed(node.children.values()))
