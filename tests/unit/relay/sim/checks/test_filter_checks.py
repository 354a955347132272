from __future__ import annotations

from dataclasses import replace

import pytest

from laps_relay.sim.clients.ledger import BreakError
from laps_relay.sim.mutants import MUTANTS, applied
from laps_relay.sim.runner import Run, simulate
from laps_relay.sim.scenarios.model import Action, Scenario
from laps_relay.sim.scenarios.policies import Border
from laps_relay.sim.scenarios.scenario import scenario
from laps_relay.sim.scenarios.topology import LinkSpec, RelaySpec, Topology
from laps_relay.sim.world.build import network_relay
from laps_relay.sim.world.oracle import reached_by
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import RelayType

EAST = frozenset({NodeId(3), NodeId(4)})


def line(seed: int, *actions: Action) -> Scenario:
    """1 and 2 in the west, 3 and 4 in the east, in a line; 1 publishes, 2 and 4 want it."""
    relays = tuple(
        RelaySpec(
            name=f"r{number}",
            node_id=NodeId(number),
            relay_type=RelayType.EDGE,
            region="west" if number < 3 else "east",
        )
        for number in range(1, 5)
    )
    links = tuple(
        LinkSpec(a=f"r{number}", b=f"r{number + 1}", delay=0.01) for number in range(1, 4)
    )
    clients = (
        Action(0.5, "publish", ("r1",), text="t0"),
        Action(0.5, "subscribe", ("r2",), text="t0"),
        Action(0.5, "subscribe", ("r4",), text="t0"),
    )
    made = scenario(seed, relays=5, topology="ring", kind="planned")
    return replace(
        made,
        topology=Topology(name="line", relays=relays, links=links),
        spares=(),
        spare_links=(),
        actions=(*clients, *actions),
        healed=8.0,
        policies=True,
        rule_engine=seed % 2 == 1,
    )


@pytest.mark.parametrize(
    ("side", "whose", "subscribes", "announces"),
    [
        ("import", "source", {4}, {1, 2, 3, 4}),
        ("export", "source", {4}, {1, 2, 3, 4}),
        ("import", "peer", {4}, {1, 2, 3}),  # 4 gets nothing from 3, and nobody from 4
        ("export", "peer", {4}, {1, 2}),  # nobody tells the east, but the east tells the west
    ],
)
def test_who_hears_of_what_is_found_relay_by_relay(
    side: str, whose: str, subscribes: set[int], announces: set[int]
) -> None:
    run = Run(line(2), network_relay)
    run.world.clock.run(0.1)
    for process in run.world.processes.values():
        process.start()
    borders = tuple(
        Border(side, what, "t0", whose, "east", EAST) for what in ("announce", "subscribe")
    )
    run.world.policy = replace(run.world.policy, borders=borders)
    assert reached_by(run.world, "subscribe", "t0", NodeId(4)) == subscribes
    assert reached_by(run.world, "announce", "t0", NodeId(1)) == announces
    assert reached_by(run.world, "announce", "t1", NodeId(1)) == {1, 2, 3, 4}


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("side", ["import", "export"])
@pytest.mark.parametrize("what", ["announce", "subscribe"])
@pytest.mark.parametrize("whose", ["peer", "source"])
def test_filters_hold_with_the_real_engine_and_without(
    seed: int, side: str, what: str, whose: str
) -> None:
    text = f"filter t0 {side} {what} {whose}"
    outcome, run = simulate(line(seed, Action(5.0, "policy", ("east",), text=text)), network_relay)
    assert outcome.ok, outcome.problem
    assert len(run.world.policy.borders) == 1


def test_who_does_not_filter_is_seen() -> None:
    made = line(1, Action(5.0, "policy", ("east",), text="filter t0 import subscribe source"))
    with applied(MUTANTS["filters-skipped"]):
        assert simulate(made, network_relay)[0].rule == "filter"


def test_what_should_be_there_and_is_not_is_seen() -> None:
    run = Run(line(2), network_relay)
    for process in run.world.processes.values():
        process.start()
    run.actions.plan()
    run.world.clock.run(4.0)
    border = Border("import", "announce", "t0", "source", "nowhere", frozenset())
    run.world.policy = replace(run.world.policy, borders=(border,))
    run.checks.borders()
    run.world.processes["r4"].clients.publish(
        run.actions.publications["t0"][0][1]
    )  # the others do not know it yet
    with pytest.raises(BreakError, match="lacks the announce of r4"):
        run.checks.borders()


@pytest.mark.parametrize("seed", [1, 2])
def test_no_data_of_a_class_goes_over_a_link_with_its_country(seed: int) -> None:
    square = line(seed, Action(4.0, "policy", ("r2", "r3"), text="country t0"))
    links = (*square.topology.links, LinkSpec(a="r1", b="r4", delay=0.03))
    made = replace(square, topology=replace(square.topology, links=links))
    outcome, run = simulate(made, network_relay)
    assert outcome.ok, outcome.problem
    assert not run.world.policy.crosses("t0", NodeId(3), NodeId(2))
    assert run.world.policy.crosses("t1", NodeId(3), NodeId(2))


def test_who_ignores_the_countries_of_links_is_seen() -> None:
    made = line(1, Action(4.0, "policy", ("r1", "r2"), text="country t0"))
    assert simulate(made, network_relay)[0].ok
    with applied(MUTANTS["countries-ignored"]):
        assert simulate(made, network_relay)[0].rule == "policy"
