from __future__ import annotations

from itertools import pairwise, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_relay.network.nodes.nib import PathFinder
from laps_relay.network.nodes.node_table import Candidate
from laps_relay.sim.clients.clients import track
from laps_relay.sim.clients.ledger import BreakError, Group
from laps_relay.sim.scenarios.model import Action, Scenario
from laps_relay.sim.scenarios.topology import LinkSpec, RelaySpec, Topology
from laps_relay.sim.world.actions import Actions
from laps_relay.sim.world.build import network_relay
from laps_relay.sim.world.oracle import (
    CONVERGED,
    MENDING,
    Oracle,
    connected_without,
    copies,
    exempt,
    forbidden_deliveries,
    served,
)
from laps_relay.sim.world.world import World
from laps_wire.nodeid import NodeId


def graph_of(*links: tuple[int, int, int]) -> dict[NodeId, dict[NodeId, int]]:
    graph: dict[NodeId, dict[NodeId, int]] = {}
    for a, b, rtt in links:
        graph.setdefault(NodeId(a), {})[NodeId(b)] = rtt
        graph.setdefault(NodeId(b), {})[NodeId(a)] = rtt
    return graph


def everybody(_: NodeId) -> bool:
    return True


def test_fewer_relays_go_before_a_lower_cost() -> None:
    oracle = Oracle(graph_of((1, 2, 10), (2, 3, 10), (1, 3, 500)), everybody)
    assert oracle.next_hop(NodeId(1), NodeId(3)) == 3
    assert oracle.metric(NodeId(1), NodeId(3)) == (0, 500)
    assert oracle.diameter([NodeId(1), NodeId(2), NodeId(3)]) == 1


def test_cost_decides_among_equals_and_then_the_lower_peer() -> None:
    square = graph_of((1, 2, 10), (1, 3, 10), (2, 4, 30), (3, 4, 20))
    assert Oracle(square, everybody).next_hop(NodeId(1), NodeId(4)) == 3
    even = graph_of((1, 2, 10), (1, 3, 10), (2, 4, 20), (3, 4, 20))
    assert Oracle(even, everybody).next_hop(NodeId(1), NodeId(4)) == 2
    assert Oracle(even, everybody).path(NodeId(1), NodeId(4)) == (1, 2, 4)


def test_who_is_no_transit_is_reached_and_not_passed() -> None:
    line = graph_of((1, 2, 10), (2, 3, 10), (1, 4, 10), (4, 5, 10), (5, 3, 10))
    oracle = Oracle(line, lambda node: node != 2)
    assert oracle.next_hop(NodeId(1), NodeId(2)) == 2
    assert oracle.next_hop(NodeId(2), NodeId(3)) == 3
    assert oracle.next_hop(NodeId(1), NodeId(3)) == 4
    alone = Oracle(graph_of((1, 2, 10), (2, 3, 10)), lambda node: node != 2)
    assert not alone.reaches(NodeId(1), NodeId(3))
    assert alone.next_hop(NodeId(1), NodeId(3)) is None
    assert alone.metric(NodeId(1), NodeId(3)) is None
    assert alone.path(NodeId(1), NodeId(3)) is None


def test_a_class_chooses_among_what_neighbours_tell() -> None:
    # 1 has two ways to 4; for a class that may not pass 2 only the one through 3 is left.
    square = graph_of((1, 2, 10), (1, 3, 50), (2, 4, 10), (3, 4, 50))
    oracle = Oracle(square, everybody)
    assert oracle.next_hop(NodeId(1), NodeId(4), lambda way: 2 not in way) == 3
    assert oracle.next_hop(NodeId(1), NodeId(4), lambda way: way != (1, 2, 4)) == 3  # by a link
    assert oracle.next_hop(NodeId(1), NodeId(4), lambda way: not {2, 3} & set(way)) is None


@given(
    st.lists(
        st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(1, 4)), min_size=1, max_size=12
    ),
    st.sets(st.integers(1, 6), max_size=2),
)
def test_it_agrees_with_trying_every_path(
    links: list[tuple[int, int, int]], denied: set[int]
) -> None:
    graph = graph_of(*(link for link in links if link[0] != link[1]))
    oracle = Oracle(graph, lambda node: node not in denied)
    for a in graph:
        for b in graph:
            if a != b:
                assert oracle.next_hop(a, b) == _tried(graph, denied, a, b)


def _tried(
    graph: dict[NodeId, dict[NodeId, int]], denied: set[int], a: NodeId, b: NodeId
) -> NodeId | None:
    between = [node for node in graph if node not in (a, b) and node not in denied]
    best: tuple[int, int, NodeId] | None = None
    for size in range(len(between) + 1):
        for middle in permutations(between, size):
            path = (a, *middle, b)
            steps = list(pairwise(path))
            if all(there in graph[here] for here, there in steps):
                found = (size, sum(graph[here][there] for here, there in steps), path[1])
                best = found if best is None or found < best else best
    return None if best is None else best[2]


KEY = track("t0")[0]


def network() -> tuple[World, Actions]:
    """Publishers at both ends of a row, and a subscriber that one of them reaches through b.

    ::

        a ── b ── c ── d      t0: a and d publish, c and b subscribe; t1: a publishes, c subscribes
    """
    regions = {"a": "west", "b": "north", "c": "south", "d": "south"}
    relays = tuple(
        RelaySpec(name=name, node_id=NodeId(0x64_0000_0000_0000 + number), region=region)
        for number, (name, region) in enumerate(regions.items(), 1)
    )
    links = tuple(LinkSpec(a=one, b=other, delay=0.005) for one, other in ("ab", "bc", "cd"))
    actions = (
        *(Action(0.5, "publish", (name,), text="t0") for name in "ad"),
        Action(0.5, "publish", ("a",), text="t1"),
        *(Action(1.0, "subscribe", (name,), text="t0") for name in "bc"),
        Action(1.0, "subscribe", ("c",), text="t1"),
    )
    made = Scenario(
        seed=2,
        topology=Topology(name="row", relays=relays, links=links),
        actions=actions,
        policies=True,
    )
    world = World(made, network_relay)
    for process in world.processes.values():
        process.start()
    done = Actions(world)
    done.plan()
    world.clock.run(5.07)  # in the middle of a group
    return world, done


def load(world: World, actions: Actions, who: str, text: str) -> None:
    actions.do(Action(world.clock.now, "policy", (who,), text=text))


def test_without_policy_there_is_a_way_for_all() -> None:
    world, _ = network()
    assert forbidden_deliveries(world) == frozenset()


def test_policy_may_leave_one_of_two_publishers_without_a_way() -> None:
    world, actions = network()
    load(world, actions, "b", "relay t0")
    assert forbidden_deliveries(world) == {("a", "c", KEY)}
    oracle = Oracle(world.graph(), lambda _: True)
    process = world.processes
    assert not served(world, oracle, process["a"], process["c"], "t0")
    assert served(world, oracle, process["a"], process["c"], "t1")
    assert served(world, oracle, process["d"], process["c"], "t0")


def test_a_subscriber_of_both_is_asked_for_what_it_may_have_only() -> None:
    world, actions = network()
    load(world, actions, "b", "relay t0")
    began = world.clock.now + 6.0
    world.clock.run(began + 6.0)
    ledger = world.ledger
    ledger.settle(world.clock.now)  # nothing is missing ...
    flows = [flow for flow in ledger.flows.all.values() if flow.key == KEY]
    got = {
        flow.contact: [
            "c" in group.got for group in flow.groups.values() if began < group.began < began + 3.0
        ]
        for flow in flows
    }
    assert got["a"]
    assert not any(got["a"])  # ... though one publisher's objects do not come any more,
    assert got["d"]
    assert all(got["d"])  # and the other's do


def test_regions_and_their_subscribers() -> None:
    world, actions = network()
    load(world, actions, "north", "region ")
    assert forbidden_deliveries(world) == {("a", "c", KEY), ("a", "c", track("t1")[0])}
    world, actions = network()
    load(world, actions, "north", "exclude t0")
    assert forbidden_deliveries(world) == {("a", "b", KEY), ("d", "b", KEY)}


def test_faults_bar_nobody() -> None:
    world, actions = network()
    load(world, actions, "b", "relay t0")
    world.processes["c"].crash()
    world.network.block("d", "c")
    assert forbidden_deliveries(world) == {("a", "c", KEY)}


def test_a_class_that_changes_excuses_its_own_publishers_and_subscribers_only() -> None:
    world, actions = network()
    now = world.clock.now
    load(world, actions, "b", "relay t1")
    assert world.ledger.exempted(now, now, ("a", "c"))
    assert not world.ledger.exempted(now, now, ("d", "c"))
    load(world, actions, "d", "relay ")
    assert world.ledger.exempted(now, now, ("d", "c"))


def test_who_is_at_the_end_of_a_row_may_go_and_who_is_in_it_may_not() -> None:
    world, _ = network()
    found = {name: connected_without(world, world.processes[name]) for name in "abcd"}
    assert found == {"a": True, "b": False, "c": False, "d": True}


def test_a_filter_keeps_a_subscribe_from_those_behind_it() -> None:
    world, actions = network()
    load(world, actions, "north", "filter t0 import subscribe peer")  # nobody takes it from b
    assert forbidden_deliveries(world) == {("a", "b", KEY), ("a", "c", KEY), ("d", "b", KEY)}


def test_a_link_that_passes_a_country_is_no_way_for_its_class() -> None:
    world, actions = network()
    actions.do(Action(0.0, "policy", ("b", "c"), text="country t0"))
    assert forbidden_deliveries(world) == {("a", "c", KEY), ("d", "b", KEY)}


def meshed() -> tuple[World, Actions]:
    """Two ways to d, and two to f, as ``copies`` draws it; y is on no way. e and f subscribe."""
    relays = tuple(
        RelaySpec(name=name, node_id=NodeId(0x64_0000_0000_0000 + number))
        for number, name in enumerate("obcdefxy", 1)
    )
    links = tuple(
        LinkSpec(a=one, b=other, delay=0.005)
        for one, other in ("ob", "oc", "oy", "bd", "cd", "de", "ef", "bx", "xf")
    )
    actions = (
        *(Action(0.5, "publish", ("o",), text=text) for text in ("t0", "t1")),
        *(Action(1.0, "subscribe", (name,), text=text) for name in "ef" for text in ("t0", "t1")),
    )
    topology = Topology(name="mesh", relays=relays, links=links)
    made = Scenario(seed=2, topology=topology, actions=actions, policies=True)
    world = World(made, network_relay)
    for process in world.processes.values():
        process.start()
    done = Actions(world)
    done.plan()
    world.clock.run(5.07)  # in the middle of a group
    return world, done


def group_of(world: World, text: str) -> Group:
    """The last group of a track."""
    key = track(text)[0]
    (flow,) = [each for each in world.ledger.flows.all.values() if each.key == key]
    return flow.groups[max(flow.groups)]


def test_copies_cross_a_link_side_by_side_only_where_ways_of_their_class_meet() -> None:
    """Seed 4639: one of two targets must go round a relay that is no transit for its class."""
    world, actions = meshed()
    assert copies(world, group_of(world, "t0"), "d", "e") == 1
    load(world, actions, "x", "relay t0")
    world.clock.run(20.3)  # nothing is excused any more: the ledger would say so
    assert not world.ledger.exempted(15.0, 20.3)
    group = group_of(world, "t0")
    links = {link[:2]: times for link, times in group.links.items()}
    assert links.pop(("d", "e")) == copies(world, group, "d", "e") == 2
    assert set(links.values()) == {1}
    for sender, receiver in links:
        assert copies(world, group, sender, receiver) == 1
    other = group_of(world, "t1")
    assert copies(world, other, "d", "e") == 1, "x is transit for this class"


def test_who_left_long_ago_has_no_copy_of_its_own() -> None:
    world, actions = meshed()
    load(world, actions, "x", "relay t0")
    actions.do(Action(world.clock.now, "unsubscribe", ("e",), text="t0"))
    assert copies(world, group_of(world, "t0"), "d", "e") == 2
    world.clock.run(30.0)
    assert copies(world, group_of(world, "t0"), "d", "e") == 1
    world.processes["o"].crash()
    assert copies(world, group_of(world, "t0"), "d", "e") == 1


def test_copies_that_need_not_meet_are_seen_in_a_class_with_fewer_ways_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A deliberate break: the o-relay takes the worst way to f, and nothing forces it to."""
    world, actions = meshed()
    load(world, actions, "y", "relay t0")
    world.clock.run(12.0)
    best = PathFinder.best

    def worst(
        self: PathFinder, target: NodeId, scope: str, arrived_on: NodeId | None = None
    ) -> Candidate | None:
        if (self.self_of(target).node_id, arrived_on) == (world.node("f"), None):
            return self.allowed(target, scope)[-1]
        return best(self, target, scope, arrived_on)

    monkeypatch.setattr(PathFinder, "best", worst)
    actions.do(Action(world.clock.now, "subscribe", ("d",), text="t0"))
    assert not world.ledger.exempted(12.0, 20.0)
    with pytest.raises(BreakError, match=r"link twice: .* crossed d -> e twice"):
        world.clock.run(20.0)


NAMES = ("a", "b", "c", "d", "e")
PAIRS = (("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("d", "e"))


def ring_and_tail() -> World:
    """A ring of four with a tail: a publisher at a, subscribers at all others."""
    relays = tuple(
        RelaySpec(name=name, node_id=NodeId(0x64_0000_0000_0000 + number))
        for number, name in enumerate(NAMES, 1)
    )
    links = tuple(LinkSpec(a=one, b=other, delay=0.005) for one, other in PAIRS)
    actions = (
        Action(1.0, "publish", ("a",), text="t0"),
        *(Action(1.0, "subscribe", (name,), text="t0") for name in NAMES[1:]),
    )
    made = Scenario(
        seed=1,
        topology=Topology(name="ring and tail", relays=relays, links=links),
        actions=actions,
    )
    world = World(made, network_relay)
    for process in world.processes.values():
        process.start()
    world.clock.run(3.0)
    return world


def excused(world: World, after: float) -> set[str]:
    when = world.clock.now + after
    return {name for name in NAMES[1:] if world.ledger.exempted(when, when, ("a", name))}


def test_a_cut_touches_who_is_behind_the_link_until_another_way_is_found() -> None:
    world = ring_and_tail()
    exempt(world, ("a", "b"), 1.0)
    behind = excused(world, 0.1)
    assert "b" in behind
    assert not behind & {"d", "e"}
    found = 2 * world.scenario.idle + CONVERGED
    assert excused(world, found + 0.1) == set()


def test_without_another_way_it_lasts_until_everything_is_mended() -> None:
    world = ring_and_tail()
    exempt(world, ("d", "e"), 1.0)
    assert excused(world, 0.9 + MENDING) == {"e"}
    assert excused(world, 1.1 + MENDING) == set()
    assert world.ledger.mended == world.clock.now + 1.0 + MENDING


def test_who_is_touched_already_may_be_anywhere() -> None:
    world = ring_and_tail()
    exempt(world, ("d", "e"), 1.0)
    exempt(world, ("b", "c"), 3.0)
    assert "e" in excused(world, 2.9 + MENDING)


def test_a_relay_that_is_gone_touches_itself() -> None:
    world = ring_and_tail()
    exempt(world, ("b",), 1.0)
    assert "b" in excused(world, 0.9 + MENDING)
    assert "d" not in excused(world, 0.1)
