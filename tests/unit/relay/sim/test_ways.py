from __future__ import annotations

from laps_relay.sim.build import network_relay
from laps_relay.sim.deeds import Deeds
from laps_relay.sim.oracle import Oracle
from laps_relay.sim.scenario import Deed, Scenario
from laps_relay.sim.topology import LinkSpec, RelaySpec, Topology
from laps_relay.sim.tracks import track
from laps_relay.sim.ways import connected_without, served, without_way
from laps_relay.sim.world import World
from laps_wire.nodeid import NodeId

KEY = track("t0")[0]


def network() -> tuple[World, Deeds]:
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
    deeds = (
        *(Deed(0.5, "publish", (name,), text="t0") for name in "ad"),
        Deed(0.5, "publish", ("a",), text="t1"),
        *(Deed(1.0, "subscribe", (name,), text="t0") for name in "bc"),
        Deed(1.0, "subscribe", ("c",), text="t1"),
    )
    made = Scenario(
        seed=2,
        topology=Topology(name="row", relays=relays, links=links),
        deeds=deeds,
        policies=True,
    )
    world = World(made, network_relay)
    for process in world.processes.values():
        process.start()
    done = Deeds(world)
    done.plan()
    world.clock.run(5.07)  # in the middle of a group
    return world, done


def load(world: World, deeds: Deeds, who: str, text: str) -> None:
    deeds.do(Deed(world.clock.now, "policy", (who,), text=text))


def test_without_policy_there_is_a_way_for_all() -> None:
    world, _ = network()
    assert without_way(world) == frozenset()


def test_policy_may_leave_one_of_two_publishers_without_a_way() -> None:
    world, deeds = network()
    load(world, deeds, "b", "relay t0")
    assert without_way(world) == {("a", "c", KEY)}
    oracle = Oracle(world.graph(), lambda _: True)
    process = world.processes
    assert not served(world, oracle, process["a"], process["c"], "t0")
    assert served(world, oracle, process["a"], process["c"], "t1")
    assert served(world, oracle, process["d"], process["c"], "t0")


def test_a_subscriber_of_both_is_asked_for_what_it_may_have_only() -> None:
    world, deeds = network()
    load(world, deeds, "b", "relay t0")
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
    world, deeds = network()
    load(world, deeds, "north", "region ")
    assert without_way(world) == {("a", "c", KEY), ("a", "c", track("t1")[0])}
    world, deeds = network()
    load(world, deeds, "north", "exclude t0")
    assert without_way(world) == {("a", "b", KEY), ("d", "b", KEY)}


def test_faults_bar_nobody() -> None:
    world, deeds = network()
    load(world, deeds, "b", "relay t0")
    world.processes["c"].crash()
    world.network.block("d", "c")
    assert without_way(world) == {("a", "c", KEY)}


def test_a_class_that_changes_excuses_its_own_publishers_and_subscribers_only() -> None:
    world, deeds = network()
    now = world.clock.now
    load(world, deeds, "b", "relay t1")
    assert world.ledger.exempted(now, now, ("a", "c"))
    assert not world.ledger.exempted(now, now, ("d", "c"))
    load(world, deeds, "d", "relay ")
    assert world.ledger.exempted(now, now, ("d", "c"))


def test_who_is_at_the_end_of_a_row_may_go_and_who_is_in_it_may_not() -> None:
    world, _ = network()
    found = {name: connected_without(world, world.processes[name]) for name in "abcd"}
    assert found == {"a": True, "b": False, "c": False, "d": True}


def test_a_filter_keeps_a_subscribe_from_those_behind_it() -> None:
    world, deeds = network()
    load(world, deeds, "north", "filter t0 import subscribe peer")  # nobody takes it from b
    assert without_way(world) == {("a", "b", KEY), ("a", "c", KEY), ("d", "b", KEY)}


def test_a_link_that_passes_a_country_is_no_way_for_its_class() -> None:
    world, deeds = network()
    deeds.do(Deed(0.0, "policy", ("b", "c"), text="country t0"))
    assert without_way(world) == {("a", "c", KEY), ("d", "b", KEY)}
