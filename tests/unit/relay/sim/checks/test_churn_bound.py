"""Sets that answer sets: what the simulator makes of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from laps_relay.network.events import SetChanged
from laps_relay.sim.checks.convergence import FACTOR, WHILE, ChurnBound
from laps_relay.sim.clients.ledger import BreakError
from laps_relay.sim.runner import simulate
from laps_relay.sim.scenarios.scenario import scenario
from laps_relay.sim.world.build import network_relay
from laps_relay.sim.world.world import World
from laps_wire.nodeid import NodeId

ONE, TWO = NodeId(1), NodeId(2)


class Little:
    """A world with two links and three tracks."""

    def __init__(self) -> None:
        publisher = SimpleNamespace(clients=SimpleNamespace(publications=[1, 2, 3]))
        self.clock = SimpleNamespace(now=5.0)
        self.scenario = SimpleNamespace(topology=SimpleNamespace(links=[1]), spare_links=[2])
        self.running = lambda: [publisher]
        self.watchers: list[Any] = []

    def watch(self, watcher: Any, kind: type) -> None:
        """Storms are of sets, and of nothing else."""
        assert kind is SetChanged
        self.watchers.append(watcher)

    def made(self, *targets: NodeId, incoming: bool = False) -> None:
        """A relay makes a set."""
        event = SetChanged(
            session=1, sns_id=1, incoming=incoming, added=targets, removed=(), members=9
        )
        for watcher in self.watchers:
            watcher(SimpleNamespace(contact="a"), event)


def test_sets_are_counted_for_each_target() -> None:
    world = Little()
    storms = ChurnBound(cast("World", world))
    limit = FACTOR * 2 * 3
    for _ in range(limit):
        world.made(ONE, TWO)
        world.made(ONE, incoming=True)
    assert storms.most == 1.0
    with pytest.raises(BreakError, match=r"storm: 25 sets for .* since 5\.000.* of a"):
        world.made(TWO)


def test_what_comes_later_counts_anew() -> None:
    world = Little()
    storms = ChurnBound(cast("World", world))
    for _ in range(10):
        for _ in range(20):
            world.made(ONE)
        world.clock.now += WHILE
    assert storms.most == pytest.approx(20 / 24)


def test_a_run_says_how_near_it_came() -> None:
    outcome, run = simulate(scenario(2, relays=4, topology="ring", kind="planned"), network_relay)
    assert outcome.ok, outcome.problem
    assert 0 < run.churn.most < 1
