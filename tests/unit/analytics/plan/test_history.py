"""What became of plans, from the answers of relays; no Spark."""

from __future__ import annotations

from pathlib import Path

from laps_analytics.lake import Lake
from laps_analytics.plan.history import Answer, Span, answers_of, effects_of, spans_of
from testkit.plan_lake import END_US, add_answers, add_experience, add_traffic

HOUR_US = 3_600_000_000


def said(at_us: int, relay: str, version: int, outcome: str, reason: str = "") -> Answer:
    return Answer(
        at_us=at_us, relay=relay, plan="laps", version=version, outcome=outcome, reason=reason
    )


def test_versions_follow_each_other() -> None:
    first, second, third = spans_of(
        [
            said(1, "a", 1, "accepted"),
            said(2, "b", 1, "accepted"),
            said(3, "c", 1, "refused", "no such Via"),
            said(10, "a", 2, "accepted"),
            said(11, "b", 1, "expired"),
            said(12, "b", 1, "expired"),  # whatever it says of it later
            said(13, "c", 2, "accepted"),
            said(14, "c", 2, "reverted"),
            said(15, "c", 3, "refused", "too old"),
        ]
    )
    assert (first.first_us, first.last_us) == (1, 11)
    assert (first.followed, first.now) == ({"a", "b"}, set())
    assert (first.refused, first.expired) == ({"c": "no such Via"}, {"b"})
    assert (second.now, second.last_us, second.reverted) == ({"a"}, None, {"c"})
    assert third == Span(plan="laps", version=3, first_us=15, refused={"c": "too old"})
    assert spans_of([]) == []


def test_a_lake_without_plans_has_no_history(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path, create=True)
    assert answers_of(lake) == []
    assert effects_of(lake, []) == ([], [])


def test_what_the_newest_series_moved(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path, create=True)
    add_experience(lake, plan="laps", after_ms=60)
    add_traffic(lake, wan_after=0.5)
    add_answers(lake, "laps", [("0.1:0.1", 2, "accepted", 24.0)])
    add_answers(lake, "laps", [("0.1:0.2", 2, "refused", 23.0)], reason="denied: CA")
    add_answers(lake, "old", [("0.1:0.9", 7, "refused", 72.0)])
    answers = answers_of(lake)
    assert [item.version for item in answers] == [7, 1, 2, 2]
    assert [item.reason for item in answers] == ["", "", "", "denied: CA"]
    assert answers_of(lake, until_us=END_US - 30 * HOUR_US) == answers[:2]
    rows, back = effects_of(lake, spans_of(answers))
    assert back == ["all"]
    found = {(row["part"], row["metric"]): row for row in rows}
    latency = found["all", "latency"]
    assert (latency["plan"], latency["first_version"], latency["last_version"]) == ("laps", 1, 2)
    assert (latency["verdict"], latency["go_back"]) == ("worse", True)
    assert latency["low"] <= latency["change"] <= latency["high"]
    assert (found["all", "wan"]["verdict"], found["all", "wan"]["go_back"]) == ("better", False)
