from __future__ import annotations

from dataclasses import replace

import pytest

from laps_relay.sim.clients.ledger import BreakError
from laps_relay.sim.runner import Run
from laps_relay.sim.scenarios.model import Action, Scenario
from laps_relay.sim.scenarios.topology import LinkSpec, RelaySpec, Topology
from laps_relay.sim.world.build import network_relay
from laps_wire.nodeid import NodeId

LINE = Topology(
    name="line",
    relays=tuple(RelaySpec(name=name, node_id=NodeId(at)) for at, name in enumerate("abc", 1)),
    links=(LinkSpec(a="a", b="b", delay=0.01), LinkSpec(a="b", b="c", delay=0.01)),
)
CLIENTS = (
    Action(0.5, "publish", ("a",), text="t0"),
    Action(1.0, "subscribe", ("c",), text="t0"),
)


def line(seed: int = 1) -> Scenario:
    return Scenario(seed=seed, topology=LINE, actions=CLIENTS, healed=2.0, on_bytes=False)


def begun(seed: int = 1) -> Run:
    """A run in which data flows."""
    run = Run(line(seed), network_relay)
    for process in run.world.processes.values():
        process.start()
    run.actions.plan()
    run.world.clock.run(4.3)
    return run


def test_what_flows_is_seen_in_all_tables() -> None:
    run = begun()
    middle = run.world.processes["b"].tables.sizes()
    for name in ("sets of sessions", "targets of the plane", "FIB entries", "sets that were told"):
        assert middle[name], name
    first = run.world.processes["a"].tables.sizes()
    assert first["own announces"] == first["subscribes for us"] == 1
    assert first["steered targets"]
    last = run.world.processes["c"].tables.sizes()
    assert last["discovered announces"] == 1
    assert last["responders"] == 1
    with pytest.raises(BreakError, match="left over"):
        run.checks.empty()
    with pytest.raises(BreakError, match="still sends what nobody wants"):
        run.checks.nobody_listens()


@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_is_left_whether_publishers_stay_or_not(seed: int) -> None:
    run = Run(line(seed), network_relay)
    run.play()
    for process in run.world.running():
        assert not any(process.tables.sizes().values())


def test_nodes_are_looked_at_after_withdrawal_too() -> None:
    run = Run(replace(line(), actions=()), network_relay)
    run.play()
    run.world.processes["c"].running = False
    with pytest.raises(BreakError, match="knows too much"):
        run.checks.empty()
