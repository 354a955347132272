"""Plans that are played: a good one, and one for each thing that can be wrong with one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from laps_relay.network.steering.steering import Steering
from laps_relay.server.plans import PlanKeeper, read_plan_keys
from laps_relay.sim.clients.direct import DirectClients
from laps_relay.sim.clients.ledger import BreakError
from laps_relay.sim.plans.run import PlanVerdict, play_plan
from laps_relay.sim.plans.stage import made_up, read_stage
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
