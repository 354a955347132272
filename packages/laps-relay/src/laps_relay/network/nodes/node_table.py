"""The best path to every node, kept as paths are added, changed and removed (laps-2, 5.1).

A path that is better than the best one replaces it at once. Where the best one became worse or was
removed, the node is *stale*: all its paths are compared again on the next request, once for
everything that happened until then. So an entry costs the same in a relay with four peers and in a
control server with a thousand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from laps_relay.network.nodes.node_records import NodeRecord, PeerRecord, Rank
from laps_relay.network.nodes.selection import (
    LOAD_WEIGHTS,
    Candidate,
    Order,
    burden,
    default_order,
    rank_of,
)
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import LoadClass, NodeInfo, NodeSelf

__all__ = ["NodeTable"]


class NodeTable:
    """All entries of all peers, and the best path to each node."""

    __slots__ = (
        "_order",
        "_plain",
        "_weights",
        "changed_selves",
        "nodes",
        "paths",
        "peers",
        "records",
        "routes",
        "stale",
        "touched",
    )

    def __init__(self, order: Order) -> None:
        self._order = order
        self._plain = order is default_order
        self._weights: dict[NodeId, int] = {}
        """Of the relays that are loaded, usually none."""
        self.stale: dict[NodeId, bool] = {}
        """Nodes that :meth:`refresh` looks at; ask for it first.

        With each, whether the entry of the best path was replaced: it may be equal."""
        self.peers: dict[NodeId, PeerRecord] = {}
        self.records: dict[NodeId, NodeRecord] = {}
        # What others must look at; they empty it.
        self.touched: dict[NodeId, None] = {}
        """Nodes whose best path or self part changed, or that are gone."""
        self.routes: dict[NodeId, None] = {}
        """Nodes whose best forwarding path changed."""
        self.nodes: dict[NodeId, None] = {}
        """It appeared, is gone, or says something else."""
        self.changed_selves: dict[NodeId, NodeSelf | None] = {}
        """The same, with what it said before; None if it was not known."""
        self.paths: dict[NodeId, None] = {}
        """Nodes with any path that was added, removed or changed."""

    # Changes

    def put(self, peer: PeerRecord, info: NodeInfo) -> None:
        """Replace a peer's entry of a node."""
        node = info.node.node_id
        record = self.records.get(node)
        former = peer.entries.get(node)
        if record is None:
            record = self.records[node] = NodeRecord(node, info)
            self._spread(record, None)
        else:
            if former is not None and former == info:
                return
            info = _shared(record.latest, info)
            if former is not None:
                info = _shared(former, info)
        peer.entries[node] = info
        self.paths[node] = None
        best = record.best
        if node in self.stale:
            if best is peer:
                self.stale[node] = True
            return
        if node not in peer.filtered:
            rank = self.rank(peer, info)
            if best is None or rank < record.rank or (best is peer and rank == record.rank):
                self._choose(record, peer, rank)
            elif best is peer:
                self.stale[node] = True
                return
        newest = record.latest
        if info.node is not newest.node:
            if _newer(info.node, newest.node):
                record.latest = info
                self._spread(record, newest.node)
            elif former is not None and former.node is newest.node and not self._held(record):
                self.stale[node] = False

    def drop(self, peer: PeerRecord, node: NodeId) -> None:
        """Remove a peer's entry of a node."""
        peer.filtered.pop(node, None)
        if peer.entries.pop(node, None) is None:
            return
        self.paths[node] = None
        if node not in self.stale:
            record = self.records[node]
            if record.best is peer or not self._held(record):
                self.stale[node] = False

    def set_filtered(self, peer: PeerRecord, node: NodeId, filtered: bool) -> None:
        """Set whether policy forbids the use of a peer's entry of a node, present or next.

        The self part of the node counts all the same: policy must see it when it checks others.
        """
        if filtered is (node in peer.filtered):
            return
        if filtered:
            peer.filtered[node] = None
        else:
            del peer.filtered[node]
        if node in peer.entries:
            self.stale[node] = True
            self.paths[node] = None

    def invalidate(self, nodes: Iterable[NodeId]) -> None:
        """Compare the paths to these nodes again: an input of their ranks has changed."""
        for node in nodes:
            self.stale.setdefault(node, False)
            self.paths[node] = None

    def rerank(self, node: NodeId) -> None:
        """Apply the load of a relay, which counts on every path through it."""
        peer = self.peers.get(node)
        record = self.records.get(node)
        load = LoadClass.NORMAL if record is None else record.latest.node.load.load_class
        if peer is not None and peer.draining:
            load = LoadClass.DRAINING
        weight = LOAD_WEIGHTS[load]
        if weight == self._weights.get(node, 0):
            return
        if weight:
            self._weights[node] = weight
        else:
            del self._weights[node]
        self.invalidate(target for _, target in self.through(node))

    def through(self, relay: NodeId) -> Iterator[tuple[PeerRecord, NodeId]]:
        """Return the entries, filtered ones too, whose paths pass a relay."""
        for peer in self.peers.values():
            for node, info in peer.entries.items():
                for item in info.path:
                    if item.node_id == relay:
                        yield peer, node
                        break

    # Questions

    def refresh(self) -> None:
        """Compare all stale nodes again."""
        while self.stale:
            stale, self.stale = self.stale, {}
            for node, replaced in stale.items():
                self._rescan(node, replaced)

    def candidate(self, peer: PeerRecord, info: NodeInfo) -> Candidate:
        """Return an entry as a path.

        A session that is about to end counts only if the peer has no other session. If the peer
        itself drains, there is no difference.
        """
        load = 0
        if not self._weights:
            pass
        elif info.path:
            load = burden((item.node_id for item in info.path), self._weights)
        elif peer.draining and info.node.load.load_class is not LoadClass.DRAINING:
            load = LOAD_WEIGHTS[LoadClass.DRAINING]
        return Candidate(info.node.node_id, peer.node, info, peer.srtt_us, peer.carries, load)

    def candidates(self, node: NodeId) -> list[Candidate]:
        """Return all paths of the latest epoch, the best first; forwarding ones come first."""
        paths = []
        for peer in self.peers.values():
            info = peer.entries.get(node)
            if info is not None and node not in peer.filtered:
                paths.append((self.rank(peer, info), peer.node, self.candidate(peer, info)))
        paths.sort()
        latest: dict[int, int] = {}
        for rank, _, _ in paths:
            latest.setdefault(rank[0], rank[1])
        return [candidate for rank, _, candidate in paths if latest[rank[0]] == rank[1]]

    # Inside

    def rank(self, peer: PeerRecord, info: NodeInfo) -> Rank:
        """Return the rank of a path: the lowest is the best."""
        if self._plain and not self._weights:
            # Of every entry that comes: the same without a candidate.
            order = rank_of(info.path, peer.srtt_us, 0, peer.node)
        else:
            order = self._order(self.candidate(peer, info))
        return (0 if peer.carries else 1, -info.node.stamp.epoch, *order)

    def _rescan(self, node: NodeId, replaced: bool) -> None:
        """Find the best path and the newest self part among all entries."""
        record = self.records.get(node)
        if record is None:
            return
        best: PeerRecord | None = None
        rank: Rank = ()
        newest: NodeInfo | None = None
        for peer in self.peers.values():
            info = peer.entries.get(node)
            if info is None:
                continue
            if node not in peer.filtered:
                its_rank = self.rank(peer, info)
                if best is None or its_rank < rank or (its_rank == rank and peer.node < best.node):
                    best, rank = peer, its_rank
            if newest is None or _newer(info.node, newest.node):
                newest = info
        if replaced or best is not record.best or rank != record.rank:
            self._choose(record, best, rank)
        if newest is None:
            del self.records[node]
            self._spread(record, record.latest.node)
        elif _newer(newest.node, record.latest.node) or not self._held(record):
            before, record.latest = record.latest.node, newest
            self._spread(record, before)

    def _choose(self, record: NodeRecord, best: PeerRecord | None, rank: Rank) -> None:
        node = record.node
        self.touched[node] = None
        if (rank and not rank[0]) or (record.rank and not record.rank[0]):
            self.routes[node] = None
        record.best = best
        record.rank = rank

    def _held(self, record: NodeRecord) -> bool:
        """Return whether any peer still advertises the self part that we use.

        An invented epoch or sequence must disappear with the last peer that advertises it.
        """
        node, latest_self = record.node, record.latest.node
        for peer in self.peers.values():
            info = peer.entries.get(node)
            if info is not None and info.node is latest_self:
                return True
        return False

    def _spread(self, record: NodeRecord, before: NodeSelf | None) -> None:
        """Record that a node changed its self part, appeared, or is gone."""
        node = record.node
        self.touched[node] = None
        self.nodes[node] = None
        self.changed_selves.setdefault(node, before)
        if node in self._weights or record.latest.node.load.load_class:
            self.rerank(node)


def _shared(known: NodeInfo, info: NodeInfo) -> NodeInfo:
    """The same with the self part that we have, if it is that: every peer sends its own copy of it.

    Only the stamp is not enough: somebody may have said something else with it, and whoever tells
    the truth must not be taken for one who says that, too.
    """
    if (
        info.node is known.node
        or info.node.stamp != known.node.stamp
        or info.node != known.node
        or info.signature != known.signature
    ):
        return info
    return NodeInfo(known.node, known.signature, info.path, info.parameters)


def _newer(a: NodeSelf, b: NodeSelf) -> bool:
    left, right = a.stamp, b.stamp
    if left is right:
        return False
    return (left.epoch, left.sequence) > (right.epoch, right.sequence)
