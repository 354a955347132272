"""Connections on demand: relays that steering asks for, control servers, and ends of connections.

::

    Steering, Servers --demand--> Dialler --unwanted--> idle for a while --> closed
    operator: contact removed --> DRAIN for that connection alone --> closed
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from laps_relay.network.control_server.servers import Servers
from laps_relay.network.events import NetworkEvent
from laps_relay.network.nodes.nib import Nib
from laps_relay.network.sets.sets import Sets
from laps_relay.network.settings import NetworkSettings
from laps_relay.network.steering.steering import Steering
from laps_relay.network.timers import Due, RelayTimers
from laps_sdk.peering.dialler import Dialler
from laps_sdk.peering.links import Links
from laps_sdk.peering.peers import Peers
from laps_sdk.peering.reports import PeerLeaving
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import CloseCode
from laps_wire.peering.laps2 import NodeSelf

__all__ = ["ConnectionDemand"]


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
