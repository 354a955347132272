"""The part of a relay that belongs to the network: its core, its peer port, and the bridge.

::

    EdgeServer --turn--> joined:     events --> bridge --> NetworkRelay --> PeerServer
    PeerServer --turn--> peer_turn:  bridge --> EdgeRelay --> EdgeServer

Each turn goes round until neither side has anything to say. A Via and a control server have no
clients: then there is no bridge, and the peer port's turns are all.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from socket import socket
from typing import Final, Protocol

from laps_relay.admin.network_api import PlanState, PolicyState
from laps_relay.admin.paging import LazyRows
from laps_relay.app.cpp_guests import CppGuests
from laps_relay.app.membership import name_hasher, node_id_of, policy_of
from laps_relay.app.plan_memory import PlanMemory
from laps_relay.app.plans import PlanKeeper, PlanKeys, read_plan_keys
from laps_relay.app.redirects import Redirects
from laps_relay.certificates import Certificate
from laps_relay.config import RelayConfig, mapping
from laps_relay.core.bridge.cpp_peer import CppPeer
from laps_relay.core.bridge.network import NetworkBridge
from laps_relay.core.bridge.stub_link import StubLimits
from laps_relay.core.bridge.stub_parent import StubParent
from laps_relay.core.bridge.stub_uplink import StubUplink
from laps_relay.core.control.events import RelayEvent
from laps_relay.core.control.relay import EdgeRelay
from laps_relay.core.interfaces import ForwardingPlane
from laps_relay.core.network.contacts import show_contact
from laps_relay.core.network.events import NetworkEvent, PeerAdded
from laps_relay.core.network.interfaces import LOCAL, Identity, PeerPlaneCounters, Policy
from laps_relay.core.network.links import Guest, Link
from laps_relay.core.network.load import LoadMeter
from laps_relay.core.network.parts import GuestWire
from laps_relay.core.network.peers import PeerUp
from laps_relay.core.network.redirect import CLIENT_LABEL, is_loopback_url
from laps_relay.core.network.relay import NetworkRelay
from laps_relay.core.network.views import (
    AnnounceRow,
    FibRow,
    NodeRow,
    PeerRow,
    SetRow,
    SubscribeRow,
)
from laps_relay.core.policy import RulePolicy
from laps_relay.io.edge_server import EdgeServer
from laps_relay.io.peer_server import PEER_ALPNS, PeerServer, PeerServerConfig
from laps_relay.observe.network_sampler import NetworkSample
from laps_relay.peer_auth import PeerKeyRing
from laps_sdk.transport.base import ConnectionStats
from laps_sdk.transport.engine import EngineOptions
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import RelayType
from laps_wire.peering.session import CPP_16, LAPS2
from laps_wire.telemetry import PolicyApplied

__all__ = ["NetworkPart"]

BRIDGE_SESSION: Final = 0
"""The number of the network's session at its own Edge; clients begin with 1, Stubs with -1."""

_TYPES: Final = {
    "edge": RelayType.EDGE,
    "via": RelayType.VIA,
    "stub": RelayType.STUB,
    "control": RelayType.CONTROL,
}


class _Joined(Protocol):
    """A client of the Edge that lives in this process: the network, a Stub, a Stub's parents."""

    def pump(self, now: float) -> bool:
        """Carry control messages until all is quiet; whether there were any."""

    def poll_timeout(self) -> float | None:
        """When :meth:`handle_timeout` wants to be called."""

    def handle_timeout(self, now: float) -> None:
        """Do what is due."""


@dataclass(frozen=True, slots=True)
class _Edge:
    """What there is where clients are."""

    server: EdgeServer
    relay: EdgeRelay
    plane: ForwardingPlane
    up: NetworkBridge | StubUplink
    """What the Edge asks for tracks that its own clients do not have."""
    joined: dict[int, _Joined]
    """By the session's number at the Edge."""


class NetworkPart:
    """Implements :class:`~laps_relay.admin.network_api.NetworkView`."""

    def __init__(
        self,
        config: RelayConfig,
        keys: PeerKeyRing,
        certificate: Certificate,
        *,
        version: str,
        observe: Callable[[float, Sequence[NetworkEvent]], None],
        applied: Callable[[PolicyApplied], None] = lambda _record: None,
        hidden: bool = False,
    ) -> None:
        """``hidden``: relays elsewhere cannot dial it, so it tells no contact of its own.

        ``applied`` hears what becomes of plans.
        """
        network = config.network
        self._hidden = hidden
        self._client_url = network.client_url
        self._on_loopback = network.is_loopback(config.listen.host)
        self.hasher = name_hasher(keys)
        self._policy_file = network.policy
        self._contacts = tuple(network.contacts)
        self._peers = mapping.peer_contacts(config)
        self._parallel = network.parallel
        self._observe = observe
        self._edge: _Edge | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: float | None = None
        self._epoch = int(time.time() * 1000)
        self._numbers = count(-1, -1)
        self._load = LoadMeter()
        self._drained = False
        self.relay_type = _TYPES[network.type]
        settings = mapping.network_settings(config, self.relay_type)
        self._stub_limits = StubLimits(settings.max_announces, settings.max_subscribes)
        node_id = self.node_id = node_id_of(config, keys)
        self.relay = NetworkRelay(
            Identity(
                node_id=node_id,
                epoch=self._epoch,
                contacts=self._contacts,
                region=network.region,
                longitude=network.longitude,
                latitude=network.latitude,
                labels=tuple(_label(text) for text in network.labels),
                fingerprint=keys.fingerprint,
            ),
            settings,
            hasher=self.hasher,
            authenticator=keys,
            challenge=lambda: secrets.token_bytes(32),
            contexts=_context,
            random=random.SystemRandom(),
            policy=policy_of(network.policy, self.hasher, node_id),
            implementation=f"laps-relay {version}",
        )
        self.server = PeerServer(
            PeerServerConfig(
                host=network.host or config.listen.host,
                port=network.port,
                backend=config.listen.transport,
                alpns=PEER_ALPNS if network.cpp_peers else (LAPS2.alpn,),
                engine=EngineOptions(
                    # Who is there is proved in the session, over the key of this certificate.
                    tls=replace(certificate.tls, verify=False),
                    datagram_size=config.listen.datagram_size,
                ),
                admission=mapping.admission_limits(config),
            ),
            self.relay,
        )
        self.server.on_turn = self._peer_turn
        self._nodes: dict[int, NodeId] = {}
        """Whom peers' sessions were with, until what they carried was recorded."""
        self._guest_nodes: dict[int, NodeId] = {}
        """The same of Stubs and C++ relays, by their session at the Edge."""
        self._plans = PlanKeeper(
            self.relay,
            applied,
            read_plan_keys(config.plan.keys),
            PlanMemory.of(config.state_dir, node_id),
        )
        self._plan_file = config.plan.file
        self._plan_timer: asyncio.TimerHandle | None = None
        self._cpp: CppGuests | None = None
        if network.meets_cpp:
            self._cpp = CppGuests(self.relay, network.limits, bridge=BRIDGE_SESSION)

    # Life

    def join(self, server: EdgeServer, relay: EdgeRelay, plane: ForwardingPlane) -> None:
        """Let the clients of an Edge have a part in the network."""
        up: NetworkBridge | StubUplink
        if self.relay_type is RelayType.STUB:
            up = StubUplink(
                relay,
                plane,
                self.hasher,
                session=BRIDGE_SESSION,
                epoch=self._epoch,
                contexts=_context,
                clock=lambda: server.now,
            )
        else:
            up = NetworkBridge(
                relay,
                plane,
                self.relay,
                self.hasher,
                session=BRIDGE_SESSION,
                clock=lambda: server.now,
                directory=None if self._cpp is None else self._cpp.directory,
            )
            self.relay.attach(up, up)
        relay.set_policy(self.relay.against)
        self._edge = _Edge(server, relay, plane, up, {BRIDGE_SESSION: up})
        self.relay.set_guests(self._guest)

    def _guest(self, now: float, link: Link, up: PeerUp, wire: GuestWire) -> Guest | None:
        """Stubs, a Stub's parents and C++ relays are clients of the Edge, not of the network."""
        edge = self._edge
        if edge is None:
            return None
        if isinstance(edge.up, StubUplink):
            node = up.node.node.node_id
            return edge.up.parent(now, wire, link.egress, node=node, srtt_us=link.srtt_us)
        if self._cpp is not None and up.alpn == CPP_16.alpn:
            number = next(self._numbers)
            self._guest_nodes[number] = up.node.node.node_id
            guest = edge.joined[number] = self._cpp.make(
                now, edge.server, edge.relay, edge.plane, session=number, link=link, wire=wire
            )
            return guest
        if up.node.node.relay_type is not RelayType.STUB:
            return None
        number = next(self._numbers)
        self._guest_nodes[number] = up.node.node.node_id
        stub = StubParent(
            edge.relay,
            edge.plane,
            self.hasher,
            session=number,
            node=self.relay.node_id,
            epoch=self._epoch,
            wire=wire,
            egress=link.egress,
            contexts=_context,
            clock=lambda: edge.server.now,
            limits=self._stub_limits,
        )
        edge.joined[number] = stub
        stub.open(now)
        return stub

    async def start(self, sock: socket | None = None) -> None:
        """Open the peer port and begin to dial. Raises ``OSError`` if it cannot be had.

        The Edge has its clock by now, and takes no clients yet.
        """
        if self._edge is not None:
            self._edge.up.open(self._edge.server.now)
        await self.server.start(sock)
        now = self.server.now
        if not self._contacts and not self._is_everywhere and not self._hidden:
            self.relay.set_own_contacts(now, (self.contact,))
        self.relay.set_contacts(now, self._peers)
        self.load_plan(self._plan_file)
        self.server.settle()

    @property
    def contact(self) -> str:
        """Where peers connect."""
        return show_contact(self.server.address)

    @property
    def untold(self) -> bool:
        """Whether others cannot be told where to dial it, though they could: nobody has said."""
        return not self._contacts and self._is_everywhere and not self._hidden

    @property
    def _is_everywhere(self) -> bool:
        return self.server.address[0] in ("0.0.0.0", "::")  # noqa: S104 - compared, not bound

    def takes_clients(self, url: str) -> None:
        """The Edge listens there: other relays may send clients to it."""
        if self.relay_type is RelayType.EDGE:
            self._client_url = self._client_url or url
            self.relay.set_own_label(self.server.now, CLIENT_LABEL, self._client_url)
            self.server.settle()

    async def stop(self) -> None:
        """Leave the network, and the Edge."""
        for timer in (self._timer, self._plan_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._plan_timer = None
        await self.server.stop()
        edge, self._edge = self._edge, None
        if edge is not None:
            for number in edge.joined:
                edge.relay.remove_session(edge.server.now, number)
            edge.server.settle()

    def redirects(self) -> Redirects | None:
        """Where clients should go, as of now; None if there are none."""
        edge = self._edge
        if edge is None:
            return None
        return Redirects(
            self.relay,
            edge.relay,
            self.hasher,
            own_url=self._client_url,
            loopback=self._on_loopback and is_loopback_url(self._client_url),
        )

    @property
    def in_transit(self) -> bool:
        """Whether data goes through us to other relays, or from and to a Stub of ours."""
        return self._serves_stubs() or any(
            row.session != LOCAL and row.egress for row in self.relay.fib()
        )

    def _serves_stubs(self) -> bool:
        edge = self._edge
        if edge is None:
            return False
        # A C++ relay is not told that we go, so nothing can be waited for.
        stubs = {number for number, each in edge.joined.items() if isinstance(each, StubParent)}
        return bool(stubs) and (
            any(row.session in stubs for row in edge.relay.subscriptions())
            or any(
                row.subscribers and not stubs.isdisjoint(row.publishers)
                for row in edge.relay.tracks()
            )
        )

    def drain(self, seconds: float) -> None:
        """Tell peers that we go away, and Stubs where to go; said once."""
        if self._drained:
            return
        self._drained = True
        self.relay.drain(self.server.now, seconds, "the relay stops", self._alternates())
        self.server.settle()

    def _alternates(self) -> tuple[str, ...]:
        """How the nearest Edge that has room is dialled; nothing if there is none."""
        rows = [
            row
            for row in self.relay.nodes()
            if row.node != self.node_id
            and row.relay_type == "edge"
            and row.next_hop is not None
            and row.load_class not in ("overloaded", "draining")
            and row.contacts
        ]
        nearest = min(rows, key=lambda row: (row.hops, row.cost_us, row.node), default=None)
        return () if nearest is None else nearest.contacts

    def read_policy(self, file: Path | None) -> Policy:
        """The policy of a file, not in force yet."""
        return policy_of(file, self.hasher, self.relay.node_id)

    def set_policy(self, policy: Policy, file: Path | None) -> None:
        """Another policy, at once."""
        self._policy_file = file
        self.relay.set_policy(self.server.now, policy)
        if self._edge is not None:
            # Before the network takes away what it gives: so clients hear the reason.
            self._edge.relay.reauthorize(self._edge.server.now)
            self._edge.server.settle()
        self.server.settle()

    def set_peers(self, config: RelayConfig) -> None:
        """Other relays to stay connected with; who is not among them any more is left."""
        wanted = [each for each in mapping.peer_contacts(config) if not each.alpn]
        # How many connections there are, and what speaks with C++ relays, is said at the start.
        self._peers = [replace(each, parallel=self._parallel) for each in wanted] + [
            each for each in self._peers if each.alpn
        ]
        seconds = config.listen.drain_timeout
        self.relay.set_contacts(self.server.now, self._peers, seconds=seconds)
        self.server.settle()

    # Plans

    def trust_plans(self, keys: PlanKeys) -> None:
        """Other keys whose plans are followed."""
        self._plans.trust(keys)

    def load_plan(self, file: Path | None) -> None:
        """Follow the plan of a file; None: of none."""
        self._plans.load(self.server.now, _wall_us(), file)
        self._planned()

    def offer_plan(self, text: bytes) -> str | None:
        """Follow this plan, or say why not."""
        reason = self._plans.offer(self.server.now, _wall_us(), text, "admin")
        self._planned()
        return reason

    def drop_plan(self) -> bool:
        """Follow no plan; whether there was one."""
        dropped = self._plans.drop(self.server.now, "an operator dropped it")
        self._planned()
        return dropped

    def plan(self) -> PlanState:
        """The plan that is followed."""
        return self._plans.state()

    def _planned(self) -> None:
        """See to the plan, and come back when that is due again."""
        if self._plan_timer is not None:
            self._plan_timer.cancel()
            self._plan_timer = None
        due = self._plans.tick(self.server.now, _wall_us())
        if due is not None:
            self._plan_timer = asyncio.get_running_loop().call_later(due, self._planned)
        self.server.settle()

    # Turns

    def joined(self, now: float, events: Sequence[RelayEvent]) -> None:
        """A turn of the Edge: what happened there goes into the network."""
        edge = self._edge
        if edge is None:
            return
        if events:
            edge.up.observe(now, events)
        moved = self._pump(edge, now)
        if moved:
            edge.server.settle()
        if moved or events or not self.server.settling:
            self.server.settle()
        self._arm(edge)

    def _peer_turn(self, now: float) -> None:
        """A turn of the peer port: what came goes to the Edge, and is observed."""
        if self._load.is_due(now):
            self.relay.set_load(now, self._load.sample(now, time.process_time(), self._fill()))
        events = self.relay.poll_events()
        if events:
            for event in events:
                if isinstance(event, PeerAdded):
                    self._nodes[event.session] = event.node
            self._observe(now, events)
        edge = self._edge
        if edge is not None and (self._pump(edge, now) or not edge.server.settling):
            edge.server.settle()

    def _fill(self) -> float:
        """How much of the room for what waits to be sent to peers is taken."""
        ports = self.server.ports.values()
        queued = sum(port.connection.stats().queued_bytes for port in ports)
        return queued / (self.server.config.egress.max_bytes * max(1, len(ports)))

    @staticmethod
    def _pump(edge: _Edge, now: float) -> bool:
        moved = False
        for number, client in list(edge.joined.items()):
            moved |= client.pump(now)
            if isinstance(client, (StubParent, CppPeer)) and client.client.closed:
                del edge.joined[number]
        return moved

    def _arm(self, edge: _Edge) -> None:
        times = [client.poll_timeout() for client in edge.joined.values()]
        due = min((time for time in times if time is not None), default=None)
        if due == self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_at = due
        if due is not None:
            self._timer = asyncio.get_running_loop().call_at(due, self._tick, edge)

    def _tick(self, edge: _Edge) -> None:
        self._timer = None
        self._timer_at = None
        for client in list(edge.joined.values()):
            client.handle_timeout(self.server.now)
        edge.server.settle()

    # Views

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
        return self.relay.peers()

    def peer_connection(self, session: int) -> ConnectionStats | None:
        """The figures of a peer's connection."""
        port = self.server.ports.get(session)
        return None if port is None else port.connection.stats()

    def nodes(self) -> Sequence[NodeRow]:
        """The NIB."""
        return LazyRows(self.relay.sizes().nodes, self.relay.nodes)

    def announces(self) -> Sequence[AnnounceRow]:
        """All announces."""
        return LazyRows(self.relay.announces.size, self.relay.announce_rows)

    def subscribes(self, key: int | None = None) -> Sequence[SubscribeRow]:
        """All subscribes, or those of one track."""
        if key is not None:
            return self.relay.subscribe_rows_of(key)
        return LazyRows(self.relay.subscribes.size, self.relay.subscribe_rows)

    def sets(self) -> Sequence[SetRow]:
        """All subscriber node sets."""
        return self.relay.sets()

    def fib(self) -> Sequence[FibRow]:
        """The FIB."""
        return self.relay.fib()

    def counters(self) -> PeerPlaneCounters:
        """Of the forwarding plane between relays."""
        return self.relay.counters()

    def sample(self) -> NetworkSample:
        """Figures for the sampler; makes rows of peers only, however large the tables are."""
        peers = self.peers()
        return NetworkSample(
            peers=peers,
            sizes=self.relay.sizes(),
            counters=self.counters(),
            collisions=self.relay.interest_counters().collisions
            + (0 if self._edge is None else self._edge.up.client.collisions),
            connections={
                row.session: stats
                for row in peers
                if (stats := self.peer_connection(row.session)) is not None
            },
        )

    # Who is behind a session, for records

    def node_of(self, session: int) -> str | None:
        """The node that a peer's session is or was with."""
        node = self._nodes.get(session)
        return None if node is None else str(node)

    def guest_of(self, session: int) -> str | None:
        """The Stub, or the Stub's parent, that a session of the Edge stands for; None: neither.

        A Stub has no name in the network, so both have that of nobody: records of both ends of a
        link must agree.
        """
        if session == BRIDGE_SESSION and self.relay_type is RelayType.STUB:
            return str(NodeId(0))
        node = self._guest_nodes.get(session)
        return None if node is None else str(node)

    def forget_nodes(self) -> None:
        """Forget sessions that are over: what they carried was recorded."""
        live = {row.session for row in self.peers()}
        self._nodes = {number: node for number, node in self._nodes.items() if number in live}
        guests = self._guest_nodes
        joined = {} if self._edge is None else self._edge.joined
        self._guest_nodes = {number: node for number, node in guests.items() if number in joined}

    def policy(self) -> PolicyState:
        """The policy that is in force."""
        file = "" if self._policy_file is None else str(self._policy_file)
        policy = self.relay.policy
        if isinstance(policy, RulePolicy):
            rules = policy.rules
            words = [f"region {region.name}" for region in rules.regions]
            words += [f"class {name}" for name in rules.classes]
            words += [f"tracks below {rule.namespace}" for rule in rules.tracks]
            words += [f"{name}: {len(wanted.rules)} rules" for name, wanted in rules.filters()]
        else:
            words = ["everything is allowed"]
        return PolicyState(file=file, rules=words)


def _wall_us() -> int:
    """The time of day, as plans have it."""
    return time.time_ns() // 1000


def _context() -> int:
    """A data context: 32 random bits that are not 0."""
    return secrets.randbelow((1 << 32) - 1) + 1


def _label(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value
