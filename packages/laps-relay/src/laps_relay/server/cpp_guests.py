"""C++ relays at an Edge: each is a guest of its own, and all hear of the same names."""

from __future__ import annotations

from laps_relay.config.network import NetworkLimits
from laps_relay.cpp.cpp_link import CppLimits
from laps_relay.cpp.cpp_peer import CppPeer
from laps_relay.cpp.directory import Directory
from laps_relay.network.relay import NetworkRelay
from laps_sdk.edge.relay import EdgeRelay
from laps_sdk.edge.server import EdgeServer
from laps_sdk.forwarding.interfaces import ForwardingPlane
from laps_sdk.peering.foreign_peers import ForeignPeerWire
from laps_sdk.peering.links import Link
from laps_wire.moqt.setup import SetupOptions
from laps_wire.nodeid import NodeId
from laps_wire.peering import cpp
from laps_wire.peering.session.cpp import to_cpp_node

__all__ = ["CppGuests"]


class CppGuests:
    """Makes them."""

    def __init__(
        self, network: NetworkRelay, limits: NetworkLimits, *, bridge: int, setup: SetupOptions
    ) -> None:
        """``bridge`` is the number of the network's own session at the Edge.

        ``setup`` tells the authorizer who they are.
        """
        self._setup = setup
        self.directory = Directory(bridge)
        self._network = network
        self._limits = CppLimits(limits.max_nodes, limits.max_announces, limits.max_subscribes)

    def make(
        self,
        now: float,
        server: EdgeServer,
        relay: EdgeRelay,
        plane: ForwardingPlane,
        *,
        session: int,
        link: Link,
        wire: ForeignPeerWire,
    ) -> CppPeer:
        """A guest for a session that was just established."""
        peer = CppPeer(
            relay,
            plane,
            self.directory,
            session=session,
            node=self._own,
            ours=self._is_ours,
            wire=wire,
            egress=link.egress,
            clock=lambda: server.now,
            setup=self._setup,
            limits=self._limits,
        )
        peer.open(now)
        return peer

    def _own(self) -> cpp.NodeInfo:
        return to_cpp_node(self._network.info)

    def _is_ours(self, node: NodeId) -> bool:
        return self._network.node(node) is not None
