"""What the simulator is given of a plan, and how it is found."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from laps_analytics.plan.core.compose import Made, make
from laps_analytics.plan.rehearsal import GROUPS, Rehearsal, rehearse, simulator, stage_of
from laps_analytics.plan.signing import make_key, read_key, sign
from laps_analytics.synth.backbone import make_world
from laps_analytics.synth.demand import make_demand
from laps_analytics.synth.planning import WORLD_POLICY, network_of, tracks_of


@pytest.fixture(scope="module")
def made() -> Made:
    world = make_world(4, edges=25, vias=10)
    tracks = tracks_of(make_demand(world, tracks=30))
    return make(
        network_of(world),
        WORLD_POLICY,
        tracks,
        name="test",
        version=1,
        now_us=1_000_000,
        lifetime_us=1_000_000,
    )


def test_a_stage_has_what_relays_of_a_sample_must_know(made: Made) -> None:
    plan, network = made.plan, made.draft.network
    stage = stage_of(plan, network, made.draft.groups)
    assert stage == stage_of(plan, network, made.draft.groups)
    assert stage != stage_of(plan, network, made.draft.groups, seed=2)
    assert 0 < len(stage["demand"]) <= GROUPS
    names = {row["name"] for row in stage["relay"]}
    # Every relay loads the plan, also one that only has subscribers here.
    assert any(str(entry.origin) in row["at"] for entry in plan.entries for row in stage["demand"])
    for entry in plan.entries:
        if str(entry.origin) in names:
            assert str(entry.via) in names
            assert entry.fallback is None or str(entry.fallback) in names
    for row in stage["demand"]:
        assert {row["origin"], *row["at"]} <= names
        regions = [network.nodes[network.index[name]].region for name in row["at"]]
        assert all(regions.count(region) <= 3 for region in regions)
    for link in stage["link"]:
        a, b = network.index[link["a"]], network.index[link["b"]]
        assert link["delay_ms"] == pytest.approx(network.rtt_ms[a, b] / 2, abs=0.001)
        assert link.get("countries", []) == sorted(network.path_countries(a, b))


def test_what_was_never_measured_is_no_link(made: Made) -> None:
    network = made.draft.network
    unknown = replace(network, rtt_ms=np.full_like(network.rtt_ms, np.inf))
    assert stage_of(made.plan, unknown, made.draft.groups)["link"] == []


def test_a_plan_without_entries_is_not_played(made: Made, tmp_path: Path) -> None:
    make_key(tmp_path / "key.pem")
    signed = sign(replace(made.plan, entries=()), read_key(tmp_path / "key.pem"))
    found = rehearse(tmp_path / "any", signed, b"", made.draft.network, made.draft.groups)
    assert found.words == ("not simulated: no entry of the plan is about anything that is wanted")
    found.require()


def test_a_program_that_does_not_end_is_given_up(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laps_analytics.plan.rehearsal.PATIENCE", 0.01)
    program = tmp_path / "laps-relay"
    program.write_text("#!/bin/sh\nexec sleep 60\n", encoding="ascii")
    program.chmod(0o755)
    make_key(tmp_path / "key.pem")
    signed = sign(made.plan, read_key(tmp_path / "key.pem"))
    found = rehearse(program, signed, b"", made.draft.network, made.draft.groups)
    assert "did not end" in found.words


def test_a_verdict_in_one_line() -> None:
    verdict = {"ok": True, "relays": 9, "demands": 2, "accepted": 9}
    verdict |= {"planned_ways": 4, "ways": 4, "delivered": 90, "lost": 0}
    found = Rehearsal(verdict)
    found.require()
    assert found.words == (
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
