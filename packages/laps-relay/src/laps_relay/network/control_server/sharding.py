"""Subscribes over several control servers: the servers of a key, and what an Edge sends to them.

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

Edges that share no server with this relay are *apart* (:mod:`.servers`). They flood, and so does
this relay for them: all its entries go to the peers that lead there, and entries from there go to
the servers as if they were its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from laps_sdk.peering.links import mixed
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import AnnounceInfo, SubscribeInfo

__all__ = ["REPLICAS", "Sharding", "rendezvous"]

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
