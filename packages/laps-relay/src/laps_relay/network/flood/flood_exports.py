"""Who hears of which announce and which subscribe: rules of the network first, then policy.

::

    a control server            --> Edges that an entry concerns --.
    a relay that has some       --> as entries are sharded ---------+--> export rules --> the peer
    any other                   --> everybody ---------------------'

The tables of what is flooded ask this for each entry and session (:mod:`.floods`). What policy
keeps from all who could serve a subscribe is found with it, too (:mod:`.withheld`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Protocol

from laps_relay.network.control_server.control_server import ControlServer
from laps_relay.network.control_server.sharding import Sharding
from laps_relay.network.nodes.selection import NodeLookup
from laps_relay.network.subscriptions.interest_host import AnnounceTable, SubscribeTable
from laps_relay.policy.interface import Policy
from laps_sdk.peering.links import Link, Links
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import AnnounceInfo, NodeSelf, SubscribeInfo

__all__ = ["ExportHost", "FloodExports"]


class ExportHost(Protocol):
    """The relay around it; a part of ``InterestsHost``."""

    @property
    def announces(self) -> AnnounceTable:
        """All announces."""

    @property
    def subscribes(self) -> SubscribeTable:
        """All subscribes."""

    def node(self, node: NodeId) -> NodeSelf | None:
        """What a node says of itself; None if the NIB does not have it."""


class FloodExports:
    """What goes to which peer."""

    __slots__ = ("_announcers", "_host", "_links", "_nodes", "_server", "_sharding", "policy")

    def __init__(
        self,
        host: ExportHost,
        links: Links,
        nodes: NodeLookup,
        sharding: Sharding,
        *,
        server: ControlServer | None,
        announcers: Callable[[SubscribeInfo], Iterable[NodeId]],
        policy: Policy,
    ) -> None:
        """``announcers`` gives the nodes that have announced what a subscribe is for."""
        self._host = host
        self._links = links
        self._nodes = nodes
        self._sharding = sharding
        self._server = server
        self._announcers = announcers
        self.policy = policy
        """The policy of the moment."""

    def peer(self, link: Link) -> NodeSelf | None:
        """What a peer says of itself now, which may be other than in its handshake."""
        if link.info is None or link.node is None:
            return None
        return self._host.node(link.node) or link.info.node

    def announce(self, session: int, entry: AnnounceInfo) -> bool:
        """Whether an announce goes over a session."""
        link = self._links.get(session)
        return (
            link is not None
            and (peer := self.peer(link)) is not None
            and self._announce_goes(session, entry)
            and self.policy.export_announce(entry, peer) is None
        )

    def subscribe(self, session: int, entry: SubscribeInfo) -> bool:
        """Whether a subscribe does."""
        link = self._links.get(session)
        return (
            link is not None
            and (peer := self.peer(link)) is not None
            and self._subscribe_goes(session, entry)
            and self.policy.export_subscribe(entry, peer) is None
        )

    def hearers(self, entry: SubscribeInfo) -> Iterator[tuple[NodeSelf, bool]]:
        """The peers that hear of a subscribe if policy lets them, and who leads to an answer."""
        identity = entry.source, entry.full_name_hash
        back, sharded = self._host.subscribes.heard_on(identity), self._sharding.active
        if self._server is not None:
            # It asks few of its many Edges: those that have announced it.
            links = map(self._links.get, self._server.answering(entry))
            peers = [self.peer(link) for link in links if link and link.session != back]
            yield from ((peer, True) for peer in peers if peer and peer.node_id != entry.source)
            return
        announcers = self._announcers(entry)
        ways = {way.peer for node in announcers for way in self._nodes.candidates(node)}
        for link in self._links.controls():
            if (
                (peer := self.peer(link)) is not None
                and link.session != back
                and link.node != entry.source
                and self._subscribe_goes(link.session, entry)
            ):
                yield peer, sharded or link.node in ways

    def _announce_goes(self, session: int, entry: AnnounceInfo) -> bool:
        if self._server is not None:
            return self._server.exports_announce(session, entry)
        heard_on = partial(self._host.announces.heard_on, entry.identity)
        return self._sharding.exports_announce(session, entry, heard_on)

    def _subscribe_goes(self, session: int, entry: SubscribeInfo) -> bool:
        if self._server is not None:
            return self._server.exports_subscribe(session, entry)
        heard_on = partial(self._host.subscribes.heard_on, entry.identity)
        return self._sharding.exports_subscribe(session, entry, heard_on)
