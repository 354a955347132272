"""The Edge of a relay in a network: its bridge to the network, and foreign peers as its clients.

::

    NetworkRelay --- NetworkBridge --- session 0 ---.
    peer port   -+-- StubParent ------ session -1 --+-- EdgeRelay --- clients
                 '-- CppPeer --------- session -2 --'

A Stub or a C++ relay is a client of the Edge, not a member of the network (laps-2, 4.5). All C++
relays share one directory of names.
"""

from __future__ import annotations

from itertools import count

from laps_relay.config.network import NetworkLimits
from laps_relay.cpp.cpp_link import CppLimits
from laps_relay.cpp.cpp_peer import CppPeer
from laps_relay.cpp.directory import Directory
from laps_relay.network.bridge import NetworkBridge
from laps_relay.network.relay import NetworkRelay
from laps_relay.server.identity import fresh_context
from laps_relay.server.joined_edge import UPSTREAM_SESSION, JoinedEdge
from laps_relay.stubs.stub_parent import StubParent
from laps_sdk.edge.relay import EdgeRelay
from laps_sdk.edge.server import EdgeServer
from laps_sdk.forwarding.interfaces import ForwardingPlane
from laps_sdk.peering.events import PeerUp
from laps_sdk.peering.links import ForeignPeer, ForeignPeerWire, Link
from laps_sdk.upstream.stub_link import StubLimits
from laps_wire.hashing import KeyedHasher
from laps_wire.moqt.session import AuthToken
from laps_wire.moqt.setup import SetupOptions
from laps_wire.moqt.structures import Token
from laps_wire.nodeid import NodeId
from laps_wire.peering import cpp
from laps_wire.peering.laps2 import RelayType
from laps_wire.peering.session import CPP_16, to_cpp_node

__all__ = ["NetworkEdge"]


class NetworkEdge(JoinedEdge):
    """Joins an Edge to the network, and makes foreign peers its clients."""

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
        network.attach(bridge, bridge, bridge)
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
