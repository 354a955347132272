from __future__ import annotations

from dataclasses import replace

import pytest

from laps_analytics.plan.core.lessons import (
    DIRECTLY,
    LASTS_US,
    LONGEST_US,
    NOTHING,
    Correction,
    Judged,
    Lessons,
    Measured,
    Trial,
    Way,
)

DAY = 86_400_000_000
NOW = 20_000 * DAY
WAY = Way("0.1:0.1", "eu", "gold", "0.2:0.1")
BEFORE = WAY._replace(via="0.2:0.9")


def trial(**changes: object) -> Trial:
    """Predicted to be 10 ms shorter, and 40 ms shorter still as viewers saw it."""
    base = Trial(
        plan="p",
        first=3,
        last=4,
        begun_us=NOW - 2 * DAY,
        way=WAY,
        instead="0.2:0.9",
        tracks=(1, 2),
        predicted_ms=170.0,
        against_ms=180.0,
        expected_ms=-10.0,
        judged=Judged(
            at_us=NOW,
            hours=40,
            witnesses=3,
            p50_ms=212.0,
            latency=Measured(-30.0, -35.0, -25.0),
            stalls=None,
        ),
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def judged(**changes: object) -> Judged:
    found = trial().judged
    assert found is not None
    return replace(found, **changes)  # type: ignore[arg-type]


def test_half_of_what_was_off_goes_to_each_of_the_two_ways() -> None:
    found = Lessons.at(NOW, [trial()])
    assert found.corrections == {WAY: Correction(-20.0, 0.0), BEFORE: Correction(20.0, 0.0)}
    assert found.words(WAY) == (
        "tried on 2024-10-02: 40 hours, 3 relays, p50 212 ms behind live against 242 ms,"
        " counts as 20 ms shorter"
    )
    assert found.words(BEFORE) == ""


def test_several_that_were_compared_with_one_way_agree_on_it() -> None:
    others = [
        trial(way=WAY._replace(via=via), judged=judged(latency=Measured(change, change, change)))
        for via, change in (("0.2:0.2", -5.0), ("0.2:0.3", 5.0), ("0.2:0.4", 1005.0))
    ]
    found = Lessons.at(NOW, others).corrections
    # Off by 0, 20 and 2020 ms: half of the median is the way's before.
    assert found[BEFORE] == Correction(-10.0, 0.0)
    assert found[WAY._replace(via="0.2:0.2")] == Correction(-10.0, 0.0)
    assert found[WAY._replace(via="0.2:0.3")] == Correction(10.0, 0.0)
    assert found[WAY._replace(via="0.2:0.4")] == Correction(85.0, 0.0)  # half of the prediction


@pytest.mark.parametrize("change", [-1e6, 1e6])
def test_nothing_moves_a_prediction_by_more_than_half(change: float) -> None:
    wild = judged(latency=Measured(change, change, change), stalls=Measured(9.0, 9.0, 9.0))
    found = Lessons.at(NOW, [trial(judged=wild, instead=DIRECTLY)]).corrections
    sign = 1 if change > 0 else -1
    assert found[WAY] == Correction(sign * 85.0, 0.5)
    assert found[WAY._replace(via=DIRECTLY)] == Correction(-sign * 90.0, -0.5)


@pytest.mark.parametrize(
    "changes",
    [
        {"witnesses": 2},
        {"latency": None},
        {"latency": Measured(-6.0, -12.0, 0.0)},
        {"latency": None, "stalls": Measured(0.01, -0.01, 0.02)},
    ],
)
def test_too_few_relays_and_what_was_expected_teach_nothing(changes: dict[str, object]) -> None:
    found = Lessons.at(NOW, [trial(judged=judged(**changes))])
    assert found.corrections == {}
    assert found.digest() == ""
    assert found.trials.keys() == {WAY}  # but it was tried
    assert found.words(WAY).endswith(
        "3 relays report, so it counts for nothing" if "witnesses" in changes else "as predicted"
    )


def test_it_fades_by_the_day_and_is_forgotten() -> None:
    shown = [Lessons.at(NOW + days * DAY, [trial()]) for days in range(8)]
    found = [item.corrections.get(WAY, NOTHING).rtt_ms for item in shown]
    assert found == pytest.approx([-20 * (7 - days) / 7 for days in range(8)])
    assert [bool(item.trials) for item in shown[6:]] == [True, False]
    a_minute, an_hour = (Lessons.at(NOW + part, [trial()]) for part in (60_000_000, DAY // 24))
    assert a_minute.digest() == an_hour.digest() != shown[1].digest()


def test_stalls_count_and_are_told() -> None:
    worse = judged(latency=None, p50_ms=None, stalls=Measured(0.02, 0.01, 0.03))
    found = Lessons.at(NOW, [trial(judged=worse)])
    assert found.corrections[WAY] == Correction(0.0, 0.005)
    assert found.words(WAY).endswith("40 hours, 3 relays, +2.00% of the time stalled")


def test_a_trial_goes_on_until_it_is_judged_or_took_too_long() -> None:
    open_ = trial(judged=None)
    found = Lessons.at(NOW, [open_])
    assert found.words(WAY) == "tried on 2024-10-02, not judged"
    assert found.going_on(WAY, [2, 7], ("p", 4))
    assert not found.going_on(WAY, [7], ("p", 4))
    assert not found.going_on(WAY, [2], ("p", 5))
    assert not found.going_on(WAY, [2], None)
    assert not found.going_on(BEFORE, [2], ("p", 4))
    assert not Lessons.at(NOW, [trial()]).going_on(WAY, [2], ("p", 4))
    late = Lessons.at(open_.begun_us + LONGEST_US, [open_])
    assert not late.going_on(WAY, [2], ("p", 4))
    assert WAY in late.trials
    assert not Lessons.at(open_.begun_us + LASTS_US, [open_]).trials


def test_of_two_trials_of_one_way_the_later_counts() -> None:
    later = trial(begun_us=NOW - DAY, judged=judged(latency=Measured(-5.0, -5.0, -5.0)))
    for given in ([trial(), later], [later, trial()]):
        assert Lessons.at(NOW, given).corrections == {}
