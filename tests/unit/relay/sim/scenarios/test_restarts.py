from __future__ import annotations

from dataclasses import replace

import pytest

from laps_relay.network.relay import NetworkRelay
from laps_relay.sim.clients.ledger import BreakError
from laps_relay.sim.mutants.catalog import MUTANTS, applied
from laps_relay.sim.runner import Run, simulate
from laps_relay.sim.scenarios.model import Action, Scenario
from laps_relay.sim.scenarios.scenario import scenario
from laps_relay.sim.scenarios.topology import LinkSpec, RelaySpec, Topology
from laps_relay.sim.world.build import network_relay
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import RelayType


def ring(*actions: Action, healed: float) -> Scenario:
    """A ring of five; 1 publishes and 3 wants it, both ways lead over one relay or two."""
    kinds = (RelayType.EDGE, RelayType.VIA, RelayType.EDGE, RelayType.VIA, RelayType.EDGE)
    relays = tuple(
        RelaySpec(name=f"r{number}", node_id=NodeId(number), relay_type=kind)
        for number, kind in enumerate(kinds, 1)
    )
    links = tuple(
        LinkSpec(a=f"r{number}", b=f"r{number % 5 + 1}", delay=0.01) for number in range(1, 6)
    )
    clients = (
        Action(0.5, "publish", ("r1",), text="t0"),
        Action(0.5, "subscribe", ("r3",), text="t0"),
    )
    made = scenario(1, relays=5, topology="ring", kind="planned")
    return replace(
        made,
        topology=Topology(name="five", relays=relays, links=links),
        spares=(),
        spare_links=(),
        actions=(*clients, *actions),
        healed=healed,
        policies=False,
    )


@pytest.mark.parametrize(("who", "kind"), [("r2", RelayType.EDGE), ("r5", RelayType.VIA)])
def test_a_relay_changes_its_type_and_nothing_is_lost(who: str, kind: RelayType) -> None:
    outcome, run = simulate(ring(Action(4.0, "retype", (who,), 4.0), healed=8.0), network_relay)
    assert (outcome.problem, outcome.lost) == ("", 0)
    process = run.world.processes[who]
    assert (process.spec.relay_type, process.life) == (kind, 2)
    for other in run.world.running():
        if other is not process:
            assert (process.spec.node_id, kind) in other.tables.types()


@pytest.mark.parametrize("after", [0.0, 0.02, 0.1, 0.5, 1.5])
@pytest.mark.parametrize("who", ["r2", "r5"])
def test_a_relay_begins_to_leave_and_stays_and_nothing_is_lost(who: str, after: float) -> None:
    """One that is in use, and one that is not."""
    action = Action(4.0, "undrain", (who,), 4.0, str(after))
    outcome, run = simulate(ring(action, healed=8.0), network_relay)
    assert (outcome.problem, outcome.lost) == ("", 0)
    process = run.world.processes[who]
    # Who has left before that has another life.
    assert (run.actions.taken_back, process.life) in ((1, 1), (0, 2))
    assert run.actions.taken_back or after > 0.02
    assert not process.draining
    if run.actions.taken_back:
        for other in run.world.running():
            assert isinstance(other.core, NetworkRelay)
            load = other.core.tables.nodes()
            assert all(row.load_class != "draining" for row in load)


def test_who_turns_round_halfway_is_not_lost() -> None:
    """Over bad links others heard of the drain and of its end at times that were far apart."""
    outcome, run = simulate(scenario(17, kind="busy"), network_relay)
    assert (outcome.problem, run.actions.taken_back) == ("", 1)


def test_who_takes_a_relay_for_what_it_was_is_seen() -> None:
    run = Run(ring(healed=3.0), network_relay)
    run.play()
    run.actions.restarts.at_rest()
    process = run.world.processes["r2"]
    process.spec = replace(process.spec, relay_type=RelayType.EDGE)
    with pytest.raises(BreakError, match="for VIA, it is EDGE"):
        run.actions.restarts.at_rest()


@pytest.mark.parametrize("who", ["r1", "r2", "r3"])
def test_a_twin_is_the_node_and_its_former_life_is_sent_away(who: str) -> None:
    made = ring(Action(4.0, "twin", (who,), 5.0), healed=9.0)
    assert made.faults == 1
    outcome, run = simulate(made, network_relay, tracing=True)
    assert outcome.ok, outcome.problem
    assert run.world.processes[who].life == 2
    story = "\n".join(run.world.story)
    assert "has a twin" in story
    assert "code 0x12" in story  # superseded, where it had dialled
    assert "code 0x6" in story  # a stale epoch, where it dials again


@pytest.mark.parametrize(("verb", "lasts"), [("twin", 5.0), ("crash", 0.1)])
def test_what_a_life_wanted_is_remembered_in_the_next(verb: str, lasts: float) -> None:
    """It may still come: the o-relay has not heard of the new life yet."""
    left = Action(3.9, "unsubscribe", ("r3",), text="t0")
    made = ring(left, Action(4.0, verb, ("r3",), lasts), healed=9.0)
    outcome, run = simulate(made, network_relay)
    assert outcome.ok, outcome.problem
    key = run.world.track("t0")[0]
    assert run.world.processes["r3"].clients.former == {key: 3.9}


def test_who_keeps_the_sessions_of_a_former_life_is_seen() -> None:
    with applied(MUTANTS["twin-ignored"]):
        outcome, _ = simulate(ring(Action(4.0, "twin", ("r2",), 5.0), healed=9.0), network_relay)
    assert outcome.rule == "twin"


def test_some_seeds_have_one_and_others_none() -> None:
    planned = [scenario(seed, kind="planned") for seed in range(1, 40)]
    faults = [scenario(seed, kind="faults") for seed in range(1, 40)]
    for many, verb in ((planned, "retype"), (planned, "undrain"), (faults, "twin")):
        having = [made for made in many if any(action.verb == verb for action in made.actions)]
        assert len(many) / 10 < len(having) < len(many) * 2 / 3
    for made in planned:
        clients = {action.who for action in made.actions if action.verb.startswith(("pub", "sub"))}
        assert not clients & {action.who for action in made.actions if action.verb == "retype"}
