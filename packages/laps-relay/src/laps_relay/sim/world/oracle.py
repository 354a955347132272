"""What should happen, computed from the map alone: routes, deliveries, and the reach of a fault.

**Routes** (:class:`Oracle`): least hops, then cost, then the peer's ID. The oracle shares no code
with the node information base that it judges. One search for each target gives the distance of
every relay and its next hop: the neighbour with the least (hops, cost, node ID). Relays that are no
transit begin and end paths, and are never in between. A search visits each link once, so all paths
of a network cost relays x links.

For a class of service each relay chooses among the paths of its neighbours, and they advertise
their best one only (laps-2, 5.1). The oracle for a class therefore takes each neighbour's own best
path and drops those that are forbidden for the class. A longer path is not expected.

**Deliveries** that policy allows, for each publisher and subscriber. Policy decides for each path.
A track with two publishers may reach a subscriber from one of them only. That subscriber is served,
and objects of the other publisher are not expected.

**Faults** affect the flows whose path or whose ends they hit (:func:`exempt`). Only these may miss
something, and only until the network can have reacted::

    another path is left     the fault is detected, the network converges
    none is left             the fault is over, relays have dialled again, the network converges

The path of a flow that an earlier fault still affects is unknown, so the next fault affects it,
too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from laps_relay.sim.clients.ledger import Delivery, Group
from laps_relay.sim.world.world import RelayProcess, World
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import RelayType
from laps_wire.peering.laps2.codepoints import MAX_HOPS

__all__ = [
    "CONVERGED",
    "MENDING",
    "Graph",
    "Oracle",
    "connected_without",
    "copies",
    "exempt",
    "forbidden_deliveries",
    "reached_by",
    "sent_to",
    "served",
    "used_via",
]

Graph = Mapping[NodeId, Mapping[NodeId, int]]
"""For each relay its neighbours and the round-trip time to them in microseconds."""


class Oracle:
    """Distances and next hops of one graph."""

    __slots__ = ("_barred", "_graph", "_hops", "_trees")

    def __init__(self, graph: Graph, transit: Callable[[NodeId], bool]) -> None:
        self._graph = graph
        self._barred = frozenset(node for node in graph if not transit(node))
        self._trees: dict[NodeId, dict[NodeId, tuple[int, int]]] = {}
        self._hops: dict[NodeId, dict[NodeId, NodeId]] = {}

    def _tree(self, target: NodeId) -> dict[NodeId, tuple[int, int]]:
        """Return for every relay that reaches the target the links on the path, and their sum."""
        tree = self._trees.get(target)
        if tree is not None:
            return tree
        tree = self._trees[target] = {target: (0, 0)}
        next_hops = self._hops[target] = {}
        reached = [target]
        for hops in range(1, MAX_HOPS + 2):  # a path of 16 items is not passed on
            found: dict[NodeId, tuple[int, NodeId]] = {}
            for node in reached:
                if node in self._barred and node != target:
                    continue  # others do not go through it
                cost = tree[node][1]
                for other, rtt in self._graph.get(node, {}).items():
                    if other not in tree:
                        way = (cost + rtt, node)
                        if other not in found or way < found[other]:
                            found[other] = way
            for other, (cost, node) in found.items():
                tree[other] = (hops, cost)
                next_hops[other] = node
            reached = list(found)
        return tree

    def reaches(self, node: NodeId, target: NodeId) -> bool:
        """Return whether there is a path."""
        return node in self._tree(target)

    def metric(self, node: NodeId, target: NodeId) -> tuple[int, int] | None:
        """Return the transit relays and the cost of the best path."""
        found = self._tree(target).get(node)
        return None if found is None else (found[0] - 1, found[1])

    def next_hop(
        self,
        node: NodeId,
        target: NodeId,
        permits: Callable[[Sequence[NodeId]], bool] | None = None,
    ) -> NodeId | None:
        """Return the neighbour for data to the target; ``permits`` restricts the paths."""
        tree = self._tree(target)
        if permits is None:
            return self._hops[target].get(node)
        if node not in tree:
            return None
        best: tuple[int, int, NodeId] | None = None
        for peer, rtt in self._graph[node].items():
            found = tree.get(peer)
            if found is None or (peer != target and peer in self._barred):
                continue
            path = self.path(peer, target)
            if path is None or node in path or not permits((node, *path)):
                continue
            choice = (found[0], found[1] + rtt, peer)
            if best is None or choice < best:
                best = choice
        return None if best is None else best[2]

    def through(self, node: NodeId, peer: NodeId, target: NodeId) -> tuple[int, int] | None:
        """Return the links and the cost of the best path through that neighbour."""
        found = self._tree(target).get(peer)
        rtt = self._graph.get(node, {}).get(peer)
        return None if found is None or rtt is None else (found[0] + 1, found[1] + rtt)

    def path(self, node: NodeId, target: NodeId) -> tuple[NodeId, ...] | None:
        """Return the relays on the best path, from ``node`` to the target, both included."""
        if node not in self._tree(target):
            return None
        next_hops = self._hops[target]
        path = [node]
        while path[-1] != target:
            path.append(next_hops[path[-1]])
        return tuple(path)

    def diameter(self, nodes: Iterable[NodeId]) -> int:
        """Return the length of the longest best path, in links."""
        return max((hops for node in nodes for hops, _ in self._tree(node).values()), default=0)


def served(
    world: World, oracle: Oracle, origin: RelayProcess, end: RelayProcess, track: str
) -> bool:
    """Whether policy lets a publisher's data reach a subscriber."""
    policy = world.policy
    start, target = world.place(origin), world.place(end)
    if start is None or target is None or not policy.serves(track, target.spec.region):
        return False
    if policy.borders and start.spec.node_id not in reached_by(
        world, "subscribe", track, target.spec.node_id
    ):
        return False  # a filter keeps its subscribe away
    node: NodeId | None = start.spec.node_id
    steps = 0
    while node is not None and node != target.spec.node_id:
        node = oracle.next_hop(node, target.spec.node_id, lambda way: policy.permits(track, way))
        steps += 1
        if steps > len(world.processes):
            return False
    return node is not None


def forbidden_deliveries(world: World) -> frozenset[Delivery]:
    """Deliveries that policy rules out in the network as it is without its faults."""
    policy = world.policy
    if not policy.narrowed and not policy.excluded and not policy.borders:
        return frozenset()
    oracle = Oracle(world.graph(mended=True), lambda node: policy.transit("", node))
    tracks = sorted(
        {action.text for action in world.scenario.actions if action.verb == "subscribe"}
    )
    return frozenset(
        (origin, end, world.track(track)[0])
        for track in tracks
        for origin in world.places("publish", (track,))
        for end in world.places("subscribe", (track,))
        if origin != end
        and not served(world, oracle, world.processes[origin], world.processes[end], track)
    )


def copies(world: World, group: Group, sender: str, receiver: str) -> int:
    """Return how many copies of a group may cross a link: several where policy makes paths meet.

    Each relay advertises its own best path, so all best paths of the o-relay are one tree. Policy
    may forbid one of them for a class. Then that target has another next hop, whose own best path
    may lead into the tree again::

        o ── b ── d ── e ── f    x is no transit. b advertises f over x only, so f is behind c, and
        o ── c ── d              e behind b, and d -> e has a copy for each. To d these are two
             b ── x ── f         sets, and no relay in between can join them

    A link may have as many copies as the o-relay has next hops with a path over it.
    """
    scope, policy = group.flow.scope, world.policy
    origin = world.place(world.processes[group.flow.contact])
    if scope not in policy.narrowed or origin is None or not origin.running:
        return 1
    own, link = origin.spec.node_id, (world.node(sender), world.node(receiver))
    peers: set[NodeId] = set()
    for process in world.running():
        asked = process.clients.asked().get(group.flow.key)
        target = world.place(process)
        # The o-relay keeps a subscriber for a while that has left.
        if target is None or asked is None or asked < group.began - process.clients.stays:
            continue
        for peer, relays in origin.tables.paths(target.spec.node_id):
            way = (own, *relays)
            if policy.permits(scope, way):
                if link in pairwise(way):
                    peers.add(peer)
                break
    return max(1, len(peers))


def connected_without(world: World, missing: RelayProcess) -> bool:
    """Return whether all others still reach each other without one relay, by short enough paths."""
    gone = missing.spec.node_id
    whole = world.graph()
    graph = {
        node: {other: trip for other, trip in near.items() if other != gone}
        for node, near in whole.items()
        if node != gone
    }
    before, left = Oracle(whole, lambda _: True), Oracle(graph, lambda _: True)
    return all(
        left.reaches(node, other) or not before.reaches(node, other)
        for other in graph
        for node in graph
    )


def reached_by(world: World, what: str, scope: str, source: NodeId) -> set[NodeId]:
    """Return the relays that an announce or subscribe of a class reaches, without faults."""
    graph, policy = world.graph(mended=True), world.policy
    heard = {source}
    todo = [source]
    while todo:
        node = todo.pop()
        for peer in graph.get(node, {}):
            if peer not in heard and not (
                policy.stops("export", what, scope, source, peer)
                or policy.stops("import", what, scope, source, node)
            ):
                heard.add(peer)
                todo.append(peer)
    return heard


def sent_to(world: World, origin: RelayProcess, track: str) -> dict[NodeId, NodeId]:
    """Where an o-relay really sends a track: the next hop of each target."""
    key = world.track(track)[0]
    return {
        node: out.peer
        for flow in origin.tables.fib()
        if flow.key == key
        for out in flow.egress
        for node in out.targets
    }


def used_via(world: World, origin: RelayProcess, track: str) -> RelayProcess | None:
    """The Via through which an o-relay sends a track, the one with most targets first."""
    nodes = world.by_node()
    hops = list(sent_to(world, origin, track).values())
    vias = [hop for hop in hops if nodes[hop].spec.relay_type is RelayType.VIA]
    return nodes[max(vias, key=lambda via: (hops.count(via), -via))] if vias else None


CONVERGED: Final = 2.0
"""Seconds after the detection of a fault by which data takes another path."""
MENDING: Final = 8.0
"""After a fault is over, data may be missing for so long at most: both sides notice (2 s), a dial
runs out of time (1 s), the next one waits (up to 3 s), sets and sessions are made (2 s)."""

Pair = tuple[str, str]


def exempt(world: World, hit: Iterable[str], lasts: float) -> None:
    """A relay, or the link between two, does not work for some seconds from now on."""
    now = world.clock.now
    names = frozenset(hit)
    nodes = [world.node(name) for name in names]
    graph = world.graph()
    policy = world.policy
    oracle = Oracle(graph, lambda node: policy.transit("", node))
    left = Oracle(_without(graph, nodes), lambda node: policy.transit("", node))
    scopes = ("", *(scope for scope in policy.narrowed if scope))
    sooner: set[Pair] = set()
    later: set[Pair] = set()
    for origin in world.places("publish"):
        for end in world.places("subscribe"):
            if origin == end:
                continue
            pair = (origin, end)
            if world.ledger.exempted(now, now, pair):
                later.add(pair)
            elif any(_passes(world, oracle, pair, names, scope) for scope in scopes):
                # A class may have lost the only way that its policy allows.
                there = len(scopes) == 1 and left.reaches(world.node(origin), world.node(end))
                dead = len(names) == 1 and bool(names & {*pair})
                (sooner if there and not dead else later).add(pair)
    noticed = 2 * world.scenario.idle + CONVERGED
    world.ledger.exempt(now, now + noticed, frozenset(sooner), repaired=world.scenario.repair > 0)
    world.ledger.exempt(now, now + lasts + MENDING, frozenset(later))


def _without(graph: Graph, hit: list[NodeId]) -> Graph:
    """The network that is left: without a relay, or without the link between two."""
    left = {node: dict(near) for node, near in graph.items()}
    if len(hit) > 1:
        one, other = hit
        left.get(one, {}).pop(other, None)
        left.get(other, {}).pop(one, None)
    else:
        left.pop(hit[0], None)
        for near in left.values():
            near.pop(hit[0], None)
    return left


def _passes(world: World, oracle: Oracle, pair: Pair, hit: frozenset[str], scope: str) -> bool:
    """Whether data of a class goes through there: by the map, or by what relays go by now."""
    if len(hit) == 1 and hit & {*pair}:
        return True
    policy = world.policy
    origin, target = world.node(pair[0]), world.node(pair[1])
    names = {process.spec.node_id: process for process in world.running()}
    for real in (False, True):
        node: NodeId | None = origin
        before = ""
        for _ in range(len(names)):
            process = None if node is None else names.get(node)
            if node is None or process is None:
                return True  # no relay has a path to the target now
            if process.contact in hit and (len(hit) == 1 or before in hit):
                return True
            if node == target:
                break
            before = process.contact
            node = (
                process.tables.next_hop(target)
                if real
                else oracle.next_hop(node, target, lambda way: policy.permits(scope, way))
            )
        else:
            return True
    return False
