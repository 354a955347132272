"""The flood tables, and which peer hears of which entry: rules of the network, then policy.

::

    a control server            --> Edges that an entry concerns --.
    a relay that has some       --> as entries are sharded ---------+--> export rules --> the peer
    any other                   --> everybody ---------------------'

:class:`FloodExports` has the two flood tables, which ask it for each entry and session
(:mod:`laps_relay.network.flood.floods`). :mod:`laps_relay.network.flood.withheld` asks it which
peers hear of a subscribe, to find those that policy keeps from all who could serve them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from laps_relay.network.control_server.control_server import ControlServer
from laps_relay.network.control_server.sharding import Sharding
from laps_relay.network.flood.entries import AnnounceEntries, SubscribeEntries
from laps_relay.network.flood.floods import AnnounceTable, FloodTable, SubscribeTable
from laps_relay.network.nodes.nib import Nib
from laps_relay.network.settings import NetworkSettings
from laps_relay.policy.interface import Policy
from laps_sdk.peering.links import Link, Links
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import AnnounceInfo, NodeSelf, SubscribeInfo

__all__ = ["FloodExports"]


class FloodExports:
    """The flood tables of a relay, and their export rules."""

    __slots__ = (
        "_announcers",
        "_links",
        "_nib",
        "_node",
        "_server",
        "_sharding",
        "announces",
        "policy",
        "subscribes",
    )

    def __init__(
        self,
        local: NodeId,
        settings: NetworkSettings,
        *,
        links: Links,
        nib: Nib,
        sharding: Sharding,
        node: Callable[[NodeId], NodeSelf | None],
        server: ControlServer | None,
        announcers: Callable[[SubscribeInfo], Iterable[NodeId]],
        policy: Policy,
    ) -> None:
        """``announcers`` gives the nodes that have announced what a subscribe is for.

        ``node`` gives what a node says of itself, or None if the NIB does not have it.
        """
        self._links = links
        self._nib = nib
        self._node = node
        self._sharding = sharding
        self._server = server
        self._announcers = announcers
        self.policy = policy
        """The policy in force."""
        self.announces: AnnounceTable = FloodTable(
            AnnounceEntries(local), settings, exports=self.announce
        )
        self.subscribes: SubscribeTable = FloodTable(
            SubscribeEntries(local),
            settings,
            exports=self.subscribe,
            audience=None if server is None else server.audience,
        )

    def peer(self, link: Link) -> NodeSelf | None:
        """What a peer says of itself now, which may be other than in its handshake."""
        if link.info is None or link.node is None:
            return None
        return self._node(link.node) or link.info.node

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
        back, sharded = self.subscribes.heard_on(identity), self._sharding.active
        if self._server is not None:
            # It asks few of its many Edges: those that have announced it.
            links = map(self._links.get, self._server.answering(entry))
            peers = [self.peer(link) for link in links if link and link.session != back]
            yield from ((peer, True) for peer in peers if peer and peer.node_id != entry.source)
            return
        announcers = self._announcers(entry)
        ways = {way.peer for node in announcers for way in self._nib.candidates(node)}
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
        heard_on = partial(self.announces.heard_on, entry.identity)
        return self._sharding.exports_announce(session, entry, heard_on)

    def _subscribe_goes(self, session: int, entry: SubscribeInfo) -> bool:
        if self._server is not None:
            return self._server.exports_subscribe(session, entry)
        heard_on = partial(self.subscribes.heard_on, entry.identity)
        return self._sharding.exports_subscribe(session, entry, heard_on)
