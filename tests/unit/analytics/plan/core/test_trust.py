from __future__ import annotations

import numpy as np
import pytest

from laps_analytics.plan.core.trust import (
    distance_km,
    inconsistent_ends,
    median_of,
    reconcile_rtt,
    window_medians,
)

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
