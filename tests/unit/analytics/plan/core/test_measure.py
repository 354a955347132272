from __future__ import annotations

import math

import numpy as np

from laps_analytics.plan.core.measure import Window, matched
from laps_analytics.plan.core.network import Floats
from laps_analytics.plan.core.predict import backtest, forecast

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


def seasonal(days: int, *, noise: float, seed: int = 5) -> Floats:
    rng = np.random.default_rng(seed)
    at = np.arange(days * 288)
    usual = 80 + 20 * np.sin(at / 288 * 2 * np.pi)
    found: Floats = usual + noise * rng.standard_normal(len(at))
    return found


def test_a_forecast_beats_the_last_value_on_a_noisy_daily_pattern_and_says_so_when_not() -> None:
    found = backtest([seasonal(5, noise=6), seasonal(5, noise=6, seed=6)], trials=30)
    assert found.trials == 60
    assert found.wins
    assert found.error < 0.8 * found.last_error
    rng = np.random.default_rng(1)
    wander = 80 + np.cumsum(rng.standard_normal(5 * 288))
    assert not backtest([wander], trials=30).wins
    assert not backtest([wander[:100]]).wins  # less than a day: nothing to judge by


def test_gaps_do_not_count_and_no_data_is_no_forecast() -> None:
    series = seasonal(3, noise=0)
    series[100:200] = np.nan
    ahead = 80 + 20 * np.sin(np.arange(3) / 288 * 2 * np.pi).mean()
    assert abs(forecast(series) - ahead) < 3
    assert math.isnan(forecast(np.full(300, np.nan)))
    series[-48:] = np.nan
    assert math.isnan(forecast(series))
    assert forecast(np.array([5.0, 5.0])) == 5.0
    blank = seasonal(2, noise=0)
    blank[288:] = np.nan
    assert backtest([blank], trials=3).trials <= 1


def test_a_gap_of_hours_before_one_trial_does_not_spoil_the_back_test() -> None:
    series = seasonal(5, noise=6)
    series[3 * 288 : 3 * 288 + 60] = np.nan
    ends = np.linspace(288, len(series) - 3, 200).astype(int)
    behind = [end for end in ends if np.isnan(series[end - 48 : end]).all()]
    assert behind  # some trials begin where nothing was measured for four hours
    found = backtest([series], trials=200)
    assert math.isfinite(found.error)
    assert found.wins
    assert found.trials < len(set(ends.tolist()))
