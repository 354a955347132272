"""What the tables should have, from the map alone: least hops, then cost, then the peer's ID.

The oracle shares no code with the node information base that it judges. One search for each target
gives the distance of every relay and its next hop: the neighbour with the least (hops, cost, node
ID). Relays that are no transit begin and end paths, and are never in between. A search visits each
link once, so all paths of a network cost relays x links.

For a class of service each relay chooses among the paths of its neighbours, and they advertise
their best one only (laps-2, 5.1). The oracle for a class therefore takes each neighbour's own best
path and drops those that are forbidden for the class. A longer path is not expected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2.limits import MAX_HOPS

__all__ = ["Graph", "Oracle"]

Graph = Mapping[NodeId, Mapping[NodeId, int]]
"""For each relay its neighbours and the round-trip time to them in microseconds."""


class Oracle:
    """Distances and next hops of one graph."""

    __slots__ = ("_barred", "_graph", "_hops", "_trees")

    def __init__(self, graph: Graph, transit: Callable[[NodeId], bool]) -> None:
        self._graph = graph
        self._barred = frozenset(node for node in graph if not transit(node))
        self._trees: dict[NodeId, dict[NodeId, tuple[int, int]]] = {}
        self._hops: dict[NodeId, dict[NodeId, NodeId]] = {}

    def _tree(self, target: NodeId) -> dict[NodeId, tuple[int, int]]:
        """Return for every relay that reaches the target the links on the path, and their sum."""
        tree = self._trees.get(target)
        if tree is not None:
            return tree
        tree = self._trees[target] = {target: (0, 0)}
        next_hops = self._hops[target] = {}
        reached = [target]
        for hops in range(1, MAX_HOPS + 2):  # a path of 16 items is not passed on
            found: dict[NodeId, tuple[int, NodeId]] = {}
            for node in reached:
                if node in self._barred and node != target:
                    continue  # others do not go through it
                cost = tree[node][1]
                for other, rtt in self._graph.get(node, {}).items():
                    if other not in tree:
                        way = (cost + rtt, node)
                        if other not in found or way < found[other]:
                            found[other] = way
            for other, (cost, node) in found.items():
                tree[other] = (hops, cost)
                next_hops[other] = node
            reached = list(found)
        return tree

    def reaches(self, node: NodeId, target: NodeId) -> bool:
        """Return whether there is a path."""
        return node in self._tree(target)

    def metric(self, node: NodeId, target: NodeId) -> tuple[int, int] | None:
        """Return the transit relays and the cost of the best path."""
        found = self._tree(target).get(node)
        return None if found is None else (found[0] - 1, found[1])

    def next_hop(
        self,
        node: NodeId,
        target: NodeId,
        permits: Callable[[Sequence[NodeId]], bool] | None = None,
    ) -> NodeId | None:
        """Return the neighbour for data to the target; ``permits`` restricts the paths."""
        tree = self._tree(target)
        if permits is None:
            return self._hops[target].get(node)
        if node not in tree:
            return None
        best: tuple[int, int, NodeId] | None = None
        for peer, rtt in self._graph[node].items():
            found = tree.get(peer)
            if found is None or (peer != target and peer in self._barred):
                continue
            path = self.path(peer, target)
            if path is None or node in path or not permits((node, *path)):
                continue
            choice = (found[0], found[1] + rtt, peer)
            if best is None or choice < best:
                best = choice
        return None if best is None else best[2]

    def through(self, node: NodeId, peer: NodeId, target: NodeId) -> tuple[int, int] | None:
        """Return the links and the cost of the best path through that neighbour."""
        found = self._tree(target).get(peer)
        rtt = self._graph.get(node, {}).get(peer)
        return None if found is None or rtt is None else (found[0] + 1, found[1] + rtt)

    def path(self, node: NodeId, target: NodeId) -> tuple[NodeId, ...] | None:
        """Return the relays on the best path, from ``node`` to the target, both included."""
        if node not in self._tree(target):
            return None
        next_hops = self._hops[target]
        path = [node]
        while path[-1] != target:
            path.append(next_hops[path[-1]])
        return tuple(path)

    def diameter(self, nodes: Iterable[NodeId]) -> int:
        """Return the length of the longest best path, in links."""
        return max((hops for node in nodes for hops, _ in self._tree(node).values()), default=0)
