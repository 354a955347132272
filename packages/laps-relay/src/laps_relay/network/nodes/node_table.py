"""All entries of all peers, and the best path to every node (laps-2, 5.1).

**Updates.** A path that is better than the best one replaces it at once. Where the best one became
worse or was removed, the node is *stale*: all its paths are compared again on the next request,
once for everything that happened until then. So an entry costs the same in a relay with four peers
and in a control server with a thousand.

**Records** of each peer and of each node::

    PeerRecord 1:2                    PeerRecord 1:3
      entries (adj-in)                  entries                     NodeRecord 1:9
        1:9  path [1:4, 1:2] ---.         1:9  path [1:3] <---------- best, rank
        1:7  path [1:2]          '-- kept as alternate                latest  newest self part
      filtered by policy: 1:7           filtered                      export  path [1:3, we]
      out (adj-out)                     out
        sent, dirty                       sent, dirty

There are nodes x peers entries in one relay, and relays x nodes x peers in a simulation: an entry
is the very object that came in, and an export is one object for all peers. Everything else about a
path is computed on request.

**Selection**: one total order over the candidates for a node (laps-2, 5.1 and 8)::

    least of   avoided transit relays, hops, cost, load, node id of the peer
               |                       |     |     |     '- makes it total
               |                       |     |     '- busy relays on the path
               |                       |     '- sum of sRTT and the session's own, microseconds
               |                       '- items of the path
               '- OVERLOADED and DRAINING ones: chosen only if nothing else reaches the node

A total order, never "shorter or faster": an OR flips on every update and floods for ever. Every
part of the key is a sum over the path, so a longer path is never better than its own part.
So a path vector converges, and to the same paths that a global search finds. A
preference by the next hop alone would not: three relays, each of which avoids its own overloaded
neighbour through the next relay, never converge.

A relay's load counts where it is transit, not where it is the target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from laps_relay.network.nodes.location import Direction
from laps_wire.buffer import QUIC_MAX
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import LoadClass, NodeInfo, NodePathItem, NodeSelf

__all__ = [
    "LOAD_WEIGHTS",
    "ORDERS",
    "AdjOut",
    "Candidate",
    "Changes",
    "Criterion",
    "Fault",
    "NodeRecord",
    "NodeTable",
    "Order",
    "PathRule",
    "PeerRecord",
    "Rank",
    "Report",
    "avoided",
    "burden",
    "default_order",
    "make_order",
    "rank_of",
]

Rank = tuple[int, ...]
"""Whether it does not forward, the epoch negated, and then the order: the least is best."""


class Fault(Enum):
    """What was wrong with an entry of a peer."""

    KEY_CONFLICT = "key conflict"
    """Another key than the one that holds this node id."""
    OWN_ID = "own id"
    """Somebody else uses our own node id, or a later epoch of it."""
    BAD_PATH = "bad path"
    """A path that cannot be: with a loop, or that does not end with its sender."""
    BAD_NODE = "bad node"
    """A node that must not be advertised: a Stub, or the node id 0."""
    IMPLAUSIBLE = "implausible"
    """A round trip that is shorter than light needs."""


class Report(NamedTuple):
    """An entry that was not believed: for the log."""

    fault: Fault
    peer: NodeId
    """The peer that sent the entry."""
    node: NodeId
    """The node that the entry is about."""
    reason: str


class Changes(NamedTuple):
    """What changed since the last request; node ids in ascending order."""

    routes: list[NodeId]
    """The best forwarding path was added, removed, moved, or has another cost."""
    nodes: list[NodeId]
    """It appeared, is gone, has a new epoch, or says something else of itself."""
    alternates: list[NodeId] = []  # noqa: RUF012 - a default of a tuple, never changed
    """Another path than the best one was added, removed or changed; not in ``routes``."""
    lost: Mapping[NodeId, str] = {}
    """The nodes that are gone, and what the last peer that knew them did."""


class AdjOut:
    """What one peer was sent, and what may have to be sent."""

    __slots__ = ("again", "begun", "dirty", "opened", "room", "sent", "spoken", "withheld")

    def __init__(self, room: int = QUIC_MAX, opened: float = 0.0) -> None:
        self.room = room
        """How many nodes it takes from us, ourselves counted."""
        self.opened = opened
        """Since when the peer is sent nodes."""
        self.sent: dict[NodeId, NodeInfo] = {}
        self.withheld: dict[NodeId, None] = {}
        """Nodes for which it had no room."""
        self.dirty: dict[NodeId, None] = {}
        """Nodes whose sent state may differ from what it should be."""
        self.again = False
        """Everything must be sent again; what was sent remains valid until then."""
        self.begun: list[NodeId] = []
        """Nodes that were advertised to the peer for the first time."""
        self.spoken: dict[NodeId, float] = {}
        """Nodes that one end advertised to the other after a long pause, with its length."""

    @property
    def pending(self) -> bool:
        """Whether there may be something to send."""
        return self.again or bool(self.dirty)


class PeerRecord:
    """One node with which we have sessions."""

    __slots__ = (
        "carries",
        "draining",
        "entries",
        "filtered",
        "forwards",
        "item",
        "latest",
        "measured_us",
        "moved_at",
        "neighbour",
        "node",
        "out",
        "place",
        "signed",
        "srtt_us",
        "unsynced",
    )

    def __init__(self, node: NodeId, latest: NodeInfo) -> None:
        self.node = node
        self.latest = latest
        """Itself, as the handshake or a later entry says."""
        self.place: Direction | None = None
        self.out: AdjOut | None = None
        """There while a session carries control."""
        self.forwards = False
        """Of the control session."""
        self.neighbour = False
        """Data-only sessions are there."""
        self.carries = False
        """Whether data can be sent to it at all."""
        self.signed = False
        self.draining = False
        self.entries: dict[NodeId, NodeInfo] = {}
        """The adj-RIB-in: what the peer advertised, and the peer itself."""
        self.filtered: dict[NodeId, None] = {}
        """Entries that policy does not let us use: known, but no path."""
        self.unsynced: set[NodeId] | None = None
        """Entries not yet repeated in a synchronisation under way."""
        self.srtt_us = 0
        """Of our session with it: the damped value, which selection uses."""
        self.measured_us = 0
        """The last measurement."""
        self.moved_at: float | None = None
        """When the damped value last followed the measured one."""
        self.item = NodePathItem(node, 0)
        """What we append to paths that came from here; shared by all of them."""


class NodeRecord:
    """One node that some peer advertises."""

    __slots__ = ("best", "export", "fingerprint", "latest", "node", "rank", "via")

    def __init__(self, node: NodeId, latest: NodeInfo) -> None:
        self.node = node
        self.latest = latest
        """The newest of what the node says of itself; the path in it means nothing."""
        self.fingerprint = latest.signature.fingerprint
        """Of the key that holds this node id as long as any peer advertises the node."""
        self.best: PeerRecord | None = None
        self.rank: Rank = ()
        self.export: NodeInfo | None = None
        """What peers are sent."""
        self.via: PeerRecord | None = None
        """The next hop of the exported path."""


class Candidate(NamedTuple):
    """One path to a node, as one peer advertises it."""

    node: NodeId
    peer: NodeId
    """The next hop; the node itself if it is a neighbour."""
    info: NodeInfo
    link_srtt_us: int
    """Of our own session with the peer, as we measured it."""
    forwards: bool
    """Whether data can take this path: not through a control server, nor against a direction."""
    load: int = 0
    """How loaded the transit relays are, all together (:func:`burden`)."""

    @property
    def hops(self) -> int:
        """How many transit relays are on the path."""
        return len(self.info.path)

    @property
    def cost_us(self) -> int:
        """Sum of the path's sRTT and the session's own."""
        return self.info.sum_srtt_us + self.link_srtt_us

    @property
    def relays(self) -> tuple[NodeId, ...]:
        """All nodes from the next hop to the target, in the order in which data passes them."""
        return (*[item.node_id for item in reversed(self.info.path)], self.node)


Order: TypeAlias = "Callable[[Candidate], tuple[int, ...]]"
"""The key of a total order over candidates for one node: the least is best."""

PathRule: TypeAlias = "Callable[[Candidate], bool]"
"""Returns whether a path may be used for a purpose."""

# At most 16 relays are on a path: a sum of one class never reaches the weight of the next one.
LOAD_WEIGHTS: Final[Mapping[LoadClass, int]] = {
    LoadClass.NORMAL: 0,
    LoadClass.BUSY: 1,
    LoadClass.OVERLOADED: 1 << 8,
    LoadClass.DRAINING: 1 << 16,
}
"""What one transit relay of each class adds to ``Candidate.load``."""

_AVOID_SHIFT: Final = 8

Criterion: TypeAlias = "Callable[[Candidate], int]"
"""One part of an order. It must grow along a path, or the network may never settle."""


def burden(relays: Iterable[NodeId], weights: Mapping[NodeId, int]) -> int:
    """Return the load of all relays on a path together; relays without a weight are not loaded."""
    return sum(weights.get(relay, 0) for relay in relays)


def avoided(candidate: Candidate) -> int:
    """Return whether relays on a path are used only as a last resort, and how many."""
    return candidate.load >> _AVOID_SHIFT


def default_order(candidate: Candidate) -> tuple[int, ...]:
    """The order of laps-2, 5.1."""
    return rank_of(candidate.info.path, candidate.link_srtt_us, candidate.load, candidate.peer)


def rank_of(
    path: tuple[NodePathItem, ...], link_srtt_us: int, load: int, peer: NodeId
) -> tuple[int, ...]:
    """Return the rank of a path that is no candidate yet."""
    cost = link_srtt_us
    for item in path:
        cost += item.srtt_us
    return load >> _AVOID_SHIFT, len(path), cost, load, peer


def make_order(*criteria: Criterion, avoid: bool = True) -> Order:
    """An order by other criteria, the first one first; the peer's node id decides in the end.

    ``avoid``: overloaded and draining transit relays still come last, whatever the criteria say.
    ``make_order(lambda path: path.cost_us)`` does not look at hops.
    """
    parts: tuple[Criterion, ...] = (avoided, *criteria) if avoid else criteria

    def order(candidate: Candidate) -> tuple[int, ...]:
        return (*(part(candidate) for part in parts), candidate.peer)

    return order


ORDERS: Final[Mapping[str, Order]] = {
    "hops": default_order,
    "delay": make_order(lambda path: path.cost_us, lambda path: path.hops, lambda path: path.load),
}
"""What ``network.order`` may name; every relay of a network must have the same one."""


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
