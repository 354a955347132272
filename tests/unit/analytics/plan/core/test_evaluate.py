from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laps_analytics.errors import PlanError
from laps_analytics.plan import milp
from laps_analytics.plan.core import evaluate
from laps_analytics.plan.core.compose import choose_vias
from laps_analytics.plan.core.evaluate import figures, weighted_percentile
from laps_analytics.plan.core.inputs import Group, aggregate
from laps_analytics.plan.core.placement import CellTable, Policy, draft
from testkit.planning import line_network, random_case

NETWORK = line_network(
    [
        *(("edge", "us", 0.0), ("via", "us", 2.0)),
        *(("edge", "eu", 80.0), ("edge", "eu", 84.0), ("edge", "eu", 88.0), ("via", "eu", 82.0)),
    ]
)
GROUP = Group(origin=0, scope="", keys=(1,), rate_bps=8e6, targets=(2, 3, 4), viewers=(1, 2, 3))


def test_each_baseline_takes_the_way_that_it_is_named_after() -> None:
    (star,) = evaluate.star(NETWORK, [GROUP])
    assert star == {2: (0, 2), 3: (0, 3), 4: (0, 4)}
    (hops,) = evaluate.hops_then_srtt(NETWORK, [GROUP], peers=1)
    assert hops == {2: (0, 1, 5, 2), 3: (0, 1, 5, 3), 4: (0, 1, 5, 4)}
    (two,) = evaluate.hops_then_srtt(NETWORK, [GROUP], peers=2)
    assert two[2] == (0, 1, 2)  # fewer hops, and then 2 + 78 ms against 82 + 2
    (hier,) = evaluate.hierarchy(NETWORK, [GROUP], cores=1)
    assert hier == {2: (0, 1, 5, 2), 3: (0, 1, 5, 3), 4: (0, 1, 5, 4)}
    (warm,) = evaluate.marginal_cost(NETWORK, [GROUP])
    assert warm == {4: (0, 4), 3: (0, 4, 3), 2: (0, 4, 3, 2)}


def test_figures_count_copies_once_for_each_link_and_delays_for_each_viewer() -> None:
    policy = Policy()
    star = figures(NETWORK, policy, [GROUP], evaluate.star(NETWORK, [GROUP]))
    assert star.duplication == 3.0
    assert star.stress == 3
    assert star.delay_p50_ms == 84.0
    hier = figures(NETWORK, policy, [GROUP], evaluate.hierarchy(NETWORK, [GROUP], cores=1))
    assert hier.duplication == 1.0
    assert hier.hops == 3.0
    wires = {(0, 2): [0], (0, 3): [0, 1], (0, 4): [0, 1, 2]}
    real = figures(
        NETWORK,
        policy,
        [GROUP],
        evaluate.star(NETWORK, [GROUP]),
        wires=lambda a, b: wires[a, b],
        kilometres=[1.0, 2.0, 3.0],
    )
    assert real.stress == 3
    assert real.fibre == 8e6 * (1 + 3 + 6)
    values, weights = np.array([3.0, 1.0, 2.0]), np.array([1.0, 1.0, 8.0])
    assert weighted_percentile(values, weights, 0.5) == 2.0
    assert weighted_percentile(values, weights, 0.95) == 3.0


@settings(max_examples=25)
@given(st.integers(0, 2**32))
def test_no_plan_is_below_the_exact_optimum_and_greedy_is_near_it(seed: int) -> None:
    network, tracks, policy = random_case(seed)
    made = draft(network, policy, aggregate(tracks))
    for ours, best in milp.audit(made).values():
        assert ours >= best * (1 - 1e-6) - 1e-6
        assert ours <= 1.25 * best + 1e-6
    placed, _ = choose_vias(network, policy, tracks)
    assert not milp.audit(placed, largest=0)


def test_the_optimum_of_an_example_that_greedy_gets_wrong() -> None:
    # Two good Vias beat the one that looks best first.
    inf = float("inf")
    no = np.zeros(3, dtype=bool)
    rows = [[10.0, 1.0, inf], [10.0, 1.0, inf], [10.0, inf, 1.0], [10.0, inf, 1.0]]
    tables = [CellTable(np.array(row), 30.0, no, no, no, no) for row in rows]
    legs = np.array([1.0, 5.0, 5.0])
    assert milp.optimum(tables, legs) == pytest.approx(14.0)
    assert milp.optimum(tables, np.zeros(0)) == 120.0


def test_without_highs_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(PlanError, match=r"laps-analytics\[plan\]"):
        milp.optimum([], np.zeros(0))
