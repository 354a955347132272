"""Adjacency: what connects this relay to its neighbours, and connections on demand.

**Adjacency.** Sessions change what this relay advertises::

    Links --adjoin--> Nib (neighbour, round trip), Steering (loss, congestion)
              |
              '--after a while--> OwnNode: reachable nodes, estimated location --> Nib

**Connections on demand** are dialled for steering and for control servers::

    Steering, Servers --demand--> Dialler --unwanted--> idle for a while --> closed
    operator: contact removed --> DRAIN for that connection alone --> closed

:class:`Due` has the timers of the relay itself; each room has its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, TypeAlias

from laps_relay.network.control_server.sharding import Servers
from laps_relay.network.events import NetworkEvent
from laps_relay.network.nodes.location import declared, estimate, nearest
from laps_relay.network.nodes.nib import Nib
from laps_relay.network.nodes.own_node import OwnNode
from laps_relay.network.nodes.probing import Prober
from laps_relay.network.sets.sets import Sets
from laps_relay.network.settings import NetworkSettings
from laps_relay.network.steering import LinkState, Steering
from laps_sdk.peering.dialler import Dialler
from laps_sdk.peering.links import Links
from laps_sdk.peering.peers import Peers
from laps_sdk.peering.reports import PeerLeaving
from laps_sdk.timers import Timers
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import CloseCode
from laps_wire.peering.laps2 import NodeSelf

__all__ = [
    "MAX_VIOLATIONS",
    "PERIOD",
    "Adjacency",
    "ConnectionDemand",
    "Due",
    "RelayTimers",
    "ViolationCounter",
]


class Due(Enum):
    """What a timer is for. Its key is (kind, session), with session 0 if it is for all."""

    __hash__ = object.__hash__  # asked after every event; the one of Enum hashes the name

    LOOK = "differences for all peers that are behind"
    FLUSH = "everything for a peer that must be told again"
    REFILL = "what others have, for peers that are new at a Via that keeps nothing"
    RESYNC = "announces and subscribes for a peer, once others have told them again"
    REACH = "whom we reach ourselves"
    PLACE = "where we seem to stand"
    IDLE = "a connection that was dialled on demand and has no use"
    STAY = "our load, when all have moved who heard that we go away"
    APART = "an Edge that had time for its sessions with control servers"


RelayTimers: TypeAlias = "Timers[tuple[Due, int]]"


MAX_VIOLATIONS: Final = 16
"""Violations of one session that are tolerated within :data:`PERIOD`."""
PERIOD: Final = 60.0
"""Seconds."""
PLACE_WAIT: Final = 1.0
"""How long round trips are measured before a location is estimated from them, in seconds."""
PLACE_TIME: Final = 60.0
"""The least time between two estimates of the location, in seconds."""


class Adjacency:
    """Keeps the NIB, steering and our own node information up to date with the sessions."""

    __slots__ = (
        "_links",
        "_nib",
        "_own",
        "_placed",
        "_prober",
        "_settings",
        "_steering",
        "_timers",
    )

    def __init__(
        self,
        own: OwnNode,
        settings: NetworkSettings,
        *,
        links: Links,
        nib: Nib,
        prober: Prober,
        steering: Steering,
        timers: RelayTimers,
    ) -> None:
        self._own = own
        self._settings = settings
        self._links = links
        self._nib = nib
        self._prober = prober
        self._steering = steering
        self._timers = timers
        self._placed = float("-inf")
        """When the location was last estimated."""

    def adjoin(self, now: float, node: NodeId) -> None:
        """Update the NIB and steering with what connects this relay to a node now."""
        links = self._links.of(node)
        srtt_us = self._links.srtt_us(node)
        neighbour = next((link.info for link in links if link.sends and link.info), None)
        if self._links.control(node) is not None:
            self._nib.remove_neighbour(now, node)
            self._nib.set_peer(now, node, srtt_us=srtt_us, forwards=self._links.forwards(node))
        elif neighbour is not None:
            self._nib.add_neighbour(now, node, neighbour, srtt_us=srtt_us)
        else:
            self._nib.remove_neighbour(now, node)
        state = None
        # The measurements of a control session do not apply to sessions that carry data.
        carriers = [link for link in links if link.sends] or links
        if carriers:
            state = LinkState(
                loss=min(link.loss for link in carriers),
                srtt_us=srtt_us,
                congested=all(link.congested for link in carriers),
            )
        self._steering.links(node, state)
        # Sessions that come together are advertised together: each time costs a flood.
        if self._timers.when((Due.REACH, 0)) is None:
            self._timers.set((Due.REACH, 0), now + self._settings.batch)
        if not self._is_placed and self._timers.when((Due.PLACE, 0)) is None:
            self._timers.set((Due.PLACE, 0), max(now + PLACE_WAIT, self._placed + PLACE_TIME))

    @property
    def _is_placed(self) -> bool:
        """Whether no estimate is needed: the location is configured, or is not used."""
        return not self._settings.light_time or declared(self._own.info.node) is not None

    def place(self, now: float) -> None:
        """Estimate our location from round trips to nodes that declare theirs."""
        self._placed = now
        found = estimate(nearest(self._prober.round_trips(), self._nib.info))
        if found is not None and self._own.set_estimate(found.location):
            self._nib.set_self(now, self._own.info)

    def reach(self, now: float) -> None:
        """Advertise the nodes that this relay reaches directly, if they have changed."""
        if self._own.set_reachable(self._prober.reachable()):
            self._nib.set_self(now, self._own.info)


class ViolationCounter:
    """Counts the violations of each session.

    What a peer passes on may be invented by another node, and is only reported: a wrong key, a
    round trip that is too short. Two things no correct relay sends: an impossible path, and a set
    with targets that were never advertised to it. The second can be a race with a withdrawal, which
    :meth:`~laps_relay.network.nodes.nib.Nib.may_target` tells apart. A session ends with more than
    ``MAX_VIOLATIONS`` within ``PERIOD``.
    """

    __slots__ = ("_times",)

    def __init__(self) -> None:
        self._times: dict[int, deque[float]] = {}

    def add(self, now: float, session: int) -> bool:
        """Count one more; return whether that is too many."""
        times = self._times.setdefault(session, deque(maxlen=MAX_VIOLATIONS + 1))
        times.append(now)
        return len(times) > MAX_VIOLATIONS and times[0] > now - PERIOD

    def __len__(self) -> int:
        """How many sessions have violations that still count."""
        return len(self._times)

    def forget(self, session: int) -> None:
        """Drop the counter of a session that has ended."""
        self._times.pop(session, None)


class ConnectionDemand:
    """Decides which relays are dialled on demand, and closes connections without use."""

    __slots__ = (
        "_dialled_servers",
        "_dialler",
        "_emit",
        "_links",
        "_nib",
        "_node",
        "_peers",
        "_servers",
        "_sets",
        "_settings",
        "_steering",
        "_timers",
        "_wanted",
    )

    def __init__(
        self,
        settings: NetworkSettings,
        *,
        dialler: Dialler,
        peers: Peers,
        links: Links,
        nib: Nib,
        sets: Sets,
        steering: Steering,
        servers: Servers,
        timers: RelayTimers,
        node: Callable[[NodeId], NodeSelf | None],
        emit: Callable[[NetworkEvent], object],
    ) -> None:
        """Store the collaborators; ``node`` returns a node's own description."""
        self._settings = settings
        self._dialler = dialler
        self._peers = peers
        self._links = links
        self._nib = nib
        self._sets = sets
        self._steering = steering
        self._servers = servers
        self._timers = timers
        self._node = node
        self._emit = emit
        self._wanted: dict[NodeId, tuple[str, ...]] = {}
        """The nodes that are dialled on demand, with their contacts."""
        self._dialled_servers: dict[NodeId, tuple[str, ...]] = {}

    @property
    def dialled_servers(self) -> Mapping[NodeId, tuple[str, ...]]:
        """The control servers that are dialled, and their addresses."""
        return self._dialled_servers

    def update(self, now: float) -> None:
        """Give the dialler what steering asks for, and end what is not needed."""
        wanted, servers = self._wanted, self._servers.known
        if self._settings.dynamic_peering and self._steering.demand_due(now):
            wanted = {
                node: known.contacts
                for node in self._steering.demanded_peers(now)
                if (known := self._node(node)) is not None
            }
        others = wanted is not self._wanted and wanted != self._wanted
        dialler = self._dialler
        if others or servers != self._dialled_servers:
            self._wanted, self._dialled_servers = wanted, dict(servers)
            dialler.set_demands(now, wanted, servers)
        if dialler.has_unwanted:
            for session in dialler.poll_unwanted():
                self._release(now, session)

    def _release(self, now: float, session: int) -> None:
        """End a connection without demand; one that was dialled on demand only after a while."""
        timer = (Due.IDLE, session)
        link = self._links.get(session)
        if self._sets.uses(session):
            self._timers.cancel(timer)
        elif link is None or not link.up or link.dial is None or not link.dial.dynamic:
            self._close(now, session)
        elif self._timers.when(timer) is None:
            self._timers.set(timer, now + self._settings.dynamic_idle)

    def idle(self, now: float, session: int) -> None:
        """End a connection that was idle for that time, unless it is needed again."""
        link = self._links.get(session)
        if link is None or link.node in self._wanted or link.node in self._dialled_servers:
            return
        if not self._sets.uses(session):
            self._close(now, session)

    def part(self, now: float, session: int, seconds: float) -> None:
        """End a connection that left the configuration, after both ends have moved its data."""
        link = self._links.get(session)
        if link is None or link.node is None or link.foreign_peer is not None or link.leaving:
            return
        if self._sets.uses(session):
            reason = "not configured any more"
            link.leaving = True
            self._emit(PeerLeaving(session=session, node=link.node, reason=reason, by_peer=False))
            self._nib.set_peer(now, link.node, draining=True)
            self._peers.part(now, session, seconds, reason)

    def _close(self, now: float, session: int) -> None:
        self._peers.close(now, session, CloseCode.NO_ERROR, "not needed any more")
