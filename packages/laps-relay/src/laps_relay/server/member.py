"""A relay as a member of a network: what Edges, Vias, control servers and Stubs have in common.

::

    EdgeServer --turn--> joined:      events --> JoinedEdge --> core --> PeerServer
    PeerServer --turn--> _peer_turn:  core --> JoinedEdge --> EdgeServer
                                      core.poll_events --> logs, telemetry

Each turn goes round until neither side has anything to send. A turn of the Edge leaves the network
alone unless there are events, control messages, or a timer that data has set. A Via and a control
server have no clients: then there is no :class:`JoinedEdge`, and all turns are of the peer port.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Final, Protocol

from laps_relay.admin.views import PlanState, PolicyState
from laps_relay.config import RelayConfig, mapping
from laps_relay.network.drain_monitor import DrainMonitor, Standing
from laps_relay.network.events import NetworkEvent
from laps_relay.network.nodes.own_node import LoadMeter
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
from laps_relay.server.certificates import Certificate
from laps_relay.server.identity import KeyKeeper, RelayIdentity, port_key
from laps_relay.server.plans import PlanKeeper, PlanKeys, PlanMemory, PlanTarget, read_plan_keys
from laps_relay.telemetry.network import NetworkSample
from laps_sdk.edge.events import RelayEvent
from laps_sdk.edge.relay import EdgeRelay
from laps_sdk.edge.server import EdgeServer
from laps_sdk.forwarding.samples import Samples
from laps_sdk.peering.dialler import Contact, DialRow, Phase
from laps_sdk.peering.port import PeerRelay
from laps_sdk.peering.reports import PeerAdded
from laps_sdk.peering.server import PEER_ALPNS, PeerServer, PeerServerConfig
from laps_sdk.peering.settings import show_contact
from laps_sdk.quic.base import ConnectionStats
from laps_sdk.quic.engine import EngineOptions
from laps_sdk.upstream.upstream import Upstream
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import Load, RelayType
from laps_wire.peering.session import LAPS2
from laps_wire.telemetry import PolicyApplied

if TYPE_CHECKING:
    from laps_relay.policy.rule_policy import RulePolicy

__all__ = [
    "UPSTREAM_SESSION",
    "EdgeUplink",
    "InMemoryClient",
    "JoinedEdge",
    "MemberHooks",
    "NetworkMember",
    "PeeringCore",
    "peer_server_config",
    "read_policy",
]

UPSTREAM_SESSION: Final = 0
"""The number of the upstream's session; clients count up from 1, foreign peers down from -1."""


class PeeringCore(PeerRelay, Protocol):
    """The state machine of a member: ``NetworkRelay``, or ``StubRelay`` of the SDK."""

    @property
    def node_id(self) -> NodeId:
        """The node id that peers see."""

    @property
    def in_transit(self) -> bool:
        """Whether data of others goes through the relay."""

    @property
    def flight(self) -> float:
        """Seconds for which something may be under way to a peer."""

    def key(self, name: FullTrackName) -> int:
        """Return the full-name hash of a track."""

    def set_contacts(self, now: float, contacts: Iterable[Contact]) -> None:
        """Set the relays to stay connected with."""

    def set_own_contacts(self, now: float, contacts: tuple[str, ...]) -> None:
        """Set how others reach this relay."""

    def set_load(self, now: float, load: Load) -> None:
        """Set how busy the relay is."""

    def forget_key(self, node: NodeId) -> bool:
        """Let another key hold a node id; return whether one held it."""

    def stay(self, now: float) -> None:
        """Take a drain back."""

    def poll_events(self) -> Sequence[NetworkEvent]:
        """Return what happened since the last call."""

    def poll_known_keys(self) -> dict[NodeId, bytes] | None:
        """Return which keys hold node ids if that has changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberHooks:
    """What a member calls when something happens."""

    observe: Callable[[float, Sequence[NetworkEvent]], None]
    """Takes events of the network."""
    applied: Callable[[PolicyApplied], None] = lambda _record: None
    """Takes what became of a plan."""
    unsaved_keys: Callable[[str], None] = lambda _reason: None
    """Takes the reason why keys of other nodes cannot be stored."""


def read_policy(file: Path | None, identity: RelayIdentity) -> RulePolicy | None:
    """Return the policy of a file; None without a file: everything is allowed.

    Raises ``ConfigError`` if the file is wrong. A relay without a policy imports none of this.
    """
    if file is None:
        return None
    from laps_relay.config.policy import load_policy  # noqa: PLC0415 - only with a file
    from laps_relay.policy.rule_policy import RulePolicy  # noqa: PLC0415

    return RulePolicy(load_policy(file), identity.hasher, local=identity.node_id)


class NetworkMember(ABC):
    """A relay's part in a network; implements :class:`~laps_relay.admin.views.NetworkView`."""

    def __init__(
        self,
        config: RelayConfig,
        identity: RelayIdentity,
        certificate: Certificate,
        relay: PeeringCore,
        plans: PlanTarget,
        hooks: MemberHooks,
        *,
        relay_type: RelayType,
        policy: RulePolicy | None,
        hidden: bool,
    ) -> None:
        """Put the peer port around the core.

        ``policy`` is that of ``network.policy``. ``hidden``: relays on other machines cannot dial
        this one, so it advertises no contact of its own.
        """
        network = config.network
        self.relay_type = relay_type
        self.node_id = identity.node_id
        self.epoch_fault = identity.epoch_fault
        self.relay = relay
        self._identity = identity
        self._hooks = hooks
        self._hidden = hidden
        self._contacts = tuple(network.contacts)
        self._peers = mapping.peer_contacts(config)
        self._parallel = network.parallel
        self._edge: JoinedEdge | None = None
        self._load = LoadMeter()
        self._drain: DrainMonitor | None = None
        self._policy = policy
        self._policy_file = network.policy
        self._known_keys = KeyKeeper(identity.known_keys, relay.poll_known_keys, hooks.unsaved_keys)
        reset_key = port_key(config.state_dir, f"peers {config.network.port}")
        self.server = PeerServer(peer_server_config(config, certificate, reset_key), relay)
        self.server.on_turn = self._peer_turn
        self.server.on_sample = self._sample_load
        self._nodes: dict[int, NodeId] = {}
        """Nodes of peers' sessions, until their traffic was recorded."""
        self._plans = PlanKeeper(
            plans,
            hooks.applied,
            read_plan_keys(config.plan.keys),
            PlanMemory.of(config.state_dir, identity.node_id),
        )
        self._plan_file = config.plan.file
        self._plan_timer: asyncio.TimerHandle | None = None

    # Life

    async def start(self, sock: socket | None = None) -> None:
        """Open the peer port and begin to dial. Raises ``OSError`` if the port is taken.

        The Edge has its clock by now, and takes no clients yet.
        """
        if self._edge is not None:
            self._edge.open()
        await self.server.start(sock)
        now = self.server.now
        self._sample_load(now)
        if not self._contacts and not self._is_everywhere and not self._hidden:
            self.relay.set_own_contacts(now, (self.contact,))
        self.relay.set_contacts(now, self._peers)
        self.load_plan(self._plan_file)
        self.server.settle()

    async def stop(self) -> None:
        """Close the peer port, store what must be stored, and leave the Edge."""
        if self._plan_timer is not None:
            self._plan_timer.cancel()
            self._plan_timer = None
        await self.server.stop()
        self._known_keys.write()
        if self._edge is not None:
            self._edge.leave()

    @property
    def contact(self) -> str:
        """Where the peer port listens."""
        return show_contact(self.server.address)

    @property
    def lacks_contact(self) -> bool:
        """Whether others could dial the relay, but no contact of it is known to advertise."""
        return not self._contacts and self._is_everywhere and not self._hidden

    @property
    def _is_everywhere(self) -> bool:
        return self.server.address[0] in ("0.0.0.0", "::")  # noqa: S104 - compared, not bound

    @abstractmethod
    def takes_clients(self, url: str) -> None:
        """Advertise where the Edge takes clients; other types than an Edge do nothing."""

    # Drain

    @property
    def in_transit(self) -> bool:
        """Whether data goes through the relay, also from or to a Stub, or waits to be sent."""
        if self._edge is not None and self._edge.serves_stubs:
            return True
        # Datagrams wait in connections only, and what was lost is sent again by them.
        return self.relay.in_transit or any(
            connection.stats().queued_bytes or connection.unacknowledged()
            for connection in (port.connection for port in self.server.ports.values())
        )

    @property
    def stays(self) -> bool:
        """Whether the relay drains and must not end yet: something is under way, or just was."""
        if self._drain is None:
            return False
        # A peer that has the data may wait for the set of it, which may have to be sent again.
        busy = self.in_transit or any(
            port.connection.unacknowledged_bidirectional() for port in self.server.ports.values()
        )
        standing = self._drain.look(self.server.now, busy=busy, flight=self.relay.flight)
        return standing is Standing.STAYS

    @property
    def unsent(self) -> int:
        """Streams of others that peers did not get."""
        return 0

    @property
    def patience(self) -> float:
        """Seconds until :meth:`places` knows which relays have the tracks of our clients."""
        return 0.0

    def places(self) -> Callable[[int], str] | None:
        """Return what gives a client's session the address of another relay; None: nothing does."""
        return None

    def drain(self, seconds: float) -> None:
        """Tell peers that the relay goes away; do nothing a second time."""
        if self._drain is None:
            self._drain = DrainMonitor(self.server.now, seconds)
            self._tell_drain(seconds)
            self.server.settle()

    @abstractmethod
    def _tell_drain(self, seconds: float) -> None:
        """Let the core tell peers that the relay goes away."""

    def stay(self) -> None:
        """Take :meth:`drain` back."""
        if self._drain is not None:
            self._drain = None
            self.relay.stay(self.server.now)
            self.server.settle()

    # Operator commands

    def read_policy(self, file: Path | None) -> RulePolicy | None:
        """Return the policy of a file, which is not in force yet; None: everything is allowed."""
        return read_policy(file, self._identity)

    def set_policy(self, policy: RulePolicy | None, file: Path | None) -> None:
        """Put another policy in force at once; do nothing if its rules are those in force."""
        self._policy_file = file
        if _same_rules(policy, self._policy):
            return
        self._policy = policy
        self._policy_set(policy)
        if self._edge is not None:
            # Before the network takes away what it gives: so clients get the reason.
            self._edge.relay.reauthorize(self._edge.server.now)
            self._edge.server.settle()
        self.server.settle()

    @abstractmethod
    def _policy_set(self, policy: RulePolicy | None) -> None:
        """Let the core follow another policy."""

    def set_peers(self, config: RelayConfig) -> None:
        """Set the relays to stay connected with; connections with others end."""
        wanted = [each for each in mapping.peer_contacts(config) if not each.alpn]
        # The number of connections, and the contacts of C++ relays, need a restart.
        self._peers = [replace(each, parallel=self._parallel) for each in wanted] + [
            each for each in self._peers if each.alpn
        ]
        self._peers_set(config.listen.drain_timeout)
        self.server.settle()

    @abstractmethod
    def _peers_set(self, seconds: float) -> None:
        """Let the core connect with ``_peers``; others may take so many seconds to end."""

    def forget_key(self, node: NodeId) -> str | None:
        """Let another key hold a node id; return why that is refused, or None."""
        if any(row.node == node for row in self.peers()):
            return f"node {node} has a connection: it ends first, or the relay there is stopped"
        if not self.relay.forget_key(node):
            return f"no key of node {node} is known here"
        self._known_keys.write()
        self.server.settle()
        return None

    # Plans

    def trust_plans(self, keys: PlanKeys) -> None:
        """Set the keys whose plans are followed."""
        self._plans.trust(keys)

    def load_plan(self, file: Path | None) -> None:
        """Follow the plan of a file; None: of none."""
        self._plans.load(self.server.now, _wall_us(), file)
        self._check_plan()

    def offer_plan(self, text: bytes) -> str | None:
        """Follow this plan; return why that is refused, or None."""
        reason = self._plans.offer(self.server.now, _wall_us(), text, "admin")
        self._check_plan()
        return reason

    def drop_plan(self) -> bool:
        """Follow no plan; return whether there was one."""
        dropped = self._plans.drop(self.server.now, "an operator dropped it")
        self._check_plan()
        return dropped

    def plan(self) -> PlanState:
        """Return the plan that is followed."""
        return self._plans.state()

    def _check_plan(self) -> None:
        """Drop a plan that has expired, and set the timer for the next check."""
        if self._plan_timer is not None:
            self._plan_timer.cancel()
            self._plan_timer = None
        due = self._plans.tick(self.server.now, _wall_us())
        if due is not None:
            self._plan_timer = asyncio.get_running_loop().call_later(due, self._check_plan)
        self.server.settle()

    # Turns

    def joined(self, now: float, events: Sequence[RelayEvent]) -> None:
        """Take a turn of the Edge: its events go to the network."""
        edge = self._edge
        if edge is None or not edge.joined:
            return
        if edge.turn(now, events) or (
            not self.server.settling and self.server.is_late(self._data_due())
        ):
            self.server.settle()

    def _data_due(self) -> float | None:
        """Return when data of our own clients gives the core something to do; None: never.

        Data changes nothing else in the network. So a turn that only carried data to clients leaves
        the network alone.
        """
        return None

    def _peer_turn(self, now: float) -> None:
        """Take a turn of the peer port: what came goes to the Edge and to the observers."""
        events = self.relay.poll_events()
        if events:
            for event in events:
                if isinstance(event, PeerAdded):
                    self._nodes[event.session] = event.node
            self._hooks.observe(now, events)
        self._known_keys.look(now)
        edge = self._edge
        if edge is not None and edge.joined:
            if edge.pump(now) or not edge.server.settling:
                edge.server.settle()
            edge.arm()

    def _sample_load(self, now: float) -> None:
        """Measure how busy the relay is."""
        self.relay.set_load(now, self._load.sample(now, time.process_time(), self._fill()))

    def _fill(self) -> float:
        """Return which share of the room for data that waits for peers is taken."""
        ports = self.server.ports.values()
        queued = sum(port.connection.stats().queued_bytes for port in ports)
        return queued / (self.server.config.egress.max_bytes * max(1, len(ports)))

    # Tables

    @property
    def now(self) -> float:
        """The clock of the tables."""
        return self.server.now

    @abstractmethod
    def peers(self) -> Sequence[PeerRow]:
        """Return all connections to other relays."""

    @abstractmethod
    def contacts(self) -> Sequence[DialRow]:
        """Return where connections are dialled."""

    @abstractmethod
    def nodes(self) -> Sequence[NodeRow]:
        """Return the NIB."""

    @abstractmethod
    def announces(self) -> Sequence[AnnounceRow]:
        """Return all announces."""

    @abstractmethod
    def subscribes(self, key: int | None = None) -> Sequence[SubscribeRow]:
        """Return all subscribes, or those of one track."""

    @abstractmethod
    def sets(self) -> Sequence[SetRow]:
        """Return all subscriber node sets."""

    @abstractmethod
    def fib(self) -> Sequence[FibRow]:
        """Return the FIB."""

    def peer_connection(self, session: int) -> ConnectionStats | None:
        """Return the figures of a peer's connection."""
        port = self.server.ports.get(session)
        return None if port is None else port.connection.stats()

    def policy(self) -> PolicyState:
        """Return the policy that is in force."""
        file = "" if self._policy_file is None else str(self._policy_file)
        return PolicyState(file=file, rules=_in_words(self._policy))

    # Figures

    def sample(self) -> NetworkSample:
        """Return figures for the sampler; makes rows of peers only, however large tables are."""
        peers = self.peers()
        there = {row.node for row in peers} - {None}
        sizes, counters, collisions = self._figures()
        return NetworkSample(
            peers=peers,
            # Configured contacts without a session, in either direction.
            unreached=sum(
                row.phase != Phase.UP.value and not row.dynamic and row.node not in there
                for row in self.contacts()
            ),
            sizes=sizes,
            counters=counters,
            collisions=collisions + (0 if self._edge is None else self._edge.collisions),
            connections={
                row.session: stats
                for row in peers
                if (stats := self.peer_connection(row.session)) is not None
            },
        )

    @abstractmethod
    def _figures(self) -> tuple[TableSizes, PeerPlaneCounters, int]:
        """Return the sizes of tables, the counters of the peer plane, and hash collisions."""

    # For records of traffic

    def carried(self, session: int) -> tuple[int, int]:
        """Return bytes received and sent by a session that has just ended."""
        stats = self.peer_connection(session)
        return (0, 0) if stats is None else (stats.bytes_received, stats.bytes_sent)

    def key(self, name: FullTrackName) -> int:
        """Return the full-name hash of a track."""
        return self.relay.key(name)

    @abstractmethod
    def count_traffic(self, samples: Samples | None) -> None:
        """Count data between relays from now on, and time what ``samples`` chooses."""

    @abstractmethod
    def take_traffic(self) -> tuple[list[Arrival], list[Departure]]:
        """Return what came and what was sent since the last call."""

    def node_of(self, session: int) -> str | None:
        """Return the node that a peer's session is or was with."""
        node = self._nodes.get(session)
        return None if node is None else str(node)

    @abstractmethod
    def foreign_node_of(self, session: int) -> str | None:
        """Return the Stub or C++ relay of a session of the Edge; None: neither."""

    def forget_nodes(self) -> None:
        """Forget the nodes of sessions that are over."""
        live = {row.session for row in self.peers()}
        self._nodes = {number: node for number, node in self._nodes.items() if number in live}


def _same_rules(one: RulePolicy | None, other: RulePolicy | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.rules == other.rules


def _in_words(policy: RulePolicy | None) -> list[str]:
    """Return each rule of a policy as text."""
    if policy is None:
        return ["everything is allowed"]
    from laps_relay.policy.rules import rules_as_text  # noqa: PLC0415 - only with a policy

    return rules_as_text(policy.rules)


def _wall_us() -> int:
    """Return the time of day in microseconds, as plans have it."""
    return time.time_ns() // 1000


class InMemoryClient(Protocol):
    """A client of the Edge in this process: the upstream, a Stub or a C++ relay."""

    @property
    def client(self) -> Upstream:
        """Its session with the Edge."""

    def pump(self, now: float) -> bool:
        """Carry control messages until none is left; return whether there were any."""

    def poll_timeout(self) -> float | None:
        """Return when :meth:`handle_timeout` must be called."""

    def handle_timeout(self, now: float) -> None:
        """Do what is due."""


class EdgeUplink(InMemoryClient, Protocol):
    """What the Edge asks for tracks that its own clients do not have."""

    def open(self, now: float) -> None:
        """Begin the session."""

    def observe(self, now: float, events: Iterable[RelayEvent]) -> None:
        """Take what happened at the Edge."""


class JoinedEdge:
    """An Edge and its clients that live in this process: its upstream, and foreign peers.

    ::

        clients --- EdgeRelay ---+--- session 0    the upstream: network, or parents of a Stub
                                 +--- session -1   a foreign peer: a Stub or a C++ relay
                                 '--- ...

    Each of them is a MoQT session in memory. Control messages are pumped until none is left.
    """

    def __init__(self, server: EdgeServer, relay: EdgeRelay, upstream: EdgeUplink) -> None:
        self.server = server
        self.relay = relay
        self._upstream = upstream
        self._clients: dict[int, InMemoryClient] = {UPSTREAM_SESSION: upstream}
        """By session; empty once the Edge was left."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: float | None = None

    # Life

    def open(self) -> None:
        """Begin the session of the upstream; the server must have its clock."""
        self._upstream.open(self.server.now)

    def leave(self) -> None:
        """End the sessions of the upstream and of all foreign peers; do nothing a second time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        clients, self._clients = self._clients, {}
        for number in clients:
            self.relay.remove_session(self.server.now, number)
        if clients:
            self.server.settle()

    @property
    def joined(self) -> bool:
        """Whether :meth:`leave` was not called yet."""
        return bool(self._clients)

    # Turns

    def turn(self, now: float, events: Sequence[RelayEvent]) -> bool:
        """Pass events of the Edge upstream; return whether there were any, or control messages."""
        if events:
            self._upstream.observe(now, events)
        moved = self.pump(now)
        if moved:
            self.server.settle()
        if moved or events:
            self.arm()
        return moved or bool(events)

    def pump(self, now: float) -> bool:
        """Carry control messages until none is left; return whether there were any."""
        moved = False
        for number, client in list(self._clients.items()):
            moved |= client.pump(now)
            if number != UPSTREAM_SESSION and client.client.closed:
                del self._clients[number]
        return moved

    def arm(self) -> None:
        """Set the timer to the earliest timeout of all clients; data of the Edge changes none."""
        times = [client.poll_timeout() for client in self._clients.values()]
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
        for client in list(self._clients.values()):
            client.handle_timeout(self.server.now)
        self.server.settle()
        self.arm()

    # Readings

    @property
    def collisions(self) -> int:
        """Names that were refused because another one has the same hash."""
        return self._upstream.client.collisions

    @property
    def serves_stubs(self) -> bool:
        """Whether data goes from or to a Stub."""
        return False


def peer_server_config(
    config: RelayConfig, certificate: Certificate, reset_key: bytes
) -> PeerServerConfig:
    """Return the settings of the peer port."""
    network = config.network
    return PeerServerConfig(
        host=network.host or config.listen.host,
        port=network.port,
        backend=config.listen.transport,
        alpns=PEER_ALPNS if network.cpp_peers else (LAPS2.alpn,),
        engine=EngineOptions(
            # Who is there is proved in the session, over the key of this certificate.
            tls=replace(certificate.tls, verify=False),
            datagram_size=config.listen.datagram_size,
            reset_key=reset_key,
        ),
        admission=mapping.admission_limits(config),
    )
