"""Plans that are played: a good one, and one for each thing that can be wrong with one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from laps_relay.network.steering import Steering
from laps_relay.server.plans import PlanKeeper, read_plan_keys
from laps_relay.sim.clients.direct import DirectClients
from laps_relay.sim.clients.ledger import BreakError
from laps_relay.sim.plans import (
    Demand,
    PlanHasher,
    PlanVerdict,
    Stage,
    entry_for,
    made_up,
    play_plan,
    read_stage,
    sampled,
)
from laps_relay.sim.scenarios.topology import TopologyError
from laps_wire.nodeid import NodeId
from laps_wire.peering.laps2 import RelayType
from laps_wire.plan import ClassRule, HardConstraints, Plan, PlanEntry, loads
from testkit.plan_stage import NODES, stage_document
from testkit.signed_plans import Signer

GOLD = ClassRule(deny_countries=("XX",))


def a_plan(via: str = "x", rule: ClassRule = GOLD, fallback: str = "y") -> Plan:
    entry = PlanEntry(
        origin=NODES["o"],
        region="eu",
        scope="gold",
        tracks=(0xFF,),
        via=NODES[via],
        fallback=NODES[fallback],
    )
    return Plan(
        id="world",
        version=3,
        made_us=1_000_000,
        expires_us=2_000_000,
        based_on="0" * 64,
        constraints=HardConstraints(max_fanout=2, classes={"gold": rule}),
        entries=(entry,),
    )


def play(
    folder: Path,
    plan: Plan,
    *,
    is_trusted: bool = True,
    alone: bool = False,
    **changed: dict[str, Any],
) -> PlanVerdict:
    signer = Signer()
    signed = loads(signer.sign(plan))
    keys = read_plan_keys([signer.file(folder)] if is_trusted else [])
    file = folder / "stage.json"
    file.write_text(json.dumps(stage_document(**changed)), encoding="utf-8")
    stage = made_up(plan, 4, 1) if alone else read_stage(file)
    return play_plan(signed, stage, lambda relay: PlanKeeper(relay, lambda _: None, keys))


def faults(verdict: PlanVerdict) -> list[tuple[str, str]]:
    return [(fault.check, fault.text) for fault in verdict.faults]


def test_a_good_plan_is_followed_and_nothing_is_lost_as_it_comes_and_goes(tmp_path: Path) -> None:
    verdict = play(tmp_path, a_plan())
    assert verdict.ok, verdict.faults
    assert verdict.accepted == verdict.relays == 7
    assert (verdict.planned_ways, verdict.ways) == (3, 3)
    assert (verdict.copies_with, verdict.most_copies) == (1, 1)
    assert (verdict.taken_fallbacks, verdict.fallbacks) == (3, 3)
    assert verdict.lost == 0
    assert verdict.delivered > 3 * 30
    again = play(tmp_path, a_plan())
    assert {**again.as_dict(), "cpu_s": 0} == {**verdict.as_dict(), "cpu_s": 0}


def test_a_plan_alone_is_played_on_relays_that_are_made_up(tmp_path: Path) -> None:
    rule = ClassRule(allow_countries=("DE",), via_regions=("eu",))
    verdict = play(tmp_path, a_plan(rule=rule), alone=True)
    assert verdict.ok, verdict.faults
    assert verdict.planned_ways == verdict.ways == 3


def test_a_via_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    verdict = play(tmp_path, a_plan(), x={"node_id": "1:1"})
    assert not verdict.ok
    assert verdict.accepted == 6
    assert faults(verdict)[0] == (
        "refused",
        f"{NODES['x']} towards eu: nobody here knows this relay",
    )


def test_a_via_in_a_country_that_the_class_does_not_pass_is_refused(tmp_path: Path) -> None:
    verdict = play(tmp_path, a_plan(), x={"country": "XX"})
    assert "refused" in {check for check, _ in faults(verdict)}
    assert "is no transit for 'gold'" in faults(verdict)[0][1]


def test_a_via_outside_the_regions_of_the_class_is_refused(tmp_path: Path) -> None:
    verdict = play(tmp_path, a_plan(rule=ClassRule(via_regions=("eu",))), x={"region": "as"})
    assert "is no transit for 'gold'" in faults(verdict)[0][1]


def test_a_via_that_reaches_nobody_is_not_used_and_that_is_seen(tmp_path: Path) -> None:
    verdict = play(tmp_path, a_plan("lonely"))
    assert verdict.accepted == 7
    assert verdict.planned_ways == 0
    assert {check for check, _ in faults(verdict)} == {"way"}
    assert f"and not over {NODES['lonely']}" in faults(verdict)[0][1]
    assert verdict.lost == 0


def test_a_second_via_that_reaches_nobody_is_seen_when_the_first_drains(tmp_path: Path) -> None:
    verdict = play(tmp_path, a_plan(fallback="lonely"))
    assert (verdict.planned_ways, verdict.taken_fallbacks, verdict.fallbacks) == (3, 0, 3)
    assert {check for check, _ in faults(verdict)} == {"fallback"}
    assert f"and not over {NODES['lonely']}, while {NODES['x']} drains" in faults(verdict)[0][1]
    assert verdict.lost == 0


def test_a_path_that_passes_what_the_class_does_not_is_seen(tmp_path: Path) -> None:
    verdict = play(tmp_path, a_plan(rule=ClassRule(deny_countries=("IE",))))
    assert faults(verdict) == [("country", "the link o - x passes IE")]


def test_a_signature_that_relays_do_not_trust_is_refused(tmp_path: Path) -> None:
    verdict = play(tmp_path, a_plan(), is_trusted=False)
    assert verdict.accepted == 0
    assert "no key is trusted" in faults(verdict)[0][1]


def test_relays_that_send_too_many_copies_are_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Steering, "_steer", lambda *given: given[5])  # hub and spoke
    verdict = play(tmp_path, a_plan())
    assert {check for check, _ in faults(verdict)} == {"way", "copies"}
    assert ("copies", "3 copies, and 2 is the maximum") in faults(verdict)


def test_objects_that_do_not_arrive_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = DirectClients.stream_opened

    def deaf(self: DirectClients, now: float, *rest: Any) -> None:
        if self.contact != "e2" or now < 12.0:
            taken(self, now, *rest)

    def unheard(self: DirectClients, now: float, stream: int, *rest: Any) -> None:
        if stream in self._incoming:
            heard(self, now, stream, *rest)

    heard = DirectClients.stream_data
    monkeypatch.setattr(DirectClients, "stream_opened", deaf)
    monkeypatch.setattr(DirectClients, "stream_data", unheard)
    verdict = play(tmp_path, a_plan())
    assert verdict.lost > 0
    assert faults(verdict)[-1][0] == "lost"
    assert faults(verdict)[-1][1].startswith("e2 missed 3 of 3 objects")


def test_what_breaks_the_network_ends_the_run_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def twice(*_: object) -> None:
        raise BreakError("doubled", "e1 got 1/1/0 twice", 9.0)

    monkeypatch.setattr(DirectClients, "stream_data", twice)
    verdict = play(tmp_path, a_plan())
    assert ("doubled", "e1 got 1/1/0 twice") in faults(verdict)


def test_a_network_in_which_somebody_gets_nothing_says_so(tmp_path: Path) -> None:
    document = stage_document()
    document["link"] = [row for row in document["link"] if "e3" not in row.values()]
    file = tmp_path / "stage.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    signer = Signer()
    keys = read_plan_keys([signer.file(tmp_path)])
    verdict = play_plan(
        loads(signer.sign(a_plan())),
        read_stage(file),
        lambda relay: PlanKeeper(relay, lambda _: None, keys),
    )
    assert faults(verdict) == [("no answer", "e3 gets nothing of what o publishes")]


ONE, TWO, VIA, BACK = (NodeId(0x64_0007_0000_0000 + number) for number in range(4))


def a_stage_plan(*entries: PlanEntry, max_fanout: int = 2) -> Plan:
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
    plan = a_stage_plan(by_class, own, an_entry(tracks=None, scope=""))
    demand = Demand(origin="o", scope="gold", track=7, at=())
    assert entry_for(plan, ONE, "eu", demand) is own
    other = Demand(origin="o", scope="gold", track=8, at=())
    assert entry_for(plan, ONE, "eu", other) is by_class
    assert entry_for(plan, ONE, "as", other) is None
    assert entry_for(plan, TWO, "eu", other) is None


def test_a_made_up_stage_has_more_relays_in_a_region_than_copies_may_go_there() -> None:
    plan = a_stage_plan(
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
    stage = made_up(a_stage_plan(*entries), 3, 1)
    assert len(stage.demands) == 3
    nodes = {relay.node_id for relay in stage.topology.relays}
    assert {entry.via for entry in entries} <= nodes
    assert stage == made_up(a_stage_plan(*entries), 3, 1)
    with pytest.raises(TopologyError, match="no entries"):
        made_up(a_stage_plan(), 3, 1)


def test_tracks_have_the_hashes_that_the_plan_has_for_them() -> None:
    hasher = PlanHasher(b"sixteen bytes or more")
    assert Demand(origin="o", scope="gold", track=0xFF, at=()).key(hasher) == 0xFF
    one = Demand(origin="o", scope="gold", track=None, at=())
    other = Demand(origin="o", scope="", track=None, at=())
    assert one.key(hasher) != other.key(hasher)
