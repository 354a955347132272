"""NIB, the node information base: a path vector (laps-2, 5.1).

::

    advertised, withdrawn --> adj-in of the peer --> best of each node --> export --> adj-out
                              (entries)              (one total order)     (damped)   of each peer

Nothing is ever forwarded as such. What a peer should know is a function of the best way: nothing if
it goes through that peer or has it on its path, otherwise the best way with ourselves appended. The
difference from what it was told is what :meth:`Nib.flush` gives. So a lost way with an alternate
becomes an advertisement of the alternate, and a best way that moves to go through a peer becomes a
withdrawal to that peer.

**Stamps.** The self part of a node is the newest that any peer says now. A path is good however old
the self part beside it is, or every change of a node's load would make routes jump to whoever tells
it first. Epochs are different: what was said of a former life of a node is used only if nobody
knows of a later one. Passed on is the self part that came with the path: it goes the way of the
path, which has no loop, so a lie ends with the session of the liar.

**Work.** A way that is better than the best one takes its place at once. What may have become worse
is looked for again only when somebody asks, once for all that happened until then.

Time is told: the latest ``now`` counts where a question has none.

::

    NodeQuestions   node_questions.py: what can be asked
      └─ NodePeers    node_peers.py: ourselves, peers, links
           └─ Nib       this module: what peers say, and what they are told
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from laps_relay.network.nodes import selection
from laps_relay.network.nodes.adj_in import Finding, about_us, misfit, other_key, too_fast
from laps_relay.network.nodes.node_peers import NodePeers
from laps_relay.network.nodes.node_records import Changes, Fault, PeerRecord, Report
from laps_relay.network.nodes.selection import Order
from laps_relay.network.settings import NetworkSettings
from laps_relay.policy.interface import Policy
from laps_sdk.timers import Timers, earliest
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import LimitExceededError
from laps_wire.peering.laps2 import NodeInfo

__all__ = ["NOTHING", "Changes", "Fault", "Nib", "Report"]

NOTHING: Final = Changes([], [])
"""As after most events."""


class Nib(NodePeers):
    """All nodes that one relay knows, and the ways to them.

    Implements :class:`~laps_relay.network.nodes.selection.NodeLookup`.
    """

    __slots__ = ()

    def __init__(
        self,
        local: NodeInfo,
        settings: NetworkSettings,
        *,
        order: Order = selection.default_order,
        policy: Policy,
    ) -> None:
        super().__init__(local, settings, order, policy)

    # What peers say

    def advertised(self, now: float, peer: NodeId, infos: Iterable[NodeInfo]) -> list[Report]:
        """NODE_ADVERTISE: each entry replaces what the peer said of that node before.

        Raises :class:`~laps_wire.peering.errors.LimitExceededError` if it says too much.
        """
        self._now = max(self._now, now)
        record = self._table.peers.get(peer)
        if record is None or record.out is None:
            return []
        reports: list[Report] = []
        for info in infos:
            node = info.node.node_id
            if record.unsynced is not None:
                record.unsynced.discard(node)
            finding = self._take(record, info)
            if finding is not None:
                reports.append(Report(finding[0], peer, node, finding[1]))
        self._imports.reconsider()
        return reports

    def withdrawn(self, now: float, peer: NodeId, nodes: Iterable[NodeId]) -> None:
        """NODE_WITHDRAW: the peer no longer reaches them."""
        self._now = max(self._now, now)
        record = self._table.peers.get(peer)
        if record is not None:
            for node in nodes:
                if node != peer:  # that we have a session with it is better evidence
                    self._forget(record, node)

    def sync_began(self, peer: NodeId) -> None:
        """The peer tells everything again."""
        record = self._table.peers.get(peer)
        if record is not None and record.out is not None:
            record.unsynced = set(record.entries) - {peer}

    def sync_ended(self, now: float, peer: NodeId) -> None:
        """What was not told again is forgotten (laps-2, 5.4)."""
        record = self._table.peers.get(peer)
        if record is not None and record.unsynced is not None:
            gone, record.unsynced = record.unsynced, None
            self.withdrawn(now, peer, sorted(gone))

    @property
    def has_changes(self) -> bool:
        """Whether :meth:`take_changes` may give any."""
        table = self._table
        return bool(table.routes or table.nodes or table.ways or table.stale or table.news)

    def take_changes(self) -> Changes:
        """What changed since the last time."""
        table = self._table
        if table.stale or table.news:
            self._imports.reconsider()
        if not (table.routes or table.nodes or table.ways):
            # What was forgotten by one peer only is no news either.
            if self._lost:
                self._lost.clear()
            return NOTHING
        alternates = sorted(table.ways.keys() - table.routes.keys())
        forgotten, self._lost = self._lost, {}
        lost = {
            node: forgotten.get(node, "withdrawn")
            for node in table.nodes
            if node not in table.records
        }
        changes = Changes(sorted(table.routes), sorted(table.nodes), alternates, lost)
        table.routes.clear()
        table.nodes.clear()
        table.ways.clear()
        return changes

    # What peers are told

    def pending(self, now: float, peer: NodeId) -> bool:
        """Whether there may be something to tell a peer."""
        self._settle(now)
        record = self._table.peers.get(peer)
        return record is not None and record.out is not None and record.out.pending

    def is_behind(self, now: float) -> bool:
        """Whether there may be something to tell to any of them."""
        self._settle(now)
        for record in self._table.peers.values():
            out = record.out
            if out is not None and (out.dirty or out.again):
                return True
        return False

    def flush(self, now: float, peer: NodeId) -> tuple[tuple[NodeInfo, ...], tuple[NodeId, ...]]:
        """What to advertise and what to withdraw; from now on the peer was told."""
        self._settle(now)
        record = self._table.peers.get(peer)
        if record is None:
            return (), ()
        advertise, withdraw = self._exports.flush(record)
        if withdraw:
            self._retracted.add(now, peer, withdraw)
            for node in withdraw:
                if node not in record.entries:
                    self._silences.begin(self._now, peer, node)
        out = record.out
        if out is not None and out.begun:
            for node in out.begun:
                if node not in record.entries:
                    self._spoke(record, out, node)
            out.begun = []
        return advertise, withdraw

    def take_spoken(self, peer: NodeId) -> dict[NodeId, float]:
        """Nodes of which one of us tells the other again, and for how long none did: long."""
        record = self._table.peers.get(peer)
        if record is None or record.out is None or not record.out.spoken:
            return {}
        spoken, record.out.spoken = record.out.spoken, {}
        return spoken

    def resend(self, peer: NodeId) -> None:
        """The next flush gives everything; until then what was told still holds."""
        record = self._table.peers.get(peer)
        if record is not None and record.out is not None:
            record.out.again = True

    def advertised_to(self, peer: NodeId, node: NodeId) -> bool:
        """Whether a peer may name a node as a target: it was told of it (laps-2, 6.1)."""
        record = self._table.peers.get(peer)
        return record is not None and record.out is not None and node in record.out.sent

    @property
    def clocks(self) -> tuple[Timers[Any], ...]:
        """Its timers, for who asks several parts together."""
        return (self._due, *self._exports.clocks)

    def may_believe(self, now: float, peer: NodeId, node: NodeId) -> bool:
        """Whether a peer was told of a node, or may not have heard yet that it is told no more."""
        return self.advertised_to(peer, node) or self._retracted.recent(now, peer, node)

    def poll_timeout(self) -> float | None:
        """When a damped change of a metric is due: ``pending`` says more then."""
        return earliest(self._due.next(), self._exports.poll_timeout())

    def handle_timeout(self, now: float) -> None:
        """Let damped changes that are due take effect."""
        self._settle(now)

    # Entries, inside

    def _take(self, record: PeerRecord, info: NodeInfo) -> Finding | None:
        """Judge an entry, and use it if it is good."""
        node = info.node.node_id
        if node == self._node:
            return about_us(self._local, info)
        relays = {item.node_id for item in info.path}
        finding = misfit(record.node, info, relays)
        known = self._table.records.get(node)
        if finding is None:
            if self._node in relays:
                self._forget(record, node)
                return None
            if known is not None and info.signature is not known.told.signature:
                finding = other_key(known, info)
                if finding is not None and self._unknown(node):
                    finding = None
            if finding is None and (self._place or record.place):
                finding = too_fast(self._place, record, info, known)
        if node == record.node:
            return self._take_peer(record, info, finding)
        if finding is not None:
            self._forget(record, node)
            return finding
        self._table.bar(record, node, not self._imports.allowed(record, info, relays))
        if record.out is not None and node not in record.entries and node not in record.out.sent:
            self._spoke(record, record.out, node)
        self._table.put(record, info)
        if len(record.entries) > self._settings.max_nodes:
            raise LimitExceededError(
                f"more than {self._settings.max_nodes} nodes from {record.node}"
            )
        return None

    def _unknown(self, node: NodeId) -> bool:
        """Whether nobody tells us of a node any more: then its id is free for another key."""
        self._table.refresh()
        return node not in self._table.records

    def _take_peer(
        self, record: PeerRecord, info: NodeInfo, finding: Finding | None
    ) -> Finding | None:
        """A peer about itself: it is there, whatever it says; only its location can be a lie."""
        if finding is None or finding[0] is Fault.IMPLAUSIBLE:
            self._introduce(record, info)
            if finding is not None:
                record.place = None
        return finding
