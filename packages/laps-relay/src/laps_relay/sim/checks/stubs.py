"""Stubs: only their parents know them, and nothing of them stays.

===================  ==========================================================================
while it runs        no relay has a Stub's node id (0), its type or its contact in any table, and
                     no control message between others carries its contact
                     a parent asks a Stub only for what that announced (in ``moqt``)
at rest              a Stub has a session with each parent, and knows no node
after withdrawal     the Edge of a Stub and of its parents is empty; when the Stub is gone, its
                     parents have nothing left of it
===================  ==========================================================================
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final

from laps_relay.sim.clients.ledger import BreakError
from laps_relay.sim.net.network import End
from laps_relay.sim.net.wires import Chunk
from laps_relay.sim.world.world import RelayProcess, World
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import RelayType

__all__ = ["StubChecks"]

_STUB: Final = NodeId(0)


class StubChecks:
    """Checks a world with Stubs; raises :class:`~laps_relay.sim.clients.ledger.BreakError`."""

    __slots__ = ("_contacts", "_hidden", "_seen", "_world")

    def __init__(self, world: World) -> None:
        self._world = world
        stubs = [each.spec for each in world.processes.values() if each.is_stub]
        self._hidden = {_STUB, *(spec.node_id for spec in stubs)}
        self._contacts = [spec.name.encode() for spec in stubs]
        self._seen: dict[str, tuple[RelayProcess, int]] = {}
        """Processes whose tables were looked at, and after which of their turns."""
        if stubs:
            world.listeners.append(self.said)

    @property
    def needed(self) -> bool:
        """Whether there are any."""
        return bool(self._contacts)

    def _fail(self, text: str) -> BreakError:
        return BreakError("stub", text, self._world.clock.now)

    def stubs(self) -> list[RelayProcess]:
        """Those that run."""
        return [process for process in self._world.running() if process.is_stub]

    def asked(self) -> set[int]:
        """Return the keys of tracks that only the parents of Stubs request from the network.

        A parent subscribes with itself as the source (seed 000, Stub), as long as its Stub does.
        Where both were refused, the parent begins to wait after its Stub has waited.
        """
        parents = {other.contact for one, other, _ in self._world.configured() if one.is_stub}
        ours: set[int] = set()
        theirs: set[int] = set()
        for process in self._world.running():
            own = process.spec.node_id
            keys = {key for node, key in process.tables.subscribe_sources() if node == own}
            (ours if process.contact in parents else theirs).update(keys)
        return ours - theirs

    # While it runs

    def said(self, end: End, chunk: Chunk) -> None:
        """Check that data between other relays does not contain the contact of a Stub."""
        names = (end.host.contact, end.other.host.contact)
        if any(
            name in self._world.processes and self._world.processes[name].is_stub for name in names
        ):
            return
        for contact in self._contacts:
            if contact in chunk.data:
                raise self._fail(f"{names[1]} told {names[0]} of {contact.decode()}")

    def unseen(self) -> None:
        """Check that no table of another relay has a Stub."""
        if not self.needed:
            return
        for process in self._world.running():
            if process.is_stub or self._seen.get(process.contact) == (process, process.turns):
                continue
            self._seen[process.contact] = process, process.turns
            tables = process.tables
            seen: dict[str, AbstractSet[NodeId]] = {
                "nodes": set(tables.nodes()),
                "told": tables.mentioned(),
                "peers": set(tables.peers()),
                "sources of subscribes": {source for source, _ in tables.subscribe_sources()},
                "sources of announces": {source for source, _ in tables.announce_sources()},
                "targets": {
                    node
                    for flow in tables.fib()
                    for part in (flow.targets, *(out.targets for out in flow.egress))
                    for node in part
                },
            }
            for where, nodes in seen.items():
                if found := nodes & self._hidden:
                    raise self._fail(f"{process.contact} has {sorted(map(str, found))} in {where}")

    # At rest

    def links_up(self) -> str:
        """Which session of a Stub is not up yet; empty if all are."""
        for one, other, _ in self._world.configured():
            if not one.is_stub or one.edge is None or other.edge is None:
                continue
            if other.spec.node_id not in one.edge.parents:
                return f"{one.contact} has no session with its parent {other.contact}"
            if not other.edge.stubs:
                return f"{other.contact} has no session with its Stub {one.contact}"
        return ""

    def at_rest(self) -> None:
        """What a Stub knows itself."""
        self.unseen()
        for process in self.stubs():
            if process.tables.nodes() or process.tables.fib():
                raise self._fail(f"{process.contact} knows of {list(process.tables.nodes())}")

    # Afterwards

    def empty(self) -> None:
        """Nothing is left at any Edge."""
        for process in self._world.running():
            if process.edge is None:
                continue
            left = {name: size for name, size in process.edge.sizes().items() if size}
            if left:
                raise BreakError(
                    "left over", f"{process.contact} still has {left}", self._world.clock.now
                )

    def gone(self) -> None:
        """No parent has anything of a Stub that is gone."""
        for process in self._world.running():
            edge = process.edge
            if edge is None or process.spec.relay_type is not RelayType.EDGE:
                continue
            if edge.stubs or len(edge.relay.sessions()) > 1:
                raise self._fail(f"{process.contact} still has sessions of Stubs")
        self.unseen()
