"""A plan that made a region worse is taken back there, and relays follow what is left; no Spark."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from laps_analytics.cli import app
from laps_analytics.lake import Lake
from laps_analytics.plan.signing import make_key, read_key, read_plan, sign, write_plan
from laps_analytics.synth.backbone import make_backbone
from laps_analytics.synth.dataset import make_demand
from laps_relay.network.settings import NO_PLAN, Plan
from laps_relay.server.plans import PlanKeeper, read_plan_keys
from laps_wire.nodeid import NodeId
from laps_wire.telemetry import PolicyApplied
from testkit.plan_lake import add_experience, make_lake, observe_backbone


class Origin:
    """A relay that knows every Via."""

    def __init__(self, node_id: NodeId) -> None:
        self.node_id = node_id
        self.plan: Plan = NO_PLAN

    def against_via(self, via: NodeId, region: str, scope: str) -> str | None:
        return None

    def place_of(self, node: NodeId) -> tuple[str, str]:
        return "", ""

    def set_plan(self, now: float, plan: Plan) -> None:
        self.plan = plan


def run(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, repr(result.exception)
    return result.stdout


@pytest.mark.parametrize("restore", [True, pytest.param(False, marks=pytest.mark.long)])
def test_relays_follow_the_plan_that_goes_back(tmp_path: Path, restore: bool) -> None:
    backbone = make_backbone(4, edges=12, vias=5)
    demand = make_demand(backbone, tracks=3)
    lake, key = tmp_path / "lake", tmp_path / "key.pem"
    make_lake(lake, observe_backbone(backbone, demand))
    (tmp_path / "c.toml").write_text("", encoding="ascii")
    make_key(key)
    common = ("--lake", lake, "--constraints", tmp_path / "c.toml", "--key", key)
    old = ("--max-age", "100000000")  # the lake is of another day
    run("plan", *common, *old, "--out", tmp_path / "first.json", "--no-simulate")
    first = read_plan(tmp_path / "first.json").plan
    bad = next(entry for entry in first.entries if entry.fallback is not None)
    entries = tuple(
        replace(entry, via=entry.fallback, fallback=None)
        if entry.region == bad.region and entry.fallback is not None
        else entry
        for entry in first.entries
    )
    moved = replace(first, version=2, entries=entries)
    write_plan(sign(moved, read_key(key)), tmp_path / "second.json")
    add_experience(
        Lake.open(lake), plan="laps", version=2, after_ms=-40, regions={bad.region: 40, "x": -40}
    )
    back = ("--revert-to", tmp_path / "first.json") if restore else ()
    words = ("plan", "measure", tmp_path / "second.json", *common, *old, "--simulate", *back)
    found = json.loads(run(*words, "--out", tmp_path / "third.json", "--json"))
    assert found["written"]["parts"] == [bad.region]
    assert "objects lost" in found["written"]["simulated"]

    told: list[PolicyApplied] = []
    relay = Origin(bad.origin)
    keeper = PlanKeeper(relay, told.append, read_plan_keys([tmp_path / "key.pub.pem"]))

    def load(name: str) -> str | None:
        return keeper.load(0.0, time.time_ns() // 1000, tmp_path / name)

    def answers(scope: str, region: str, tracks: tuple[int, ...]) -> set[NodeId | None]:
        return {relay.plan.via(track, scope, region) for track in tracks}

    assert load("first.json") is None
    assert load("second.json") is None
    tracks = bad.tracks or ()
    assert answers(bad.scope, bad.region, tracks) == {bad.fallback}
    kept = {
        (entry.region, entry.tracks): answers(entry.scope, entry.region, entry.tracks or ())
        for entry in moved.of(bad.origin)
        if entry.region != bad.region
    }
    assert load("third.json") is None
    assert answers(bad.scope, bad.region, tracks) == {bad.via if restore else None}
    for entry in moved.of(bad.origin):
        if entry.region != bad.region:
            same = answers(entry.scope, entry.region, entry.tracks or ())
            assert same == kept[entry.region, entry.tracks]
    assert load("second.json") == "version 3 was followed already"
    assert [record.outcome for record in told] == ["accepted"] * 3 + ["refused"]
