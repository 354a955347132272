"""A control server: it holds all announces and a part of all subscribes, and matches them.

::

    Edge --announces--> every control server --NAMESPACE announces--> every Edge (discovery)
    Edge --a subscribe--> two of them --------> the Edges whose announces match, and no other
                              |
                              '--> no match: NO_PUBLISHER at once; the subscribe is kept
                                   for an announce that comes later

Both directions are looked up: a new subscribe in the announces, a new announce in the subscribes. A
TRACK announce is not sent to Edges: there are as many as tracks. Control servers exchange node
information only.

An Edge without a session here may have its entries forwarded by another Edge. Then subscribes that
its announces match go to that other Edge.

An Edge that drains must know which other Edges have the tracks of its clients (:mod:`.redirect`).
It is sent subscribes of others with the keys that it subscribes to itself, as they are at that
moment. Of a track with very many subscribers it gets those of some near Edges only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from heapq import nsmallest
from typing import Final, NamedTuple

from laps_relay.network.control_server.redirect import takes_clients
from laps_relay.network.flood.floods import AnnounceTable, Change, SubscribeTable
from laps_relay.network.subscriptions.discovery import SubscribeIndex
from laps_relay.network.subscriptions.subscriptions import return_session
from laps_sdk.peering.links import mixed
from laps_wire.matching import Announce, AnnounceIndex, Subscribe
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import (
    AnnounceInfo,
    AnnounceKind,
    LoadClass,
    NodeSelf,
    RelayType,
    SubscribeCode,
    SubscribeInfo,
    SubscribeResponse,
)
from laps_wire.peering.laps2.information import AnnounceIdentity, SubscribeIdentity

__all__ = ["MAX_SHARED", "ControlServer"]

MAX_SHARED: Final = 16
"""How many other Edges with a track a draining Edge is sent at most."""


class ControlSizes(NamedTuple):
    """How many entries the tables of a :class:`ControlServer` have."""

    announces: int
    subscribes: int
    draining: int
    """Edges with a session that drain."""


class ControlServer:
    """Decides which entries a control server sends to which Edge."""

    __slots__ = (
        "_announced",
        "_announces",
        "_edges",
        "_index",
        "_leavers",
        "_local",
        "_node",
        "_nodes",
        "_proxies",
        "_respond",
        "_subscribes",
        "_table",
    )

    def __init__(
        self,
        local: NodeId,
        *,
        announces: AnnounceTable,
        subscribes: SubscribeTable,
        node: Callable[[NodeId], NodeSelf | None],
        respond: Callable[[float, int, SubscribeResponse], None],
    ) -> None:
        """``announces`` and ``subscribes`` are the flood tables, whose exports this class decides.

        ``node`` returns what a node says of itself, or None if it is unknown. ``respond`` sends a
        response: (now, session, response).
        """
        self._local = local
        self._announces = announces
        self._table = subscribes
        self._node = node
        self._respond = respond
        self._index: AnnounceIndex[int, NodeId] = AnnounceIndex()
        self._announced: dict[NodeId, dict[AnnounceIdentity, AnnounceInfo]] = {}
        self._subscribes: SubscribeIndex[NodeId] = SubscribeIndex()
        self._edges: dict[int, NodeId] = {}
        self._nodes: dict[NodeId, int] = {}
        self._proxies: dict[NodeId, int | None] = {}
        """Edges without a session that have announces: the session over which these came."""
        self._leavers: dict[NodeId, dict[int, frozenset[NodeId]]] = {}
        """Draining Edges with a session: by key, the sources whose subscribes they get."""

    # Sessions

    def add_session(self, session: int, node: NodeId, relay_type: RelayType) -> None:
        """Add a control session that is in both tables already."""
        if relay_type is not RelayType.EDGE:
            return
        self._edges[session] = node
        self._nodes[node] = session
        before = self._proxies.pop(node, None)
        self._offer(node, before, session)
        self._leavers.pop(node, None)
        self.node_changed(node)

    def remove_session(self, session: int) -> None:
        """Remove a session that has ended."""
        node = self._edges.pop(session, None)
        if node is not None and self._nodes.get(node) == session:
            del self._nodes[node]
            self._leavers.pop(node, None)
            if node in self._announced:
                self._proxies[node] = None

    def settle(self) -> None:
        """Follow the session over which the entries of an Edge without a session arrive."""
        for node, before in self._proxies.items():
            session = self._announces.heard_on(next(iter(self._announced[node])))
            if session != before:
                self._proxies[node] = session
                self._offer(node, before, session)

    def _offer(self, node: NodeId, *sessions: int | None) -> None:
        """Offer the subscribes that an Edge's announces match over these sessions."""
        for session in sessions:
            if session is not None and session in self._edges:
                for entry in self._announced.get(node, {}).values():
                    self._table.offer(session, self.waiting(entry))

    def _session_of(self, node: NodeId) -> int | None:
        """Return the session over which an Edge gets subscribes; None if there is none."""
        session = self._nodes.get(node)
        return self._proxies.get(node) if session is None else session

    # Edges that drain

    def node_changed(self, node: NodeId) -> None:
        """Handle new node information: the node may drain now, or not any more."""
        info, session = self._node(node), self._nodes.get(node)
        drains = info is not None and info.load.load_class is LoadClass.DRAINING
        if session is None or drains == (node in self._leavers):
            return
        if drains:
            entries = self._table.of_source(node)
            shared = {entry.full_name_hash: self._sharing(node, entry) for entry in entries}
            self._leavers[node] = shared
        else:
            shared = self._leavers.pop(node)
        for key, sources in shared.items():
            self._table.offer(session, ((source, key) for source in sources))

    def _sharing(self, node: NodeId, entry: SubscribeInfo) -> frozenset[NodeId]:
        """Return the Edges that have a track and take clients, those of the same region first.

        Among equals the result is the same for all tracks of one Edge, and differs between Edges.
        """
        leaver = self._node(node)
        region = "" if leaver is None else leaver.region
        ranks: list[tuple[bool, bool, int, NodeId]] = []
        for source in self._subscribes.track(entry.element_hashes, entry.full_name_hash):
            info = self._node(source)
            if source != node and info is not None and takes_clients(info):
                busy = info.load.load_class is not LoadClass.NORMAL
                ranks.append((info.region != region, busy, mixed(source ^ node), source))
        return frozenset(source for *_, source in nsmallest(MAX_SHARED, ranks))

    def _leaver_changed(self, entry: SubscribeInfo, *, over: bool) -> None:
        """Update what a draining Edge gets, after a change of one of its subscribes."""
        shared, session = self._leavers[entry.source], self._nodes[entry.source]
        key = entry.full_name_hash
        sources = shared.pop(key, frozenset())
        if not over:
            shared[key] = self._sharing(entry.source, entry)
            sources |= shared[key]
        self._table.offer(session, ((source, key) for source in sources))

    # Rules of the tables

    def exports_announce(self, session: int, entry: AnnounceInfo) -> bool:
        """Return whether an announce goes over a session: namespaces go to Edges."""
        return entry.kind is AnnounceKind.NAMESPACE and session in self._edges

    def exports_subscribe(self, session: int, entry: SubscribeInfo) -> bool:
        """Return whether a subscribe goes over a session.

        It goes to Edges whose announces match, and to Edges that drain and have the same track.
        """
        return session in self._edges and (
            any(self._session_of(node) == session for node in self._announcers(entry))
            or session in self._leaving(entry)
        )

    def audience(self, entry: SubscribeInfo) -> Iterator[int]:
        """Yield the sessions over which a subscribe may go."""
        yield from self.answering(entry)
        yield from self._leaving(entry)

    def _leaving(self, entry: SubscribeInfo) -> Iterator[int]:
        """Yield the sessions of draining Edges that have the same track."""
        for node, shared in self._leavers.items():
            if entry.source in shared.get(entry.full_name_hash, ()):
                yield self._nodes[node]

    def announcers(self, entry: SubscribeInfo) -> list[NodeId]:
        """Return the Edges whose announces match a subscribe."""
        return self._announcers(entry)

    def answering(self, entry: SubscribeInfo) -> Iterator[int]:
        """Yield the sessions of Edges whose announces match a subscribe."""
        for node in self._announcers(entry):
            session = self._session_of(node)
            if session is not None:
                yield session

    def _announcers(self, entry: SubscribeInfo) -> list[NodeId]:
        return self._index.match(Subscribe(entry.element_hashes, entry.name_hash))

    # Changes

    def announces_changed(
        self, now: float, changes: Iterable[Change[AnnounceIdentity, AnnounceInfo]]
    ) -> None:
        """Handle what ``take_changes`` of the announces returned."""
        del now
        for change in changes:
            node = change.identity[0]
            touched: list[AnnounceInfo] = []
            mine = self._announced.setdefault(node, {})
            if change.previous is not None:
                mine.pop(change.identity, None)
                self._index.remove(_announce(change.previous), node)
                touched.append(change.previous)
            if change.entry is not None:
                mine[change.identity] = change.entry
                self._index.add(_announce(change.entry), node)
                touched.append(change.entry)
            session = self._session_of(node)
            if not mine:
                del self._announced[node]
                self._proxies.pop(node, None)
            elif node not in self._nodes:
                self._proxies.setdefault(node, None)
            if session is not None and session in self._edges:
                for entry in touched:
                    self._table.offer(session, self.waiting(entry))

    def waiting(self, entry: AnnounceInfo) -> Iterator[SubscribeIdentity]:
        """Yield the subscribes that an announce matches."""
        if entry.name_hash is None:
            for key, source in self._subscribes.below(entry.element_hashes):
                yield source, key
        else:
            key = entry.full_name_hash
            for source in self._subscribes.track(entry.element_hashes, key):
                yield source, key

    def subscribes_changed(
        self, now: float, changes: Iterable[Change[SubscribeIdentity, SubscribeInfo]]
    ) -> None:
        """Handle what ``take_changes`` of the subscribes returned."""
        for change in changes:
            source, key = change.identity
            if change.previous is not None:
                self._subscribes.remove(change.previous.element_hashes, key, source)
                if change.entry is None and source in self._leavers:
                    self._leaver_changed(change.previous, over=True)
            if change.entry is not None:
                self._subscribes.add(change.entry.element_hashes, key, source)
                if source in self._leavers:
                    self._leaver_changed(change.entry, over=False)
                if not any(node != source for node in self._announcers(change.entry)):
                    self._no_publisher(now, change.entry)

    def _no_publisher(self, now: float, entry: SubscribeInfo) -> None:
        session = self._table.heard_on(entry.identity)
        if session is not None:
            response = SubscribeResponse(
                entry.source,
                entry.full_name_hash,
                entry.stamp,
                self._local,
                SubscribeCode.NO_PUBLISHER,
                "nobody has announced it",
            )
            self._respond(now, session, response)

    def response(self, now: float, session: int, response: SubscribeResponse) -> None:
        """Pass a response on towards its s-relay."""
        back = return_session(self._table, session, response)
        if back is not None:
            parameters = response.parameters.carried()
            self._respond(now, back, replace(response, parameters=parameters))

    def sizes(self) -> ControlSizes:
        """Return how many entries the tables have."""
        announced = sum(len(entries) for entries in self._announced.values())
        return ControlSizes(announced, len(self._subscribes), len(self._leavers))


def _announce(entry: AnnounceInfo) -> Announce[int]:
    return Announce(entry.element_hashes, entry.name_hash)
