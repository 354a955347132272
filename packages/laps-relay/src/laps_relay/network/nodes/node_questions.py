"""What can be asked of the nodes that one relay knows, and of the ways to them.

Everybody around the node information base asks this and nothing else: steering, policy, the log.
An answer is never older than what was said last. What may have become worse since somebody last
asked is looked for again first (:meth:`~laps_relay.network.nodes.node_table.NodeTable.refresh`).
"""

from __future__ import annotations

from collections.abc import Sequence

from laps_relay.network.nodes.node_table import NodeTable
from laps_relay.network.nodes.selection import Candidate, Order, PathRule
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import NodeInfo

__all__ = ["NodeQuestions"]


class NodeQuestions:
    """The questions of :class:`~laps_relay.network.nodes.selection.NodeLookup`, and some more."""

    __slots__ = ("_local", "_node", "_table")

    def __init__(self, local: NodeInfo, order: Order) -> None:
        self._local = local
        self._node = local.node.node_id
        self._table = NodeTable(order)

    def info(self, node: NodeId) -> NodeInfo | None:
        """What a node says of itself; the path in it means nothing."""
        if node == self._node:
            return self._local
        table = self._table
        if table.stale:
            table.refresh()
        record = table.records.get(node)
        return None if record is None else record.told

    def epoch(self, node: NodeId) -> int | None:
        """The life that a node is in, as far as we know."""
        info = self.info(node)
        return None if info is None else info.node.stamp.epoch

    def fingerprint(self, node: NodeId) -> bytes | None:
        """Of the key that holds this node id; None if nobody told us of the node."""
        info = self.info(node)
        return None if info is None else info.signature.fingerprint

    def best(self, node: NodeId, rule: PathRule | None = None) -> Candidate | None:
        """The best way that forwards and that the rule allows."""
        if self._table.stale:
            self._table.refresh()
        record = self._table.records.get(node)
        if record is None or record.best is None or record.rank[0]:
            return None
        way = self._table.candidate(record.best, record.best.entries[node])
        if rule is None or rule(way):
            return way
        for other in self._table.candidates(node)[1:]:
            if other.forwards and rule(other):
                return other
        return None

    def next_hop(self, node: NodeId) -> NodeId | None:
        """Where the best way begins that forwards; None if there is none."""
        table = self._table
        if table.stale:
            table.refresh()
        record = table.records.get(node)
        if record is None or record.best is None or record.rank[0]:
            return None
        return record.best.node

    def candidates(self, node: NodeId) -> Sequence[Candidate]:
        """All ways, the best first; those that do not forward come last."""
        return self._table.candidates(node)

    def told_by(self, node: NodeId, peer: NodeId) -> Candidate | None:
        """The way that one peer tells, if policy takes it."""
        record = self._table.peers.get(peer)
        if record is None or node not in record.entries or node in record.barred:
            return None
        return self._table.candidate(record, record.entries[node])

    def nodes(self) -> list[NodeId]:
        """All nodes that somebody told us of, in ascending order; not ourselves."""
        self._table.refresh()
        return sorted(self._table.records)

    @property
    def size(self) -> int:
        """How many they are."""
        self._table.refresh()
        return len(self._table.records)
