"""Adj-RIB-out: what each peer should have, what it was sent, and the difference (laps-2, 5.1).

::

    best path of a node -> export: the path with this relay appended, one object for all peers
                             |       changes of metrics alone wait (``damping``)
                             v
    for each peer:   wanted = nothing, if the path goes through the peer or contains it,
                              if a path of 16 items was not passed on, if policy says no;
                              otherwise the export
                     sent   = what was last sent
                     wanted - sent = the message: advertise or withdraw

Nobody is told more nodes than it takes (MAX_NODES): it would have to end the session, and whoever
can fill our table could part us from our peers. What found no room waits until there is some.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from laps_relay.network.nodes.damping import Urgency, same_relays, urgency
from laps_relay.network.nodes.node_records import AdjOut, NodeRecord, PeerRecord
from laps_relay.network.nodes.node_table import NodeTable
from laps_relay.network.settings import NetworkSettings
from laps_relay.policy.interface import Policy
from laps_sdk.timers import Timers
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import NodeInfo, RelayType
from laps_wire.peering.laps2.limits import MAX_HOPS
from laps_wire.varint import QUIC_MAX

__all__ = ["AdjRibOut"]


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
