from __future__ import annotations

from laps_relay.sim.scenarios.model import Action, Scenario
from laps_relay.sim.scenarios.topology import LinkSpec, RelaySpec, Topology
from laps_relay.sim.world.build import network_relay
from laps_relay.sim.world.fault_scope import CONVERGED, MENDING, exempt
from laps_relay.sim.world.world import World
from laps_wire.nodeid import NodeId

NAMES = ("a", "b", "c", "d", "e")
PAIRS = (("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("d", "e"))


def network() -> World:
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
    world = network()
    exempt(world, ("a", "b"), 1.0)
    behind = excused(world, 0.1)
    assert "b" in behind
    assert not behind & {"d", "e"}
    found = 2 * world.scenario.idle + CONVERGED
    assert excused(world, found + 0.1) == set()


def test_without_another_way_it_lasts_until_everything_is_mended() -> None:
    world = network()
    exempt(world, ("d", "e"), 1.0)
    assert excused(world, 0.9 + MENDING) == {"e"}
    assert excused(world, 1.1 + MENDING) == set()
    assert world.ledger.mended == world.clock.now + 1.0 + MENDING


def test_who_is_touched_already_may_be_anywhere() -> None:
    world = network()
    exempt(world, ("d", "e"), 1.0)
    exempt(world, ("b", "c"), 3.0)
    assert "e" in excused(world, 2.9 + MENDING)


def test_a_relay_that_is_gone_touches_itself() -> None:
    world = network()
    exempt(world, ("b",), 1.0)
    assert "b" in excused(world, 0.9 + MENDING)
    assert "d" not in excused(world, 0.1)
