from __future__ import annotations

from dataclasses import replace

import pytest

from laps_relay.sim.build import network_relay
from laps_relay.sim.hostile import Hostile
from laps_relay.sim.messages import shared_messages
from laps_relay.sim.runner import Run
from laps_relay.sim.scenario import Deed, scenario
from laps_wire.peering.errors import CloseCode


def visit(habit: str, *, seed: int, on_bytes: bool) -> tuple[Run, Hostile]:
    made = scenario(seed, relays=5, topology="ring", kind="planned")
    names = [relay.name for relay in made.topology.relays]
    made = replace(
        made,
        deeds=(Deed(3.0, habit, (names[0], names[2]), 2.0),),
        healed=6.0,
        spares=(),
        spare_links=(),
        on_bytes=on_bytes,
    )
    run = Run(made, network_relay)
    with shared_messages(not on_bytes):
        run.play()
    return run, run.deeds.hostiles[0]


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
