"""What the tables should say, from the map alone: Dijkstra over (hops, cost), then the peer's id.

It shares no code with the node information base that it judges. For each target one search over
the graph gives every relay's distance to it; a relay's next hop is then the neighbour with the
least (hops, cost, node id). Relays that are no transit end paths and begin them, and are never in
between.

A class of service narrows the choice at each relay to what its neighbours told it, and they tell
their best way only (laps-2, 5.1). So the oracle for a class takes each neighbour's own best path
and drops those that the class may not use: a longer way that nobody advertises is not expected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from heapq import heappop, heappush

from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2.limits import MAX_HOPS

__all__ = ["Graph", "Oracle"]

Graph = Mapping[NodeId, Mapping[NodeId, int]]
"""For each relay its neighbours and the round-trip time to them in microseconds."""


class Oracle:
    """Distances and next hops of one graph."""

    __slots__ = ("_graph", "_paths", "_transit", "_trees")

    def __init__(self, graph: Graph, transit: Callable[[NodeId], bool]) -> None:
        self._graph = graph
        self._transit = transit
        self._trees: dict[NodeId, dict[NodeId, tuple[int, int]]] = {}
        self._paths: dict[tuple[NodeId, NodeId], tuple[NodeId, ...] | None] = {}

    def _tree(self, target: NodeId) -> dict[NodeId, tuple[int, int]]:
        """For every relay that reaches the target: links on the way, and their sum."""
        tree = self._trees.get(target)
        if tree is not None:
            return tree
        tree = {}
        heap: list[tuple[int, int, NodeId]] = [(0, 0, target)]
        while heap:
            hops, cost, node = heappop(heap)
            if node in tree or hops > MAX_HOPS + 1:
                continue  # known better, or too far: a path of 16 items is not passed on
            tree[node] = (hops, cost)
            if node != target and not self._transit(node):
                continue  # others do not go through it
            for other, rtt in self._graph.get(node, {}).items():
                if other not in tree:
                    heappush(heap, (hops + 1, cost + rtt, other))
        self._trees[target] = tree
        return tree

    def reaches(self, node: NodeId, target: NodeId) -> bool:
        """Whether there is a way."""
        return node in self._tree(target)

    def metric(self, node: NodeId, target: NodeId) -> tuple[int, int] | None:
        """Transit relays and cost of the best way."""
        found = self._tree(target).get(node)
        return None if found is None else (found[0] - 1, found[1])

    def next_hop(
        self, node: NodeId, target: NodeId, allowed: Callable[[NodeId], bool] | None = None
    ) -> NodeId | None:
        """The neighbour that data for the target goes to; ``allowed`` narrows transit."""
        tree = self._tree(target)
        if node not in tree:
            return None
        best: tuple[int, int, NodeId] | None = None
        for peer, rtt in self._graph[node].items():
            found = tree.get(peer)
            if found is None or (peer != target and not self._transit(peer)):
                continue
            path = self.path(peer, target)
            if path is None or node in path:
                continue
            if allowed is not None and not all(map(allowed, path[:-1])):
                continue
            choice = (found[0], found[1] + rtt, peer)
            if best is None or choice < best:
                best = choice
        return None if best is None else best[2]

    def through(self, node: NodeId, peer: NodeId, target: NodeId) -> tuple[int, int] | None:
        """Links and cost of the best way by that neighbour."""
        found = self._tree(target).get(peer)
        rtt = self._graph.get(node, {}).get(peer)
        return None if found is None or rtt is None else (found[0] + 1, found[1] + rtt)

    def path(self, node: NodeId, target: NodeId) -> tuple[NodeId, ...] | None:
        """The relays on the best way, from ``node`` to the target, both included."""
        if node == target:
            return (node,)
        key = (node, target)
        if key not in self._paths:
            self._paths[key] = None  # whoever asks again in between is on a loop
            best: tuple[int, int, NodeId] | None = None
            tree = self._tree(target)
            for peer, rtt in self._graph.get(node, {}).items():
                found = tree.get(peer)
                if found is None or (peer != target and not self._transit(peer)):
                    continue
                choice = (found[0], found[1] + rtt, peer)
                if best is None or choice < best:
                    best = choice
            rest = None if best is None else self.path(best[2], target)
            self._paths[key] = None if rest is None else (node, *rest)
        return self._paths[key]

    def diameter(self, nodes: Iterable[NodeId]) -> int:
        """The longest of all best ways, in links."""
        return max((hops for node in nodes for hops, _ in self._tree(node).values()), default=0)
