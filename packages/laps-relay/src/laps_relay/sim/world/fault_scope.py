"""Which flows a fault touches: those whose path or whose ends it hits.

Only these may miss something, and only until the network can have reacted::

    another path is left     the fault is detected, the network converges
    none is left             the fault is over, relays have dialled again, the network converges

The path of a flow that an earlier fault still touches is unknown, so the next fault touches it,
too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from laps_relay.sim.world.oracle import Graph, Oracle
from laps_relay.sim.world.world import World
from laps_wire.nodeid import NodeId

__all__ = ["CONVERGED", "MENDING", "exempt"]

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
    world.ledger.exempt(now, now + noticed, frozenset(sooner))
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
