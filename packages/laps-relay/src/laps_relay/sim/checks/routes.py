"""Comparing relays with the oracle: the next hop of every node, and the FIB.

Changes of sRTT are damped (laps-2, 5.1). Once delays have changed in a run, a path may be longer
than the best one by what damping hides. Until then it must be the best one.
"""

from __future__ import annotations

from laps_relay.sim.clients.ledger import BreakError
from laps_relay.sim.core import FibRow
from laps_relay.sim.world.oracle import Oracle
from laps_relay.sim.world.world import RelayProcess, World
from laps_wire.nodeid import NodeId

__all__ = ["Routes"]


class Routes:
    """Judges one state of a world; raises :class:`~laps_relay.sim.clients.ledger.BreakError`."""

    __slots__ = ("_world", "oracle")

    def __init__(self, world: World, oracle: Oracle) -> None:
        self._world = world
        self.oracle = oracle

    def _fail(self, rule: str, text: str) -> BreakError:
        return BreakError(rule, text, self._world.clock.now)

    def next_hops(self, process: RelayProcess, targets: list[NodeId]) -> None:
        """Check the next hop of every node that can be reached."""
        own = process.spec.node_id
        for target in targets:
            wanted = self.oracle.next_hop(own, target)
            found = process.tables.next_hop(target)
            if found == wanted or self._close_enough(process, target):
                continue
            raise self._fail(
                "route",
                f"{process.contact} sends data for {target} to {found} "
                f"({process.tables.metric(target)}), the oracle to {wanted} "
                f"({self.oracle.metric(own, target)})",
            )

    def fib(self, processes: list[RelayProcess]) -> None:
        """Check that every target of every set goes over the next hop of the oracle.

        A set that was replaced lives until its streams have ended. It is not checked, because no
        new data uses it.
        """
        todo: list[tuple[RelayProcess, FibRow, frozenset[NodeId]]] = []
        fed: dict[tuple[int, NodeId, int], tuple[RelayProcess, FibRow]] = {}
        for process in processes:
            for flow in process.tables.fib():
                if flow.peer is None:
                    todo.append((process, flow, flow.targets))
                else:
                    fed[flow.connection, flow.peer, flow.set_id] = process, flow
        while todo:
            process, flow, used = todo.pop()
            self._flow(process, flow, used)
            for out in flow.egress:
                after = fed.pop((out.connection, process.spec.node_id, out.sns_id), None)
                if after is not None:
                    todo.append((*after, out.targets & used))

    def _flow(self, process: RelayProcess, flow: FibRow, used: frozenset[NodeId]) -> None:
        """The same of one entry; a class narrows the choice of the o-relay."""
        policy = self._world.policy
        scope = "" if flow.key is None else self._world.scope_of(flow.key)
        own = process.spec.node_id
        for out in flow.egress:
            for node in sorted(out.targets & used):
                wanted = self.oracle.next_hop(
                    own, node, lambda way: not scope or policy.permits(scope, way)
                )
                if wanted == out.peer or self._is_tie(process, node, wanted, out.peer):
                    continue
                raise self._fail(
                    "fib",
                    f"{process.contact} sends {scope or flow} for {node} to {out.peer}, the oracle "
                    f"says {wanted}",
                )

    def _slack(self, cost: int) -> float:
        settings = self._world.scenario.settings
        return 2 * (settings.metric_ratio * cost + settings.metric_floor_us)

    def _close_enough(self, process: RelayProcess, target: NodeId) -> bool:
        """Return whether the path is longer by no more than damping hides."""
        if not self._world.measured_again:
            return False
        found = process.tables.metric(target)
        wanted = self.oracle.metric(process.spec.node_id, target)
        if found is None or wanted is None or found[0] != wanted[0]:
            return False
        return abs(found[1] - wanted[1]) <= self._slack(wanted[1])

    def _is_tie(
        self, process: RelayProcess, target: NodeId, wanted: NodeId | None, found: NodeId
    ) -> bool:
        """Return whether damping explains another next hop: as many hops, and hardly more costly.

        The check of next hops covers the best paths of the relay. Those may not be open to a class.
        """
        if not self._world.measured_again:
            return False
        if found == process.tables.next_hop(target):
            return True
        own = process.spec.node_id
        best = None if wanted is None else self.oracle.through(own, wanted, target)
        other = self.oracle.through(own, found, target)
        if best is None or other is None:
            return False
        return best[0] == other[0] and other[1] - best[1] <= 2 * self._slack(best[1])
