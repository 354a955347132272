"""Which deliveries policy allows, computed from the map for each publisher and subscriber.

Policy decides for each path. A track with two publishers may reach a subscriber from one of them
only. That subscriber is served, and objects of the other publisher are not expected.
"""

from __future__ import annotations

from itertools import pairwise

from laps_relay.sim.clients.ledger import Delivery, Group
from laps_relay.sim.world.oracle import Oracle
from laps_relay.sim.world.world import RelayProcess, World
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import RelayType

__all__ = [
    "connected_without",
    "copies",
    "forbidden_deliveries",
    "reached_by",
    "sent_to",
    "served",
    "used_via",
]


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
