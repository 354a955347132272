"""A plan from a lake is played in the real simulator before it is written; no Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from laps_analytics.cli import app
from laps_analytics.errors import PlanError
from laps_analytics.plan.core.compose import compose_plan
from laps_analytics.plan.signing import make_key, public_pem, read_key, sign
from laps_analytics.plan.simulation import simulate_plan, simulator
from laps_analytics.synth.backbone import make_backbone
from laps_analytics.synth.dataset import make_demand
from laps_analytics.synth.planning import SYNTH_POLICY, network_of, tracks_of
from laps_wire.nodeid import NodeId
from testkit.plan_lake import make_lake, observe_backbone


def test_a_plan_of_a_lake_holds_in_the_simulator(tmp_path: Path) -> None:
    backbone = make_backbone(4, edges=12, vias=5)
    demand = make_demand(backbone, tracks=3)
    make_lake(tmp_path / "lake", observe_backbone(backbone, demand))
    (tmp_path / "c.toml").write_text("", encoding="ascii")
    make_key(tmp_path / "key.pem")
    words = ["plan", "--simulate", "--json", "--lake", str(tmp_path / "lake")]
    words += ["--max-age", "100000000"]  # the lake is of another day
    words += ["--constraints", str(tmp_path / "c.toml"), "--key", str(tmp_path / "key.pem")]
    result = CliRunner().invoke(app, [*words, "--out", str(tmp_path / "plan.json")])
    assert result.exit_code == 0, repr(result.exception)
    found = json.loads(result.stdout)["simulation"]
    assert found["ok"]
    assert found["accepted"] == found["relays"]
    assert found["planned_ways"] == found["ways"] > 0
    assert found["lost"] == 0
    assert (tmp_path / "plan.json").exists()


@pytest.mark.long
def test_a_wrong_plan_does_not_hold(tmp_path: Path) -> None:
    """Its Vias are relays that nobody has heard of."""
    backbone = make_backbone(4, edges=12, vias=5)
    network = network_of(backbone)
    made = compose_plan(
        network,
        SYNTH_POLICY,
        tracks_of(make_demand(backbone, tracks=3)),
        name="wrong",
        version=1,
        now_us=1_000_000,
        lifetime_us=1_000_000,
    )
    entries = tuple(
        replace(entry, via=NodeId(0x77_0000_0000_0001), fallback=None)
        for entry in made.plan.entries
    )
    make_key(tmp_path / "key.pem")
    key = read_key(tmp_path / "key.pem")
    signed = sign(replace(made.plan, entries=entries), key)
    found = simulate_plan(simulator(), signed, public_pem(key), network, made.draft.groups)
    assert found.verdict is not None, found.summary
    assert {fault["check"] for fault in found.verdict["faults"]} == {"refused", "way"}
    with pytest.raises(PlanError, match="nobody here knows this relay"):
        found.require()
