"""A whole Edge or Stub in a simulated process, with the MoQT side of a server.

::

    MoqtClients == EdgeRelay, Plane == NetworkBridge == NetworkRelay                     an Edge
                                    == StubParent ===== a Stub's session
    MoqtClients == EdgeRelay, Plane == StubUplink ===== sessions with parents            a Stub

Networks without Stubs do not need it: there ``clients.Clients`` stand in its place.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from laps_relay.network.relay import NetworkRelay
from laps_relay.sim.clients.ledger import BreakError, Object
from laps_relay.sim.clients.moqt import MoqtClients
from laps_relay.sim.clients.tracks import HASHER
from laps_relay.stubs.stub_parent import StubParent
from laps_sdk.edge.authorization import Action, Decision
from laps_sdk.edge.relay import EdgeRelay
from laps_sdk.edge.settings import EdgeSettings
from laps_sdk.forwarding.plane import Plane
from laps_sdk.peering.events import PeerUp
from laps_sdk.peering.foreign_peers import ForeignPeerWire
from laps_sdk.peering.links import ForeignPeer, Link
from laps_sdk.stub.stub_uplink import StubUplink, UplinkParent
from laps_sdk.timers import earliest
from laps_sdk.upstream.network import NetworkBridge
from laps_sdk.upstream.virtual import VirtualClient
from laps_wire.names import FullTrackName, Namespace
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import RelayType, SubscribeData

if TYPE_CHECKING:
    from laps_relay.sim.world.process import RelayProcess
    from laps_relay.sim.world.world import World

__all__ = ["EdgeHost"]

BRIDGE: Final = 0
"""The number of the network's session, or of the parents', at the Edge."""
SETTINGS: Final = EdgeSettings(linger=0.3, cache_linger=1.0, upstream_timeout=30.0)
"""Short times, as in the networks around it."""
MEMORY: Final = 5.0
"""So long after a Stub took something back its parent may still ask for it."""


class _OpenDoor:
    """Allows everything (``Authorizer``)."""

    def authorize(
        self,
        now: float,
        action: Action,
        namespace: Namespace | None,
        name: bytes | None,
        tokens: Sequence[object],
        session_tokens: Sequence[object],
    ) -> Decision:
        """Yes."""
        del now, action, namespace, name, tokens, session_tokens
        return Decision(allowed=True)


class _Joined(Protocol):
    def pump(self, now: float) -> bool:
        """Carry control messages until all is quiet; whether there were any."""


class _WatchedUplink(StubUplink):
    """A Stub's way up: nobody asks it for what it did not announce."""

    __slots__ = ("host",)

    host: EdgeHost

    def pull(
        self,
        now: float,
        parent: UplinkParent,
        key: int,
        name: FullTrackName,
        data: SubscribeData,
    ) -> None:
        """A parent wants a track."""
        self.host.check_pull(now, name)
        super().pull(now, parent, key, name, data)


class EdgeHost:
    """The Edge of one life of a process."""

    __slots__ = (
        "_core",
        "_joined",
        "_numbers",
        "_offered",
        "_process",
        "_world",
        "clients",
        "plane",
        "relay",
        "stubs",
        "up",
    )

    def __init__(self, world: World, process: RelayProcess) -> None:
        self._world = world
        self._process = process
        self.plane = Plane()
        self.relay = EdgeRelay(self.plane, _OpenDoor(), SETTINGS)
        self.clients = MoqtClients(world.clock, world.ledger, process.contact, process.call, self)
        self.up: NetworkBridge | StubUplink
        self.stubs: dict[int, StubParent] = {}
        """The Stubs of an Edge."""
        self._joined: dict[int, _Joined] = {}
        self._numbers = 0
        self._core: NetworkRelay
        self._offered: dict[FullTrackName, float] = {}
        """What a Stub's clients published, and when last."""

    @property
    def now(self) -> float:
        """The time."""
        return self._world.clock.now

    def began(self, item: Object) -> float:
        """When the group of an object began."""
        return self._world.ledger.group(item.flow, item.group, self.now).began

    def publishes(self, name: FullTrackName) -> bool:
        """Whether a track is one of our own clients; no policy is about those of Stubs."""
        return any(each.covers(name) for each in self.clients.publications)

    # Building

    def attach(self, core: NetworkRelay, dice: random.Random) -> None:
        """Give the core its local side."""
        self._core = core
        # As a server does: the network is not asked about what is published at this very Edge.
        self.relay.set_policy(core.against)
        contexts: Callable[[], int] = lambda: dice.randrange(1, 1 << 32)  # noqa: E731
        if self._process.spec.relay_type is RelayType.STUB:
            uplink = _WatchedUplink(
                self.relay,
                self.plane,
                HASHER,
                session=BRIDGE,
                epoch=self._process.life,
                contexts=contexts,
                clock=lambda: self.now,
            )
            uplink.host = self
            self.up = uplink
        else:
            self.up = NetworkBridge(
                self.relay, self.plane, core, HASHER, session=BRIDGE, clock=lambda: self.now
            )
            core.attach(self.up, self.up)
        self._joined[BRIDGE] = self.up
        self.up.open(self.now)

        def guest(now: float, link: Link, up: PeerUp, wire: ForeignPeerWire) -> ForeignPeer | None:
            return self._guest(now, link, up, wire, contexts)

        core.set_guests(guest)

    def _guest(
        self, now: float, link: Link, up: PeerUp, wire: ForeignPeerWire, contexts: Callable[[], int]
    ) -> ForeignPeer | None:
        if isinstance(self.up, StubUplink):
            node = up.node.node.node_id
            return self.up.parent(now, wire, link.egress, node=node, srtt_us=link.srtt_us)
        if up.node.node.relay_type is not RelayType.STUB:
            return None
        number = self.number()
        stub = StubParent(
            self.relay,
            self.plane,
            HASHER,
            session=number,
            node=self._core.node_id,
            epoch=self._process.life,
            wire=wire,
            egress=link.egress,
            contexts=contexts,
            clock=lambda: self.now,
        )
        self.stubs[number] = stub
        self._joined[number] = stub
        stub.open(now)
        return stub

    def number(self) -> int:
        """A session number that nobody has."""
        self._numbers += 1
        return self._numbers

    def join(self, number: int, client: VirtualClient) -> None:
        """A client has a session."""
        self._joined[number] = client

    def part(self, number: int) -> None:
        """It has it no more."""
        self._joined.pop(number, None)

    # Turns

    def pump(self, now: float) -> None:
        """Let everybody say what they have to say, until nobody has anything."""
        if self._process.is_stub:  # nobody else is asked what it offered
            for publication in self.clients.publications:
                self._offered[publication.name] = now
        moved = True
        while moved:
            self.relay.handle_notices(now)
            moved = False
            for number, client in list(self._joined.items()):
                moved |= client.pump(now)
                if number in self.stubs and self.stubs[number].client.closed:
                    del self.stubs[number], self._joined[number]
            self.relay.poll_dirty()
            events = self.relay.poll_events()
            if events:
                moved = True
                self.up.observe(now, events)

    def poll_timeout(self) -> float | None:
        """When :meth:`handle_timeout` wants to be called."""
        due = earliest(self.relay.poll_timeout(), self.plane.poll_timeout(), self.up.poll_timeout())
        for stub in self.stubs.values():
            due = earliest(due, stub.poll_timeout())
        return due

    def handle_timeout(self, now: float) -> None:
        """Do what is due."""
        self.relay.handle_timeout(now)
        self.plane.handle_timeout(now)
        self.up.handle_timeout(now)
        for stub in list(self.stubs.values()):
            stub.handle_timeout(now)

    # For the checks

    def check_pull(self, now: float, name: FullTrackName) -> None:
        """A Stub's parent asks for a track: it must have been announced, and not long ago."""
        fields = name.namespace.fields
        for offered, last in self._offered.items():
            own = offered.namespace.fields
            if now - last <= MEMORY and (
                offered == name or (not offered.name and fields[: len(own)] == own)
            ):
                return
        raise BreakError(
            "stub", f"{self.clients.contact} was asked for {name}, never announced", now
        )

    @property
    def parents(self) -> list[NodeId]:
        """The parents that a Stub has sessions with."""
        parents = self.up._parents if isinstance(self.up, StubUplink) else ()  # noqa: SLF001 - judged
        return [parent.node for parent in parents]

    @property
    def parent(self) -> NodeId | None:
        """The parent that everything of a Stub goes to."""
        active = self.up.active if isinstance(self.up, StubUplink) else None
        return None if active is None else active.node

    def sizes(self) -> dict[str, int]:
        """What must be empty when there are no clients."""
        return {
            "tracks of the Edge": len(self.relay.tracks()),
            "subscriptions of the Edge": len(self.relay.subscriptions()),
            "namespaces of the Edge": len(self.relay.namespaces()),
            "clients": len(self._joined) - len(self.stubs) - 1,
        }
