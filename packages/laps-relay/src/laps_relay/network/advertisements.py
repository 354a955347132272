"""Advertisements: what peers are sent of the information bases, and when.

**Schedule** (:class:`AdvertisementSchedule`)::

    a base changed ----------> batching time --> flush to each peer that is behind
    a peer asks (SYNC) ------> at most once in SYNC_PAUSE --> everything, between SYNC_BEGIN and END
    a Via that keeps nothing:  a peer asks --> all others are asked first, then it is answered

**Messages** (:class:`Advertiser`). Changes for a peer are collected for the batching time. What is
sent is the difference between what the peer should know and what it was sent: no message is ever
forwarded as such. A message that would be too long for the peer is split.

**Exports**: which peer is sent which entry, by rules of the network, then by policy::

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

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from laps_relay.network.adjacency import Due, RelayTimers
from laps_relay.network.control_server.control_server import ControlServer
from laps_relay.network.control_server.sharding import Sharding
from laps_relay.network.flood.entries import AnnounceEntries, SubscribeEntries, hide_name
from laps_relay.network.flood.floods import AnnounceTable, FloodTable, SubscribeTable
from laps_relay.network.nodes.nib import Nib
from laps_relay.network.settings import NetworkSettings
from laps_relay.policy.interface import Policy
from laps_sdk.peering.events import Refusal
from laps_sdk.peering.links import NO_BASES, Link, Links, send_split
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    AnnounceAdvertise,
    AnnounceInfo,
    AnnounceWithdraw,
    Bases,
    Feature,
    NodeAdvertise,
    NodeSelf,
    NodeWithdraw,
    RelayType,
    Stamp,
    SubscribeAdvertise,
    SubscribeInfo,
    SubscribeResponse,
    SubscribeWithdraw,
    SyncBegin,
    SyncEnd,
    SyncRequest,
)
from laps_wire.peering.laps2.codepoints import MAX_BATCH, MAX_TARGETS
from laps_wire.peering.laps2.information import SubscribeIdentity

__all__ = [
    "FLOODED",
    "SYNC_PAUSE",
    "AdvertisementSchedule",
    "Advertiser",
    "ExportDenied",
    "FloodExports",
]


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


_MADE: Final[dict[str, Callable[[tuple[Any, ...]], Any]]] = {
    "nodes": NodeAdvertise,
    "no nodes": NodeWithdraw,
    "announces": AnnounceAdvertise,
    "no announces": AnnounceWithdraw,
    "subscribes": SubscribeAdvertise,
    "no subscribes": SubscribeWithdraw,
}


class Advertiser:
    """Sends one peer what is due."""

    __slots__ = ("_announces", "_nodes", "_subscribes")

    def __init__(
        self,
        nodes: Nib,
        announces: FloodTable[Any, Any, Any],
        subscribes: FloodTable[Any, Any, Any],
    ) -> None:
        self._nodes = nodes
        self._announces = announces
        self._subscribes = subscribes

    def flush(self, now: float, link: Link, send: Callable[[Any], object]) -> None:
        """Send all differences; between SYNC_BEGIN and SYNC_END if the peer must get everything."""
        bases, link.sync = link.sync, NO_BASES
        node = link.node
        if node is None:
            return
        if bases:
            if Bases.NODES in bases:
                self._nodes.resend(node)
            if Bases.ANNOUNCES in bases:
                self._announces.resend(link.session)
            if Bases.SUBSCRIBES in bases:
                self._subscribes.resend(link.session)
            send(SyncBegin(bases))
        advertise, withdraw = self._nodes.flush(now, node)
        if advertise:
            self._put(send, "nodes", advertise)
        if withdraw:
            self._put(send, "no nodes", sorted(withdraw), MAX_TARGETS)
        self.spoken(now, link.session, node)
        for table, what in ((self._announces, "announces"), (self._subscribes, "subscribes")):
            entries, withdrawals = table.flush(link.session)
            if not entries and not withdrawals:
                continue
            if table is self._announces and Feature.PLAINTEXT_NAMES not in link.features:
                entries = tuple(hide_name(entry) for entry in entries)
            if withdrawals:
                self._put(send, f"no {what}", withdrawals)
            if entries:
                self._put(send, what, entries)
        if bases:
            send(SyncEnd(bases))

    def spoken(self, now: float, session: int, peer: NodeId) -> None:
        """Send entries again of nodes that were advertised after a long pause (laps-2, 5.3)."""
        for node, silence in self._nodes.take_spoken(peer).items():
            self._announces.spoke(now, session, node, silence)
            self._subscribes.spoke(now, session, node, silence)

    def _put(
        self,
        send: Callable[[Any], object],
        what: str,
        entries: Sequence[Any],
        most: int = MAX_BATCH,
    ) -> None:
        send_split(send, _MADE[what], entries, most)


FLOODED: Final = Bases.ANNOUNCES | Bases.SUBSCRIBES
REFILL_TIME: Final = 1.0
"""How long a Via that keeps nothing waits for what others have, in seconds."""
SYNC_PAUSE: Final = 1.0
"""A peer is sent everything again at most so often, in seconds."""
_LOOK: Final = (Due.LOOK, 0)


class AdvertisementSchedule:
    """Schedules differences and synchronisations for all control sessions."""

    __slots__ = (
        "_advertiser",
        "_announces",
        "_links",
        "_nib",
        "_refilled",
        "_send",
        "_settings",
        "_subscribes",
        "_timers",
    )

    def __init__(
        self,
        settings: NetworkSettings,
        *,
        links: Links,
        nib: Nib,
        announces: AnnounceTable,
        subscribes: SubscribeTable,
        timers: RelayTimers,
        send: Callable[[float, int, Any], bool],
    ) -> None:
        """``send`` sends a message over a session."""
        self._settings = settings
        self._links = links
        self._nib = nib
        self._announces = announces
        self._subscribes = subscribes
        self._timers = timers
        self._send = send
        self._advertiser = Advertiser(nib, announces, subscribes)
        self._refilled = float("-inf")
        """When peers were last asked for everything."""

    # Differences

    def schedule(self, now: float) -> None:
        """Begin the batching time if any peer is behind; it is one for all peers."""
        if self._timers.when(_LOOK) is None and (
            self._nib.is_behind(now) or self._announces.is_behind() or self._subscribes.is_behind()
        ):
            self._timers.set(_LOOK, now + self._settings.batch)

    def flush_behind(self, now: float) -> None:
        """Send differences to every peer that is behind."""
        for link in list(self._links.controls()):
            if self._is_behind(now, link):
                self.flush(now, link.session)

    def _is_behind(self, now: float, link: Link) -> bool:
        return (
            (link.node is not None and self._nib.pending(now, link.node))
            or self._announces.pending(link.session)
            or self._subscribes.pending(link.session)
        )

    def flush(self, now: float, session: int) -> None:
        """Send all differences to one peer."""
        link = self._links.get(session)
        if link is not None and link.control and link.foreign_peer is None:
            self._advertiser.flush(now, link, lambda message: self._send(now, session, message))

    def flush_all(self, now: float) -> None:
        """Send all differences to all peers."""
        for link in list(self._links.controls()):
            self.flush(now, link.session)

    def nodes_advertised(self, now: float, session: int, peer: NodeId) -> None:
        """A peer advertised nodes: their entries may have to be sent again (laps-2, 5.3)."""
        self._advertiser.spoken(now, session, peer)

    # Synchronisation

    def sync_requested(self, now: float, link: Link, bases: Bases) -> None:
        """A peer must be sent everything: it is new, its control stream has moved, or it asks."""
        first, link.synced = not link.synced, True
        if not self._settings.reflect and bases & FLOODED:
            # Others have what we do not keep. A new peer receives it as it comes; a peer that had
            # it would take it for gone if it were missing between SYNC_BEGIN and SYNC_END.
            if not first:
                self.refill(now, link)
                self._timers.set((Due.RESYNC, link.session), now + REFILL_TIME)
                bases &= ~FLOODED
            elif self._timers.when((Due.REFILL, 0)) is None:
                self._timers.set((Due.REFILL, 0), now + self._settings.batch)
        # A few bytes cause all tables to be sent: no peer gets that as often as it likes.
        due = link.synced_at
        if due <= now:  # otherwise it is about to be sent everything
            due = link.synced_at = now if first else max(now, due + SYNC_PAUSE)
        if due > now:
            link.asked |= bases
        else:
            link.sync |= bases
        self._timers.set((Due.FLUSH, link.session), due)

    def sync_due(self, now: float, session: int) -> None:
        """Send a peer all that it asked for."""
        link = self._links.by_session[session]
        link.sync, link.asked = link.sync | link.asked, Bases(0)
        self.flush(now, session)

    def resync_due(self, now: float, session: int) -> None:
        """Send a peer all announces and subscribes, now that others have sent us theirs."""
        self._links.by_session[session].sync |= FLOODED
        self.flush(now, session)

    def refill(self, now: float, asked: Link | None = None) -> None:
        """Ask peers for everything; because one of them ``asked`` for it, not all the time.

        Otherwise Vias that keep nothing would ask each other in a circle for ever.
        """
        if asked is None or now >= self._refilled + self._settings.convergence / 2:
            self._refilled = now
            before = now - self._settings.batch
            self.request_sync(now, lambda link: link is not asked and link.opened < before)

    def request_sync(self, now: float, whom: Callable[[Link], bool]) -> None:
        """Ask peers to send all announces and subscribes again."""
        for link in list(self._links.controls()):
            if whom(link):
                self._send(now, link.session, SyncRequest(FLOODED))
