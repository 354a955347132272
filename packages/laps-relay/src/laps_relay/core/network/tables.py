"""What a network relay shows of itself: its tables as rows, read between two turns."""

from __future__ import annotations

from laps_relay.core.network.core import NetworkCore
from laps_relay.core.network.interfaces import PeerPlaneCounters
from laps_relay.core.network.rows import (
    announce_rows,
    fib_rows,
    node_rows,
    peer_rows,
    set_rows,
    subscribe_rows,
)
from laps_relay.core.network.views import (
    AnnounceRow,
    FibRow,
    NodeRow,
    PeerRow,
    SetRow,
    SubscribeRow,
)
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import NodeInfo

__all__ = ["NetworkTables"]


class NetworkTables(NetworkCore):
    """All tables."""

    __slots__ = ()

    @property
    def node_id(self) -> NodeId:
        """Who we are."""
        return self._own.node_id

    @property
    def info(self) -> NodeInfo:
        """What we say of ourselves."""
        return self._own.info

    def counters(self) -> PeerPlaneCounters:
        """Of the forwarding plane."""
        return self._plane.counters()

    def peers(self) -> list[PeerRow]:
        """All connections."""
        return peer_rows(self._links)

    def nodes(self) -> list[NodeRow]:
        """The node information base."""
        return node_rows(self._own.info, self._nib)

    def announce_rows(self) -> list[AnnounceRow]:
        """All announces."""
        return announce_rows(self.announces)

    def subscribe_rows(self) -> list[SubscribeRow]:
        """All subscribes."""
        return subscribe_rows(self.subscribes, self._interests)

    def sets(self) -> list[SetRow]:
        """All subscriber node sets."""
        return set_rows(self._sets)

    def fib(self) -> list[FibRow]:
        """Where data goes."""
        return fib_rows(self._plane, self._sets)
