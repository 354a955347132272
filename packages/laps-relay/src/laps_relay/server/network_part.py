"""The part in the network of an Edge, a Via or a control server: its core and its tables.

::

    NetworkMember --- NetworkRelay --- peers
         |                 |
    NetworkEdge ------ NetworkBridge          only an Edge
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Final

from laps_relay.admin.views import LazyRows
from laps_relay.config import RelayConfig, mapping
from laps_relay.config.network import NetworkLimits
from laps_relay.cpp.cpp_link import CppLimits
from laps_relay.cpp.cpp_peer import CppPeer
from laps_relay.cpp.directory import Directory
from laps_relay.network.bridge import NetworkBridge
from laps_relay.network.control_server.redirect import (
    CLIENT_LABEL,
    ClientTrack,
    choose,
    client_address,
    holders,
    is_loopback_url,
    places,
)
from laps_relay.network.nodes.node_table import ORDERS
from laps_relay.network.relay import NetworkRelay
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
from laps_relay.policy import OPEN_POLICY
from laps_relay.server.certificates import Certificate
from laps_relay.server.identity import RelayIdentity, fresh_context
from laps_relay.server.member import (
    UPSTREAM_SESSION,
    JoinedEdge,
    MemberHooks,
    NetworkMember,
    read_policy,
)
from laps_relay.stubs.stub_parent import StubParent
from laps_sdk.edge.relay import EdgeRelay
from laps_sdk.edge.server import EdgeServer
from laps_sdk.edge.settings import SessionInfo
from laps_sdk.forwarding.interfaces import ForwardingPlane
from laps_sdk.forwarding.samples import Samples
from laps_sdk.peering.dialler import DialRow
from laps_sdk.peering.events import PeerUp
from laps_sdk.peering.keys import PeerKeyRing
from laps_sdk.peering.links import ForeignPeer, ForeignPeerWire, Link
from laps_sdk.upstream.stub_link import StubLimits
from laps_wire.hashing import KeyedHasher
from laps_wire.matching import hashed_subscribe_of
from laps_wire.moqt.session import AuthToken
from laps_wire.moqt.setup import SetupOptions
from laps_wire.moqt.structures import Token
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering import cpp
from laps_wire.peering.laps2 import RelayType
from laps_wire.peering.session import CPP_16, to_cpp_node

if TYPE_CHECKING:
    from laps_relay.policy import RulePolicy

__all__ = ["NetworkEdge", "NetworkPart", "Redirects"]

_ANSWER: Final = 0.5
"""Seconds, beside a round trip, in which a control server answers which relays have a track."""
_LONGEST_ANSWER: Final = 1.0

_TYPES: Final = {
    "edge": RelayType.EDGE,
    "via": RelayType.VIA,
    "control": RelayType.CONTROL,
}


class NetworkPart(NetworkMember):
    """The part of a relay that knows the whole network; every type but a Stub."""

    relay: NetworkRelay
    _edge: NetworkEdge | None

    def __init__(
        self,
        config: RelayConfig,
        keys: PeerKeyRing,
        certificate: Certificate,
        *,
        version: str,
        hooks: MemberHooks,
        hidden: bool = False,
    ) -> None:
        """Build the core of the network.

        ``hidden``: relays on other machines cannot dial this one, so it advertises no contact.
        """
        network = config.network
        identity = RelayIdentity.of(config, keys)
        policy = read_policy(network.policy, identity)
        relay_type = _TYPES[network.type]
        settings = mapping.network_settings(config, relay_type)
        memory = identity.known_keys
        relay = NetworkRelay(
            identity.peering,
            settings,
            hasher=identity.hasher,
            authenticator=keys,
            challenge=lambda: secrets.token_bytes(32),
            contexts=fresh_context,
            random=random.SystemRandom().random,
            policy=policy or OPEN_POLICY,
            implementation=f"laps-relay {version}",
            order=ORDERS[network.order],
            known_keys=None if memory is None else memory.load(),
        )
        super().__init__(
            config,
            identity,
            certificate,
            relay,
            relay,
            hooks,
            relay_type=relay_type,
            policy=policy,
            hidden=hidden,
        )
        self._client_url = network.client_url
        self._on_loopback = network.is_loopback(config.listen.host)
        self._stub_limits = StubLimits(settings.max_announces, settings.max_subscribes)
        self._cpp_limits = network.limits if network.meets_cpp else None
        self._unsent_before = 0
        self._answered_at = 0.0

    def join(
        self, server: EdgeServer, relay: EdgeRelay, plane: ForwardingPlane, peer_token: AuthToken
    ) -> None:
        """Join the clients of an Edge to the network, and take foreign peers."""
        self._edge = NetworkEdge(
            server,
            relay,
            plane,
            self.relay,
            self._identity.hasher,
            epoch=self._identity.epoch,
            stub_limits=self._stub_limits,
            cpp_limits=self._cpp_limits,
            peer_token=peer_token,
        )
        self.relay.set_foreign_peers(self._edge.foreign_peer)

    def _data_due(self) -> float | None:
        """Return when the peer plane has a timer due."""
        return self.relay.plane.poll_timeout()

    def takes_clients(self, url: str) -> None:
        """Advertise where the Edge takes clients: other relays may send clients to it."""
        if self.relay_type is RelayType.EDGE:
            self._client_url = self._client_url or url
            self.relay.set_own_label(self.server.now, CLIENT_LABEL, self._client_url)
            self.server.settle()

    # Drain

    def places(self) -> Callable[[int], str] | None:
        """Return what gives a client's session the address of another relay; None: no clients."""
        edge = self._edge
        if edge is None or not edge.joined:
            return None
        return Redirects(
            self.relay,
            edge.relay,
            self._identity.hasher,
            own_url=self._client_url,
            loopback=self._on_loopback and is_loopback_url(self._client_url),
        ).place

    @property
    def unsent(self) -> int:
        """Streams that peers have not got, or did not get because the drain was over."""
        counted = self.relay.plane.counters().unsent_streams - self._unsent_before
        return self.relay.plane.unsent() + counted

    @property
    def patience(self) -> float:
        """Seconds until control servers have answered which relays have our clients' tracks."""
        return 0.0 if self._drain is None else max(0.0, self._answered_at - self.server.now)

    def _tell_drain(self, seconds: float) -> None:
        self._unsent_before = self.relay.plane.counters().unsent_streams
        # Control servers answer which relays have the tracks of our clients.
        trips = [row.srtt_us for row in self.relay.tables.peers() if row.relay_type == "control"]
        self._answered_at = 0.0
        if trips:
            wait = min(_ANSWER + max(trips) / 1e6, _LONGEST_ANSWER, seconds / 2)
            self._answered_at = self.server.now + wait
        self.relay.drain(self.server.now, seconds, "the relay stops", self._alternates())

    def _alternates(self) -> tuple[str, ...]:
        """Return the contacts of the nearest Edge that has room; empty: there is none."""
        rows = [
            row
            for row in self.relay.tables.nodes()
            if row.node != self.node_id
            and row.relay_type == "edge"
            and row.next_hop is not None
            and row.load_class not in ("overloaded", "draining")
            and row.contacts
        ]
        nearest = min(rows, key=lambda row: (row.hops, row.cost_us, row.node), default=None)
        return () if nearest is None else nearest.contacts

    # Operator commands

    def _policy_set(self, policy: RulePolicy | None) -> None:
        self.relay.set_policy(self.server.now, policy or OPEN_POLICY)

    def _peers_set(self, seconds: float) -> None:
        self.relay.set_contacts(self.server.now, self._peers, seconds=seconds)

    # Tables

    def peers(self) -> Sequence[PeerRow]:
        """Return all connections to other relays."""
        return self.relay.tables.peers()

    def contacts(self) -> Sequence[DialRow]:
        """Return where connections are dialled."""
        return self.relay.tables.contacts()

    def nodes(self) -> Sequence[NodeRow]:
        """Return the NIB."""
        return LazyRows(self.relay.tables.sizes().nodes, self.relay.tables.nodes)

    def announces(self) -> Sequence[AnnounceRow]:
        """Return all announces."""
        return LazyRows(self.relay.announces.size, self.relay.tables.announce_rows)

    def subscribes(self, key: int | None = None) -> Sequence[SubscribeRow]:
        """Return all subscribes, or those of one track."""
        if key is not None:
            return self.relay.tables.subscribe_rows_of(key)
        return LazyRows(self.relay.subscribes.size, self.relay.tables.subscribe_rows)

    def sets(self) -> Sequence[SetRow]:
        """Return all subscriber node sets."""
        return self.relay.tables.sets()

    def fib(self) -> Sequence[FibRow]:
        """Return the FIB."""
        return self.relay.tables.fib()

    def _figures(self) -> tuple[TableSizes, PeerPlaneCounters, int]:
        return (
            self.relay.tables.sizes(),
            self.relay.plane.counters(),
            self.relay.subscriptions.counters().collisions,
        )

    # For records of traffic

    def count_traffic(self, samples: Samples | None) -> None:
        """Count data between relays from now on, and time what ``samples`` chooses."""
        self.relay.plane.count_traffic()
        if samples is not None:
            self.relay.plane.time_objects(samples)

    def take_traffic(self) -> tuple[list[Arrival], list[Departure]]:
        """Return what came and what was sent since the last call."""
        return self.relay.plane.take_traffic()

    def foreign_node_of(self, session: int) -> str | None:
        """Return the Stub or C++ relay of a session of the Edge; None: neither."""
        node = None if self._edge is None else self._edge.node_of(session)
        return None if node is None else str(node)

    def forget_nodes(self) -> None:
        """Forget the nodes of sessions that are over."""
        super().forget_nodes()
        if self._edge is not None:
            self._edge.forget_nodes()


class Redirects:
    """Where each client should go when the relay drains, from the tables of one moment."""

    def __init__(
        self,
        network: NetworkRelay,
        relay: EdgeRelay,
        hasher: KeyedHasher,
        *,
        own_url: str,
        loopback: bool,
    ) -> None:
        self._relay = relay
        self._region = network.info.node.region
        self._places = places(
            (
                (node, _round_trip(row))
                for row in network.tables.nodes()
                if row.node != network.node_id and (node := network.node(row.node)) is not None
            ),
            own_url=own_url,
            loopback=loopback,
        )
        keys: dict[FullTrackName, ClientTrack] = {}
        self._tracks: dict[int, set[int]] = {}
        for row in relay.subscriptions():
            wanted = keys.get(row.track)
            if wanted is None:
                wanted = keys[row.track] = ClientTrack(
                    network.key(row.track), hashed_subscribe_of(hasher, row.track)
                )
            self._tracks.setdefault(row.session, set()).add(wanted.key)
        self._holders = holders(keys.values(), network.subscribes.live(), network.announces.live())
        self._clients = {row.session: row.info for row in relay.sessions()}

    def place(self, session: int) -> str:
        """Return the address for a client; empty if it has to find one itself."""
        keys = sorted(self._tracks.get(session, ()))
        found = choose(keys, self._places, self._holders, region=self._region, session=session)
        client = self._client(session)
        if found is None or client is None:
            return ""
        return client_address(found.url, webtransport=client.webtransport, path=client.path)

    def _client(self, session: int) -> SessionInfo | None:
        """Return a client, also one that came after the drain began."""
        if session not in self._clients:
            self._clients |= {row.session: row.info for row in self._relay.sessions()}
        return self._clients.get(session)


def _round_trip(row: NodeRow) -> int | None:
    """Return the round trip to a relay: as measured, or the cost of the best path."""
    if row.rtt_us is not None:
        return row.rtt_us
    return None if row.next_hop is None else row.cost_us


class NetworkEdge(JoinedEdge):
    """Joins an Edge to the network, and makes foreign peers its clients.

    ::

        NetworkRelay --- NetworkBridge --- session 0 ---.
        peer port   -+-- StubParent ------ session -1 --+-- EdgeRelay --- clients
                     '-- CppPeer --------- session -2 --'

    A Stub or a C++ relay is a client of the Edge, not a member of the network (laps-2, 4.5). All
    C++ relays share one directory of names.
    """

    def __init__(
        self,
        server: EdgeServer,
        relay: EdgeRelay,
        plane: ForwardingPlane,
        network: NetworkRelay,
        hasher: KeyedHasher,
        *,
        epoch: int,
        stub_limits: StubLimits,
        cpp_limits: NetworkLimits | None,
        peer_token: AuthToken,
    ) -> None:
        """Attach the Edge to ``network`` as its upstream.

        ``cpp_limits`` are for C++ relays; None refuses them. ``peer_token`` tells the authorizer
        that a session is that of a foreign peer.
        """
        self._plane = plane
        self._network = network
        self._hasher = hasher
        self._epoch = epoch
        self._stub_limits = stub_limits
        self._numbers = count(-1, -1)
        self._nodes: dict[int, NodeId] = {}
        """Foreign peers by their sessions, until their traffic was recorded."""
        token = Token.use_value(peer_token.type, peer_token.value)
        self._setup = SetupOptions(authorization_tokens=(token,))
        self._cpp: tuple[Directory, CppLimits] | None = None
        if cpp_limits is not None:
            limits = CppLimits(
                cpp_limits.max_nodes, cpp_limits.max_announces, cpp_limits.max_subscribes
            )
            self._cpp = Directory(UPSTREAM_SESSION), limits
        bridge = NetworkBridge(
            relay,
            plane,
            network,
            hasher,
            session=UPSTREAM_SESSION,
            clock=lambda: server.now,
            directory=None if self._cpp is None else self._cpp[0],
        )
        super().__init__(server, relay, bridge)
        network.attach(bridge, bridge, bridge, bridge)
        relay.set_policy(network.against)

    # Foreign peers

    def foreign_peer(
        self, now: float, link: Link, up: PeerUp, wire: ForeignPeerWire
    ) -> ForeignPeer | None:
        """Return the client that stands for a Stub or a C++ relay; None for a member."""
        node = up.node.node
        peer: StubParent | CppPeer
        if self._cpp is not None and up.alpn == CPP_16.alpn:
            number = self._number(node.node_id)
            peer = self._cpp_peer(number, link, wire, *self._cpp)
        elif node.relay_type is RelayType.STUB:
            number = self._number(node.node_id)
            peer = self._stub(number, link, wire)
        else:
            return None
        self._clients[number] = peer
        peer.open(now)
        return peer

    def _number(self, node: NodeId) -> int:
        number = next(self._numbers)
        self._nodes[number] = node
        return number

    def _stub(self, number: int, link: Link, wire: ForeignPeerWire) -> StubParent:
        return StubParent(
            self.relay,
            self._plane,
            self._hasher,
            session=number,
            node=self._network.node_id,
            epoch=self._epoch,
            wire=wire,
            egress=link.egress,
            contexts=fresh_context,
            clock=lambda: self.server.now,
            setup=self._setup,
            limits=self._stub_limits,
        )

    def _cpp_peer(
        self,
        number: int,
        link: Link,
        wire: ForeignPeerWire,
        directory: Directory,
        limits: CppLimits,
    ) -> CppPeer:
        return CppPeer(
            self.relay,
            self._plane,
            directory,
            session=number,
            node=self._own_cpp_node,
            ours=self._is_member,
            wire=wire,
            egress=link.egress,
            clock=lambda: self.server.now,
            setup=self._setup,
            limits=limits,
        )

    def _own_cpp_node(self) -> cpp.NodeInfo:
        return to_cpp_node(self._network.info)

    def _is_member(self, node: NodeId) -> bool:
        return self._network.node(node) is not None

    # Readings

    @property
    def serves_stubs(self) -> bool:
        """Whether data goes from or to a Stub."""
        # A C++ relay cannot be told that this one drains, so a drain does not wait for it.
        stubs = {number for number, each in self._clients.items() if isinstance(each, StubParent)}
        return bool(stubs) and (
            any(row.session in stubs for row in self.relay.subscriptions())
            or any(
                row.subscribers and not stubs.isdisjoint(row.publishers)
                for row in self.relay.tracks()
            )
        )

    def node_of(self, session: int) -> NodeId | None:
        """Return the foreign peer of a session; None if the session is not one's."""
        return self._nodes.get(session)

    def forget_nodes(self) -> None:
        """Forget the foreign peers of sessions that are over."""
        self._nodes = {
            number: node for number, node in self._nodes.items() if number in self._clients
        }
