from __future__ import annotations

from dataclasses import replace

import pytest

from laps_relay.sim.net.shortcuts import shared_messages
from laps_relay.sim.runner import Run
from laps_relay.sim.scenarios.model import Action
from laps_relay.sim.scenarios.scenario import scenario
from laps_relay.sim.world.build import network_relay
from laps_relay.sim.world.hostile import Hostile
from laps_wire.peering.errors import CloseCode


def visit(
    habit: str, *before: Action, seed: int, on_bytes: bool, whom: tuple[str, str] | None = None
) -> tuple[Run, Hostile]:
    """``whom``: the victim, and another relay."""
    made = scenario(seed, relays=5, topology="ring", kind="planned")
    names = [relay.name for relay in made.topology.relays]
    made = replace(
        made,
        actions=(*before, Action(3.0, habit, whom or (names[0], names[2]), 2.0)),
        healed=6.0,
        spares=(),
        spare_links=(),
        on_bytes=on_bytes,
    )
    run = Run(made, network_relay)
    with shared_messages(not on_bytes):
        run.play()
    return run, run.actions.hostiles[0]


@pytest.mark.parametrize("on_bytes", [True, False])
@pytest.mark.parametrize("habit", ["liar", "garbage", "reflector", "flood"])
def test_hostile_peers_get_a_word_in_whatever_relays_speak(habit: str, on_bytes: bool) -> None:
    _, hostile = visit(habit, seed=1, on_bytes=on_bytes)
    assert hostile.met
    assert hostile.established


@pytest.mark.parametrize(
    ("seed", "code"), [(1, CloseCode.NOT_AUTHORIZED), (2, CloseCode.NODE_ID_CONFLICT)]
)
def test_a_node_id_of_somebody_else_is_refused(seed: int, code: CloseCode) -> None:
    run, hostile = visit("double", seed=seed, on_bytes=False)
    assert bool(run.world.holders) is bool(seed % 2)
    assert not hostile.established
    assert hostile.refused == code


def test_a_relay_that_comes_back_knows_the_keys_that_it_knew() -> None:
    link = scenario(2, relays=5, topology="ring", kind="planned").topology.links[0]
    away = Action(2.0, "crash", (link.b,), 4.0)
    restart = Action(2.1, "crash", (link.a,), 0.4)
    run, hostile = visit("double", away, restart, seed=2, on_bytes=False, whom=(link.a, link.b))
    assert (hostile.victim, run.world.processes[link.a].life) == (link.a, 2)
    assert hostile.met
    assert not hostile.established
    assert hostile.refused == CloseCode.NODE_ID_CONFLICT
