"""The chapter about plans: what relays said, in words, a picture and the same numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from laps_analytics.cli import app
from laps_analytics.lake import Lake
from laps_analytics.plan.effect import history_of
from laps_analytics.report.build import make_report
from laps_analytics.report.chapter import Context, Section
from laps_analytics.report.gold import Gold, read_gold
from laps_analytics.report.plans import PlanHistory, plans
from testkit.gold_frames import lake_of, sample
from testkit.plan_lake import END_US, add_answers, add_experience, add_traffic

RELAYS = [f"0.1:0.{number}" for number in range(1, 31)]
REASON = "entry 3: the Via is in CA"
HOSTILE = "<script>alert(1)</script>\n$x$"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Two days with plans: six versions on the last one, of which one expired at some relays."""
    rows = sample()
    for table in ("qoe_region_1m", "track_fanout_5m", "traffic_1m"):
        rows[table] = []
    found = lake_of(tmp_path_factory.mktemp("plans") / "lake", rows)
    add_experience(found, plan="laps", after_ms=60)
    add_traffic(found, wan_after=0.7)
    for version, hours in enumerate((20.0, 16.0, 12.0, 8.0, 4.0, 1.0), 2):
        followed = [(relay, version, "accepted", hours) for relay in RELAYS[:28]]
        add_answers(found, "laps", followed)
        refused = [(relay, version, "refused", hours - 0.1) for relay in RELAYS[28:]]
        add_answers(found, "laps", refused, reason=REASON)
    add_answers(found, "laps", [(relay, 4, "expired", 9.0) for relay in RELAYS[:9]])
    return found


def chapter(lake: Lake) -> Section:
    gold = read_gold(lake)
    return plans(Context.of(gold), PlanHistory(**history_of(lake, gold.span_us())))


def test_the_chapter_in_words(lake: Lake) -> None:
    section = chapter(lake)
    force, refused, moved, back = section.paragraphs
    assert force == section.answer
    assert force.startswith("Plan laps, version 7, is in force at 28 relays since 18 Jun 20:00;")
    assert "2 refused it, and 0 let it expire." in force
    assert REASON in refused
    assert "0.1:0.29" in refused
    assert "before and after versions 1 to 7: latency (95th percentile) +60 ms (worse)" in moved
    assert "(better)" in moved
    assert back.startswith("Open proposal to go back for: all.")


def test_the_numbers_are_those_of_the_relays(lake: Lake) -> None:
    tables = chapter(lake).tables
    versions = tables["plan_versions"].set_index("version")
    assert list(versions.index) == [7, 6, 5, 4, 3, 2, 1]
    assert list(versions["followed"]) == [28] * 6 + [1]
    assert list(versions["refused"]) == [2] * 6 + [0]
    assert versions["expired"].to_dict() == {7: 0, 6: 0, 5: 0, 4: 9, 3: 0, 2: 0, 1: 0}
    assert list(versions["following"]) == [28, 0, 0, 0, 0, 0, 0]
    answers = tables["plan_answers"]
    # Of the last day, and those that did not follow first.
    assert len(answers) == 6 * 30 + 9
    assert set(answers["outcome"].head(12 + 9)) == {"refused", "expired"}
    assert set(tables["plan_effects"]["metric"]) == {"latency", "stalls", "wan", "copies"}


def test_the_picture_says_who_and_when(lake: Lake) -> None:
    (picture,) = chapter(lake).pictures
    assert "laps 7: 28 followed, 2 refused" in picture.svg
    for label in ("in force", "was in force", "a relay refused it", "a relay let it expire"):
        assert f">{label}<" in picture.svg
    assert "last 7 versions" in picture.alt


def test_the_command_has_the_chapter_and_its_files(lake: Lake, tmp_path: Path) -> None:
    out = tmp_path / "r.html"
    numbers = ("--csv", str(tmp_path), "--json", str(tmp_path))
    done = CliRunner().invoke(
        app, ["report", "--lake", str(lake.root), "--out", str(out), *numbers]
    )
    assert done.exit_code == 0, done.output
    assert '<section id="plans"' in out.read_text(encoding="utf-8")
    for name in ("plan_versions", "plan_answers", "plan_effects"):
        rows = json.loads((tmp_path / f"{name}.json").read_text())
        lines = (tmp_path / f"{name}.csv").read_text(encoding="utf-8").splitlines()
        assert len(lines) == len(rows) + 1 > 1


def test_without_plans_it_says_so(tmp_path: Path) -> None:
    found = lake_of(tmp_path / "lake", sample())
    section = chapter(found)
    assert section.paragraphs == (
        "No relay has said anything of a plan in this time (policy.applied).",
    )
    assert section.tables == {}
    assert PlanHistory(**history_of(found, Gold({}).span_us())) == PlanHistory()


def test_words_of_relays_are_only_words() -> None:
    version = {"plan": HOSTILE, "version": 1, "first_us": END_US, "last_us": None, "followed": 0,
               "refused": 1, "expired": 0, "reverted": 0, "following": 0}  # fmt: skip
    answer = {"at_us": END_US, "relay": HOSTILE, "plan": HOSTILE, "version": 1,
              "outcome": "refused", "reason": HOSTILE}  # fmt: skip
    gold = Gold({})
    page = make_report(gold, history=PlanHistory(versions=[version], answers=[answer])).html
    assert "<script>" not in page
    section = plans(Context.of(gold), PlanHistory(versions=[version], answers=[answer]))
    assert section.paragraphs[0] == "No plan is in force; none ever was."
    assert section.paragraphs[2].startswith("What it moved cannot be told yet")
    ended = {**version, "plan": "p", "followed": 2, "last_us": END_US}
    alone = PlanHistory(versions=[ended], answers=[])
    assert "none has been since" in plans(Context.of(gold), alone).paragraphs[0]
    effect = {"part": "all", "metric": "wan", "change": 0.1, "verdict": "unclear",
              "first_version": 1, "last_version": 1}  # fmt: skip
    unclear = PlanHistory(versions=[ended], effects=[effect])
    told = plans(Context.of(gold), unclear)
    assert told.paragraphs[1] == "What version 1 moved cannot be told from chance yet."
    assert "Time bars of the one version of plans" in told.pictures[0].svg
