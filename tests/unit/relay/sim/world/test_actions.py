"""What relays are told of their links, in a network of two."""

from __future__ import annotations

from dataclasses import replace

from laps_relay.sim.net.wires import SimOutStream
from laps_relay.sim.runner import Run
from laps_relay.sim.scenarios.model import SETTINGS, Scenario
from laps_relay.sim.scenarios.topology import LinkSpec, RelaySpec, Topology
from laps_relay.sim.world.actions import LASTING, LOOK
from laps_relay.sim.world.build import network_relay
from laps_wire.nodeid import NodeId


def started() -> Run:
    relays = tuple(RelaySpec(name=name, node_id=NodeId(at)) for at, name in enumerate("ab", 1))
    made = Scenario(
        seed=1,
        topology=Topology(name="two", relays=relays, links=(LinkSpec(a="a", b="b", delay=0.01),)),
        settings=replace(SETTINGS, reflect=True),
        gauged=True,
        max_loss=0.05,
    )
    run = Run(made, network_relay)
    for process in run.world.processes.values():
        process.start()
    run.world.clock.run(1.0)
    return run


def test_a_wire_that_loses_too_much_is_bad_in_both_directions() -> None:
    run = started()
    world = run.world
    wire = world.network.wire("a", "b")
    assert wire is not None
    wire.loss = 0.05
    world.clock.run(2.0)
    assert run.actions.gauge.bad("a", "b") is None
    wire.loss = 0.1
    world.clock.run(3.0)
    since = run.actions.gauge.bad("a", "b")
    assert since is not None
    assert 2.0 <= since <= 2.0 + LOOK
    assert run.actions.gauge.bad("b", "a") is not None
    wire.loss = 0.0
    world.clock.run(4.0)
    assert run.actions.gauge.bad("a", "b") is None


class Fullness:
    """Stands for streams that wait."""

    def __init__(self, run: Run) -> None:
        (self.end,) = run.world.processes["a"].ends.values()

    def set(self, *, full: bool) -> None:
        streams = self.end.pipe.backlog.streams
        if full:
            streams[2] = SimOutStream(self.end.pipe, 2, 9, True, 0, None)
        else:
            streams.clear()


def test_a_queue_must_be_there_for_some_looks() -> None:
    run = started()
    world, queue = run.world, Fullness(run)
    queue.set(full=True)
    world.clock.run(1.0 + (LASTING - 1) * LOOK)
    assert run.actions.gauge.bad("a", "b") is None
    world.clock.run(1.0 + LASTING * LOOK)
    assert run.actions.gauge.bad("a", "b") == world.clock.now
    assert run.actions.gauge.bad("b", "a") is None
    queue.set(full=False)
    world.clock.run(world.clock.now + (LASTING - 1) * LOOK)
    assert run.actions.gauge.bad("a", "b") is not None
    world.clock.run(world.clock.now + LOOK)
    assert run.actions.gauge.bad("a", "b") is None
