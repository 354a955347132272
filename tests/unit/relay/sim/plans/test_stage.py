"""Where plans are played: files, what is made up, samples, names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from laps_relay.sim.plans.stage import (
    Demand,
    PlanHasher,
    Stage,
    entry_for,
    made_up,
    read_stage,
    sampled,
)
from laps_relay.sim.scenarios.topology import TopologyError
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import RelayType
from laps_wire.plan import HardConstraints, Plan, PlanEntry
from testkit.plan_stage import stage_document

ONE, TWO, VIA, BACK = (NodeId(0x64_0007_0000_0000 + number) for number in range(4))


def a_plan(*entries: PlanEntry, max_fanout: int = 2) -> Plan:
    return Plan(
        id="p",
        version=1,
        made_us=1,
        expires_us=2,
        based_on="0" * 64,
        constraints=HardConstraints(max_fanout=max_fanout),
        entries=entries,
    )


def an_entry(origin: NodeId = ONE, region: str = "eu", **more: Any) -> PlanEntry:
    given = {"scope": "", "tracks": (7,), "via": VIA, **more}
    return PlanEntry(origin=origin, region=region, **given)


def write(folder: Path, document: object) -> Path:
    file = folder / "stage.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    return file


def test_a_file_says_relays_links_demand_and_what_links_pass(tmp_path: Path) -> None:
    stage = read_stage(write(tmp_path, stage_document()))
    assert stage.is_real
    assert [relay.name for relay in stage.topology.relays][:2] == ["o", "x"]
    assert stage.topology.relay("y").country == "FR"
    assert stage.topology.relay("x").relay_type is RelayType.VIA
    assert stage.passed == {frozenset("ox"): frozenset({"US", "IE", "DE"})}
    wanted = Demand(origin="o", scope="gold", track=0xFF, at=("e1", "e2", "e3"))
    assert stage.demands == (wanted,)


@pytest.mark.parametrize(
    ("demand", "says"),
    [
        ([], "who publishes what"),
        ([{"origin": "nobody", "at": ["e1"]}], "names of relays: 'nobody'"),
        ([{"origin": "o", "at": []}], "names of relays"),
        ([{"origin": "o", "at": ["e1"], "track": "x"}], "'x' is not 16 hexadecimal digits"),
        ([{"origin": "o", "at": ["e1"], "tracks": "x"}], "unknown key 'tracks'"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, demand: object, says: str) -> None:
    file = write(tmp_path, {**stage_document(), "demand": demand})
    with pytest.raises(TopologyError, match=says):
        read_stage(file)


@pytest.mark.parametrize(("text", "says"), [("{", "not JSON"), ("[]", "not an object")])
def test_json_that_is_none_is_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "stage.json").write_text(text, encoding="ascii")
    with pytest.raises(TopologyError, match=says):
        read_stage(tmp_path / "stage.json")


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "stage.toml").write_bytes(b"\xff")
    with pytest.raises(TopologyError, match="not UTF-8"):
        read_stage(tmp_path / "stage.toml")


def test_a_sample_is_the_same_for_the_same_seed(tmp_path: Path) -> None:
    stage = read_stage(write(tmp_path, stage_document()))
    many = Stage(
        topology=stage.topology,
        demands=tuple(Demand(origin="o", scope="", track=n, at=("e1",)) for n in range(50)),
    )
    assert sampled(many, 50, 1) is many
    assert sampled(many, 5, 1) == sampled(many, 5, 1)
    assert sampled(many, 5, 1) != sampled(many, 5, 2)
    assert len(sampled(many, 5, 1).demands) == 5


def test_what_a_plan_says_of_a_track_goes_before_what_it_says_of_its_class() -> None:
    own = an_entry(tracks=(7,), scope="gold")
    by_class = an_entry(tracks=None, scope="gold", via=BACK)
    plan = a_plan(by_class, own, an_entry(tracks=None, scope=""))
    demand = Demand(origin="o", scope="gold", track=7, at=())
    assert entry_for(plan, ONE, "eu", demand) is own
    other = Demand(origin="o", scope="gold", track=8, at=())
    assert entry_for(plan, ONE, "eu", other) is by_class
    assert entry_for(plan, ONE, "as", other) is None
    assert entry_for(plan, TWO, "eu", other) is None


def test_a_made_up_stage_has_more_relays_in_a_region_than_copies_may_go_there() -> None:
    plan = a_plan(
        an_entry(fallback=BACK),
        an_entry(region="as", tracks=None, scope="gold"),
        an_entry(TWO, tracks=(8,)),
    )
    stage = made_up(plan, 10, 1)
    assert not stage.is_real
    regions = [relay.region for relay in stage.topology.relays]
    assert regions.count("eu") == regions.count("as") == 3
    kinds = {relay.node_id: relay.relay_type for relay in stage.topology.relays}
    assert kinds[ONE] is kinds[TWO] is RelayType.EDGE
    assert kinds[VIA] is kinds[BACK] is RelayType.VIA
    assert [(each.scope, each.track, len(each.at)) for each in stage.demands] == [
        ("", 7, 3),
        ("gold", None, 3),
        ("", 8, 3),
    ]


def test_a_sample_of_entries_keeps_every_via_that_its_origins_must_know() -> None:
    entries = [an_entry(region=f"r{n}", tracks=(n,), via=NodeId(0x6500 + n)) for n in range(20)]
    stage = made_up(a_plan(*entries), 3, 1)
    assert len(stage.demands) == 3
    nodes = {relay.node_id for relay in stage.topology.relays}
    assert {entry.via for entry in entries} <= nodes
    assert stage == made_up(a_plan(*entries), 3, 1)
    with pytest.raises(TopologyError, match="no entries"):
        made_up(a_plan(), 3, 1)


def test_tracks_have_the_hashes_that_the_plan_has_for_them() -> None:
    hasher = PlanHasher(b"sixteen bytes or more")
    assert Demand(origin="o", scope="gold", track=0xFF, at=()).key(hasher) == 0xFF
    one = Demand(origin="o", scope="gold", track=None, at=())
    other = Demand(origin="o", scope="", track=None, at=())
    assert one.key(hasher) != other.key(hasher)
