from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from laps_analytics.errors import PlanError
from laps_analytics.lake import Lake
from laps_analytics.plan.core.compose import TRIAL
from laps_analytics.plan.core.lessons import Trial, Way
from laps_analytics.plan.learning import learn, outcomes_of
from laps_analytics.plan.remembered import remember, remembered
from laps_wire.nodeid import NodeId
from laps_wire.plan import Plan, PlanEntry
from testkit.plan_lake import END_US, add_answers, add_reports

WAY = Way("0.1:0.1", "eu", "gold", "0.2:0.1")
HOUR_US = 3_600_000_000


def entry(*tracks: int, reason: str = f"{TRIAL}2 copies to eu become 1") -> PlanEntry:
    return PlanEntry(
        origin=NodeId.parse(WAY.origin),
        region=WAY.region,
        scope=WAY.scope,
        tracks=tracks,
        via=NodeId.parse(WAY.via),
        fallback=None,
        wan_saved_permille=0,
        delay_us=0,
        reason=reason,
    )


def plan(version: int, *entries: PlanEntry) -> Plan:
    return Plan(
        id="p", version=version, made_us=1, expires_us=2, based_on="0" * 64, entries=entries
    )


TRIED = Trial(
    plan="p",
    first=2,
    last=4,
    begun_us=END_US - 48 * HOUR_US,
    way=WAY,
    instead="0.2:0.9",
    tracks=(0xFF,),
    predicted_ms=170.0,
    against_ms=180.0,
    expected_ms=-10.0,
)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Versions 2 to 4 of a plan were followed for two days, a quarter of an hour to a day each."""
    made = Lake.open(tmp_path / "lake", create=True)
    answers = [("0.1:0.1", version, "accepted", hours) for version, hours in ((2, 48), (3, 24))]
    add_answers(made, "p", [*answers, ("0.1:0.1", 4, "accepted", 0.25)])
    relays = ("0.1:0.2", "0.1:0.3", "0.1:0.4")
    add_reports(made, ["00000000000000ff"], "eu", after_ms=-30, relays=relays)
    return made


def test_a_trial_is_judged_by_all_versions_that_have_it(lake: Lake) -> None:
    remember(lake, [TRIED], now_us=END_US)
    document = plan(3, entry(0xFF), entry(0xAB, reason="shorter way to eu"))
    (found,) = outcomes_of(lake, document)
    assert (found.way, found.tracks) == (WAY, (0xFF,))
    assert (found.verdicts["latency"].word, found.verdicts["latency"].pairs) == ("better", 47)
    assert learn(lake, document, [found]) == {WAY}
    (kept,) = remembered(lake)
    assert kept == replace(TRIED, judged=found.judged)
    assert kept.judged is not None
    assert kept.judged.witnesses == 3


def test_what_the_lake_did_not_know_of_is_judged_by_its_version_and_teaches_nothing(
    lake: Lake,
) -> None:
    document = plan(3, entry(0xFF))
    (found,) = outcomes_of(lake, document)
    assert found.verdicts["latency"].pairs == 23
    assert learn(lake, document, [found]) == frozenset()
    remember(lake, [replace(TRIED, plan="q")], now_us=END_US)
    assert learn(lake, document, [found]) == frozenset()
    assert remembered(lake)[0].judged is None


def test_it_is_too_early_or_nobody_followed_it(lake: Lake) -> None:
    remember(lake, [replace(TRIED, first=4)], now_us=END_US)
    document = plan(4, entry(0xFF))
    (found,) = outcomes_of(lake, document)
    assert learn(lake, document, [found]) == frozenset()
    assert remembered(lake)[0].judged is None
    assert outcomes_of(lake, plan(9)) == []
    with pytest.raises(PlanError, match="no relay has reported that it follows p version 9"):
        outcomes_of(lake, plan(9, entry(0xFF)))
