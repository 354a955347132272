"""What trials teach plans: the objective in the network as it is, round by round.

    python -m analytics.trials --seeds 10        from the folder benchmarks

A planner sees round trips that are off, each link by a factor of its own (log-normal): a link that
carries little is measured by little. In each round it makes a plan that tries something on a share
of the traffic, two days of viewers' delays come from the network as it is, trials are judged by
them, and the next plan is made with what was learned. What counts is the objective, in the network
as it is, of the plan that would be made without trying anything.

``a relay lies`` is the same with one relay of each region that says its viewers are two seconds
further behind live, or nearer, whatever is tried.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Final

import numpy as np

from analytics.planning import interval
from laps_analytics.plan.core.compose import in_force, make, place
from laps_analytics.plan.core.demand import Track
from laps_analytics.plan.core.explain import diff
from laps_analytics.plan.core.explore import Exploring
from laps_analytics.plan.core.lessons import Judged, Lessons, Measured, Trial
from laps_analytics.plan.core.measure import Window, witnessed
from laps_analytics.plan.core.network import Network
from laps_analytics.plan.core.place import DIRECT, Draft
from laps_analytics.plan.core.repair import old_via
from laps_analytics.plan.core.rules import HOP_MS, Policy, Weights
from laps_analytics.plan.core.trees import figures, trees_of
from laps_analytics.world.backbone import make_world
from laps_analytics.world.demand import make_demand
from laps_analytics.world.planning import WORLD_POLICY, network_of, tracks_of
from laps_wire.plan import Plan

HOUR_US: Final = 3_600_000_000
DAYS: Final = 7
"""Before a trial."""
HOURS: Final = 48
"""Of a trial."""
NOISE_MS: Final = 3.0
"""Of the median delay of a relay's viewers in an hour."""


def truth(network: Network, policy: Policy, tracks: Sequence[Track], plan: Plan) -> float:
    """The objective of a plan in the network as it is."""
    made, _ = place(network, policy, tracks)
    table = in_force(plan, network)
    vias = [old_via(made, number, table) for number in range(len(made.cells))]
    return figures(network, policy, made.groups, trees_of(replace(made, via=vias))).objective


def outcome(
    made: Draft,
    number: int,
    real: Network,
    begin_us: int,
    dice: np.random.Generator,
    lie_ms: float,
) -> Judged | None:
    """What viewers of a trial say, relay by relay."""
    cell = made.cells[number]
    group = made.groups[cell.group]
    targets = [group.targets[member] for member in cell.members]
    via, instead = made.trials[number]

    def over(way: int, target: int) -> float:
        if way == DIRECT:
            return float(real.rtt_ms[group.origin, target])
        return float(real.rtt_ms[group.origin, way] + real.rtt_ms[way, target]) + HOP_MS

    witnesses, delays = [], []
    for position, target in enumerate(targets):
        before = over(instead, target) / 2 + dice.normal(0, NOISE_MS, DAYS * 24)
        after = over(via, target) / 2 + dice.normal(0, NOISE_MS, HOURS)
        if lie_ms and position == 0 and len(targets) > 2:
            after = after + lie_ms
        past = [
            Window(begin_us - (hour + 1) * HOUR_US, 1.0, 100 + value)
            for hour, value in enumerate(before.tolist())
        ]
        now = [
            Window(begin_us + hour * HOUR_US, 1.0, 100 + value)
            for hour, value in enumerate(after.tolist())
        ]
        witnesses.append((past, now))
        delays.append(100 + float(np.median(after)))
    found = witnessed(witnesses, level=1 - 0.05 / max(1, len(made.trials)))
    if not found.enough:
        return None
    return Judged(
        at_us=begin_us + HOURS * HOUR_US,
        hours=found.pairs,
        witnesses=found.witnesses,
        p50_ms=median(delays),
        latency=Measured(found.change, found.low, found.high),
        stalls=None,
    )


def rounds(
    seed: int,
    *,
    edges: int = 60,
    vias: int = 15,
    tracks: int = 30,
    count: int = 3,
    share: float = 0.1,
    off: float = 0.15,
    delay_price: float = 2e-4,
    lie_ms: float = 0.0,
) -> tuple[list[float], int]:
    """The objective after each round, that of a plan that knows nothing of trials = 1.

    And what the last plan says differently from that one: so many tracks and regions.
    """
    world = make_world(seed, edges=edges, vias=vias)
    demand = tracks_of(make_demand(world, tracks=tracks))
    real = network_of(world)
    policy = replace(WORLD_POLICY, weights=Weights(delay_price=delay_price))
    dice = np.random.default_rng(seed)
    factor = np.triu(np.exp(off * dice.standard_normal((real.size, real.size))), 1)
    factor = factor + factor.T
    np.fill_diagonal(factor, 1.0)
    seen = replace(real, rtt_ms=real.rtt_ms * factor)
    exploring = Exploring(share=share, spread_ms=off * seen.rtt_ms)
    plan = partial(make, seen, policy, demand, name="p", lifetime_us=1)
    at = 20_423 * 24 * HOUR_US
    trials: list[Trial] = []
    values: list[float] = []
    previous: Plan | None = None
    first: Plan | None = None
    plain: Plan | None = None
    for number in range(count + 1):
        known = Lessons.at(at, trials)
        plain = plan(version=1, now_us=at, lessons=known).plan
        values.append(truth(real, policy, demand, plain))
        first = plain if first is None else first
        made = plan(
            version=number + 1, now_us=at, previous=previous, exploring=exploring, lessons=known
        )
        previous = made.plan
        cells = {made.draft.way(cell, via): cell for cell, (via, _) in made.draft.trials.items()}
        for trial in made.trials:
            judged = outcome(made.draft, cells[trial.way], real, at, dice, lie_ms)
            trials.append(replace(trial, judged=judged))
        at += HOURS * HOUR_US
    changed = 0 if first is None or plain is None else len(diff(first, plain))
    return [value / values[0] for value in values], changed


def main() -> None:
    parser = argparse.ArgumentParser(description="What trials teach plans.")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    print("objective in the network as it is, after each round; before the first one = 1")
    for price in (2e-5, 2e-4):
        for name, lie in (("honest", 0.0), ("a relay says +2 s", 2e3), ("a relay says -2 s", -2e3)):
            found = [
                rounds(seed, count=given.rounds, delay_price=price, lie_ms=lie)
                for seed in range(1, given.seeds + 1)
            ]
            parts = [interval([row[at] for row, _ in found]) for at in range(1, given.rounds + 1)]
            shown = "  ".join(f"{mean:.4f} ± {half:.4f}" for mean, half in parts)
            worst = max(row[-1] for row, _ in found)
            moved = sum(changed for _, changed in found) / len(found)
            about = f"a millisecond is worth {price:g}, {name}"
            print(f"{about:44} {shown}  worst {worst:.4f}, {moved:.0f} decisions differ")


if __name__ == "__main__":
    main()
