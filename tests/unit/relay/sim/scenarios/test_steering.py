"""Networks in which a Via pays, and the judge of what steering does in them."""

from __future__ import annotations

import pytest

from laps_relay.network.steering.steering import Steering
from laps_relay.sim.mutants.catalog import MUTANTS, applied
from laps_relay.sim.runner import Run, simulate
from laps_relay.sim.scenarios.model import Scenario
from laps_relay.sim.scenarios.scenario import scenario
from laps_relay.sim.scenarios.steering import settling
from laps_relay.sim.world.build import network_relay
from laps_relay.sim.world.paths import used_via
from laps_wire.peering.laps2 import RelayType

SEEDS = range(1, 30)


def steered(seed: int) -> Scenario:
    return scenario(seed, kind="steering")


def test_every_sixth_seed_is_of_this_kind() -> None:
    assert [seed for seed in SEEDS if not scenario(seed).exact] == [4, 10, 16, 22, 28]
    assert all(scenario(seed, kind="planned").exact for seed in SEEDS)
    assert all(scenario(seed, relays=6, topology="ring").exact for seed in SEEDS)


@pytest.mark.parametrize("seed", SEEDS)
def test_hub_and_spoke_would_be_too_many_copies(seed: int) -> None:
    made = steered(seed)
    assert made == steered(seed)
    regions = {relay.name: relay.region for relay in made.topology.relays}
    direct = {link.b for link in made.topology.links if link.a == "o"}
    wants = {
        action.who[0]
        for action in made.actions
        if action.verb == "subscribe"
        and action.text == "t0"
        and regions[action.who[0]] != regions["o"]
    }
    assert made.settings.max_fanout < len(wants) <= 5
    assert wants <= direct
    assert made.settings.dynamic_peering
    verbs = [action.verb for action in made.actions]
    assert {"unsubscribe", "drain_used", "overload_used"} <= set(verbs)
    assert not made.faults
    assert 12 <= len(made.topology.relays) <= 16


def test_the_kind_has_every_variety() -> None:
    made = [steered(seed) for seed in SEEDS]
    vias = {"x1", "x2", "x3"}
    dialled = {
        not any(link.a == "o" and link.b in vias for link in each.topology.links) for each in made
    }
    assert dialled == {False, True}
    assert {each.parallel for each in made} == {1, 2}
    assert {each.on_bytes for each in made} == {False, True}
    assert {"forbid_used" in [action.verb for action in each.actions] for each in made} == {
        False,
        True,
    }


def test_a_via_is_dialled_and_used_before_anything_happens_to_it() -> None:
    made = next(
        each
        for each in map(steered, SEEDS)
        if not any(link.a == "o" and link.b.startswith("x") for link in each.topology.links)
    )
    run = Run(made, network_relay)
    for process in run.world.processes.values():
        process.start()
    run.actions.plan()
    run.world.clock.run(3.0 + settling(made.settings) - 0.1)
    run.checks.steering.look()
    via = used_via(run.world, run.world.processes["o"], "t0")
    assert via is not None
    assert via.spec.relay_type is RelayType.VIA
    assert via.spec.node_id in run.world.graph()[run.world.node("o")]


def test_a_run_holds_and_spares_copies() -> None:
    outcome, run = simulate(steered(1), network_relay)
    assert outcome.ok, outcome.problem
    assert run.checks.steering.spared > 10
    assert sum("in use: x" in line for line in run.world.story) >= 2


@pytest.mark.parametrize(
    ("name", "seed", "says"),
    [
        ("drain-ignored", 1, "sends t0 through x"),
        ("vias-never-left", 1, "are few enough"),
        ("vias-not-dialled", 2, "would spare some"),
    ],
)
def test_what_steering_does_not_do_is_seen(name: str, seed: int, says: str) -> None:
    with applied(MUTANTS[name]):
        outcome = simulate(steered(seed), network_relay)[0]
    assert outcome.rule == "steering"
    assert says in outcome.problem


def worsened(seeds: range, *, loss: bool) -> Scenario:
    return next(
        each
        for each in map(steered, seeds)
        if each.gauged and (each.max_loss is not None) is loss and each.parallel == 1
    )


LOSS = (True, False)
"""For coverage one of two runs that differ by what is wrong with a link is enough."""


@pytest.mark.parametrize("loss", LOSS)
def test_a_link_that_loses_or_is_full_is_left(loss: bool) -> None:
    made = worsened(range(7, 30), loss=loss)
    assert any(action.verb == "worsen" for action in made.actions)
    outcome, run = simulate(made, network_relay)
    assert outcome.ok, outcome.problem
    assert run.checks.steering.mended > 10


@pytest.mark.parametrize("loss", LOSS)
def test_who_stays_on_a_bad_link_is_seen(loss: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Steering, "links", lambda *_: None)
    outcome = simulate(worsened(range(7, 30), loss=loss), network_relay)[0]
    assert outcome.rule == "steering"
    assert "over a link that is bad since" in outcome.problem
