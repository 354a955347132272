"""Who in the network of a C++ relay says the same thing: a name is there as long as one of them is.

A node that its peer withdraws is not heard of again until it comes back: a C++ relay tells that a
node is gone, but neither what it announced nor what it wanted (docs/spec/laps-cpp.md). Both are
kept and count again when the node does.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from laps_wire.nodeid import NodeId

__all__ = ["Claims"]

K = TypeVar("K")


class Claims(Generic[K]):
    """Things, each with the nodes that claim it.

    Of a node that claims nothing nothing is kept, however often it comes and goes.
    """

    __slots__ = ("_by_node", "_claims", "_gone", "_size")

    def __init__(self) -> None:
        self._claims: dict[K, set[NodeId]] = {}
        self._by_node: dict[NodeId, dict[K, None]] = {}
        self._gone: set[NodeId] = set()
        """Those that claim something and are not there."""
        self._size = 0

    def __len__(self) -> int:
        """How many there are, each node's counted."""
        return self._size

    def add(self, thing: K, node: NodeId) -> None:
        """A node claims something; it is there, then."""
        nodes = self._claims.setdefault(thing, set())
        if node not in nodes:
            nodes.add(node)
            self._by_node.setdefault(node, {})[thing] = None
            self._size += 1

    def remove(self, thing: K, node: NodeId) -> bool:
        """It does not any more; whether it did."""
        nodes = self._claims.get(thing, set())
        if node not in nodes:
            return False
        nodes.discard(node)
        self._size -= 1
        if not nodes:
            del self._claims[thing]
        of_node = self._by_node[node]
        del of_node[thing]
        if not of_node:
            del self._by_node[node]
            self._gone.discard(node)
        return True

    def hide(self, node: NodeId) -> list[K]:
        """A node is gone; gives what it claims."""
        if node not in self._by_node:
            return []
        self._gone.add(node)
        return list(self._by_node[node])

    def show(self, node: NodeId) -> list[K]:
        """It is back; gives what it claims, if it was gone."""
        if node not in self._gone:
            return []
        self._gone.discard(node)
        return list(self._by_node[node])

    def of(self, thing: K) -> tuple[NodeId, ...]:
        """The nodes that claim something and are there, lowest first."""
        return tuple(sorted(self._claims.get(thing, set()) - self._gone))

    def __contains__(self, thing: K) -> bool:
        """Whether somebody claims it, there or not."""
        return thing in self._claims
