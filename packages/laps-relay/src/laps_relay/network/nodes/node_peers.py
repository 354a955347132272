"""The peers of a node information base: sessions that come and go, and how far they are.

::

    session with control   --> add_peer      the peer will be told everything, and tells us
    session for data only  --> add_neighbour a way to the peer itself, and nothing more
    a measurement          --> set_peer      the sRTT of the link, damped, in all ways over it
    its end                --> remove_...    all ways over it go

A handshake proves who a peer is, so what it says of itself counts more than what others say of it.
"""

from __future__ import annotations

from laps_relay.network.flood.flood_doubts import TOLD_AGAIN
from laps_relay.network.nodes.adj_in import place_of
from laps_relay.network.nodes.adj_out import Exports
from laps_relay.network.nodes.damping import significant
from laps_relay.network.nodes.imports import Imports
from laps_relay.network.nodes.node_questions import NodeQuestions
from laps_relay.network.nodes.node_records import AdjOut, Fault, PeerRecord, Report
from laps_relay.network.nodes.plausibility import Direction, declared, light_rtt_us
from laps_relay.network.nodes.selection import Order
from laps_relay.network.nodes.silences import Silences
from laps_relay.network.nodes.suspicions import Retractions
from laps_relay.network.settings import NetworkSettings
from laps_relay.policy.interface import Policy
from laps_sdk.timers import Timers
from laps_wire.errors import StateError
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import NodeInfo, NodePathItem, RelayType
from laps_wire.varint import QUIC_MAX

__all__ = ["NodePeers"]


class NodePeers(NodeQuestions):
    """Ourselves, those with whom we have sessions, and what follows from both."""

    __slots__ = (
        "_due",
        "_exports",
        "_imports",
        "_lost",
        "_now",
        "_place",
        "_retracted",
        "_settings",
        "_settled",
        "_silences",
    )

    def __init__(
        self, local: NodeInfo, settings: NetworkSettings, order: Order, policy: Policy
    ) -> None:
        super().__init__(local, order)
        self._settings = settings
        self._place = self._whereabouts(local)
        self._now = self._settled = float("-inf")
        """The time, and that of the last time when everything was brought up to date."""
        self._exports = Exports(local, self._table, settings, policy)
        self._imports = Imports(self._table, policy, self)
        self._lost: dict[NodeId, str] = {}
        self._retracted = Retractions(settings.convergence)
        self._silences = Silences(settings.convergence)
        self._due: Timers[NodeId] = Timers()
        """Peers whose measured sRTT waits for the end of the interval."""

    # Ourselves

    def set_self(self, now: float, info: NodeInfo) -> None:
        """What we say of ourselves has changed; it has a new stamp."""
        self._local = info
        self._place = self._whereabouts(info)
        self._exports.set_self(now, info)
        self._settle(now)

    def set_policy(self, now: float, policy: Policy) -> None:
        """Other rules: everything is looked at again, in both directions."""
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
        """A control session is up; the peer will be told everything, up to ``room`` nodes.

        ``forwards``: data can be sent to the peer. ``signed``: feature SIGNED_NODES is in use, so
        what it says was verified and it hears only what was (laps-2, 5.1).
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
        """Something about our own sessions with a peer has changed; an sRTT of 0 is not known.

        ``draining``: it said DRAIN. Its node information says so, too, for everybody else.
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
            self._table.weigh(peer)
            self._table.worn((peer,))
        self._settle(now)

    def remove_peer(self, now: float, peer: NodeId) -> None:
        """The control session ended: everything that was learned over it goes."""
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
        """Data can be sent to a peer over a session without control: a way to the peer itself."""
        record, reports = self._meet(now, peer, info, srtt_us)
        record.neighbour = True
        self._carry(record)
        self._settle(now)
        return reports

    def remove_neighbour(self, now: float, peer: NodeId) -> None:
        """The last session without control ended."""
        record = self._table.peers.get(peer)
        if record is not None and record.neighbour:
            record.neighbour = False
            self._part(record)
            self._settle(now)

    # Time, inside

    def _settle(self, now: float) -> None:
        """Bring everything up to date."""
        if now > self._now:
            self._now = now
        else:
            now = self._now
        table = self._table
        if now == self._settled and not (table.touched or table.stale or table.news):
            return  # one event asks several times, for each peer
        self._settled = now
        while (peer := self._due.pop(now)) is not None:
            self._measure(now, table.peers[peer])
        if table.stale or table.news:
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
        """The sRTT of our own link has another value: all ways over it do."""
        record.srtt_us = record.measured_us
        if not record.measured_us and self._place is not None and record.place is not None:
            # Not known yet. Nothing would be told as a time that others cannot believe.
            record.srtt_us = light_rtt_us(self._place, record.place)
        record.item = NodePathItem(self._node, record.srtt_us)
        self._table.worn(record.entries)

    # Peers, inside

    def _meet(
        self, now: float, peer: NodeId, info: NodeInfo, srtt_us: int
    ) -> tuple[PeerRecord, list[Report]]:
        """A session with a node: what its handshake proved counts more than what others say."""
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
        """Take what a peer says of itself, unless it has said something newer."""
        if info.node.stamp < record.told.node.stamp:
            return
        record.told = info
        record.place = self._whereabouts(info)
        self._table.put(record, info)

    def _carry(self, record: PeerRecord) -> None:
        """Work out whether data can go to a peer: never to a control server."""
        carries = record.told.node.relay_type is not RelayType.CONTROL and (
            record.forwards or record.neighbour
        )
        if carries is not record.carries:
            record.carries = carries
            self._table.worn(record.entries)

    def _part(self, record: PeerRecord) -> None:
        """A kind of session with a peer ended; without any it is a node like others."""
        peer = record.node
        if record.out is not None or record.neighbour:
            self._carry(record)
            self._table.weigh(peer)
            return
        self._forget(record, peer, "session_closed")
        self._table.refresh()
        self._due.cancel(peer)
        del self._table.peers[peer]
        self._table.weigh(peer)

    def _forget(self, record: PeerRecord, node: NodeId, why: str = "withdrawn") -> None:
        """A peer does not offer a node any more."""
        self._lost[node] = why
        self._imports.forget(record, node)
        out = record.out
        if out is not None and node in record.entries and node not in out.sent:
            self._silences.begin(self._now, record.node, node)
        self._table.drop(record, node)

    def _spoke(self, record: PeerRecord, out: AdjOut, node: NodeId) -> None:
        """One of us tells the other of a node, and none did."""
        silence = self._silences.end(self._now, record.node, node, out.opened)
        if silence > TOLD_AGAIN * self._settings.convergence:
            out.spoken[node] = silence

    def _whereabouts(self, info: NodeInfo) -> Direction | None:
        """Where a node is, for checks against light time; None if that is not checked."""
        return place_of(declared(info.node)) if self._settings.light_time else None
