"""Messages from the information bases: batches for each peer, and whole synchronisations.

Changes for a peer are collected for the batching time. What is sent is the difference between what
the peer should know and what it was sent: no message is ever forwarded as such. A message that
would be too long for the peer is split.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from laps_relay.network.flood.entries import hide_name
from laps_relay.network.flood.floods import FloodTable
from laps_relay.network.nodes.nib import Nib
from laps_sdk.peering.links import NO_BASES, Link, send_split
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    AnnounceAdvertise,
    AnnounceWithdraw,
    Bases,
    Feature,
    NodeAdvertise,
    NodeWithdraw,
    SubscribeAdvertise,
    SubscribeWithdraw,
    SyncBegin,
    SyncEnd,
)
from laps_wire.peering.laps2.limits import MAX_BATCH, MAX_TARGETS

__all__ = ["Advertiser"]

_MADE: Final[dict[str, Callable[[tuple[Any, ...]], Any]]] = {
    "nodes": NodeAdvertise,
    "no nodes": NodeWithdraw,
    "announces": AnnounceAdvertise,
    "no announces": AnnounceWithdraw,
    "subscribes": SubscribeAdvertise,
    "no subscribes": SubscribeWithdraw,
}


class Advertiser:
    """Sends one peer what is due."""

    __slots__ = ("_announces", "_nodes", "_subscribes")

    def __init__(
        self,
        nodes: Nib,
        announces: FloodTable[Any, Any, Any],
        subscribes: FloodTable[Any, Any, Any],
    ) -> None:
        self._nodes = nodes
        self._announces = announces
        self._subscribes = subscribes

    def flush(self, now: float, link: Link, send: Callable[[Any], object]) -> None:
        """Send all differences; between SYNC_BEGIN and SYNC_END if the peer must get everything."""
        bases, link.sync = link.sync, NO_BASES
        node = link.node
        if node is None:
            return
        if bases:
            if Bases.NODES in bases:
                self._nodes.resend(node)
            if Bases.ANNOUNCES in bases:
                self._announces.resend(link.session)
            if Bases.SUBSCRIBES in bases:
                self._subscribes.resend(link.session)
            send(SyncBegin(bases))
        advertise, withdraw = self._nodes.flush(now, node)
        if advertise:
            self._put(send, "nodes", advertise)
        if withdraw:
            self._put(send, "no nodes", sorted(withdraw), MAX_TARGETS)
        self.spoken(now, link.session, node)
        for table, what in ((self._announces, "announces"), (self._subscribes, "subscribes")):
            entries, withdrawals = table.flush(link.session)
            if not entries and not withdrawals:
                continue
            if table is self._announces and Feature.PLAINTEXT_NAMES not in link.features:
                entries = tuple(hide_name(entry) for entry in entries)
            if withdrawals:
                self._put(send, f"no {what}", withdrawals)
            if entries:
                self._put(send, what, entries)
        if bases:
            send(SyncEnd(bases))

    def spoken(self, now: float, session: int, peer: NodeId) -> None:
        """Send entries again of nodes that were advertised after a long pause (laps-2, 5.3)."""
        for node, silence in self._nodes.take_spoken(peer).items():
            self._announces.spoke(now, session, node, silence)
            self._subscribes.spoke(now, session, node, silence)

    def _put(
        self,
        send: Callable[[Any], object],
        what: str,
        entries: Sequence[Any],
        most: int = MAX_BATCH,
    ) -> None:
        send_split(send, _MADE[what], entries, most)
