"""The convergence bound: the time after which all routes and the FIB are right again.

::

    session comes or goes        nothing else happens                     all tables = oracle
    ----------+-------------------------------------------------------------------+------->
              |<------ diameter x (one-way delay + batching) + 2 x batching ------>|

After a loss a path vector may try longer and longer paths before it gives a node up. No relay has a
session with that node now, but each still uses the paths that others advertised before. For a loss
the bound therefore has the most hops of a path, or the number of relays, instead of the diameter.
:attr:`Convergence.late` counts losses that took longer than the diameter's bound.
:attr:`Convergence.prompt` counts changes that were over within diameter x one-way delay + 2 x
batching, as if no relay in between had batched.

The bound begins when a relay notices the change. The detection of a dead session comes before.
Batching counts once for each relay that passes the change on. The one-way delay is the longest of
all links that are up, with its jitter. It includes a retransmission where packets are lost, and the
packets in front where the bandwidth is limited.

The check waits while anything else delays advertisements: relays that stand still or drain, blocked
or slow links, hostile peers, and sessions that one side has given up or that have lost their
control session.

:class:`ChurnBound` limits how many sets relays make in the meantime.

The comparison with the oracle covers the next hop of every node, and the FIB. Changes of sRTT are
damped (laps-2, 5.1). Once delays have changed in a run, a path may be longer than the best one by
what damping hides. Until then it must be the best one.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from laps_relay.network.events import SetChanged
from laps_relay.sim.clients.ledger import BreakError
from laps_relay.sim.core import FibRow
from laps_relay.sim.net.wires import PACKET, RETRANSMIT, Wire
from laps_relay.sim.world.oracle import Graph, Oracle
from laps_relay.sim.world.world import RelayProcess, World
from laps_sdk.peering.reports import PeerAdded, PeerGone
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import RelayType
from laps_wire.peering.laps2.codepoints import MAX_HOPS

__all__ = ["ChurnBound", "Convergence", "Routes"]


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


WHILE: Final = 0.5
"""Virtual seconds within which sets are counted."""
FACTOR: Final = 4
"""How often each link may get a set of each track with the same target in that time."""
AGAIN: Final = 0.1
"""Seconds between two looks whether advertisements can pass again."""

AHEAD: Final = 2.5
"""Packets that an advertisement may wait for where the bandwidth is limited."""


class Times(NamedTuple):
    """How long one change may take."""

    start: float
    least: float
    """If relays in between collected nothing."""
    bound: float
    longest: float
    """For a loss."""


class Convergence:
    """Follows every change of sessions until the tables must be right."""

    __slots__ = (
        "_again",
        "_changed",
        "_lost",
        "_world",
        "bound",
        "changes",
        "late",
        "longest",
        "prompt",
        "proven",
    )

    def __init__(self, world: World) -> None:
        self._world = world
        self._changed = 0.0
        """When a session last came or went."""
        self._again = False
        self._lost = False
        """Whether a session has gone since the tables were last right."""
        self.changes = 0
        """Session changes, together if at once."""
        self.proven = 0
        """Changes after which nothing else happened, and the bound held."""
        self.prompt = 0
        """Changes among them that were over after one trip from end to end."""
        self.late = 0
        """Losses after which paths still moved when the diameter's bound was over."""
        self.bound = 0.0
        """The longest that was granted."""
        self.longest = 0.0
        """From a change to the last route that moved after it."""
        world.watch(self._event, PeerAdded)
        world.watch(self._event, PeerGone)
        world.when_disturbed(self.changed)

    def _event(self, process: RelayProcess, event: PeerAdded | PeerGone) -> None:  # noqa: ARG002
        self._lost |= isinstance(event, PeerGone)
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
        found = None if now < world.unsettled else self._sessions()
        if found is None:
            self._again = True
            world.clock.after(AGAIN, self._look, changed)
            return
        graph, wires = found
        settings = world.scenario.settings
        policy = world.policy
        oracle = Oracle(graph, lambda node: policy.transit("", node))
        hops = oracle.diameter(graph)
        least = hops * delay_of(wires) + 2 * settings.batch
        bound = bound_of(hops, wires, settings.batch)
        longest = bound_of(max(hops, min(len(graph), MAX_HOPS)), wires, settings.batch)
        start = now if self._again else changed
        self._again = False
        since = world.policy_since
        times = Times(start, least, bound, longest)
        world.clock.at(start + bound, self._check, changed, since, oracle, times)

    def _check(self, changed: float, policy_since: float, oracle: Oracle, times: Times) -> None:
        world = self._world
        if changed != self._changed or world.ending:
            return
        if (
            policy_since != world.policy_since
            or world.clock.now < world.unsettled
            or self._sessions() is None
        ):
            self._again = True
            self._look(changed)
            return
        try:
            self._compare(oracle)
        except BreakError:
            if not self._lost or times.bound == times.longest:
                raise
            self.late += 1
            due = times.start + times.longest
            again = times._replace(bound=times.longest)
            world.clock.at(due, self._check, changed, policy_since, oracle, again)
            return
        self.proven += 1
        self._lost = False
        self.bound = max(self.bound, times.bound)
        moved = max(0.0, world.quiet_since - changed)
        self.prompt += moved <= times.least
        self.longest = max(self.longest, moved)

    def _compare(self, oracle: Oracle) -> None:
        """All next hops, and the FIB, with those of the oracle."""
        world = self._world
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
        """Return sessions between relays and their wires; None if advertisements are delayed."""
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
            here = names[node]
            for other in near:
                if node not in peers.get(other, ()):
                    return None  # the other side has not noticed yet
                if node > other:
                    continue  # it was looked at from there
                there = names[other]
                wire = world.network.wire(here.contact, there.contact)
                if wire is None or wire.hampered or (wire.blocked and any(wire.blocked.values())):
                    return None
                wires.append(wire)
                if not (here.is_control or there.is_control):
                    graph[node][other] = graph[other][node] = wire.srtt_us
        return graph, wires


def bound_of(hops: int, wires: list[Wire], batch: float) -> float:
    """Return how long a change may take to reach all relays within some hops, and be acted on."""
    return hops * (delay_of(wires) + batch) + 2 * batch


def delay_of(wires: list[Wire]) -> float:
    """Return how long an advertisement takes over the slowest of these links."""
    return max(
        (
            wire.delay * (1 + RETRANSMIT * (wire.loss > 0)) + wire.jitter + _before(wire)
            for wire in wires
        ),
        default=0.0,
    )


def _before(wire: Wire) -> float:
    """Return how long an advertisement waits on a narrow wire for packets in front of it."""
    return max(((AHEAD * PACKET) / rate for rate in wire.bandwidth.values()), default=0.0)


class ChurnBound:
    """Limits how often a target is put into sets within :data:`WHILE`.

    A target that moves, is lost or is looked for is put into new sets, by the o-relay of each track
    and by the relays on the path. A chain of sets has at most as many links as the network, and an
    o-relay that tries another peer makes a new chain. The measure for each target is therefore
    tracks times links, and the limit is a small multiple of it.

    Relays that answer each other's sets with more sets pass the limit within milliseconds of
    virtual time. Without the limit such a run would not end.
    """

    __slots__ = ("_began", "_limit", "_made", "_world", "most")

    def __init__(self, world: World) -> None:
        self._world = world
        self._began = 0.0
        self._limit = 0
        self._made: Counter[NodeId] = Counter()
        self.most = 0.0
        """The highest share of the limit that was reached."""
        world.watch(self._event, SetChanged)

    def _event(self, process: RelayProcess, event: SetChanged) -> None:
        if event.incoming:
            return
        now = self._world.clock.now
        if now >= self._began + WHILE:
            self._began = now
            self._limit = self._most()
            self._made.clear()
        for target in event.added:
            self._made[target] += 1
            self.most = max(self.most, self._made[target] / self._limit)
            if self._made[target] > self._limit:
                raise BreakError(
                    "storm",
                    f"{self._made[target]} sets for {target} since {self._began:.3f}, "
                    f"the last one of {process.contact}",
                    now,
                )

    def _most(self) -> int:
        """Tracks times links, and more than one of each."""
        world = self._world
        tracks = sum(len(process.clients.publications) for process in world.running())
        links = len(world.scenario.topology.links) + len(world.scenario.spare_links)
        return FACTOR * max(tracks, 1) * links
