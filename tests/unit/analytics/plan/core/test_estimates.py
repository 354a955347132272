from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laps_analytics.plan.core.estimates import (
    DAY,
    MIN_RELAYS,
    WINDOWS_USED,
    backtest,
    backtest_links,
    distance_km,
    excluded_relays,
    forecast,
    inconsistent_ends,
    max_excluded,
    median_of,
    reconcile_rtt,
    window_medians,
)
from laps_analytics.plan.core.inputs import Floats

BERLIN, NEW_YORK, TOKYO, PARIS, MADRID = (
    (13.4, 52.5),
    (-74.0, 40.7),
    (139.7, 35.7),
    (2.3, 48.9),
    (-3.7, 40.4),
)
PLACES = [BERLIN, NEW_YORK, TOKYO, PARIS, MADRID]


def truth() -> dict[tuple[int, int], float]:
    return {
        (a, b): 2 * distance_km(PLACES[a], PLACES[b]) / 200 * 1.3
        for a in range(5)
        for b in range(5)
        if a != b
    }


def test_the_median_of_windows_does_not_mind_some_poison() -> None:
    assert window_medians({(0, 1): [80.0] * 99 + [1e6], (1, 0): []}) == {(0, 1): 80.0}


@pytest.mark.parametrize("count", [1, 2, 7, 12])
def test_the_middle_is_the_median(count: int) -> None:
    values = np.random.default_rng(count).lognormal(3.0, 2.0, count).tolist()
    assert median_of(values) == np.median(values)


def test_the_middle_of_what_is_not_finite_is_that_of_numpy() -> None:
    assert median_of([1.0, np.inf, np.inf]) == np.inf
    assert np.isnan(median_of([1.0, 2.0, np.nan]))
    assert window_medians({(0, 1): [np.nan, np.inf]}) == {}


def test_honest_ends_are_believed() -> None:
    measured = truth()
    assert inconsistent_ends(measured, PLACES) == set()
    table = reconcile_rtt(measured, PLACES)
    assert table[0, 1] == table[1, 0] == pytest.approx(measured[0, 1])
    assert table[2, 2] == 0.0


@pytest.mark.parametrize("lie", [0.3, 0.6, 5.0])
def test_who_lies_about_all_its_links_is_found_and_not_believed(lie: float) -> None:
    measured = {pair: value * (lie if pair[0] == 3 else 1) for pair, value in truth().items()}
    assert inconsistent_ends(measured, PLACES) == {3}
    np.testing.assert_allclose(reconcile_rtt(measured, PLACES), reconcile_rtt(truth(), PLACES))


def test_what_only_one_end_says_is_held_to_the_speed_of_light() -> None:
    table = reconcile_rtt({(0, 1): 1.0}, PLACES)
    assert table[0, 1] == pytest.approx(2 * distance_km(BERLIN, NEW_YORK) / 200)
    assert np.isinf(table[0, 2])
    assert reconcile_rtt({(0, 1): 1.0}, [None, NEW_YORK])[0, 1] == 1.0


def test_of_two_honest_ends_the_larger_counts() -> None:
    measured = truth() | {(0, 1): 200.0}
    assert reconcile_rtt(measured, PLACES)[1, 0] == 200.0


def test_a_liar_alone_is_too_fast_for_light() -> None:
    alone = {(3, other): 0.1 for other in (0, 1, 2, 4)}
    assert inconsistent_ends(alone, PLACES) == {3}
    assert reconcile_rtt(alone, PLACES)[3, 1] >= 2 * distance_km(PARIS, NEW_YORK) / 200


NAMES = [f"0.1:0.{number}" for number in range(1, 121)]
A, B, C, D, E = NAMES[:5]


def links(*pairs: tuple[str, str]) -> list[tuple[str, str]]:
    return [("link_bytes", f"{a}>{b}") for a, b in pairs]


@pytest.mark.parametrize(
    ("relays", "most"),
    [(1, 0), (MIN_RELAYS - 1, 0), (MIN_RELAYS, 1), (99, 1), (100, 2), (1000, 20)],
)
def test_how_many_may_be_wrong(relays: int, most: int) -> None:
    assert max_excluded(relays) == most


def test_who_contradicts_the_others_is_set_aside() -> None:
    assert excluded_relays([], NAMES) == frozenset()
    assert excluded_relays(links((A, B), (C, A), (A, D), (D, A)), NAMES[:50]) == frozenset({A})
    assert excluded_relays([("late", A), *links((A, B))], NAMES[:50]) == frozenset({A})
    # It may say so of itself.
    assert excluded_relays([*links((A, A)), *links((A, B), (A, C))], NAMES[:50]) == frozenset({A})


def test_two_that_contradict_only_each_other_are_both() -> None:
    assert excluded_relays(links((A, B), (B, A)), NAMES[:50]) == frozenset({A, B})
    assert excluded_relays(links((A, B), (C, D)), NAMES[:50]) is None
    assert excluded_relays(links((A, B), (C, D)), NAMES[:100]) == frozenset({A, B, C, D})


def test_too_many_or_nobody_stops() -> None:
    assert excluded_relays([("clock", A)], NAMES[: MIN_RELAYS - 1]) is None
    assert excluded_relays([("clock", A), ("late", B)], NAMES[:50]) is None
    assert excluded_relays([("quarantine", "unknown")], NAMES) is None
    assert excluded_relays(links((A, "0.9:0.9")), NAMES) is None
    # A ring in which all contradict two others: nobody knows who is wrong.
    assert excluded_relays(links((A, B), (B, C), (C, D), (D, A)), NAMES[:50]) is None


@given(
    liar=st.sampled_from(NAMES[:50]),
    others=st.lists(st.sampled_from(NAMES[:50]), min_size=2, max_size=20, unique=True),
)
def test_one_liar_never_takes_an_honest_relay_with_it(liar: str, others: list[str]) -> None:
    honest = [name for name in others if name != liar]
    found = excluded_relays(links(*((liar, name) for name in honest)), NAMES[:50])
    assert found is not None
    assert liar in found
    assert len(found) == (1 if len(honest) > 1 else 2)


@pytest.mark.parametrize("length", [40, DAY + 5, 3 * DAY, 8 * DAY + 1])
def test_a_forecast_looks_at_no_other_windows(length: int) -> None:
    rng = np.random.default_rng(length)
    series = rng.uniform(10, 90, size=length)
    series[rng.random(length) < 0.1] = np.nan
    seen = np.full(length, np.nan)
    for step in WINDOWS_USED:
        if length - 1 + step >= 0:
            seen[length - 1 + step] = series[length - 1 + step]
    assert forecast(seen) == forecast(series)
    assert len(WINDOWS_USED) == 48 + 7 * 10


def test_forecasts_are_tried_on_few_links_with_a_history() -> None:
    lengths = {(a, b): 3 * DAY if a % 2 else DAY for a in range(20) for b in range(20)}
    found = backtest_links(lengths)
    assert len(found) == 20
    assert all(a % 2 for a, _ in found)
    assert backtest_links({(1, 2): DAY}) == []


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
