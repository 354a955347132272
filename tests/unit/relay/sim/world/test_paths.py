from __future__ import annotations

import pytest

from laps_relay.network.nodes.path_finder import PathFinder
from laps_relay.network.nodes.selection import Candidate
from laps_relay.sim.clients.ledger import BreakError, Group
from laps_relay.sim.clients.tracks import track
from laps_relay.sim.scenarios.model import Action, Scenario
from laps_relay.sim.scenarios.topology import LinkSpec, RelaySpec, Topology
from laps_relay.sim.world.actions import Actions
from laps_relay.sim.world.build import network_relay
from laps_relay.sim.world.oracle import Oracle
from laps_relay.sim.world.paths import connected_without, copies, forbidden_deliveries, served
from laps_relay.sim.world.world import World
from laps_wire.nodeid import NodeId

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
