"""The convergence bound: so long after a change of the network all routes and the FIB are right.

::

    session comes or goes        nothing else happens                     all tables = oracle
    ----------+-------------------------------------------------------------------+------->
              |<------ diameter x (one-way delay + batching) + 2 x batching ------>|

The time that a dead session takes to be noticed is before that: the change is the moment in which
a relay notices. Batching counts once for each relay that passes the news on, because each collects
for that long what it has to say. The one-way delay is the longest of all links that are up, with
its jitter, and with a retransmission where packets are lost.

What else keeps news from passing puts the moment off: relays that stand still, blocked or slow
links, peers that lie, sessions that only one side still believes in or that have lost their
control session, relays that drain.
"""

from __future__ import annotations

from typing import Final

from laps_relay.core.network.events import PeerAdded, PeerGone
from laps_relay.sim.oracle import Graph, Oracle
from laps_relay.sim.process import RelayProcess
from laps_relay.sim.routes import Routes
from laps_relay.sim.wires import RETRANSMIT, Wire
from laps_relay.sim.world import World
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import RelayType

__all__ = ["Convergence"]

AGAIN: Final = 0.1
"""How often to look whether what keeps news from passing is over."""


class Convergence:
    """Follows every change of sessions until the tables must be right."""

    __slots__ = ("_again", "_changed", "_world", "bound", "changes", "longest", "proven")

    def __init__(self, world: World) -> None:
        self._world = world
        self._changed = 0.0
        """When a session last came or went."""
        self._again = False
        self.changes = 0
        """Session changes, together if at once."""
        self.proven = 0
        """Changes after which nothing else happened, and the bound held."""
        self.bound = 0.0
        """The longest that was granted."""
        self.longest = 0.0
        """From a change to the last route that moved after it."""
        world.watch(self._event)
        world.when_disturbed(self.changed)

    def _event(self, process: RelayProcess, event: object) -> None:  # noqa: ARG002
        if isinstance(event, PeerAdded | PeerGone):
            self.changed()

    def changed(self) -> None:
        """The network is another one from now on."""
        now = self._world.clock.now
        if now > self._changed or not self.changes:
            self.changes += 1
            self._changed = now
            self._again = False
            self._world.clock.after(2 * self._world.scenario.settings.batch, self._look, now)

    def _look(self, changed: float) -> None:
        """Find out when everything must be right, if nothing is new since."""
        if changed != self._changed or self._world.ending:
            return
        world = self._world
        now = world.clock.now
        found = self._sessions()
        if found is None or now < world.unsettled:
            self._again = True
            world.clock.after(AGAIN, self._look, changed)
            return
        graph, wires = found
        settings = world.scenario.settings
        policy = world.policy
        oracle = Oracle(graph, lambda node: policy.transit("", node))
        bound = bound_of(oracle, graph, wires, settings.batch)
        start = now if self._again else changed
        self._again = False
        world.clock.at(start + bound, self._check, changed, world.policy_since, oracle, bound)

    def _check(self, changed: float, policy_since: float, oracle: Oracle, bound: float) -> None:
        world = self._world
        if changed != self._changed or world.ending:
            return
        if (
            policy_since != world.policy_since
            or self._sessions() is None
            or (world.clock.now < world.unsettled)
        ):
            self._again = True
            self._look(changed)
            return
        self.proven += 1
        self.bound = max(self.bound, bound)
        if world.quiet_since >= changed:
            self.longest = max(self.longest, world.quiet_since - changed)
        routes = Routes(world, oracle)
        running = [
            process
            for process in world.running()
            if process.spec.relay_type is not RelayType.CONTROL
        ]
        for process in running:
            routes.next_hops(
                process, [other.spec.node_id for other in running if other is not process]
            )
        if world.scenario.exact:
            routes.fib(running)

    def _sessions(self) -> tuple[Graph, list[Wire]] | None:
        """Who has a session with whom, and over what; None if news cannot pass freely now."""
        world = self._world
        if any(getattr(each, "running", False) for each in world.hostiles.values()):
            return None
        running = world.running()
        for process in running:
            if process.paused or process.avoided or not process.tables.controlled():
                return None
        peers = {process.spec.node_id: set(process.tables.peers()) for process in running}
        names = {process.spec.node_id: process for process in running}
        graph: dict[NodeId, dict[NodeId, int]] = {node: {} for node in peers}
        wires: list[Wire] = []
        for node, near in peers.items():
            for other in near:
                if node not in peers.get(other, ()):
                    return None  # the other side has not noticed yet
                wire = world.network.wire(names[node].contact, names[other].contact)
                if wire is None or wire.slow or any(wire.blocked.values()):
                    return None
                wires.append(wire)
                types = (names[node].spec.relay_type, names[other].spec.relay_type)
                if RelayType.CONTROL not in types:
                    graph[node][other] = wire.srtt_us
        return graph, wires


def bound_of(oracle: Oracle, graph: Graph, wires: list[Wire], batch: float) -> float:
    """How long news may take to be known everywhere, and acted on."""
    delay = max(
        (wire.delay * (1 + RETRANSMIT * (wire.loss > 0)) + wire.jitter for wire in wires),
        default=0.0,
    )
    return oracle.diameter(graph) * (delay + batch) + 2 * batch
