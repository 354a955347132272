from __future__ import annotations

import pytest
from analytics.planning import interval, one_backbone


def test_in_a_small_world_the_plan_is_legal_cheaper_and_no_slower() -> None:
    rows = one_backbone(1, edges=40, vias=12, tracks=15)
    plan = rows["our plan"]
    assert plan["violations"] == 0
    assert plan["violations_next"] == 0
    assert plan["wan"] < 0.7
    assert plan["p50/HIER"] < 0.7
    assert plan["over"] <= rows["star"]["over"]
    assert 1 - 1e-6 <= plan["by_optimum"] < 1.1
    assert rows["MILP bound"]["objective"] == 1.0
    assert 1 - 1e-6 <= plan["objective"] < 1.1
    assert plan["changes_budget_20"] <= plan["changes"]
    assert min(row["fibre"] for row in rows.values()) >= 1.0


def test_intervals_shrink_with_more_values() -> None:
    mean, half = interval([1.0, 3.0])
    assert mean == 2.0
    assert half == pytest.approx(12.71)
    assert interval([1.0, 3.0] * 20)[1] < 0.5
    assert interval([2.0])[0] == 2.0
