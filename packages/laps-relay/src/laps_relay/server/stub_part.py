"""The part in the network of a Stub: its core, and the uplink to its parents.

::

    NetworkMember --- StubRelay --- parents
         |                |
    JoinedEdge ------ StubUplink

A Stub's process has no node base, no floods, no sets and no steering, so their tables are empty.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from laps_relay.config import RelayConfig, mapping
from laps_relay.network.events import PolicyChanged
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
from laps_relay.server.certificates import Certificate
from laps_relay.server.identity import RelayIdentity, fresh_context
from laps_relay.server.member import (
    UPSTREAM_SESSION,
    JoinedEdge,
    MemberHooks,
    NetworkMember,
    read_policy,
)
from laps_sdk.edge.relay import EdgeRelay
from laps_sdk.edge.server import EdgeServer
from laps_sdk.forwarding.interfaces import ForwardingPlane
from laps_sdk.forwarding.samples import Samples
from laps_sdk.peering.dialler import DialRow
from laps_sdk.peering.events import Refusal
from laps_sdk.peering.keys import PeerKeyRing
from laps_sdk.stub.relay import STUB_NODE, StubRelay
from laps_sdk.stub.stub_uplink import StubUplink
from laps_wire.names import FullTrackName
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import NodeSelf, RelayType

if TYPE_CHECKING:
    from laps_relay.policy.rule_policy import RulePolicy

__all__ = ["StubPart"]

_NO_SIZES: Final = TableSizes(nodes=1, announces=0, subscribes=0, sets_in=0, sets_out=0, fib=0)
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


class StubPart(NetworkMember):
    """The part of a Stub: connections to its parents, and nothing of the network beyond them."""

    relay: StubRelay

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
        hooks: MemberHooks,
        hidden: bool = False,
    ) -> None:
        """Build the core of a Stub and join it to the Edge.

        ``hidden``: relays on other machines cannot dial this one, so it advertises no contact.
        """
        identity = RelayIdentity.of(config, keys)
        memory = identity.known_keys
        policy = read_policy(config.network.policy, identity)
        uplink = StubUplink(
            edge,
            plane,
            identity.hasher,
            session=UPSTREAM_SESSION,
            epoch=identity.epoch,
            contexts=fresh_context,
            clock=lambda: edge_server.now,
        )
        relay = StubRelay(
            identity.peering,
            mapping.network_settings(config, RelayType.STUB),
            uplink,
            hasher=identity.hasher,
            authenticator=keys,
            challenge=lambda: secrets.token_bytes(32),
            random=random.SystemRandom().random,
            may_peer=self._may_peer,
            implementation=f"laps-relay {version}",
            known_keys=None if memory is None else memory.load(),
        )
        super().__init__(
            config,
            identity,
            certificate,
            relay,
            _StubPlans(),
            hooks,
            relay_type=RelayType.STUB,
            policy=policy,
            hidden=hidden,
        )
        self._edge = JoinedEdge(edge_server, edge, uplink)
        edge.set_policy(self._against)

    def _may_peer(self, node: NodeSelf) -> Refusal | None:
        """Return why policy forbids a parent, or None."""
        return None if self._policy is None else self._policy.peer(node)

    def _against(self, name: FullTrackName) -> str | None:
        """Return why policy forbids a track for our own clients, or None."""
        if self._policy is None:
            return None
        refusal = self._policy.local_subscribe(name, self.relay.info.node)
        return None if refusal is None else refusal.reason

    def takes_clients(self, url: str) -> None:
        """Do nothing: other relays send no clients to a Stub."""

    def _tell_drain(self, seconds: float) -> None:
        self.relay.drain(self.server.now, seconds, "the relay stops")

    def _policy_set(self, policy: RulePolicy | None) -> None:
        del policy  # asked through _may_peer
        self.relay.set_peer_filter(self.server.now, self._may_peer)
        self._hooks.observe(self.server.now, (PolicyChanged(),))

    def _peers_set(self, seconds: float) -> None:
        del seconds  # parents are left at once
        self.relay.set_contacts(self.server.now, self._peers)

    # Tables

    def peers(self) -> Sequence[PeerRow]:
        """Return all connections to parents."""
        return peer_rows(self.relay.links)

    def contacts(self) -> Sequence[DialRow]:
        """Return where parents are dialled."""
        return self.relay.contacts()

    def nodes(self) -> Sequence[NodeRow]:
        """Return the Stub itself, which knows no other node."""
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
        """Return no announce: a Stub floods nothing."""
        return ()

    def subscribes(self, key: int | None = None) -> Sequence[SubscribeRow]:
        """Return no subscribe: a Stub floods nothing."""
        del key
        return ()

    def sets(self) -> Sequence[SetRow]:
        """Return no subscriber node set."""
        return ()

    def fib(self) -> Sequence[FibRow]:
        """Return no entry of a FIB."""
        return ()

    def _figures(self) -> tuple[TableSizes, PeerPlaneCounters, int]:
        return _NO_SIZES, _NO_COUNTERS, 0

    # For records of traffic

    def count_traffic(self, samples: Samples | None) -> None:
        """Do nothing: all data passes the Edge's own forwarding plane, which counts it."""

    def take_traffic(self) -> tuple[list[Arrival], list[Departure]]:
        """Return nothing: see :meth:`count_traffic`."""
        return [], []

    def foreign_node_of(self, session: int) -> str | None:
        """Return the node id of all Stubs for the uplink: records of both ends must agree."""
        return str(STUB_NODE) if session == UPSTREAM_SESSION else None
