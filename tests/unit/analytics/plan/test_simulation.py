"""What the simulator is given of a plan, and how it is found."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from laps_analytics.plan.core.compose import PlanResult, compose_plan
from laps_analytics.plan.signing import make_key, read_key, sign
from laps_analytics.plan.simulation import (
    GROUPS,
    SimulationResult,
    sample_topology,
    simulate_plan,
    simulator,
)
from laps_analytics.synth.backbone import make_backbone
from laps_analytics.synth.dataset import make_demand
from laps_analytics.synth.planning import SYNTH_POLICY, network_of, tracks_of


@pytest.fixture(scope="module")
def made() -> PlanResult:
    backbone = make_backbone(4, edges=25, vias=10)
    tracks = tracks_of(make_demand(backbone, tracks=30))
    return compose_plan(
        network_of(backbone),
        SYNTH_POLICY,
        tracks,
        name="test",
        version=1,
        now_us=1_000_000,
        lifetime_us=1_000_000,
    )


def test_a_stage_has_what_relays_of_a_sample_must_know(made: PlanResult) -> None:
    plan, network = made.plan, made.draft.network
    topology = sample_topology(plan, network, made.draft.groups)
    assert topology == sample_topology(plan, network, made.draft.groups)
    assert topology != sample_topology(plan, network, made.draft.groups, seed=2)
    assert 0 < len(topology["demand"]) <= GROUPS
    names = {row["name"] for row in topology["relay"]}
    # Every relay loads the plan, also one that only has subscribers here.
    assert any(
        str(entry.origin) in row["at"] for entry in plan.entries for row in topology["demand"]
    )
    for entry in plan.entries:
        if str(entry.origin) in names:
            assert str(entry.via) in names
            assert entry.fallback is None or str(entry.fallback) in names
    for row in topology["demand"]:
        assert {row["origin"], *row["at"]} <= names
        regions = [network.nodes[network.index[name]].region for name in row["at"]]
        assert all(regions.count(region) <= 3 for region in regions)
    for link in topology["link"]:
        a, b = network.index[link["a"]], network.index[link["b"]]
        assert link["delay_ms"] == pytest.approx(network.rtt_ms[a, b] / 2, abs=0.001)
        assert link.get("countries", []) == sorted(network.path_countries(a, b))


def test_what_was_never_measured_is_no_link(made: PlanResult) -> None:
    network = made.draft.network
    unknown = replace(network, rtt_ms=np.full_like(network.rtt_ms, np.inf))
    assert sample_topology(made.plan, unknown, made.draft.groups)["link"] == []


def test_a_plan_without_entries_is_not_played(made: PlanResult, tmp_path: Path) -> None:
    make_key(tmp_path / "key.pem")
    signed = sign(replace(made.plan, entries=()), read_key(tmp_path / "key.pem"))
    found = simulate_plan(tmp_path / "any", signed, b"", made.draft.network, made.draft.groups)
    assert found.summary == ("not simulated: no entry of the plan has demand")
    found.require()


def test_a_program_that_does_not_end_is_given_up(
    made: PlanResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laps_analytics.plan.simulation.TIMEOUT_S", 0.01)
    program = tmp_path / "laps-relay"
    program.write_text("#!/bin/sh\nexec sleep 60\n", encoding="ascii")
    program.chmod(0o755)
    make_key(tmp_path / "key.pem")
    signed = sign(made.plan, read_key(tmp_path / "key.pem"))
    found = simulate_plan(program, signed, b"", made.draft.network, made.draft.groups)
    assert "did not end" in found.summary


def test_a_verdict_in_one_line() -> None:
    verdict = {"ok": True, "relays": 9, "demands": 2, "accepted": 9}
    verdict |= {"planned_ways": 4, "ways": 4, "delivered": 90, "lost": 0}
    found = SimulationResult(verdict)
    found.require()
    assert found.summary == (
        "9 relays, 2 tracks: 9 accepted it, 4 of 4 ways as planned, 0 of 90 objects lost"
    )


def test_the_simulator_is_that_of_the_environment_or_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert simulator() is None
    (tmp_path / "bin").mkdir()
    there = tmp_path / "bin" / "laps-relay"
    there.write_text("#!/bin/sh\n", encoding="ascii")
    there.chmod(0o755)
    assert simulator() == there
    beside = tmp_path / "laps-relay"
    beside.write_text("", encoding="ascii")
    assert simulator() == beside
