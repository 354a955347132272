"""Subscribes over several control servers: who holds what, and what an Edge tells to whom.

Flooding every subscribe to every Edge does not reach hundreds of millions of tracks. With control
servers an Edge tells its announces to each of them, and a subscribe to two of them only::

    score(server, key) = mix(mix(server) xor key)          the two highest scores hold the key

    mix(x):  x = (x xor x >> 30) * 0xbf58476d1ce4e5b9      modulo 2^64
             x = (x xor x >> 27) * 0x94d049bb133111eb      modulo 2^64
             x xor x >> 31

Scores do not depend on who else is there (rendezvous hashing). So when a server goes, only what it
held moves, to the server that is next in the order of each key; when one comes to N others, 2/(N+1)
of all entries move to it. Equal scores are decided by the lower node ID.

What is in one server does not go to another one, and what goes to servers does not go to other
peers. Every Edge has a session with every control server, for each of them must know its announces.

Edges that have none, or not those that we have, are *apart* (:mod:`.servers`). They flood, and so
do we for them: all that we have goes to the peers that lead there, and what came from there goes to
the servers as if it were ours.
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
    """Of an entry of our own."""


def rendezvous(key: int, servers: Iterable[NodeId], count: int = REPLICAS) -> tuple[NodeId, ...]:
    """The servers that hold a key, the first one first."""
    return _best(key, {server: mixed(server) for server in servers}, count)


def _best(key: int, seeds: Mapping[NodeId, int], count: int) -> tuple[NodeId, ...]:
    ranked = sorted(seeds, key=lambda server: (-mixed(seeds[server] ^ key), server))
    return tuple(ranked[:count])


class Sharding:
    """The control servers that a relay has sessions with. With none of them entries are flooded."""

    __slots__ = ("_apart", "_leading", "_local", "_seeds", "_servers", "servers")

    def __init__(self, local: NodeId) -> None:
        self._local = local
        self._apart: frozenset[NodeId] = frozenset()
        self._leading: frozenset[int] = frozenset()
        """Sessions that lead to those who are apart."""
        self._servers: dict[int, NodeId] = {}
        self._seeds: dict[NodeId, int] = {}
        self.servers: frozenset[NodeId] = frozenset()
        """Who they are."""

    @property
    def active(self) -> bool:
        """Whether there are any."""
        return bool(self._servers)

    def add_server(self, session: int, node: NodeId) -> None:
        """A control session with a control server is up (feature SHARDED_SUBSCRIBES).

        Afterwards ``reconsider()`` both tables: what goes to whom is different now.
        """
        self._servers[session] = node
        self._seeds[node] = mixed(node)
        self.servers = frozenset(self._seeds)

    def remove_server(self, session: int) -> bool:
        """A session has ended; whether it was one with a control server. Then as above."""
        node = self._servers.pop(session, None)
        if node is None:
            return False
        if node not in self._servers.values():
            del self._seeds[node]
            self.servers = frozenset(self._seeds)
        return True

    def set_apart(self, nodes: Iterable[NodeId], sessions: Iterable[int]) -> bool:
        """Who is apart, and which sessions lead there; whether that is news. Then as above."""
        before = self._apart, self._leading
        self._apart, self._leading = frozenset(nodes), frozenset(sessions)
        return before != (self._apart, self._leading)

    def replicas(self, key: int) -> tuple[NodeId, ...]:
        """The control servers that hold our subscribe for a key; none without control servers."""
        return _best(key, self._seeds, REPLICAS)

    def exports_announce(
        self, session: int, entry: AnnounceInfo, heard_on: Callable[[], int | None] = _unheard
    ) -> bool:
        """Whether an announce goes over a session; ``heard_on`` gives the one it came over."""
        if not self._servers or session in self._leading:
            return True
        return session in self._servers and self._is_ours(entry.source, heard_on)

    def exports_subscribe(
        self, session: int, entry: SubscribeInfo, heard_on: Callable[[], int | None] = _unheard
    ) -> bool:
        """Whether a subscribe goes over a session."""
        if not self._servers or session in self._leading:
            return True
        server = self._servers.get(session)
        if server is None or not self._is_ours(entry.source, heard_on):
            return False
        return server in self.replicas(entry.full_name_hash)

    def _is_ours(self, source: NodeId, heard_on: Callable[[], int | None]) -> bool:
        """Whether it is on us to tell the servers."""
        if source == self._local:
            return True
        return source in self._apart and heard_on() not in self._servers
