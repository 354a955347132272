"""What a relay shows of its part in the network: tables, figures, and who is behind a session."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from laps_relay.admin.network_api import PolicyState
from laps_relay.admin.paging import LazyRows
from laps_relay.network.relay import NetworkRelay
from laps_relay.network.views import AnnounceRow, FibRow, NodeRow, PeerRow, SetRow, SubscribeRow
from laps_relay.peer_forwarding.forwarding import PeerPlaneCounters
from laps_relay.peer_forwarding.traffic import Arrival, Departure
from laps_relay.server.joined_edge import JoinedEdge
from laps_relay.server.membership import policy_in_words
from laps_relay.telemetry.network_sampler import NetworkSample
from laps_sdk.forwarding.samples import Samples
from laps_sdk.peering.dialler import DialRow, Phase
from laps_sdk.peering.server import PeerServer
from laps_sdk.quic.base import ConnectionStats
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId

__all__ = ["NetworkReadings"]


class NetworkReadings:
    """Reads; :class:`~laps_relay.server.network_part.NetworkPart` does."""

    relay: NetworkRelay
    server: PeerServer
    _edge: JoinedEdge | None
    _guests: JoinedEdge | None
    """The same, also when we have left: what its guests carried is recorded then."""
    _policy_file: Path | None
    _nodes: dict[int, NodeId]
    """Whom peers' sessions were with, until what they carried was recorded."""

    @property
    def now(self) -> float:
        """The clock of the tables."""
        return self.server.now

    def carried(self, session: int) -> tuple[int, int]:
        """Bytes in and out of a session that has just ended."""
        stats = self.peer_connection(session)
        return (0, 0) if stats is None else (stats.bytes_received, stats.bytes_sent)

    def peers(self) -> Sequence[PeerRow]:
        """All connections to other relays."""
        return self.relay.tables.peers()

    def contacts(self) -> Sequence[DialRow]:
        """Where connections are dialled."""
        return self.relay.tables.contacts()

    def peer_connection(self, session: int) -> ConnectionStats | None:
        """The figures of a peer's connection."""
        port = self.server.ports.get(session)
        return None if port is None else port.connection.stats()

    def nodes(self) -> Sequence[NodeRow]:
        """The NIB."""
        return LazyRows(self.relay.tables.sizes().nodes, self.relay.tables.nodes)

    def announces(self) -> Sequence[AnnounceRow]:
        """All announces."""
        return LazyRows(self.relay.announces.size, self.relay.tables.announce_rows)

    def subscribes(self, key: int | None = None) -> Sequence[SubscribeRow]:
        """All subscribes, or those of one track."""
        if key is not None:
            return self.relay.tables.subscribe_rows_of(key)
        return LazyRows(self.relay.subscribes.size, self.relay.tables.subscribe_rows)

    def sets(self) -> Sequence[SetRow]:
        """All subscriber node sets."""
        return self.relay.tables.sets()

    def fib(self) -> Sequence[FibRow]:
        """The FIB."""
        return self.relay.tables.fib()

    def counters(self) -> PeerPlaneCounters:
        """Of the forwarding plane between relays."""
        return self.relay.plane.counters()

    def sample(self) -> NetworkSample:
        """Figures for the sampler; makes rows of peers only, however large the tables are."""
        peers = self.peers()
        return NetworkSample(
            peers=peers,
            unreached=self._unreached(),
            sizes=self.relay.tables.sizes(),
            counters=self.counters(),
            collisions=self.relay.subscriptions.counters().collisions
            + (0 if self._edge is None else self._edge.collisions),
            connections={
                row.session: stats
                for row in peers
                if (stats := self.peer_connection(row.session)) is not None
            },
        )

    def _unreached(self) -> int:
        """Contacts of the configuration without a session, in either direction."""
        there = {row.node for row in self.peers()} - {None}
        return sum(
            row.phase != Phase.UP.value and not row.dynamic and row.node not in there
            for row in self.contacts()
        )

    # For records

    def key(self, name: FullTrackName) -> int:
        """The full-name hash of a track."""
        return self.relay.key(name)

    def count_traffic(self, samples: Samples | None) -> None:
        """Count what goes between relays from now on, and time what ``samples`` chooses."""
        self.relay.plane.count_traffic()
        if samples is not None:
            self.relay.plane.time_objects(samples)

    def take_traffic(self) -> tuple[list[Arrival], list[Departure]]:
        """What came and what was sent since the last time."""
        return self.relay.plane.take_traffic()

    def node_of(self, session: int) -> str | None:
        """The node that a peer's session is or was with."""
        node = self._nodes.get(session)
        return None if node is None else str(node)

    def guest_of(self, session: int) -> str | None:
        """The Stub or C++ relay that a session of the Edge stands for; None: neither."""
        node = None if self._guests is None else self._guests.node_of(session)
        return None if node is None else str(node)

    def forget_nodes(self) -> None:
        """Forget sessions that are over: what they carried was recorded."""
        live = {row.session for row in self.peers()}
        self._nodes = {number: node for number, node in self._nodes.items() if number in live}
        if self._guests is not None:
            self._guests.forget_nodes()

    def policy(self) -> PolicyState:
        """The policy that is in force."""
        file = "" if self._policy_file is None else str(self._policy_file)
        return PolicyState(file=file, rules=policy_in_words(self.relay.policy))
