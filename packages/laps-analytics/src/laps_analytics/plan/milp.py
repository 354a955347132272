"""Exact optimum of a group by HiGHS, to audit the greedy solution.

::

    minimise   sum legs[v] y[v] + sum cost[r, v] x[r, v] + sum direct[r] z[r]
    so that    sum_v x[r, v] + z[r] = 1       every region is served once
               x[r, v] <= y[v]                by a Via that the group has opened
               y binary; x, z follow

Capacity is left out because groups share it. So the sum over groups is a lower bound of any plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from laps_analytics.errors import PlanError
from laps_analytics.plan.core.inputs import Floats, Group, Network
from laps_analytics.plan.core.placement import DIRECT, UNSERVED, CellTable, Draft, Policy, draft

__all__ = ["audit", "exact", "optimum"]


def optimum(tables: Sequence[CellTable], legs: Floats) -> float:
    """Return the least cost of a group; a cell that cannot be served costs :data:`UNSERVED`."""
    return _solved(tables, legs)[0]


def exact(network: Network, policy: Policy, groups: Sequence[Group]) -> Draft:
    """Return the optimum of every group as a draft. It may exceed capacities."""
    found = draft(network, policy, groups)
    for group, numbers in _by_group(found).items():
        legs = found.choices.first_legs(groups[group])
        _, columns = _solved([found.tables[number] for number in numbers], legs)
        for number, column in zip(numbers, columns, strict=True):
            found.via[number] = (
                DIRECT if column == DIRECT else int(found.choices.candidates[column])
            )
    return found


def _solved(tables: Sequence[CellTable], legs: Floats) -> tuple[float, list[int]]:
    """Return the least cost of a group, and the candidate's column for each cell."""
    highspy = _highs()
    cost = np.stack([table.cost for table in tables]) if len(legs) else np.zeros((len(tables), 0))
    direct = np.array([min(table.direct, UNSERVED) for table in tables])
    usable = np.flatnonzero(np.isfinite(cost).any(axis=0))
    # What is not served is counted apart: a solver does not like numbers so far apart.
    stuck = (direct >= UNSERVED) & ~np.isfinite(cost).any(axis=1)
    rows = np.flatnonzero(~stuck)
    fixed = float(UNSERVED * stuck.sum())
    chosen = [DIRECT] * len(tables)
    if not len(usable) or not len(rows):
        return fixed + float(direct[rows].sum()), chosen
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("mip_rel_gap", 1e-7)
    opened = {int(v): solver.addBinary(obj=float(legs[v])) for v in usable}
    shares: list[tuple[int, int, Any]] = []
    for row in rows:
        terms = []
        if direct[row] < UNSERVED:
            terms.append(solver.addVariable(lb=0, ub=1, obj=float(direct[row])))
            shares.append((int(row), DIRECT, terms[-1]))
        for v in usable:
            if np.isfinite(cost[row, v]):
                share = solver.addVariable(lb=0, ub=1, obj=float(cost[row, v]))
                solver.addConstr(share <= opened[int(v)])
                terms.append(share)
                shares.append((int(row), int(v), share))
        solver.addConstr(sum(terms[1:], terms[0]) == 1)
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        raise PlanError(f"HiGHS found no optimum: {solver.getModelStatus()}")
    largest = [0.0] * len(tables)
    for at, column, value in shares:
        part = float(solver.variableValue(value))
        if part > largest[at]:
            largest[at], chosen[at] = part, column
    return fixed + float(solver.getInfo().objective_function_value), chosen


def audit(made: Draft, *, largest: int = 2000) -> dict[int, tuple[float, float]]:
    """Return cost and least cost by group, for groups with at most ``largest`` choices.

    A choice is a pair of region and Via.
    """
    found = {}
    for group, numbers in _by_group(made).items():
        legs = made.choices.first_legs(made.groups[group])
        if len(numbers) * len(legs) > largest:
            continue
        ours = sum(min(made.cost_of(number, made.via[number]), UNSERVED) for number in numbers)
        columns = {made.column(made.via[number]) for number in numbers} - {None}
        ours += sum(float(legs[column]) for column in columns if column is not None)
        found[group] = (ours, optimum([made.tables[number] for number in numbers], legs))
    return found


def _by_group(made: Draft) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for number, cell in enumerate(made.cells):
        found.setdefault(cell.group, []).append(number)
    return found


def _highs() -> Any:
    try:
        import highspy  # noqa: PLC0415 - an extra
    except ImportError:
        raise PlanError(
            'the exact optimum needs HiGHS: pip install -e "packages/laps-analytics[plan]"'
        ) from None
    return highspy
