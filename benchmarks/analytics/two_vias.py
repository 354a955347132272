"""What two Vias in a row would gain: the exact optimum with them beside the one without.

    python -m analytics.two_vias --seeds 6        from the folder benchmarks

For each group HiGHS solves the problem of ``laps_analytics.plan.milp`` with one more choice for a
cell: origin, Via a, Via b, targets. The leg to a is paid once, and so is the leg from a to b. All
constraints of the class hold for the whole way: delay, loss, countries and regions of both Vias and
all legs; and where a class asks for a second way, one must be allowed that shares neither Via.
Capacity is left out, so what is printed is the most that could be gained.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import highspy
import numpy as np

from analytics.planning import interval
from laps_analytics.plan import milp
from laps_analytics.plan.core.evaluate import Figures, figures, trees_of
from laps_analytics.plan.core.inputs import Bools, Cell, Floats, Group, Network, aggregate
from laps_analytics.plan.core.placement import HOP_MS, Choices, Draft, Policy, hourly_cost
from laps_analytics.synth.backbone import make_backbone
from laps_analytics.synth.dataset import make_demand
from laps_analytics.synth.planning import SYNTH_POLICY, SYNTH_SHARE, network_of, tracks_of


class Bound(NamedTuple):
    """The optimum without and with two Vias in a row."""

    one: Figures
    two: Figures
    pairs: int
    """Cells that would take two Vias."""
    served: int
    """Cells for which something is allowed only with two Vias."""
    cells: int


def pair_costs(choices: Choices, group: Group, cell: Cell, single: Floats) -> tuple[Floats, Floats]:
    """What a cell costs over one Via, and over each two (row: the first); without what is shared.

    ``single`` is what one Via would cost if nobody asked for a second way.
    """
    network, rule = choices.network, choices.policy.rule(group.scope)
    vias, origin, weights = choices.candidates, group.origin, choices.policy.weights
    members = list(cell.members)
    targets = np.array(group.targets)[members]
    viewers = np.array(group.viewers, dtype=float)[members]
    first = network.rtt_ms[origin, vias]
    between = network.rtt_ms[np.ix_(vias, vias)]
    last = network.rtt_ms[np.ix_(vias, targets)]
    over = first[:, None, None] + between[:, :, None] + last[None, :, :] + 2 * HOP_MS
    direct = network.rtt_ms[origin, targets]
    bound = np.where(
        np.isfinite(direct), direct * rule.slack_permille / 1000 + rule.extra_us / 1000, np.inf
    )
    kept = (
        (1 - network.loss[origin, vias])[:, None, None]
        * (1 - network.loss[np.ix_(vias, vias)])[:, :, None]
        * (1 - network.loss[np.ix_(vias, targets)])[None, :, :]
    )
    lost = 1 - kept
    allowed: Bools = np.isfinite(over).all(axis=2) & (over <= bound + 1e-9).all(axis=2)
    np.fill_diagonal(allowed, False)
    poor = np.zeros(over.shape, dtype=bool)
    if rule.limit_us is not None:
        poor |= over > rule.limit_us / 1000
    if rule.limit_loss_ppm is not None:
        limit = rule.limit_loss_ppm / 1e6
        allowed &= (lost <= np.maximum(limit, network.loss[origin, targets]) + 1e-9).all(axis=2)
        poor |= lost > limit
    links, nodes = choices.closed(group.scope)
    allowed &= ~(nodes[vias][:, None] | nodes[vias][None, :])
    allowed &= ~links[origin, vias][:, None] & ~links[np.ix_(vias, vias)]
    allowed &= ~links[np.ix_(vias, targets)].any(axis=1)[None, :]
    price = hourly_cost(group.rate_bps, network.price[np.ix_(vias, targets)].sum(axis=1))
    worth = np.where(np.isfinite(over), over, 0.0) @ viewers * weights.delay_price
    double = np.where(
        allowed, np.asarray(price)[None, :] + worth + poor @ viewers * weights.poor_price, np.inf
    )
    if not rule.disjoint:
        return single, double
    alone, both = np.isfinite(single), np.isfinite(double)
    through = both.sum(axis=1) + both.sum(axis=0)  # pairs that a Via is in
    others = alone.sum() - alone + both.sum() - through
    rest = (
        (alone.sum() - alone[:, None] - alone[None, :])
        + (both.sum() - through[:, None] - through[None, :])
        + both
        + both.T
    )
    return np.where(others > 0, single, np.inf), np.where(rest > 0, double, np.inf)


def bound(network: Network, policy: Policy, groups: Sequence[Group]) -> Bound:
    """Both optima."""
    one = milp.exact(network, policy, groups)
    # What one Via costs if nobody asks for a second way: that may have two Vias.
    rules = {name: replace(rule, disjoint=False) for name, rule in policy.hard.classes.items()}
    free = Choices(network, replace(policy, hard=replace(policy.hard, classes=rules)))
    ways = [dict(tree) for tree in trees_of(one)]
    pairs, served = 0, 0
    for number, group in enumerate(groups):
        cells = [at for at, cell in enumerate(one.cells) if cell.group == number]
        for at, way in zip(cells, _solved(one, free, group, cells), strict=True):
            members = [group.targets[member] for member in one.cells[at].members]
            pairs += len(way) == 2
            served += bool(way) and not np.isfinite(one.cost_of(at, one.via[at]))
            ways[number] |= {target: (group.origin, *way, target) for target in members}
    return Bound(
        one=figures(network, policy, groups, trees_of(one)),
        two=figures(network, policy, groups, ways),
        pairs=pairs,
        served=served,
        cells=len(one.cells),
    )


def _solved(
    made: Draft, free: Choices, group: Group, cells: Sequence[int]
) -> list[tuple[int, ...]]:
    """The Vias of each cell in the optimum with two in a row; none for hub and spoke."""
    vias = free.candidates
    legs = free.first_legs(group)
    between = np.asarray(hourly_cost(group.rate_bps, free.network.price[np.ix_(vias, vias)]))
    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("mip_rel_gap", 1e-6)
    opened: dict[int, Any] = {}
    joined: dict[tuple[int, int], Any] = {}
    shares: list[tuple[int, tuple[int, ...], Any]] = []
    chosen: list[tuple[int, ...]] = [()] * len(cells)

    def first(a: int) -> Any:
        if a not in opened:
            opened[a] = solver.addBinary(obj=float(legs[a]))
        return opened[a]

    for place, at in enumerate(cells):
        cell, direct = made.cells[at], made.tables[at].direct
        single, double = pair_costs(made.choices, group, cell, free.cell(group, cell).cost)
        terms = []
        if np.isfinite(direct):
            terms.append(solver.addVariable(lb=0, ub=1, obj=direct))
            shares.append((place, (), terms[-1]))
        for a in np.flatnonzero(single < direct).tolist():
            terms.append(solver.addVariable(lb=0, ub=1, obj=float(single[a])))
            solver.addConstr(terms[-1] <= first(a))
            shares.append((place, (a,), terms[-1]))
        # Two Vias must be better than the first of them alone, and than none.
        better = double < np.minimum(single, direct)[:, None]
        for a, b in np.argwhere(better).tolist():
            if (a, b) not in joined:
                joined[a, b] = solver.addBinary(obj=float(between[a, b]))
                solver.addConstr(joined[a, b] <= first(a))
            terms.append(solver.addVariable(lb=0, ub=1, obj=float(double[a, b])))
            solver.addConstr(terms[-1] <= joined[a, b])
            shares.append((place, (a, b), terms[-1]))
        if terms:
            solver.addConstr(sum(terms[1:], terms[0]) == 1)
    if not shares:
        return chosen
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        raise SystemExit(f"HiGHS found no optimum: {solver.getModelStatus()}")
    largest = [0.0] * len(cells)
    for place, way, share in shares:
        part = float(solver.variableValue(share))
        if part > largest[place]:
            largest[place], chosen[place] = part, tuple(int(vias[v]) for v in way)
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--edges", type=int, default=120)
    parser.add_argument("--vias", type=int, default=25)
    parser.add_argument("--tracks", type=int, default=60)
    given = parser.parse_args()
    rows: dict[str, list[float]] = {}
    for seed in range(1, given.seeds + 1):
        backbone = make_backbone(seed, edges=given.edges, vias=given.vias)
        groups = aggregate(tracks_of(make_demand(backbone, tracks=given.tracks)))
        started = time.process_time()
        found = bound(network_of(backbone, share=SYNTH_SHARE), SYNTH_POLICY, groups)
        for name, value in {
            "objective": found.two.objective / found.one.objective,
            "WAN cost": found.two.wan_cost / found.one.wan_cost,
            "delay p50": found.two.delay_p50_ms / found.one.delay_p50_ms,
            "delay p95": found.two.delay_p95_ms / found.one.delay_p95_ms,
            "viewers over limit": found.two.over_limit / max(found.one.over_limit, 1e-9),
            "cells with two Vias": found.pairs / found.cells,
            "cells served only so": found.served / found.cells,
            "CPU s": time.process_time() - started,
        }.items():
            rows.setdefault(name, []).append(value)
    print(f"{given.seeds} worlds; optimum with two Vias in a row by the one without")
    for name, values in rows.items():
        mean, half = interval(values)
        print(f"{name:22} {mean:.4g} ± {half:.2g}")


if __name__ == "__main__":
    main()
