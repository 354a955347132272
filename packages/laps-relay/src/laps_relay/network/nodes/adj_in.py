"""Adj-RIB-in: checks of a peer's entry before it is used, and import policy (laps-2, 5.1).

::

    entry --> about this relay? --> a node that may be advertised? --> a valid path?
          --> are we on it?     --> the known key?                 --> slower than light?

An entry that fails is not believed. The peer's former entry of that node is removed, too, for the
peer replaced it. No session ends for it: an entry travels from relay to relay, and one that closed
sessions would close all of them. Only more entries than agreed end a session.

**Import filter.** A policy depends on the relays of a path: their regions, their labels. Those are
in the entries of these relays, which may come later, or change. So an entry with an unknown relay
on its path is remembered under that relay, and checked again when the relay appears.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from laps_relay.network.nodes.location import Direction, declared, least_rtt_us, place_of
from laps_relay.network.nodes.node_table import Fault, NodeRecord, NodeTable, PeerRecord
from laps_relay.policy.interface import OpenPolicy, Policy
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import NodeInfo, NodeSelf, RelayType
from laps_wire.peering.laps2.codepoints import MAX_HOPS

__all__ = ["Finding", "ImportFilter", "about_us", "misfit", "other_key", "too_fast"]

_STUB_ID: Final = NodeId(0)

Finding = tuple[Fault, str]
"""What is wrong, and why."""


def about_us(own: NodeInfo, info: NodeInfo) -> Finding | None:
    """Return what is wrong with an entry about this relay; such an entry is never used."""
    if info.signature.fingerprint != own.signature.fingerprint:
        return Fault.OWN_ID, "our own node id is advertised with another key"
    if info.node.stamp.epoch > own.node.stamp.epoch:
        ours, theirs = own.node.stamp.epoch, info.node.stamp.epoch
        return Fault.OWN_ID, f"our own node id is advertised with epoch {theirs}, ours is {ours}"
    return None


def misfit(peer: NodeId, info: NodeInfo, relays: set[NodeId]) -> Finding | None:
    """Return what is wrong with a node or its path; ``relays`` are those on the path."""
    node = info.node.node_id
    if node == _STUB_ID or info.node.relay_type is RelayType.STUB:
        return Fault.BAD_NODE, "a Stub is not seen beyond its parent"
    path = info.path
    if not path:
        if node == peer:
            return None
        return Fault.BAD_PATH, "an empty path, but it is not the node itself that says so"
    if path[-1].node_id != peer:
        return Fault.BAD_PATH, f"the path ends with {path[-1].node_id}, not with who sent it"
    if len(path) > MAX_HOPS:
        return Fault.BAD_PATH, f"a path of {len(path)} items, at most {MAX_HOPS} are allowed"
    if len(relays) != len(path) or node in relays:
        return Fault.BAD_PATH, "the path passes a relay twice"
    if _STUB_ID in relays:
        return Fault.BAD_PATH, "the path passes node id 0"
    return None


def other_key(record: NodeRecord, info: NodeInfo) -> Finding | None:
    """Return whether a node id is advertised with another key; it never replaces the known one."""
    if info.signature.fingerprint == record.fingerprint:
        return None
    return Fault.KEY_CONFLICT, "another key than the one that holds this node id"


def too_fast(
    own: Direction | None, link: PeerRecord, info: NodeInfo, record: NodeRecord | None
) -> Finding | None:
    """Whether light would be slower.

    The sum of the path is the round trip from the peer to the node, and with our own link it is
    the one from us. A neighbour's sRTT is our own measurement, so only its location can be wrong.
    """
    newest = info.node
    if (
        record is not None
        and newest is not record.latest.node
        and not record.latest.node.stamp < newest.stamp
    ):
        newest = record.latest.node  # who passes a node on must not move it to be believed
    place = place_of(declared(newest))
    if place is None:
        return None
    total = 0
    for item in info.path:
        total += item.srtt_us
    theirs = link.place if info.path else None
    ours = own if link.srtt_us else None  # a link that was not measured yet proves nothing
    for end, rtt_us in ((theirs, total), (ours, total + link.srtt_us)):
        if end is not None and rtt_us < (least := least_rtt_us(end, place)):
            return Fault.IMPLAUSIBLE, f"a round trip of {rtt_us} us, light needs {least:.0f} us"
    return None


_MAX_GONE: Final = 4096


class ImportFilter:
    """The import policy of one relay."""

    __slots__ = ("_gone", "_info", "_is_open", "_policy", "_table", "_unseen")

    def __init__(
        self, table: NodeTable, policy: Policy, info: Callable[[NodeId], NodeInfo | None]
    ) -> None:
        """``info`` returns what is known of a node, this relay too."""
        self._table = table
        self._policy = policy
        self._is_open = type(policy) is OpenPolicy
        self._info = info
        self._unseen: dict[NodeId, dict[tuple[NodeId, NodeId], None]] = {}
        """Relays that are on paths and not known themselves: (peer, node) of those entries."""
        self._gone: dict[NodeId, NodeSelf] = {}
        """The last self parts of nodes that are gone."""

    def set_policy(self, policy: Policy) -> None:
        """Use another policy, and check all entries again."""
        self._policy = policy
        self._is_open = type(policy) is OpenPolicy
        for peer in self._table.peers.values():
            for node in peer.entries:
                self._ask_again(peer, node)

    def allowed(self, peer: PeerRecord, info: NodeInfo, relays: set[NodeId]) -> bool:
        """Return whether a received entry may be used."""
        node = info.node.node_id
        if self._unseen:
            self.forget(peer, node)
        records = self._table.records
        # Not a difference of sets: that would look at every node we know, for every entry.
        unseen = [relay for relay in relays if relay not in records]
        if unseen:
            for relay in sorted(unseen):
                self._unseen.setdefault(relay, {})[peer.node, node] = None
        return self._allows(peer, info)

    def forget(self, peer: PeerRecord, node: NodeId) -> None:
        """Forget an entry that was removed or replaced."""
        info = peer.entries.get(node)
        if info is None or not self._unseen:
            return
        for item in info.path:
            waiting = self._unseen.get(item.node_id)
            if waiting is not None:
                waiting.pop((peer.node, node), None)
                if not waiting:
                    del self._unseen[item.node_id]

    def reconsider(self) -> None:
        """Check entries again that depend on nodes that appeared or changed."""
        self._table.refresh()
        while self._table.changed_selves:
            changed_selves, self._table.changed_selves = self._table.changed_selves, {}
            for node, before in changed_selves.items():
                self._heard_of(node, before)
            self._table.refresh()

    def _heard_of(self, node: NodeId, before: NodeSelf | None) -> None:
        record = self._table.records.get(node)
        if record is None:
            if before is not None:
                self._remember(before)
            return
        before = self._gone.pop(node, before)
        waiting = self._unseen.pop(node, {})
        if before is None:
            affected = [(self._table.peers[peer], target) for peer, target in waiting]
        elif _standing(before) != _standing(record.latest.node):
            affected = list(self._table.through(node))
            affected += [(peer, node) for peer in self._table.peers.values()]
        else:
            return
        for peer, target in affected:
            self._ask_again(peer, target)
        # Rules of a class are checked where data goes: these paths must be checked again, too.
        self._table.paths.update(dict.fromkeys(target for _, target in affected))

    def _remember(self, node: NodeSelf) -> None:
        """Remember a removed node: it may return changed, and paths through it may still exist."""
        self._gone[node.node_id] = node
        if len(self._gone) > _MAX_GONE:
            del self._gone[next(iter(self._gone))]

    def _ask_again(self, peer: PeerRecord, node: NodeId) -> None:
        """Check an entry again; not that of a peer itself, which sessions decide."""
        info = peer.entries.get(node)
        if info is not None and node != peer.node:
            self._table.set_filtered(peer, node, not self._allows(peer, info))

    def _allows(self, peer: PeerRecord, info: NodeInfo) -> bool:
        """Return whether policy allows an entry, with the newest self part of its node."""
        if self._is_open:
            return True
        record = self._table.records.get(info.node.node_id)
        if record is not None and record.latest.node is not info.node:
            newest = record.latest
            if newest.node.stamp > info.node.stamp:
                info = NodeInfo(newest.node, newest.signature, info.path, info.parameters)
        return self._policy.import_node(info, peer.latest.node, self._info) is None


def _standing(node: NodeSelf) -> tuple[object, ...]:
    """Return what a policy can depend on; metrics are no part of it."""
    return node.relay_type, node.location, node.region, node.labels, node.parameters
