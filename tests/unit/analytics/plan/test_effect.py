from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from laps_analytics.errors import PlanError
from laps_analytics.lake import Lake
from laps_analytics.plan.core.revert import Part
from laps_analytics.plan.effect import (
    Answer,
    Span,
    Window,
    adoption_of,
    answers_of,
    before_and_after,
    effects_of,
    matched,
    spans_of,
)
from testkit.plan_lake import END_US, add_answers, add_experience, add_traffic

HOUR = 3_600_000_000
DAY = 24 * HOUR


def windows(first_day: int, days: int, *, shift: float = 0.0, seed: int = 1) -> list[Window]:
    rng = np.random.default_rng(seed)
    return [
        Window(
            (first_day + day) * DAY + hour * HOUR,
            demand := 100.0 + 50 * math.sin(hour / 24 * 6.28) + float(rng.normal(0, 3)),
            100 + demand / 5 + float(rng.normal(0, 4)) + shift,
        )
        for day in range(days)
        for hour in range(24)
    ]


def test_a_plan_that_helps_and_one_that_harms_are_told_apart() -> None:
    before = windows(100, 14)
    better = matched(before, windows(114, 2, shift=-10, seed=2))
    assert better.word == "better"
    assert not better.revert
    assert better.low < -10 < better.high or abs(better.change + 10) < 3
    worse = matched(before, windows(114, 2, shift=+10, seed=3))
    assert worse.revert
    assert worse.runs == 12  # of four hours each
    same = matched(before, windows(114, 2, seed=4))
    assert same.word == "unclear"
    assert same == matched(before, windows(114, 2, seed=4))


def test_few_hours_tell_nothing_even_if_they_agree() -> None:
    before = windows(100, 14)
    after = windows(114, 1, shift=30, seed=2)
    assert matched(before, after[:12]).word == "worse"
    few = matched(before, after[:10])
    assert (few.runs, few.word) == (5, "unclear")
    assert few.low > 0
    assert matched(before, after[:12], level=0.99).word == "unclear"


def minutes(day: int, rng: np.random.Generator) -> list[Window]:
    """Twelve hours whose noise lasts for half an hour."""
    noise, found = float(rng.standard_normal()), []
    for minute in range(720):
        noise = 0.97 * noise + math.sqrt(1 - 0.97**2) * float(rng.standard_normal())
        found.append(Window(day * DAY + minute * HOUR // 60, 100.0, 100 + 5 * noise))
    return found


def by_hour(found: list[Window]) -> list[Window]:
    return [
        Window(found[at].start_us, 100.0, float(np.mean([w.value for w in found[at : at + 60]])))
        for at in range(0, len(found), 60)
    ]


def test_minutes_that_are_alike_are_no_witnesses_for_each_other() -> None:
    wrong = fooled = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        before, after = minutes(103, rng) + minutes(104, rng), minutes(105, rng)
        wrong += matched(by_hour(before), by_hour(after)).word != "unclear"
        if seed < 10:
            fooled += matched(before, after, block_us=HOUR // 60, run=1).word != "unclear"
    assert wrong <= 5  # two are expected by chance
    assert fooled >= 5


def test_the_interval_is_that_of_the_signed_rank_test() -> None:
    # Twelve differences 1 to 12: 13 of the 78 means of pairs are cut off at each end (Wilcoxon).
    before = [Window(hour * HOUR, 1.0, 0.0) for hour in range(12)]
    after = [Window(DAY + hour * HOUR, 1.0, hour + 1.0) for hour in range(12)]
    found = matched(before, after, run=1)
    sums = sorted((a + b) / 2 for a in range(1, 13) for b in range(a, 13))
    assert (found.low, found.high, found.change) == (sums[13], sums[-14], 6.5)


def test_windows_that_are_not_alike_are_not_compared() -> None:
    before = [Window(0, 100.0, 1.0)]  # Thursday, 00:00
    assert before[0].kind == (False, 0)
    assert Window(2 * DAY + 5 * HOUR, 0, 0).kind == (True, 5)
    for other in (Window(HOUR, 100.0, 9.0), Window(2 * DAY, 100.0, 9.0), Window(DAY, 900.0, 9.0)):
        nothing = matched(before, [other])
        assert nothing.pairs == 0
        assert nothing.word == "unclear"
    assert matched(before, [Window(DAY, 100.0, 9.0)]).change == 8.0


HOUR_US = 3_600_000_000


def hours_of(lake: Lake, first: int, last: int) -> list[int]:
    """Hours before the end that count, the earliest first."""
    found = adoption_of(lake, "laps", first, last)
    return [hour for hour in range(12, 0, -1) if found.covers_hour(END_US - hour * HOUR_US)]


def test_hours_in_which_a_series_was_not_followed_do_not_count(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path, create=True)
    with pytest.raises(PlanError, match="follows laps any of the versions 1 to 2"):
        adoption_of(lake, "laps", 1, 2)
    add_answers(
        lake,
        "laps",
        [
            *(("a", 1, "accepted", 10), ("b", 1, "accepted", 10), ("c", 1, "refused", 10)),
            # Both go on with the next version; one of them stops in the middle of an hour.
            *(("a", 2, "accepted", 8), ("b", 2, "accepted", 8), ("b", 2, "expired", 6.6)),
            # The other one follows another plan for a while, and takes the third version again.
            *(("a", 2, "reverted", 5), ("a", 3, "accepted", 2), ("b", 3, "refused", 2)),
            # Of a version that was not followed any more.
            ("a", 2, "expired", 1),
        ],
    )
    found = adoption_of(lake, "laps", 1, 3)
    assert found.since_us == END_US - 10 * HOUR_US
    assert (set(found.accepted), set(found.refused)) == ({"a", "b"}, {"b", "c"})
    assert hours_of(lake, 1, 3) == [10, 9, 8, 7, 6, 2, 1]
    assert hours_of(lake, 1, 2) == [10, 9, 8, 7, 6]
    assert hours_of(lake, 1, 1) == [10, 9]
    assert hours_of(lake, 3, 3) == [2, 1]
    with pytest.raises(PlanError, match="follows laps version 4"):
        adoption_of(lake, "laps", 4, 4)
    with pytest.raises(PlanError, match="follows other version 1"):
        adoption_of(lake, "other", 1, 1)


def test_the_hour_of_the_first_acceptance_counts_from_there_on(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path, create=True)
    add_answers(lake, "laps", [("a", 1, "accepted", 3.2), ("a", 1, "expired", 3.05)])
    assert hours_of(lake, 1, 1) == [4]


@pytest.mark.parametrize(("times", "word"), [(0.5, "better"), (2.0, "worse"), (1.0, "unclear")])
def test_what_goes_between_regions_is_judged(tmp_path: Path, times: float, word: str) -> None:
    lake = Lake.open(tmp_path, create=True)
    add_traffic(lake, wan_after=times)
    found = before_and_after(lake, END_US - 48 * HOUR_US)
    (wan,), (copies,) = found["wan"].items(), found["copies"].items()
    assert wan[0] == copies[0] == Part()
    assert (wan[1].word, copies[1].word) == (word, word)
    # 3.2 million bytes for 10 million that clients got, and for 2 million that are needed.
    assert wan[1].change == pytest.approx(0.32 * (times - 1), abs=0.03)
    assert copies[1].change == pytest.approx(1.6 * (times - 1), abs=0.15)
    nothing = before_and_after(lake, END_US - 48 * HOUR_US, counts=lambda _: False)
    assert nothing["wan"][Part()].pairs == 0


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
