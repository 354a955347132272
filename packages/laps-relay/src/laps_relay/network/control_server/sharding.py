"""Entries over several control servers: the servers of a key, and what an Edge sends to them.

Flooding every subscribe to every Edge does not scale to hundreds of millions of tracks. With
control servers an Edge sends its announces to each of them, and a subscribe to two of them only::

    score(server, key) = mix(mix(server) xor key)          the two highest scores hold the key

    mix(x):  x = (x xor x >> 30) * 0xbf58476d1ce4e5b9      modulo 2^64
             x = (x xor x >> 27) * 0x94d049bb133111eb      modulo 2^64
             x xor x >> 31

A score does not depend on the other servers (rendezvous hashing). So when a server is lost, only
its entries move, to the next server in the order of each key. When one is added to N others,
2/(N+1) of all entries move to it. Equal scores are decided by the lower node id.

Entries of one server do not go to another one, and entries for servers do not go to other peers.
Every Edge has a session with every control server, for each of them must know its announces.

Edges that share no server with this relay are *apart* (:class:`Servers`). They flood, and so does
this relay for them: all its entries go to the peers that lead there, and entries from there go to
the servers as if they were its own.

**Known servers**, and the Edges that do not share them with this relay::

    node information --> servers     every Edge has a session with each: which ones to dial
                     '-> apart       Edges that no control server can match with this relay

An Edge lists in its node information the nodes that it reaches, control servers too. Its announces
are on all of its servers, a subscribe is on two of them. So two Edges find each other if they have
a server in common and each lacks fewer of the other's servers than hold a subscribe. Other Edges
are *apart*: they are new and have no session yet, or cannot reach the servers. Entries for them and
from them are flooded from peer to peer, as if there were no servers.

An Edge that is no peer gets time for its sessions with the servers. Otherwise all relays of a
network would send all their entries to every new Edge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from laps_relay.network.nodes.nib import Nib
from laps_sdk.peering.links import mixed
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import AnnounceInfo, RelayType, SubscribeInfo

__all__ = ["REPLICAS", "Servers", "Sharding", "meet", "rendezvous"]

REPLICAS: Final = 2
"""How many control servers hold a subscribe: losing one of them loses nothing."""


def _unheard() -> None:
    """Return None: an entry of our own was received on no session."""


def rendezvous(key: int, servers: Iterable[NodeId], count: int = REPLICAS) -> tuple[NodeId, ...]:
    """Return the servers that hold a key, the one with the highest score first."""
    return _best(key, {server: mixed(server) for server in servers}, count)


def _best(key: int, seeds: Mapping[NodeId, int], count: int) -> tuple[NodeId, ...]:
    ranked = sorted(seeds, key=lambda server: (-mixed(seeds[server] ^ key), server))
    return tuple(ranked[:count])


class Sharding:
    """The control servers with a session. Without any of them entries are flooded."""

    __slots__ = ("_apart", "_leading", "_local", "_seeds", "_servers", "servers")

    def __init__(self, local: NodeId) -> None:
        self._local = local
        self._apart: frozenset[NodeId] = frozenset()
        self._leading: frozenset[int] = frozenset()
        """Sessions towards the Edges that are apart."""
        self._servers: dict[int, NodeId] = {}
        self._seeds: dict[NodeId, int] = {}
        self.servers: frozenset[NodeId] = frozenset()
        """The node ids of the control servers."""

    @property
    def active(self) -> bool:
        """Whether there is a session with any control server."""
        return bool(self._servers)

    def add_server(self, session: int, node: NodeId) -> None:
        """Add a control session with a control server (feature SHARDED_SUBSCRIBES).

        Call ``reconsider()`` of both tables afterwards: entries go to other peers now.
        """
        self._servers[session] = node
        self._seeds[node] = mixed(node)
        self.servers = frozenset(self._seeds)

    def remove_server(self, session: int) -> bool:
        """Remove a session; return whether it was one with a control server. Then reconsider."""
        node = self._servers.pop(session, None)
        if node is None:
            return False
        if node not in self._servers.values():
            del self._seeds[node]
            self.servers = frozenset(self._seeds)
        return True

    def set_apart(self, nodes: Iterable[NodeId], sessions: Iterable[int]) -> bool:
        """Set the Edges that are apart, and the sessions to them; return whether it changed."""
        before = self._apart, self._leading
        self._apart, self._leading = frozenset(nodes), frozenset(sessions)
        return before != (self._apart, self._leading)

    def replicas(self, key: int) -> tuple[NodeId, ...]:
        """Return the control servers that hold our subscribe for a key; () without servers."""
        return _best(key, self._seeds, REPLICAS)

    def exports_announce(
        self, session: int, entry: AnnounceInfo, heard_on: Callable[[], int | None] = _unheard
    ) -> bool:
        """Return whether an announce goes over a session; ``heard_on`` returns its own session."""
        if not self._servers or session in self._leading:
            return True
        return session in self._servers and self._is_ours(entry.source, heard_on)

    def exports_subscribe(
        self, session: int, entry: SubscribeInfo, heard_on: Callable[[], int | None] = _unheard
    ) -> bool:
        """Return whether a subscribe goes over a session; ``heard_on`` as above."""
        if not self._servers or session in self._leading:
            return True
        server = self._servers.get(session)
        if server is None or not self._is_ours(entry.source, heard_on):
            return False
        return server in self.replicas(entry.full_name_hash)

    def _is_ours(self, source: NodeId, heard_on: Callable[[], int | None]) -> bool:
        """Return whether this relay sends an entry to the servers."""
        if source == self._local:
            return True
        return source in self._apart and heard_on() not in self._servers


def meet(ours: frozenset[NodeId], theirs: frozenset[NodeId]) -> bool:
    """Return whether two Edges with these control servers find each other through them."""
    return bool(ours & theirs) and len(ours - theirs) < REPLICAS and len(theirs - ours) < REPLICAS


class Servers:
    """The control servers by node information, kept up to date."""

    __slots__ = ("_apart", "_grace", "_nodes", "_ours", "_sessions", "due", "known")

    def __init__(self, nodes: Nib, grace: float) -> None:
        """``grace``: seconds that an Edge that is no peer has for its sessions with servers."""
        self._nodes = nodes
        self._grace = grace
        self._ours: frozenset[NodeId] = frozenset()
        self._sessions = 0
        self._apart: dict[NodeId, float] = {}
        """The Edges that are apart, and since when."""
        self.known: dict[NodeId, tuple[str, ...]] = {}
        """All known control servers, and their addresses."""
        self.due: float | None = None
        """When :meth:`apart` may return more Edges."""

    def changed(
        self, now: float, nodes: Iterable[NodeId], ours: frozenset[NodeId], sessions: int = 0
    ) -> None:
        """Apply changed node information, or a change of our sessions with servers.

        ``sessions`` is another number whenever any session has been added or removed.
        """
        self._sessions = sessions
        nodes = tuple(nodes)
        again = ours != self._ours
        self._ours = ours
        for node in nodes:
            info = self._nodes.info(node)
            if info is None or info.node.relay_type is not RelayType.CONTROL:
                again |= self.known.pop(node, None) is not None
            else:
                again |= node not in self.known
                self.known[node] = info.node.contacts
        if not ours:
            # Without servers everything is flooded.
            self._apart.clear()
            return
        for node in (*nodes, *self._nodes.nodes()) if again else nodes:
            if self._is_apart(node):
                self._apart.setdefault(node, now)
            else:
                self._apart.pop(node, None)

    def may_change(self, now: float, ours: frozenset[NodeId], sessions: int = 0) -> bool:
        """Return whether time, peers or our sessions may change the result of :meth:`apart`."""
        if sessions != self._sessions or (ours is not self._ours and ours != self._ours):
            return True
        return self.due is not None and now >= self.due

    def _is_apart(self, node: NodeId) -> bool:
        info = self._nodes.info(node)
        if info is None or info.node.relay_type is not RelayType.EDGE:
            return False
        theirs = frozenset(
            each.node_id for each in info.node.reachable if each.node_id in self.known
        )
        return not meet(self._ours, theirs)

    def apart(self, now: float, is_peer: Callable[[NodeId], bool]) -> dict[NodeId, NodeId]:
        """Return the Edges for which entries are flooded, each with the peer that leads to it."""
        found: dict[NodeId, NodeId] = {}
        self.due = None
        for node, since in self._apart.items():
            if is_peer(node):
                found[node] = node
            elif now < since + self._grace:
                due = since + self._grace
                self.due = due if self.due is None else min(self.due, due)
            elif (best := self._nodes.best(node)) is not None:
                found[node] = best.peer
        return found
