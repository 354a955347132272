"""The flood tables, and which peer hears of which entry: rules of the network, then policy.

::

    a control server            --> Edges that an entry concerns --.
    a relay that has some       --> as entries are sharded ---------+--> export rules --> the peer
    any other                   --> everybody ---------------------'

:class:`FloodExports` has the two flood tables, which ask it for each entry and session
(:mod:`laps_relay.network.flood.floods`). On a control server it has the :class:`ControlServer`.

:class:`ExportDenied` finds subscribes that the export rules keep from every relay that could serve
them (laps-2, 5.3). They are refused at once; otherwise their subscriber would wait for a timeout::

    a subscribe --> peers on a path to an announcer, or that hold subscribes for others
                      |
                      all of them denied       --> POLICY to the peer or client that subscribed,
                      |                            once for each stamp
                      one allowed, or no peer  --> nothing: another relay answers
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
from laps_sdk.peering.events import Refusal
from laps_sdk.peering.links import Link, Links
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    AnnounceInfo,
    NodeSelf,
    RelayType,
    Stamp,
    SubscribeInfo,
    SubscribeResponse,
)
from laps_wire.peering.laps2.information import SubscribeIdentity

__all__ = ["ExportDenied", "FloodExports"]


class FloodExports:
    """The flood tables of a relay, and their export rules."""

    __slots__ = (
        "_links",
        "_nib",
        "_node",
        "_sharding",
        "announces",
        "policy",
        "server",
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
        respond: Callable[[float, int, SubscribeResponse], None],
        policy: Policy,
    ) -> None:
        """``node`` returns what a node says of itself, or None if the NIB does not have it.

        ``respond`` sends a response: (now, session, response).
        """
        self._links = links
        self._nib = nib
        self._node = node
        self._sharding = sharding
        self.policy = policy
        """The policy in force."""
        self.announces: AnnounceTable = FloodTable(
            AnnounceEntries(local), settings, exports=self.announce
        )
        self.subscribes: SubscribeTable = FloodTable(
            SubscribeEntries(local),
            settings,
            exports=self.subscribe,
            audience=self._audience if settings.relay_type is RelayType.CONTROL else None,
        )
        self.server: ControlServer | None = None
        """What this relay does as a control server; None if it is none."""
        if settings.relay_type is RelayType.CONTROL:
            self.server = ControlServer(
                local,
                announces=self.announces,
                subscribes=self.subscribes,
                node=node,
                respond=respond,
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

    def receivers(
        self, announcers: Callable[[SubscribeInfo], Iterable[NodeId]], entry: SubscribeInfo
    ) -> Iterator[tuple[NodeSelf, bool]]:
        """Yield the peers that a subscribe goes to unless policy denies it.

        With each peer comes whether it leads to an answer. ``announcers`` returns the nodes that
        have announced what a subscribe is for.
        """
        identity = entry.source, entry.full_name_hash
        back, sharded = self.subscribes.heard_on(identity), self._sharding.active
        if self.server is not None:
            # It asks few of its many Edges: those that have announced it.
            links = map(self._links.get, self.server.answering(entry))
            peers = [self.peer(link) for link in links if link and link.session != back]
            yield from ((peer, True) for peer in peers if peer and peer.node_id != entry.source)
            return
        next_hops = {path.peer for node in announcers(entry) for path in self._nib.candidates(node)}
        for link in self._links.controls():
            if (
                (peer := self.peer(link)) is not None
                and link.session != back
                and link.node != entry.source
                and self._subscribe_goes(link.session, entry)
            ):
                yield peer, sharded or link.node in next_hops

    def _audience(self, entry: SubscribeInfo) -> Iterator[int]:
        return iter(()) if self.server is None else self.server.audience(entry)

    def _announce_goes(self, session: int, entry: AnnounceInfo) -> bool:
        if self.server is not None:
            return self.server.exports_announce(session, entry)
        heard_on = partial(self.announces.heard_on, entry.identity)
        return self._sharding.exports_announce(session, entry, heard_on)

    def _subscribe_goes(self, session: int, entry: SubscribeInfo) -> bool:
        if self.server is not None:
            return self.server.exports_subscribe(session, entry)
        heard_on = partial(self.subscribes.heard_on, entry.identity)
        return self._sharding.exports_subscribe(session, entry, heard_on)


class ExportDenied:
    """The subscribes that were refused because policy denies their export, by stamp."""

    __slots__ = ("_filters", "_receivers", "_refused", "again")

    def __init__(
        self, receivers: Callable[[SubscribeInfo], Iterable[tuple[NodeSelf, bool]]]
    ) -> None:
        """``receivers``: as :meth:`FloodExports.receivers`."""
        self._receivers = receivers
        self._filters = False
        """Whether policy has denied any export so far."""
        self._refused: dict[SubscribeIdentity, Stamp] = {}
        self.again = False
        """Whether every subscribe must be checked again: policy or the set of peers changed."""

    def __len__(self) -> int:
        return len(self._refused)

    def paths_removed(self) -> None:
        """Check everything again if policy filters: fewer peers may lead to an announcer."""
        self.again |= self._filters

    def check(self, policy: Policy, entry: SubscribeInfo) -> Refusal | None:
        """Return why every peer that could serve a subscribe is denied it.

        None: one of them is not denied it, there is none, or this stamp was refused before.
        """
        denied: Refusal | None = None
        allowed = False
        for peer, leads in self._receivers(entry):
            refusal = policy.export_subscribe(entry, peer)
            self._filters |= refusal is not None
            if leads and refusal is None:
                allowed = True
            elif leads:
                denied = denied or refusal
        identity = entry.source, entry.full_name_hash
        if denied is None or allowed:
            self._refused.pop(identity, None)
            return None
        if self._refused.get(identity) == entry.stamp:
            return None
        self._refused[identity] = entry.stamp
        return denied

    def forget(self, identity: SubscribeIdentity) -> None:
        """Remove a subscribe that was withdrawn."""
        self._refused.pop(identity, None)
