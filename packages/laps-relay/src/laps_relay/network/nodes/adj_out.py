"""Adj-RIB-out: what each peer should have, what it was sent, and the difference (laps-2, 5.1).

::

    best path of a node -> export: the path with this relay appended, one object for all peers
                             |       changes of metrics alone wait (damping)
                             v
    for each peer:   wanted = nothing, if the path goes through the peer or contains it,
                              if a path of 16 items was not passed on, if policy says no;
                              otherwise the export
                     sent   = what was last sent
                     wanted - sent = the message: advertise or withdraw

Nobody is told more nodes than it takes (MAX_NODES): it would have to end the session, and whoever
can fill our table could part us from our peers. What found no room waits until there is some.

**Damping.** sRTT and load change all the time, and every advertised change is work for every relay
of the network. A metric is advertised again when it has changed by a share **and** by an amount,
and not more often than once an interval. A load class, a contact or a region is no metric: its
change is advertised at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from enum import Enum
from typing import Any

from laps_relay.network.nodes.node_table import AdjOut, NodeRecord, NodeTable, PeerRecord
from laps_relay.network.settings import NetworkSettings
from laps_relay.policy.interface import Policy
from laps_sdk.timers import Timers
from laps_wire.buffer import QUIC_MAX
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import Load, NodeInfo, NodePathItem, NodeSelf, RelayType, Stamp
from laps_wire.peering.laps2.codepoints import MAX_HOPS
from laps_wire.peering.laps2.information import MAX_LOAD

__all__ = ["AdjRibOut", "RecentWithdrawals", "Urgency", "same_relays", "significant", "urgency"]


class Urgency(Enum):
    """When a change is advertised."""

    NOW = "now"
    LATER = "later"
    """When the interval since the last one is over."""
    NEVER = "never"
    """It is too small; together with later ones it may not be."""


def significant(old_us: int, new_us: int, settings: NetworkSettings) -> bool:
    """Return whether a time has changed enough to be advertised again."""
    change = abs(new_us - old_us)
    return (
        change > 0
        and change >= settings.metric_floor_us
        and change >= old_us * settings.metric_ratio
    )


def same_relays(a: tuple[NodePathItem, ...], b: tuple[NodePathItem, ...]) -> bool:
    """Return whether two paths pass the same relays, at whatever cost."""
    if len(a) != len(b):
        return False
    for left, right in zip(a, b, strict=True):
        if left is not right and left.node_id != right.node_id:
            return False
    return True


def urgency(old: NodeInfo, new: NodeInfo, settings: NetworkSettings) -> Urgency:
    """Return when a change of a node's self part must be advertised."""
    if _essence(old.node) != _essence(new.node):
        return Urgency.NOW
    if old.signature.fingerprint != new.signature.fingerprint:
        return Urgency.NOW
    change = abs(old.node.load.value - new.node.load.value)
    if change > 0 and change >= MAX_LOAD * settings.metric_ratio:
        return Urgency.LATER
    before = {each.node_id: each.rtt_us for each in old.node.reachable}
    after = {each.node_id: each.rtt_us for each in new.node.reachable}
    if before.keys() != after.keys():
        return Urgency.LATER
    if any(significant(before[node], after[node], settings) for node in before):
        return Urgency.LATER
    return Urgency.NEVER


def _essence(node: NodeSelf) -> NodeSelf:
    """Return a node's self part without its metrics; a new epoch is a new node."""
    return replace(
        node,
        stamp=Stamp(node.stamp.epoch, 0),
        load=Load(node.load.load_class),
        reachable=(),
    )


class AdjRibOut:
    """The exports of one relay, and what each of its peers was sent."""

    __slots__ = (
        "_due",
        "_local",
        "_moved",
        "_node",
        "_own",
        "_settings",
        "_table",
        "policy",
    )

    def __init__(
        self, local: NodeInfo, table: NodeTable, settings: NetworkSettings, policy: Policy
    ) -> None:
        self._node = local.node.node_id
        self._local = local
        """We, as we are."""
        self._own = local
        """We, as we are advertised."""
        self._table = table
        self._settings = settings
        self.policy = policy
        self._due: Timers[NodeId] = Timers()
        """Exports whose metrics wait for the end of the interval; our own node, too."""
        self._moved: dict[NodeId, float] = {}
        """When the metrics of an export, and nothing else of it, were last replaced."""

    # What changes

    def set_self(self, now: float, info: NodeInfo) -> None:
        """Export changed node information of this relay."""
        if info.node.relay_type is not self._local.node.relay_type:
            self._table.touched.update(dict.fromkeys(self._table.records))
        self._local = info
        self._renew_own(now)

    def open(self, peer: PeerRecord, room: int = QUIC_MAX, now: float = 0.0) -> None:
        """Prepare a new control session: it is sent all nodes for which it has room."""
        peer.out = AdjOut(room, now)
        self.retell(peer)

    def retell(self, peer: PeerRecord) -> None:
        """Compare everything again for one peer, or for all whose exports policy decides."""
        if peer.out is not None:
            peer.out.dirty[self._node] = None
            peer.out.dirty.update(dict.fromkeys(self._table.records))
            peer.out.dirty.update(dict.fromkeys(peer.out.sent))

    def settle(self, now: float) -> None:
        """Bring the exports up to date; the node table is fresh."""
        while (node := self._due.pop(now)) is not None:
            if node == self._node:
                self._renew_own(now)
            else:
                self._table.touched[node] = None
        touched = self._table.touched
        if touched:
            for node in touched:
                self.renew(now, node)
            touched.clear()

    def damped(self) -> tuple[int, Collection[NodeId]]:
        """Return how many changes wait, and the nodes whose metric has moved."""
        return len(self._due), self._moved.keys()

    @property
    def clocks(self) -> tuple[Timers[Any], ...]:
        """The timers, for one common deadline."""
        return (self._due,)

    def poll_timeout(self) -> float | None:
        """Return when the next damped change is due; None: never."""
        return self._due.next()

    # Differences

    def flush(self, peer: PeerRecord) -> tuple[tuple[NodeInfo, ...], tuple[NodeId, ...]]:
        """Return what a peer must be sent now, and record it as sent."""
        out = peer.out
        if out is None:
            return (), ()
        advertise: list[NodeInfo] = []
        withdraw: list[NodeId] = []
        sent, again = out.sent, out.again
        if again:
            self.retell(peer)
        # It hears withdrawals last, so what they free can be used next time only. The place of our
        # own is kept for us.
        room = out.room - len(sent) - (self._node not in sent)
        withheld = out.withheld
        for node in sorted(out.dirty):
            wanted = self.export_to(peer, node)
            last_sent = sent.get(node)
            if withheld:
                withheld.pop(node, None)
            if wanted is None:
                if last_sent is not None:
                    del sent[node]
                    withdraw.append(node)
            elif again or (wanted is not last_sent and wanted != last_sent):
                if last_sent is None and node != self._node:
                    if room <= 0:
                        withheld[node] = None
                        continue
                    room -= 1
                if last_sent is None:
                    out.begun.append(node)
                sent[node] = wanted
                advertise.append(wanted)
        out.dirty.clear()
        out.again = False
        if withdraw:
            out.dirty.update(withheld)
        return tuple(advertise), tuple(withdraw)

    # Inside

    def export_to(self, peer: PeerRecord, node: NodeId) -> NodeInfo | None:
        """Return what a peer should know of a node; None: nothing."""
        if node == self._node:
            info = self._own
        else:
            record = self._table.records.get(node)
            if record is None or record.export is None or record.via is None:
                return None
            target = peer.node
            if record.via is peer or node == target or (peer.signed and not record.via.signed):
                return None
            info = record.export
            for item in info.path:
                if item.node_id == target:
                    return None
        return info if self.policy.export_node(info, peer.latest.node) is None else None

    def renew(self, now: float, node: NodeId) -> None:
        """Export the best path of a node, unless the change is too small."""
        record = self._table.records.get(node)
        if record is None:
            self._moved.pop(node, None)
            self._due.cancel(node)
            self._mark(node, None)
            return
        via = record.best
        # Ways through control servers are for knowing, not for sending: only they pass them on.
        reflects = self._local.node.relay_type is RelayType.CONTROL
        if via is None or not (via.carries or reflects):
            self._replace(record, None, None)
            return
        info = via.entries[node]
        if len(info.path) >= MAX_HOPS:
            self._replace(record, None, None)
            return
        path = (*info.path, via.item)
        # The self part that came with the path, not the newest one: what goes along a path has no
        # loop, so that what somebody invented does not go round when he is gone.
        said = info
        if via.out is None and record.latest.node.stamp.epoch == info.node.stamp.epoch:
            said = record.latest  # without control a peer has said nothing since the handshake
        export = NodeInfo(said.node, said.signature, path, info.parameters.carried())
        if record.export is not None and record.via is via:
            former = record.export
            if former == export or (
                former.node is said.node
                and former.parameters == export.parameters
                and same_relays(former.path, path)
                and not self._metric_due(now, node, former, export)
            ):
                return
        self._due.cancel(node)
        self._replace(record, export, via)

    def _metric_due(self, now: float, node: NodeId, former: NodeInfo, export: NodeInfo) -> bool:
        """Return whether a change of sRTT alone is advertised now; otherwise it may be later.

        Its size does not matter: the relay at the link has damped it already. If a path of many
        links were damped again, a relay far away would know two paths over one link with two values
        of it, and could send two copies over the part that they share.
        """
        if former.sum_srtt_us == export.sum_srtt_us:
            self._due.cancel(node)
            return False
        return self._interval_over(now, node)

    def _interval_over(self, now: float, node: NodeId) -> bool:
        moved = self._moved.get(node)
        if moved is not None and now < moved + self._settings.metric_interval:
            self._due.set(node, moved + self._settings.metric_interval)
            return False
        self._moved[node] = now
        return True

    def _renew_own(self, now: float) -> None:
        urgent = urgency(self._own, self._local, self._settings)
        if urgent is Urgency.NEVER:
            self._due.cancel(self._node)
            return
        if urgent is Urgency.LATER and not self._interval_over(now, self._node):
            return
        self._due.cancel(self._node)
        self._own = self._local
        self._mark(self._node, None)

    def _replace(self, record: NodeRecord, export: NodeInfo | None, via: PeerRecord | None) -> None:
        if export is None and record.export is None:
            # If a node goes and another comes in its place before anybody asks, as when the true
            # holder of its id is here, its record is a new one: what others were told still holds.
            self._mark(record.node, None, only_sent=True)
            return
        record.export = export
        record.via = via
        self._mark(record.node, via)

    def _mark(self, node: NodeId, via: PeerRecord | None, *, only_sent: bool = False) -> None:
        """Mark a node for the peers that may have to be sent it.

        The peer on its path is marked only if it was sent the node before. With ``only_sent`` that
        holds for all peers: there can only be a withdrawal.
        """
        for peer in self._table.peers.values():
            out = peer.out
            if out is not None and (node in out.sent or not (only_sent or peer is via)):
                out.dirty[node] = None


class RecentWithdrawals:
    """Nodes that were withdrawn from peers a short time ago."""

    __slots__ = ("_blind", "_most", "_times", "_window")

    def __init__(self, window: float, most: int = 65_536) -> None:
        """Remember for ``window`` seconds; with more than ``most`` every peer is trusted."""
        self._window = window
        self._most = most
        self._times: dict[tuple[NodeId, NodeId], float] = {}
        """The oldest first."""
        self._blind = float("-inf")

    def add(self, now: float, peer: NodeId, nodes: Iterable[NodeId]) -> None:
        """Record that these nodes are withdrawn from a peer now."""
        times = self._times
        for node in nodes:
            times.pop((peer, node), None)
            times[peer, node] = now
        while times:
            oldest = next(iter(times))
            if times[oldest] > now - self._window:
                if len(times) <= self._most:
                    break
                self._blind = now + self._window
            del times[oldest]

    def recent(self, now: float, peer: NodeId, node: NodeId) -> bool:
        """Return whether a withdrawal may not have reached the peer yet."""
        then = self._times.get((peer, node))
        return now < self._blind or (then is not None and then > now - self._window)

    def __len__(self) -> int:
        return len(self._times)
