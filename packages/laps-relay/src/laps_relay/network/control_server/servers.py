"""The known control servers, and the Edges that do not share them with this relay.

::

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

from collections.abc import Callable, Iterable

from laps_relay.network.control_server.sharding import REPLICAS
from laps_relay.network.nodes.nib import Nib
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import RelayType

__all__ = ["Servers", "meet"]


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
