"""What a network relay shows of itself: its tables as rows, read between two turns."""

from __future__ import annotations

from laps_relay.network.core import NetworkCore
from laps_relay.network.rows import (
    ALL,
    announce_rows,
    fib_rows,
    node_rows,
    peer_rows,
    set_rows,
    subscribe_rows,
    subscribe_rows_of,
)
from laps_relay.network.subscriptions.interests import InterestCounters
from laps_relay.network.views import (
    AnnounceRow,
    FibRow,
    NodeRow,
    PeerRow,
    SetRow,
    SubscribeRow,
    TableSizes,
)
from laps_relay.peer_forwarding.forwarding import PeerPlaneCounters
from laps_relay.peer_forwarding.traffic import Arrival, Departure
from laps_sdk.forwarding.samples import Samples
from laps_sdk.peering.dialler import DialRow
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

    @property
    def in_transit(self) -> bool:
        """Whether data goes through us to other relays, or has still to be sent to one."""
        return self._sets.in_transit or self._plane.unsent() > 0

    @property
    def unsent(self) -> int:
        """How many streams to peers have not ended, or have bytes that wait."""
        return self._plane.unsent()

    @property
    def flight(self) -> float:
        """How long something may be under way to a peer, sent again if it was lost: seconds."""
        trips = [link.srtt_us for link in self._links.by_session.values() if link.up]
        return 2e-6 * max(trips) + self._settings.batch if trips else 0.0

    def count_traffic(self) -> None:
        """Count by track and way, for :meth:`take_traffic`."""
        self._plane.count_traffic()

    def take_traffic(self) -> tuple[list[Arrival], list[Departure]]:
        """What came and went between relays since the last time."""
        return self._plane.take_traffic()

    def time_objects(self, samples: Samples) -> None:
        """Time some of the objects that pass."""
        self._plane.time_objects(samples)

    def interest_counters(self) -> InterestCounters:
        """Of what our own clients publish and want."""
        return self._interests.counters()

    def peers(self) -> list[PeerRow]:
        """All connections."""
        return peer_rows(self._links)

    def contacts(self) -> list[DialRow]:
        """Where connections are dialled, and how far each has come."""
        return self._dialler.rows()

    def sizes(self) -> TableSizes:
        """How much there is, without making a row."""
        return TableSizes(
            nodes=1 + self._nib.size,
            announces=self.announces.size,
            subscribes=self.subscribes.size,
            sets_in=self._sets.incoming,
            sets_out=self._sets.living,
            fib=self._plane.fib_size(),
        )

    def nodes(self, part: slice = ALL) -> list[NodeRow]:
        """The node information base."""
        return node_rows(self._own.info, self._nib, part, self._prober.round_trips())

    def announce_rows(self, part: slice = ALL) -> list[AnnounceRow]:
        """Announces."""
        return announce_rows(self.announces, part)

    def subscribe_rows(self, part: slice = ALL) -> list[SubscribeRow]:
        """Subscribes."""
        return subscribe_rows(self.subscribes, self._interests, part)

    def subscribe_rows_of(self, key: int) -> list[SubscribeRow]:
        """The subscribes for one track."""
        return subscribe_rows_of(self.subscribes, self._interests, key)

    def sets(self) -> list[SetRow]:
        """All subscriber node sets."""
        return set_rows(self._sets)

    def fib(self) -> list[FibRow]:
        """Where data goes."""
        return fib_rows(self._plane, self._sets)
