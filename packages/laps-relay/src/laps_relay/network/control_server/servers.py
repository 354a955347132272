"""The control servers that there are, and the Edges that do not share them with us.

::

    node information --> servers     every Edge has a session with each: whom to dial
                     '-> apart       Edges that a control server cannot bring together with us

An Edge says in its node information whom it reaches, control servers too. Our announces are with
all of ours, a subscribe is with two of its Edge's. So two Edges meet if they have a server in
common and each lacks fewer of the other's than hold a subscribe. Those who do not are *apart*: they
have just come and have no session yet, or something is between them and the servers. Entries for
them and from them are flooded as if there were no servers, from peer to peer.

Who is not a peer is given time for its sessions with the servers: otherwise all relays of a network
would tell all that they have to everybody who comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from laps_relay.network.control_server.sharding import REPLICAS
from laps_relay.network.nodes.nib import Nib
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import RelayType

__all__ = ["Servers", "meet"]


def meet(ours: frozenset[NodeId], theirs: frozenset[NodeId]) -> bool:
    """Whether two Edges with these control servers find each other through them."""
    return bool(ours & theirs) and len(ours - theirs) < REPLICAS and len(theirs - ours) < REPLICAS


class Servers:
    """What node information says of control servers, kept up to date."""

    __slots__ = ("_apart", "_grace", "_nodes", "_ours", "_sessions", "due", "known")

    def __init__(self, nodes: Nib, grace: float) -> None:
        """``grace``: seconds that an Edge that is no peer has for its sessions with servers."""
        self._nodes = nodes
        self._grace = grace
        self._ours: frozenset[NodeId] = frozenset()
        self._sessions = 0
        self._apart: dict[NodeId, float] = {}
        """Since when."""
        self.known: dict[NodeId, tuple[str, ...]] = {}
        """All of them, and how they are dialled."""
        self.due: float | None = None
        """When :meth:`apart` may give somebody more."""

    def changed(
        self, now: float, nodes: Iterable[NodeId], ours: frozenset[NodeId], sessions: int = 0
    ) -> None:
        """Node information of these has changed, or with which servers we have sessions.

        ``sessions`` is another number whenever any session has come or gone.
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
            # Everything is flooded anyway.
            self._apart.clear()
            return
        for node in (*nodes, *self._nodes.nodes()) if again else nodes:
            if self._is_apart(node):
                self._apart.setdefault(node, now)
            else:
                self._apart.pop(node, None)

    def may_change(self, now: float, ours: frozenset[NodeId], sessions: int = 0) -> bool:
        """Whether time, peers or our sessions may change something, though no node or way did."""
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
        """The Edges for which entries are flooded, each with the peer that leads to it."""
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
