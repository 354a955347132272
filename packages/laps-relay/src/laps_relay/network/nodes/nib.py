"""NIB, the node information base: a path vector (laps-2, 5.1).

::

    advertised, withdrawn --> adj-in of the peer --> best of each node --> export --> adj-out
                              (entries)              (one total order)     (damped)   of each peer

No message is forwarded as such. What a peer should have is a function of the best path: nothing if
the path goes through that peer, otherwise the best path with this relay appended. The
difference from what it was sent is what :meth:`Nib.flush` returns. So a lost path with an alternate
becomes an advertisement of the alternate, and a best path that moves to go through a peer becomes a
withdrawal to that peer.

**Stamps.** The self part of a node is the newest that any peer advertises now. A path is valid
however old the self part beside it is. Otherwise every change of a node's load would move routes to
the peer that advertises it first. Epochs are different: an entry of an older epoch is used only if
no peer has a later one. An export carries the self part that came with its path. It takes the same
route as the path, which has no loop, so a false self part ends with the session that brought it.

**Work.** A path that is better than the best one replaces it at once. What may have become worse is
compared again only on request, once for all that happened until then.

A lookup without a ``now`` uses the latest time that the base was given.

**Usable paths** (:class:`PathFinder`) forward, are allowed by policy, and do not lead back. A
*path* is a candidate of the base. Policy sees it as the relays that data passes, from us to the
target::

    we  -- link -->  next hop  -- link -->  ...  -- link -->  target
    |                '------ transit relays ------'           |
    first                                                     last
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from laps_relay.network.nodes import node_table
from laps_relay.network.nodes.adj_in import (
    Finding,
    ImportFilter,
    about_us,
    misfit,
    other_key,
    too_fast,
)
from laps_relay.network.nodes.adj_out import AdjRibOut, RecentWithdrawals, significant
from laps_relay.network.nodes.location import Direction, declared, light_rtt_us, place_of
from laps_relay.network.nodes.node_table import (
    AdjOut,
    Candidate,
    Changes,
    Fault,
    NodeTable,
    Order,
    PathRule,
    PeerRecord,
    Report,
)
from laps_relay.network.nodes.silences import TOLD_AGAIN, Silences
from laps_relay.network.settings import NetworkSettings
from laps_relay.policy.facts import stranger
from laps_relay.policy.interface import OpenPolicy, Policy
from laps_sdk.peering.events import Refusal
from laps_sdk.timers import Timers, earliest
from laps_wire.buffer import QUIC_MAX
from laps_wire.errors import StateError
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import LimitExceededError
from laps_wire.peering.laps2 import NodeInfo, NodePathItem, NodeSelf, RelayType

__all__ = ["NOTHING", "Nib", "PathFinder"]

NOTHING: Final = Changes([], [])
"""As after most events."""


class Nib:
    """All nodes that one relay knows, and the paths to them."""

    __slots__ = (
        "_due",
        "_exports",
        "_imports",
        "_local",
        "_lost",
        "_node",
        "_now",
        "_place",
        "_retracted",
        "_settings",
        "_settled",
        "_silences",
        "_table",
    )

    def __init__(
        self,
        local: NodeInfo,
        settings: NetworkSettings,
        *,
        order: Order = node_table.default_order,
        policy: Policy,
    ) -> None:
        self._local = local
        self._node = local.node.node_id
        self._table = NodeTable(order)
        self._settings = settings
        self._place = self._whereabouts(local)
        self._now = self._settled = float("-inf")
        """The time, and that of the last time when everything was brought up to date."""
        self._exports = AdjRibOut(local, self._table, settings, policy)
        self._imports = ImportFilter(self._table, policy, self.info)
        self._lost: dict[NodeId, str] = {}
        self._retracted = RecentWithdrawals(settings.convergence)
        self._silences = Silences(settings.convergence)
        self._due: Timers[NodeId] = Timers()
        """Peers whose measured sRTT waits for the end of the interval."""

    # Ourselves

    def set_self(self, now: float, info: NodeInfo) -> None:
        """Set the node information of this relay; it has a new stamp."""
        self._local = info
        self._place = self._whereabouts(info)
        self._exports.set_self(now, info)
        self._settle(now)

    def set_policy(self, now: float, policy: Policy) -> None:
        """Use another policy: all entries are checked again, in both directions."""
        self._exports.policy = policy
        self._imports.set_policy(policy)
        for peer in self._table.peers.values():
            self._exports.retell(peer)
        self._settle(now)

    # Peers

    def add_peer(
        self,
        now: float,
        peer: NodeId,
        info: NodeInfo,
        *,
        srtt_us: int,
        forwards: bool,
        signed: bool = False,
        room: int = QUIC_MAX,
    ) -> list[Report]:
        """Add a control session; the peer will be sent everything, up to ``room`` nodes.

        ``forwards``: data can be sent to the peer. ``signed``: feature SIGNED_NODES is in use, so
        its entries were verified, and it is sent only verified ones (laps-2, 5.1).
        """
        known = self._table.peers.get(peer)
        if known is not None and known.out is not None:
            self.remove_peer(now, peer)
        record, reports = self._meet(now, peer, info, srtt_us)
        record.forwards = forwards
        record.signed = signed
        self._carry(record)
        self._exports.open(record, room, now)
        self._settle(now)
        return reports

    def set_peer(
        self,
        now: float,
        peer: NodeId,
        *,
        srtt_us: int | None = None,
        forwards: bool | None = None,
        draining: bool | None = None,
    ) -> None:
        """Apply a change of our own sessions with a peer; an sRTT of 0 is unknown.

        ``draining``: the peer sent DRAIN. Its node information carries the same for all other
        relays.
        """
        record = self._table.peers.get(peer)
        if record is None:
            return
        if srtt_us:
            record.measured_us = srtt_us
            self._measure(now, record)
        if forwards is not None:
            record.forwards = forwards
            self._carry(record)
        if draining is not None:
            record.draining = draining
            self._table.rerank(peer)
            self._table.invalidate((peer,))
        self._settle(now)

    def remove_peer(self, now: float, peer: NodeId) -> None:
        """Remove all that was learned over a control session that has ended."""
        record = self._table.peers.get(peer)
        if record is None or record.out is None:
            return
        self._retracted.add(now, peer, record.out.sent)
        record.out = None
        record.forwards = False
        record.signed = False
        record.draining = False
        record.unsynced = None
        for node in [node for node in record.entries if node != peer]:
            self._forget(record, node, "session_closed")
        self._part(record)
        self._settle(now)

    def add_neighbour(
        self, now: float, peer: NodeId, info: NodeInfo, *, srtt_us: int
    ) -> list[Report]:
        """Add a peer with a data session but no control: there is a path to the peer itself."""
        record, reports = self._meet(now, peer, info, srtt_us)
        record.neighbour = True
        self._carry(record)
        self._settle(now)
        return reports

    def remove_neighbour(self, now: float, peer: NodeId) -> None:
        """Remove a peer whose last session without control has ended."""
        record = self._table.peers.get(peer)
        if record is not None and record.neighbour:
            record.neighbour = False
            self._part(record)
            self._settle(now)

    # What peers say

    def advertised(self, now: float, peer: NodeId, infos: Iterable[NodeInfo]) -> list[Report]:
        """Handle NODE_ADVERTISE: each entry replaces the peer's former entry of that node.

        Return the entries that were not believed. Raises
        :class:`~laps_wire.peering.errors.LimitExceededError` if the peer sends too many.
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
        """Handle NODE_WITHDRAW: the peer does not reach these nodes any more."""
        self._now = max(self._now, now)
        record = self._table.peers.get(peer)
        if record is not None:
            for node in nodes:
                if node != peer:  # that we have a session with it is better evidence
                    self._forget(record, node)

    def sync_began(self, peer: NodeId) -> None:
        """Mark all entries of a peer: it sends everything again."""
        record = self._table.peers.get(peer)
        if record is not None and record.out is not None:
            record.unsynced = set(record.entries) - {peer}

    def sync_ended(self, now: float, peer: NodeId) -> None:
        """Remove the entries that the peer did not send again (laps-2, 5.4)."""
        record = self._table.peers.get(peer)
        if record is not None and record.unsynced is not None:
            gone, record.unsynced = record.unsynced, None
            self.withdrawn(now, peer, sorted(gone))

    @property
    def has_changes(self) -> bool:
        """Whether :meth:`take_changes` may return any."""
        table = self._table
        return bool(
            table.routes or table.nodes or table.paths or table.stale or table.changed_selves
        )

    def take_changes(self) -> Changes:
        """Return what changed since the last call."""
        table = self._table
        if table.stale or table.changed_selves:
            self._imports.reconsider()
        if not (table.routes or table.nodes or table.paths):
            # What was forgotten by one peer only is no news either.
            if self._lost:
                self._lost.clear()
            return NOTHING
        alternates = sorted(table.paths.keys() - table.routes.keys())
        forgotten, self._lost = self._lost, {}
        lost = {
            node: forgotten.get(node, "withdrawn")
            for node in table.nodes
            if node not in table.records
        }
        changes = Changes(sorted(table.routes), sorted(table.nodes), alternates, lost)
        table.routes.clear()
        table.nodes.clear()
        table.paths.clear()
        return changes

    # Differences for peers

    def pending(self, now: float, peer: NodeId) -> bool:
        """Return whether there may be a difference for a peer."""
        self._settle(now)
        record = self._table.peers.get(peer)
        return record is not None and record.out is not None and record.out.pending

    def is_behind(self, now: float) -> bool:
        """Whether there may be a difference for any peer."""
        self._settle(now)
        for record in self._table.peers.values():
            out = record.out
            if out is not None and (out.dirty or out.again):
                return True
        return False

    def flush(self, now: float, peer: NodeId) -> tuple[tuple[NodeInfo, ...], tuple[NodeId, ...]]:
        """Return the nodes to advertise to a peer and to withdraw, and record them as sent."""
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
        """Return nodes that were advertised after a long pause, with its length."""
        record = self._table.peers.get(peer)
        if record is None or record.out is None or not record.out.spoken:
            return {}
        spoken, record.out.spoken = record.out.spoken, {}
        return spoken

    def resend(self, peer: NodeId) -> None:
        """Let the next flush return everything; until then what was sent remains valid."""
        record = self._table.peers.get(peer)
        if record is not None and record.out is not None:
            record.out.again = True

    def adj_out(self) -> list[tuple[NodeId, Mapping[NodeId, NodeInfo]]]:
        """Return what each peer with a control session was sent, by node."""
        return [
            (peer.node, peer.out.sent)
            for peer in self._table.peers.values()
            if peer.out is not None
        ]

    def damped(self) -> tuple[int, int]:
        """Return how many changes are damped, and how many of nodes that are gone."""
        changes, moved = self._exports.damped()
        known = (*self._table.records, self._node)
        return len(self._due) + changes, sum(node not in known for node in moved)

    def advertised_to(self, peer: NodeId, node: NodeId) -> bool:
        """Return whether a peer may target a node: it was advertised to it (laps-2, 6.1)."""
        record = self._table.peers.get(peer)
        return record is not None and record.out is not None and node in record.out.sent

    @property
    def clocks(self) -> tuple[Timers[Any], ...]:
        """The timers, for one common deadline."""
        return (self._due, *self._exports.clocks)

    def may_target(self, now: float, peer: NodeId, node: NodeId) -> bool:
        """Return whether a peer may target a node: advertised to it, or withdrawn a moment ago."""
        return self.advertised_to(peer, node) or self._retracted.recent(now, peer, node)

    def poll_timeout(self) -> float | None:
        """Return when a damped change of a metric is due; None: never."""
        return earliest(self._due.next(), self._exports.poll_timeout())

    def handle_timeout(self, now: float) -> None:
        """Apply damped changes that are due."""
        self._settle(now)

    # Lookups

    def info(self, node: NodeId) -> NodeInfo | None:
        """Return the node information of a node; the path in it means nothing."""
        if node == self._node:
            return self._local
        table = self._table
        if table.stale:
            table.refresh()
        record = table.records.get(node)
        return None if record is None else record.latest

    def epoch(self, node: NodeId) -> int | None:
        """Return the known epoch of a node."""
        info = self.info(node)
        return None if info is None else info.node.stamp.epoch

    def fingerprint(self, node: NodeId) -> bytes | None:
        """Return the fingerprint of the key that holds a node id; None if the node is unknown."""
        info = self.info(node)
        return None if info is None else info.signature.fingerprint

    def best(self, node: NodeId, rule: PathRule | None = None) -> Candidate | None:
        """Return the best path that forwards and that the rule allows; None if there is none."""
        if self._table.stale:
            self._table.refresh()
        record = self._table.records.get(node)
        if record is None or record.best is None or record.rank[0]:
            return None
        path = self._table.candidate(record.best, record.best.entries[node])
        if rule is None or rule(path):
            return path
        for other in self._table.candidates(node)[1:]:
            if other.forwards and rule(other):
                return other
        return None

    def next_hop(self, node: NodeId) -> NodeId | None:
        """Return the next hop of the best path that forwards; None if there is none."""
        table = self._table
        if table.stale:
            table.refresh()
        record = table.records.get(node)
        if record is None or record.best is None or record.rank[0]:
            return None
        return record.best.node

    def candidates(self, node: NodeId) -> Sequence[Candidate]:
        """Return all paths, the best first; those that do not forward come last."""
        return self._table.candidates(node)

    def advertised_by(self, node: NodeId, peer: NodeId) -> Candidate | None:
        """Return the path that one peer advertises, if policy allows it."""
        record = self._table.peers.get(peer)
        if record is None or node not in record.entries or node in record.filtered:
            return None
        return self._table.candidate(record, record.entries[node])

    def nodes(self) -> list[NodeId]:
        """Return all known nodes in ascending order, without this relay."""
        self._table.refresh()
        return sorted(self._table.records)

    @property
    def size(self) -> int:
        """How many nodes are known, without this relay."""
        self._table.refresh()
        return len(self._table.records)

    # Entries, inside

    def _take(self, record: PeerRecord, info: NodeInfo) -> Finding | None:
        """Check an entry, and use it if it is valid."""
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
            if known is not None and info.signature is not known.latest.signature:
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
        self._table.set_filtered(record, node, not self._imports.allowed(record, info, relays))
        if record.out is not None and node not in record.entries and node not in record.out.sent:
            self._spoke(record, record.out, node)
        self._table.put(record, info)
        if len(record.entries) > self._settings.max_nodes:
            raise LimitExceededError(
                f"more than {self._settings.max_nodes} nodes from {record.node}"
            )
        return None

    def _unknown(self, node: NodeId) -> bool:
        """Return whether no peer advertises a node any more: then another key may hold its id."""
        self._table.refresh()
        return node not in self._table.records

    def _take_peer(
        self, record: PeerRecord, info: NodeInfo, finding: Finding | None
    ) -> Finding | None:
        """Take a peer's entry about itself: it exists; only its location can be false."""
        if finding is None or finding[0] is Fault.IMPLAUSIBLE:
            self._introduce(record, info)
            if finding is not None:
                record.place = None
        return finding

    # Time, inside

    def _settle(self, now: float) -> None:
        """Bring all tables up to date."""
        if now > self._now:
            self._now = now
        else:
            now = self._now
        table = self._table
        if now == self._settled and not (table.touched or table.stale or table.changed_selves):
            return  # one event asks several times, for each peer
        self._settled = now
        while (peer := self._due.pop(now)) is not None:
            self._measure(now, table.peers[peer])
        if table.stale or table.changed_selves:
            self._imports.reconsider()
        self._exports.settle(now)

    def _measure(self, now: float, record: PeerRecord) -> None:
        """Let the damped sRTT of a link follow the measured one, if it is time."""
        peer = record.node
        if not significant(record.srtt_us, record.measured_us, self._settings):
            self._due.cancel(peer)
            return
        moved = record.moved_at
        if moved is not None and now < moved + self._settings.metric_interval:
            self._due.set(peer, moved + self._settings.metric_interval)
            return
        self._due.cancel(peer)
        record.moved_at = now
        self._link(record)

    def _link(self, record: PeerRecord) -> None:
        """Apply a new sRTT of our own link to all paths over it."""
        record.srtt_us = record.measured_us
        if not record.measured_us and self._place is not None and record.place is not None:
            # Not known yet. Nothing would be told as a time that others cannot believe.
            record.srtt_us = light_rtt_us(self._place, record.place)
        record.item = NodePathItem(self._node, record.srtt_us)
        self._table.invalidate(record.entries)

    # Peers, inside

    def _meet(
        self, now: float, peer: NodeId, info: NodeInfo, srtt_us: int
    ) -> tuple[PeerRecord, list[Report]]:
        """Record a session with a node: its handshake proves more than advertisements of others."""
        if info.node.relay_type is RelayType.STUB or peer in (0, self._node):
            raise StateError(f"node {peer} cannot be a peer in the node information base")
        self._now = max(self._now, now)
        peers = self._table.peers
        record = peers.get(peer)
        if record is None:
            record = peers[peer] = PeerRecord(peer, info)
            record.measured_us = srtt_us
            record.place = self._whereabouts(info)
            self._link(record)
        elif srtt_us:
            record.measured_us = srtt_us
            self._measure(now, record)
        reports: list[Report] = []
        self._table.refresh()
        known = self._table.records.get(peer)
        if known is not None and known.fingerprint != info.signature.fingerprint:
            reason = "it is here with another key than others said"
            for other in [each for each in peers.values() if peer in each.entries]:
                reports.append(Report(Fault.KEY_CONFLICT, other.node, peer, reason))
                self._forget(other, peer)
            self._table.refresh()
        self._introduce(record, info)
        return record, reports

    def _introduce(self, record: PeerRecord, info: NodeInfo) -> None:
        """Take a peer's information about itself, unless a newer one is known."""
        if info.node.stamp < record.latest.node.stamp:
            return
        record.latest = info
        record.place = self._whereabouts(info)
        self._table.put(record, info)

    def _carry(self, record: PeerRecord) -> None:
        """Compute whether data can go to a peer: never to a control server."""
        carries = record.latest.node.relay_type is not RelayType.CONTROL and (
            record.forwards or record.neighbour
        )
        if carries is not record.carries:
            record.carries = carries
            self._table.invalidate(record.entries)

    def _part(self, record: PeerRecord) -> None:
        """Record the end of a kind of session; without any the peer is a node like others."""
        peer = record.node
        if record.out is not None or record.neighbour:
            self._carry(record)
            self._table.rerank(peer)
            return
        self._forget(record, peer, "session_closed")
        self._table.refresh()
        self._due.cancel(peer)
        del self._table.peers[peer]
        self._table.rerank(peer)

    def _forget(self, record: PeerRecord, node: NodeId, why: str = "withdrawn") -> None:
        """Remove a peer's entry of a node."""
        self._lost[node] = why
        self._imports.forget(record, node)
        out = record.out
        if out is not None and node in record.entries and node not in out.sent:
            self._silences.begin(self._now, record.node, node)
        self._table.drop(record, node)

    def _spoke(self, record: PeerRecord, out: AdjOut, node: NodeId) -> None:
        """Record that one end advertises a node to the other, after neither did."""
        silence = self._silences.end(self._now, record.node, node, out.opened)
        if silence > TOLD_AGAIN * self._settings.convergence:
            out.spoken[node] = silence

    def _whereabouts(self, info: NodeInfo) -> Direction | None:
        """Return the place of a node for the light-time check; None if it is not checked."""
        return place_of(declared(info.node)) if self._settings.light_time else None


class PathFinder:
    """The paths of the node information base that policy allows."""

    __slots__ = ("_is_open", "_local", "_nib", "_policy")

    def __init__(self, local: NodeId, nib: Nib, policy: Policy) -> None:
        self._local = local
        self._nib = nib
        self.policy = policy

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self._policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        self._policy = policy
        # Most relays have no policy, and this is asked for every target of every set.
        self._is_open = type(policy) is OpenPolicy  # one that narrows may be made from it

    def self_of(self, node: NodeId) -> NodeSelf:
        """Return what is known of a node."""
        info = self._nib.info(node)
        return stranger(node) if info is None else info.node

    def relays(self, path: Candidate) -> list[NodeSelf]:
        """Return the relays on a path, this relay first."""
        # The last item of a path is the next hop (laps-2, 5.1).
        passed = [self.self_of(item.node_id) for item in reversed(path.info.path)]
        return [self.self_of(self._local), *passed, path.info.node]

    def refusal(self, scope: str, path: Candidate) -> Refusal | None:
        """Return why policy forbids a path for this class; None if it is allowed."""
        if self._is_open:
            return None
        return self._policy.path(scope, self.relays(path))

    def refusal_of(self, scope: str, *relays: NodeId) -> Refusal | None:
        """Return the same for a possible path: from this relay through these relays."""
        if self._is_open:
            return None
        return self._policy.path(
            scope, [self.self_of(self._local), *(self.self_of(relay) for relay in relays)]
        )

    def best(
        self, target: NodeId, scope: str, arrived_on: NodeId | None = None
    ) -> Candidate | None:
        """Return the best usable path that does not lead back to ``arrived_on``, or None."""
        if self._is_open and arrived_on is None:
            return self._nib.best(target)
        return self._nib.best(
            target,
            lambda path: not _passes(path, arrived_on) and self.refusal(scope, path) is None,
        )

    def through(
        self, target: NodeId, scope: str, peer: NodeId, arrived_on: NodeId | None = None
    ) -> Candidate | None:
        """Return the path that a peer advertises, if it may be used."""
        path = self._nib.advertised_by(target, peer)
        if path is None or not path.forwards or _passes(path, arrived_on):
            return None
        return path if self.refusal(scope, path) is None else None

    def allowed(self, target: NodeId, scope: str) -> list[Candidate]:
        """Return all usable paths, the best first."""
        return [
            path
            for path in self._nib.candidates(target)
            if path.forwards and self.refusal(scope, path) is None
        ]

    def why_none(self, target: NodeId, scope: str, arrived_on: NodeId | None = None) -> Refusal:
        """Return why :meth:`best` finds nothing: the reason of the nearest path."""
        paths = [path for path in self._nib.candidates(target) if path.forwards]
        for path in paths:
            if not _passes(path, arrived_on):
                refusal = self.refusal(scope, path)
                if refusal is not None:
                    return refusal
        if paths:
            return Refusal("", f"the only way to {target} leads back to {arrived_on}")
        return Refusal("", f"no way to {target}")


def _passes(path: Candidate, node: NodeId | None) -> bool:
    """Return whether data on a path would pass a node, and so come back to it."""
    if node is None:
        return False
    return path.node == node or any(item.node_id == node for item in path.info.path)
