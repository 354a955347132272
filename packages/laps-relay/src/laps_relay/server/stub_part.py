"""The part of a Stub that belongs to a network: its relay core, its peer port, and its uplink.

::

    EdgeServer --turn--> joined:     events --> StubUplink --> StubRelay --> PeerServer
    PeerServer --turn--> peer_turn:  StubUplink --> EdgeRelay --> EdgeServer

It is what :class:`~laps_relay.server.network_part.NetworkPart` is for the other types of relay. A
Stub's process has no node base, no floods, no sets and no steering, so their tables are empty.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from socket import socket
from typing import Final

from laps_relay.admin.network_api import PlanState, PolicyState
from laps_relay.config import RelayConfig, mapping
from laps_relay.network.drain_monitor import DrainMonitor, Standing
from laps_relay.network.events import NetworkEvent, PolicyChanged
from laps_relay.network.nodes.load import LoadMeter
from laps_relay.network.settings import Plan
from laps_relay.network.views import (
    AnnounceRow,
    FibRow,
    NodeRow,
    PeerRow,
    SetRow,
    SubscribeRow,
    TableSizes,
    peer_rows,
)
from laps_relay.peer_forwarding.forwarding import PeerPlaneCounters
from laps_relay.peer_forwarding.traffic import Arrival, Departure
from laps_relay.policy.interface import Policy
from laps_relay.server.certificates import Certificate
from laps_relay.server.epochs import next_epoch
from laps_relay.server.known_keys import KeyKeeper, key_memory
from laps_relay.server.membership import (
    fresh_context,
    identity_of,
    name_hasher,
    node_id_of,
    policy_in_words,
    policy_of,
)
from laps_relay.server.parts import peer_server_config
from laps_relay.server.plan_memory import PlanMemory
from laps_relay.server.plans import PlanKeeper, PlanKeys, read_plan_keys
from laps_relay.telemetry.network_sampler import NetworkSample
from laps_sdk.edge.events import RelayEvent
from laps_sdk.edge.relay import EdgeRelay
from laps_sdk.edge.server import EdgeServer
from laps_sdk.forwarding.interfaces import ForwardingPlane
from laps_sdk.forwarding.samples import Samples
from laps_sdk.peering.dialler import DialRow, Phase
from laps_sdk.peering.keys import PeerKeyRing
from laps_sdk.peering.reports import PeerAdded
from laps_sdk.peering.server import PeerServer
from laps_sdk.peering.settings import show_contact
from laps_sdk.quic.base import ConnectionStats
from laps_sdk.stub.relay import STUB_NODE, StubRelay
from laps_sdk.stub.stub_uplink import StubUplink
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import RelayType
from laps_wire.telemetry import PolicyApplied

__all__ = ["StubPart"]

_UPLINK: Final = 0
"""The number of the uplink's session at the Edge; clients begin with 1."""
_NO_COUNTERS: Final = PeerPlaneCounters(*[0] * len(PeerPlaneCounters._fields))


class _StubPlans:
    """What a plan is judged by at a Stub (``PlanTarget``): no entry is for it."""

    node_id: Final = STUB_NODE

    def against_via(self, via: NodeId, region: str, scope: str) -> str | None:
        """Refuse every Via: a Stub knows no relay of the network."""
        del via, region, scope
        return "nobody here knows this relay"

    def place_of(self, node: NodeId) -> tuple[str, str]:
        """Return no region and no country."""
        del node
        return "", ""

    def set_plan(self, now: float, plan: Plan) -> None:
        """Do nothing: a Stub steers no data."""


class StubPart:
    """Implements :class:`~laps_relay.admin.network_api.NetworkView`."""

    relay_type: Final = RelayType.STUB
    patience: Final = 0.0
    """Seconds until others have said who has the tracks of our clients: nobody is asked."""
    unsent: Final = 0
    """Streams of others that were not sent on."""

    def __init__(
        self,
        config: RelayConfig,
        keys: PeerKeyRing,
        certificate: Certificate,
        edge_server: EdgeServer,
        edge: EdgeRelay,
        plane: ForwardingPlane,
        *,
        version: str,
        observe: Callable[[float, Sequence[NetworkEvent]], None],
        applied: Callable[[PolicyApplied], None] = lambda _record: None,
        forgets: Callable[[str], None] = lambda _reason: None,
        hidden: bool = False,
    ) -> None:
        """Build the Stub's core and join it to the Edge.

        ``applied`` hears what becomes of plans, ``forgets`` why keys of others are not kept.
        ``hidden``: relays elsewhere cannot dial it, so it advertises no contact of its own.
        """
        network = config.network
        self._hidden = hidden
        self.hasher = name_hasher(keys)
        self._policy_file = network.policy
        self._contacts = tuple(network.contacts)
        self._peers = mapping.peer_contacts(config)
        self._parallel = network.parallel
        self._observe = observe
        self._load = LoadMeter()
        self._drain: DrainMonitor | None = None
        node_id = self.node_id = node_id_of(config, keys)
        epoch, self.forgetful = int(time.time() * 1000), None
        if network.node_id or network.port:  # else the next start has another node id
            epoch, self.forgetful = next_epoch(config.state_dir, node_id, epoch)
        memory = key_memory(config, node_id)
        self._policy = policy_of(network.policy, self.hasher, node_id)
        self._edge_server, self._edge = edge_server, edge
        self._joined = True
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: float | None = None
        self._uplink = StubUplink(
            edge,
            plane,
            self.hasher,
            session=_UPLINK,
            epoch=epoch,
            contexts=fresh_context,
            clock=lambda: edge_server.now,
        )
        edge.set_policy(self._against)
        self.relay = StubRelay(
            identity_of(config, keys, node_id, epoch),
            mapping.network_settings(config, RelayType.STUB),
            self._uplink,
            hasher=self.hasher,
            authenticator=keys,
            challenge=lambda: secrets.token_bytes(32),
            random=random.SystemRandom().random,
            may_peer=self._policy.peer,
            implementation=f"laps-relay {version}",
            known_keys=None if memory is None else memory.load(),
        )
        self._known_keys = KeyKeeper(memory, self.relay.poll_known_keys, forgets)
        self.server = PeerServer(peer_server_config(config, certificate), self.relay)
        self.server.on_turn = self._peer_turn
        self._nodes: dict[int, NodeId] = {}
        """Whom sessions were with, until what they carried was recorded."""
        self._plans = PlanKeeper(
            _StubPlans(),
            applied,
            read_plan_keys(config.plan.keys),
            PlanMemory.of(config.state_dir, node_id),
        )
        self._plan_file = config.plan.file
        self._plan_timer: asyncio.TimerHandle | None = None

    # Life

    async def start(self, sock: socket | None = None) -> None:
        """Open the peer port and begin to dial. Raises ``OSError`` if it cannot be had.

        The Edge has its clock by now, and takes no clients yet.
        """
        self._uplink.open(self._edge_server.now)
        await self.server.start(sock)
        now = self.server.now
        if not self._contacts and not self._is_everywhere and not self._hidden:
            self.relay.set_own_contacts(now, (self.contact,))
        self.relay.set_contacts(now, self._peers)
        self.load_plan(self._plan_file)
        self.server.settle()

    @property
    def contact(self) -> str:
        """Where the peer port listens."""
        return show_contact(self.server.address)

    @property
    def untold(self) -> bool:
        """Whether others cannot be told where to dial it, though they could: nobody has said."""
        return not self._contacts and self._is_everywhere and not self._hidden

    @property
    def _is_everywhere(self) -> bool:
        return self.server.address[0] in ("0.0.0.0", "::")  # noqa: S104 - compared, not bound

    def takes_clients(self, url: str) -> None:
        """Do nothing: other relays send no clients to a Stub."""

    async def stop(self) -> None:
        """Leave the parents, and the Edge."""
        for timer in (self._plan_timer, self._timer):
            if timer is not None:
                timer.cancel()
        self._plan_timer = self._timer = None
        await self.server.stop()
        self._known_keys.keep()
        if self._joined:
            self._joined = False
            self._edge.remove_session(self._edge_server.now, _UPLINK)
            self._edge_server.settle()

    def redirects(self) -> None:
        """Return None: a Stub knows no other relay for its clients."""
        return

    @property
    def in_transit(self) -> bool:
        """Whether data waits to be sent, or to be sent again."""
        return any(
            connection.stats().queued_bytes or connection.unacknowledged()
            for connection in (port.connection for port in self.server.ports.values())
        )

    @property
    def stays(self) -> bool:
        """Whether it drains and must not end yet: something is under way, or just was."""
        if self._drain is None:
            return False
        busy = self.in_transit or any(
            port.connection.unacknowledged_bidirectional() for port in self.server.ports.values()
        )
        standing = self._drain.look(self.server.now, busy=busy, flight=self.relay.flight)
        return standing is Standing.STAYS

    def drain(self, seconds: float) -> None:
        """Tell parents once that the Stub goes away."""
        if self._drain is None:
            self._drain = DrainMonitor(self.server.now, seconds)
            self.relay.drain(self.server.now, seconds, "the relay stops")
            self.server.settle()

    def stay(self) -> None:
        """Take :meth:`drain` back."""
        if self._drain is not None:
            self._drain = None
            self.relay.stay(self.server.now)
            self.server.settle()

    # Operator commands

    def read_policy(self, file: Path | None) -> Policy:
        """Return the policy of a file, which is not in force yet."""
        return policy_of(file, self.hasher, STUB_NODE)

    def set_policy(self, policy: Policy, file: Path | None) -> None:
        """Put another policy in force at once."""
        self._policy, self._policy_file = policy, file
        self.relay.set_peer_filter(self.server.now, policy.peer)
        self._observe(self.server.now, (PolicyChanged(),))
        self._edge.reauthorize(self._edge_server.now)
        self._edge_server.settle()
        self.server.settle()

    def _against(self, name: FullTrackName) -> str | None:
        """What policy has against a track for our own clients."""
        refusal = self._policy.want(name, self.relay.info.node)
        return None if refusal is None else refusal.reason

    def set_peers(self, config: RelayConfig) -> None:
        """Set other parents to stay connected with; who is not among them any more is left."""
        wanted = [each for each in mapping.peer_contacts(config) if not each.alpn]
        # How many connections there are, and what speaks with C++ relays, is said at the start.
        self._peers = [replace(each, parallel=self._parallel) for each in wanted] + [
            each for each in self._peers if each.alpn
        ]
        self.relay.set_contacts(self.server.now, self._peers)
        self.server.settle()

    def forget_key(self, node: NodeId) -> str | None:
        """Let another key have a node id, or say why not."""
        if any(row.node == node for row in self.peers()):
            return f"node {node} has a connection: it ends first, or the relay there is stopped"
        if not self.relay.forget_key(node):
            return f"no key of node {node} is known here"
        self._known_keys.keep()
        self.server.settle()
        return None

    # Plans: they are checked as by all relays, and no entry is for a Stub

    def trust_plans(self, keys: PlanKeys) -> None:
        """Set other keys whose plans are followed."""
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

    # Turns

    def joined(self, now: float, events: Sequence[RelayEvent]) -> None:
        """A turn of the Edge: what happened there goes to the parents."""
        if not self._joined:
            return
        if events:
            self._uplink.observe(now, events)
        moved = self._uplink.pump(now)
        if moved:
            self._edge_server.settle()
        if moved or events or not self.server.settling:
            self.server.settle()
        self._arm()

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
        self._known_keys.look(now)
        if self._joined and (self._uplink.pump(now) or not self._edge_server.settling):
            self._edge_server.settle()

    def _fill(self) -> float:
        """How much of the room for what waits to be sent to parents is taken."""
        ports = self.server.ports.values()
        queued = sum(port.connection.stats().queued_bytes for port in ports)
        return queued / (self.server.config.egress.max_bytes * max(1, len(ports)))

    def _arm(self) -> None:
        """See to it that timers of the uplink are looked at in time."""
        due = self._uplink.poll_timeout()
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
        self._uplink.handle_timeout(self._edge_server.now)
        self._edge_server.settle()

    # Readings

    @property
    def now(self) -> float:
        """The clock of the tables."""
        return self.server.now

    def carried(self, session: int) -> tuple[int, int]:
        """Bytes in and out of a session that has just ended."""
        stats = self.peer_connection(session)
        return (0, 0) if stats is None else (stats.bytes_received, stats.bytes_sent)

    def peers(self) -> Sequence[PeerRow]:
        """All connections to parents."""
        return peer_rows(self.relay.links)

    def contacts(self) -> Sequence[DialRow]:
        """Where parents are dialled."""
        return self.relay.contacts()

    def peer_connection(self, session: int) -> ConnectionStats | None:
        """The figures of a parent's connection."""
        port = self.server.ports.get(session)
        return None if port is None else port.connection.stats()

    def nodes(self) -> Sequence[NodeRow]:
        """The Stub itself, which knows no other node."""
        node = self.relay.info.node
        location = node.location
        return [
            NodeRow(
                node=node.node_id,
                relay_type=node.relay_type.name.lower(),
                region=node.region,
                epoch=node.stamp.epoch,
                sequence=node.stamp.sequence,
                load_class=node.load.load_class.name.lower(),
                load=node.load.value,
                contacts=node.contacts,
                longitude=None if location is None else location.longitude,
                latitude=None if location is None else location.latitude,
                next_hop=None,
                hops=0,
                cost_us=0,
                path=(),
                ways=0,
            )
        ]

    def announces(self) -> Sequence[AnnounceRow]:
        """No announce: a Stub floods nothing."""
        return ()

    def subscribes(self, key: int | None = None) -> Sequence[SubscribeRow]:
        """No subscribe: a Stub floods nothing."""
        del key
        return ()

    def sets(self) -> Sequence[SetRow]:
        """No subscriber node set."""
        return ()

    def fib(self) -> Sequence[FibRow]:
        """No FIB."""
        return ()

    def sample(self) -> NetworkSample:
        """Figures for the sampler."""
        peers = self.peers()
        there = {row.node for row in peers} - {None}
        return NetworkSample(
            peers=peers,
            unreached=sum(
                row.phase != Phase.UP.value and not row.dynamic and row.node not in there
                for row in self.contacts()
            ),
            sizes=TableSizes(nodes=1, announces=0, subscribes=0, sets_in=0, sets_out=0, fib=0),
            counters=_NO_COUNTERS,
            collisions=self._uplink.client.collisions,
            connections={
                row.session: stats
                for row in peers
                if (stats := self.peer_connection(row.session)) is not None
            },
        )

    def policy(self) -> PolicyState:
        """The policy that is in force."""
        file = "" if self._policy_file is None else str(self._policy_file)
        return PolicyState(file=file, rules=policy_in_words(self._policy))

    # For records

    def key(self, name: FullTrackName) -> int:
        """The full-name hash of a track."""
        return self.relay.key(name)

    def count_traffic(self, samples: Samples | None) -> None:
        """Do nothing: all data passes the Edge's own forwarding plane, which counts it."""

    def take_traffic(self) -> tuple[list[Arrival], list[Departure]]:
        """Return nothing: see :meth:`count_traffic`."""
        return [], []

    def node_of(self, session: int) -> str | None:
        """The node that a parent's session is or was with."""
        node = self._nodes.get(session)
        return None if node is None else str(node)

    def guest_of(self, session: int) -> str | None:
        """The node id of nobody for the uplink's session: records of both ends must agree."""
        return str(STUB_NODE) if session == _UPLINK else None

    def forget_nodes(self) -> None:
        """Forget sessions that are over: what they carried was recorded."""
        live = {row.session for row in self.peers()}
        self._nodes = {number: node for number, node in self._nodes.items() if number in live}


def _wall_us() -> int:
    """The time of day, as plans have it."""
    return time.time_ns() // 1000
