from __future__ import annotations

import pytest

from laps_relay.sim.checks.convergence import bound_of
from laps_relay.sim.mutants import MUTANTS, applied
from laps_relay.sim.net.wires import Wire
from laps_relay.sim.runner import simulate
from laps_relay.sim.scenarios.scenario import scenario
from laps_relay.sim.world.build import network_relay
from laps_relay.sim.world.oracle import Oracle
from laps_wire.nodeid import NodeId

LINE = {
    NodeId(1): {NodeId(2): 10},
    NodeId(2): {NodeId(1): 10, NodeId(3): 10},
    NodeId(3): {NodeId(2): 10},
}


@pytest.mark.parametrize(
    ("wire", "delay"),
    [
        (Wire(("a", "b"), 0.1), 0.1),
        (Wire(("a", "b"), 0.1, jitter=0.05), 0.15),
        (Wire(("a", "b"), 0.1, loss=0.01), 0.4),
    ],
)
def test_the_bound_counts_the_slowest_link_for_every_hop(wire: Wire, delay: float) -> None:
    oracle = Oracle(LINE, lambda _: True)
    wires = [Wire(("b", "c"), 0.001), wire]
    assert bound_of(oracle.diameter(LINE), wires, 0.02) == pytest.approx(2 * (delay + 0.02) + 0.04)
    assert bound_of(0, [], 0.02) == pytest.approx(0.04)


def test_changes_are_followed_until_everything_must_be_right() -> None:
    outcome, run = simulate(scenario(2, relays=5, topology="ring", kind="faults"), network_relay)
    assert outcome.ok, outcome.problem
    assert 0 < outcome.proven <= outcome.changes
    assert 0 < outcome.prompt <= outcome.proven
    assert 0 < outcome.convergence < outcome.bound
    assert run.convergence.longest == outcome.convergence


def test_news_that_comes_late_is_a_break() -> None:
    made = scenario(1, relays=5, topology="ring", kind="faults")
    with applied(MUTANTS["told-late"]):
        assert simulate(made, network_relay)[0].rule in ("route", "fib")
    assert simulate(made, network_relay)[0].ok


def test_a_loss_may_be_looked_for_along_the_longest_path() -> None:
    """Each relay believes a little longer in what others told of a node that is gone."""
    outcome, _ = simulate(scenario(174), network_relay)
    assert outcome.ok, outcome.problem
    assert outcome.late == 1
