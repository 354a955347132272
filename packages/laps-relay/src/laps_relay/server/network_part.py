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
from dataclasses import replace
from pathlib import Path
from socket import socket
from typing import Final

from laps_relay.admin.network_api import PlanState
from laps_relay.config import RelayConfig, mapping
from laps_relay.network.control_server.redirect import CLIENT_LABEL, is_loopback_url
from laps_relay.network.drain_monitor import DrainMonitor, Standing
from laps_relay.network.events import NetworkEvent
from laps_relay.network.nodes.load import LoadMeter
from laps_relay.network.nodes.selection import ORDERS
from laps_relay.network.relay import NetworkRelay
from laps_relay.policy.interface import Policy
from laps_relay.server.certificates import Certificate
from laps_relay.server.epochs import next_epoch
from laps_relay.server.joined_edge import JoinedEdge
from laps_relay.server.known_keys import KeyKeeper, key_memory
from laps_relay.server.membership import (
    fresh_context,
    identity_of,
    name_hasher,
    node_id_of,
    policy_of,
)
from laps_relay.server.network_readings import NetworkReadings
from laps_relay.server.parts import peer_server_config
from laps_relay.server.plan_memory import PlanMemory
from laps_relay.server.plans import PlanKeeper, PlanKeys, read_plan_keys
from laps_relay.server.redirects import Redirects
from laps_sdk.edge.events import RelayEvent
from laps_sdk.edge.relay import EdgeRelay
from laps_sdk.edge.server import EdgeServer
from laps_sdk.forwarding.interfaces import ForwardingPlane
from laps_sdk.peering.keys import PeerKeyRing
from laps_sdk.peering.reports import PeerAdded
from laps_sdk.peering.server import PeerServer
from laps_sdk.peering.settings import show_contact
from laps_sdk.upstream.stub_link import StubLimits
from laps_wire.moqt.session import AuthToken
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import RelayType
from laps_wire.telemetry import PolicyApplied

__all__ = ["NetworkPart"]

_ANSWER: Final = 0.5
"""Seconds, with a round trip, in which a control server tells who has what; with much to spare."""
_LONGEST_ANSWER: Final = 1.0

_TYPES: Final = {
    "edge": RelayType.EDGE,
    "via": RelayType.VIA,
    "control": RelayType.CONTROL,
}


class NetworkPart(NetworkReadings):
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
        forgets: Callable[[str], None] = lambda _reason: None,
        hidden: bool = False,
    ) -> None:
        """``hidden``: relays elsewhere cannot dial it, so it tells no contact of its own.

        ``applied`` hears what becomes of plans, ``forgets`` why keys of others are not kept.
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
        self._edge: JoinedEdge | None = None
        self._guests: JoinedEdge | None = None
        self._load = LoadMeter()
        self._departure: DrainMonitor | None = None
        self._unsent_before = 0
        self._answered_at = 0.0
        self.relay_type = _TYPES[network.type]
        settings = mapping.network_settings(config, self.relay_type)
        self._stub_limits = StubLimits(settings.max_announces, settings.max_subscribes)
        node_id = self.node_id = node_id_of(config, keys)
        self._epoch, self.forgetful = int(time.time() * 1000), None
        if network.node_id or network.port:  # else the next start has another node id
            self._epoch, self.forgetful = next_epoch(config.state_dir, node_id, self._epoch)
        memory = key_memory(config, node_id)
        self.relay = NetworkRelay(
            identity_of(config, keys, node_id, self._epoch),
            settings,
            hasher=self.hasher,
            authenticator=keys,
            challenge=lambda: secrets.token_bytes(32),
            contexts=fresh_context,
            random=random.SystemRandom().random,
            policy=policy_of(network.policy, self.hasher, node_id),
            implementation=f"laps-relay {version}",
            order=ORDERS[network.order],
            known_keys=None if memory is None else memory.load(),
        )
        self._known_keys = KeyKeeper(memory, self.relay.poll_known_keys, forgets)
        self.server = PeerServer(peer_server_config(config, certificate), self.relay)
        self.server.on_turn = self._peer_turn
        self._nodes: dict[int, NodeId] = {}
        self._plans = PlanKeeper(
            self.relay,
            applied,
            read_plan_keys(config.plan.keys),
            PlanMemory.of(config.state_dir, node_id),
        )
        self._plan_file = config.plan.file
        self._plan_timer: asyncio.TimerHandle | None = None
        self._cpp_limits = network.limits if network.meets_cpp else None

    # Life

    def join(
        self, server: EdgeServer, relay: EdgeRelay, plane: ForwardingPlane, guest_token: AuthToken
    ) -> None:
        """Let the clients of an Edge have a part in the network."""
        self._edge = self._guests = JoinedEdge(
            server,
            relay,
            plane,
            self.relay,
            self.hasher,
            epoch=self._epoch,
            stub_limits=self._stub_limits,
            cpp_limits=self._cpp_limits,
            guest_token=guest_token,
        )
        self.relay.set_guests(self._edge.guest)

    async def start(self, sock: socket | None = None) -> None:
        """Open the peer port and begin to dial. Raises ``OSError`` if it cannot be had.

        The Edge has its clock by now, and takes no clients yet.
        """
        if self._edge is not None:
            self._edge.open()
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
        if self._plan_timer is not None:
            self._plan_timer.cancel()
            self._plan_timer = None
        await self.server.stop()
        self._known_keys.keep()
        edge, self._edge = self._edge, None
        if edge is not None:
            edge.leave()

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
        """Whether data goes through us, from and to a Stub of ours too, or waits to be sent."""
        if self._edge is not None and self._edge.serves_stubs():
            return True
        # Datagrams wait in connections only, and what was lost is sent again by them.
        return self.relay.in_transit or any(
            connection.stats().queued_bytes or connection.unacknowledged()
            for connection in (port.connection for port in self.server.ports.values())
        )

    @property
    def _unheard(self) -> bool:
        """Whether a peer may not have heard all: data that it has may wait for its set."""
        return any(
            port.connection.unacknowledged_bidirectional() for port in self.server.ports.values()
        )

    @property
    def stays(self) -> bool:
        """Whether it drains and must not end yet: something is under way, or just was."""
        if self._departure is None:
            return False
        busy = self.in_transit or self._unheard
        standing = self._departure.look(self.server.now, busy=busy, flight=self.relay.flight)
        return standing is Standing.STAYS

    @property
    def unsent(self) -> int:
        """Streams that peers have not got, or did not get because the drain was over."""
        counted = self.relay.plane.counters().unsent_streams - self._unsent_before
        return self.relay.plane.unsent() + counted

    def drain(self, seconds: float) -> None:
        """Tell peers that we go away, and Stubs where to go; said once."""
        if self._departure is not None:
            return
        self._departure = DrainMonitor(self.server.now, seconds)
        self._unsent_before = self.relay.plane.counters().unsent_streams
        # Control servers say who else has the tracks of our clients.
        trips = [row.srtt_us for row in self.relay.tables.peers() if row.relay_type == "control"]
        if trips:
            wait = min(_ANSWER + max(trips) / 1e6, _LONGEST_ANSWER, seconds / 2)
            self._answered_at = self.server.now + wait
        self.relay.drain(self.server.now, seconds, "the relay stops", self._alternates())
        self.server.settle()

    def stay(self) -> None:
        """Take :meth:`drain` back."""
        if self._departure is not None:
            self._departure = None
            self._answered_at = 0.0
            self.relay.stay(self.server.now)
            self.server.settle()

    @property
    def patience(self) -> float:
        """Seconds until control servers have said who else has the tracks of our clients."""
        return max(0.0, self._answered_at - self.server.now) if self._departure is not None else 0.0

    def _alternates(self) -> tuple[str, ...]:
        """How the nearest Edge that has room is dialled; nothing if there is none."""
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

    def forget_key(self, node: NodeId) -> str | None:
        """Let another key have a node id, or say why not."""
        if any(row.node == node for row in self.relay.tables.peers()):
            return f"node {node} has a connection: it ends first, or the relay there is stopped"
        if not self.relay.forget_key(node):
            return f"no key of node {node} is known here"
        self._known_keys.keep()
        self.server.settle()
        return None

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
        moved = edge.turn(now, events)
        if moved or events or not self.server.settling:
            self.server.settle()
        edge.arm()

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
        edge = self._edge
        if edge is not None and (edge.pump(now) or not edge.server.settling):
            edge.server.settle()

    def _fill(self) -> float:
        """How much of the room for what waits to be sent to peers is taken."""
        ports = self.server.ports.values()
        queued = sum(port.connection.stats().queued_bytes for port in ports)
        return queued / (self.server.config.egress.max_bytes * max(1, len(ports)))


def _wall_us() -> int:
    """The time of day, as plans have it."""
    return time.time_ns() // 1000
