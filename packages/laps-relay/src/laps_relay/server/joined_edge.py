"""The Edge's side of the network: what joins its clients, and guests that are its clients.

::

    clients --- EdgeRelay ---+--- session 0    the network (a bridge)
                             +--- session -1   a Stub, a C++ relay
                             '--- ...

Each of them is a MoQT session in memory: it is pumped until all is quiet, and has timers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count
from typing import Final, Protocol

from laps_relay.config.network import NetworkLimits
from laps_relay.cpp.cpp_peer import CppPeer
from laps_relay.network.bridge import NetworkBridge
from laps_relay.network.relay import NetworkRelay
from laps_relay.server.cpp_guests import CppGuests
from laps_relay.server.membership import fresh_context
from laps_relay.stubs.stub_parent import StubParent
from laps_sdk.edge.events import RelayEvent
from laps_sdk.edge.relay import EdgeRelay
from laps_sdk.edge.server import EdgeServer
from laps_sdk.forwarding.interfaces import ForwardingPlane
from laps_sdk.peering.events import PeerUp
from laps_sdk.peering.foreign_peers import ForeignPeerWire
from laps_sdk.peering.links import ForeignPeer, Link
from laps_sdk.upstream.stub_link import StubLimits
from laps_wire.hashing import KeyedHasher
from laps_wire.moqt.session.tokens import AuthToken
from laps_wire.moqt.setup import SetupOptions
from laps_wire.moqt.structures import Token
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import RelayType
from laps_wire.peering.session import CPP_16

__all__ = ["JoinedEdge"]

BRIDGE_SESSION: Final = 0
"""The number of the network's session at its own Edge; clients begin with 1, Stubs with -1."""


class _Joined(Protocol):
    """A client of the Edge that lives in this process: the network, a Stub, a C++ relay."""

    def pump(self, now: float) -> bool:
        """Carry control messages until all is quiet; whether there were any."""

    def poll_timeout(self) -> float | None:
        """When :meth:`handle_timeout` wants to be called."""

    def handle_timeout(self, now: float) -> None:
        """Do what is due."""


class JoinedEdge:
    """What there is where clients are."""

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
        guest_token: AuthToken,
    ) -> None:
        """``cpp_limits``: for C++ relays; None: they are no guests.

        ``guest_token`` tells the authorizer that a session is that of a guest.
        """
        self.server = server
        self.relay = relay
        self._plane = plane
        self._network = network
        self._hasher = hasher
        self._epoch = epoch
        self._stub_limits = stub_limits
        self._numbers = count(-1, -1)
        self._nodes: dict[int, NodeId] = {}
        """Stubs and C++ relays by their sessions, until what they carried was recorded."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: float | None = None
        token = Token.use_value(guest_token.type, guest_token.value)
        self._setup = SetupOptions(authorization_tokens=(token,))
        self._cpp: CppGuests | None = None
        if cpp_limits is not None:
            self._cpp = CppGuests(network, cpp_limits, bridge=BRIDGE_SESSION, setup=self._setup)
        self._up = self._make_up()
        """What the Edge asks for tracks that its own clients do not have."""
        self._joined: dict[int, _Joined] = {BRIDGE_SESSION: self._up}
        relay.set_policy(network.against)

    def _make_up(self) -> NetworkBridge:
        server = self.server
        bridge = NetworkBridge(
            self.relay,
            self._plane,
            self._network,
            self._hasher,
            session=BRIDGE_SESSION,
            clock=lambda: server.now,
            directory=None if self._cpp is None else self._cpp.directory,
        )
        self._network.attach(bridge, bridge, bridge)
        return bridge

    # Guests

    def guest(
        self, now: float, link: Link, up: PeerUp, wire: ForeignPeerWire
    ) -> ForeignPeer | None:
        """Stubs and C++ relays are clients of the Edge, not of the network."""
        node = up.node.node
        if self._cpp is not None and up.alpn == CPP_16.alpn:
            number = self._number(node.node_id)
            guest = self._joined[number] = self._cpp.make(
                now, self.server, self.relay, self._plane, session=number, link=link, wire=wire
            )
            return guest
        if node.relay_type is not RelayType.STUB:
            return None
        number = self._number(node.node_id)
        stub = StubParent(
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
        self._joined[number] = stub
        stub.open(now)
        return stub

    def _number(self, node: NodeId) -> int:
        number = next(self._numbers)
        self._nodes[number] = node
        return number

    # Life

    def open(self) -> None:
        """Begin; the Edge has its clock."""
        self._up.open(self.server.now)

    def leave(self) -> None:
        """The network, and all that came over it, is no client any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        joined, self._joined = self._joined, {}
        for number in joined:
            self.relay.remove_session(self.server.now, number)
        self.server.settle()

    # Turns

    def turn(self, now: float, events: Sequence[RelayEvent]) -> bool:
        """What happened at the Edge goes into the network; whether anything came of it."""
        if events:
            self._up.observe(now, events)
        moved = self.pump(now)
        if moved:
            self.server.settle()
        return moved

    def pump(self, now: float) -> bool:
        """Carry control messages until all is quiet; whether there were any."""
        moved = False
        for number, client in list(self._joined.items()):
            moved |= client.pump(now)
            if isinstance(client, (StubParent, CppPeer)) and client.client.closed:
                del self._joined[number]
        return moved

    def arm(self) -> None:
        """See to it that timers are looked at in time."""
        times = [client.poll_timeout() for client in self._joined.values()]
        due = min((time for time in times if time is not None), default=None)
        if due == self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_at = due
        if due is not None:
            self._timer = asyncio.get_running_loop().call_at(due, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._timer_at = None
        for client in list(self._joined.values()):
            client.handle_timeout(self.server.now)
        self.server.settle()

    # Looking

    @property
    def collisions(self) -> int:
        """Names that were refused because another one has their hash."""
        return self._up.client.collisions

    def serves_stubs(self) -> bool:
        """Whether data goes from or to a Stub."""
        # A C++ relay is not told that we go, so nothing can be waited for.
        stubs = {number for number, each in self._joined.items() if isinstance(each, StubParent)}
        return bool(stubs) and (
            any(row.session in stubs for row in self.relay.subscriptions())
            or any(
                row.subscribers and not stubs.isdisjoint(row.publishers)
                for row in self.relay.tracks()
            )
        )

    def node_of(self, session: int) -> NodeId | None:
        """The guest that a session stands for; None: it is no guest's."""
        return self._nodes.get(session)

    def forget_nodes(self) -> None:
        """Forget sessions that are over: what they carried was recorded."""
        self._nodes = {
            number: node for number, node in self._nodes.items() if number in self._joined
        }
