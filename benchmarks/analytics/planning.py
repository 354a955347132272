"""Planning quality on the synthetic world: our plans beside other ways of choosing.

    python benchmarks/analytics/planning.py --seeds 30
    python benchmarks/analytics/planning.py --growth --edges 340 --vias 60 --tracks 20000

Every seed is a world of its own: relays, links, inflation of paths, demand. Figures are means over
seeds with the 95 % interval of the mean (Student's t). Delays are round trips over the relays,
weighed by viewers; ``p50/HIER`` divides by the fixed hierarchy's of the same world. ``objective``
is by the exact optimum with capacity left out (``MILP bound``), which no plan can beat; other ways
of choosing keep to no constraint and can.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from laps_analytics.plan import milp
from laps_analytics.plan.core import evaluate
from laps_analytics.plan.core.compose import choose_vias, compose_plan
from laps_analytics.plan.core.evaluate import Figures, Tree, figures, trees_of
from laps_analytics.plan.core.inputs import Group, Network, Track, aggregate
from laps_analytics.plan.core.placement import UNSERVED, draft
from laps_analytics.plan.core.verify import check
from laps_analytics.synth.backbone import Backbone, load_fibre, make_backbone
from laps_analytics.synth.dataset import make_demand
from laps_analytics.synth.planning import SYNTH_POLICY, SYNTH_SHARE, network_of, tracks_of

COLUMNS = (
    *("wan", "dup", "stress", "fibre", "p50/HIER", "p95/HIER"),
    *("p95 ms", "over", "hops", "objective"),
)

# Two-sided 95 % quantiles of Student's t for 1 to 30 degrees of freedom, then the normal's.
_T = (
    *(12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean, and half of the 95 % interval of it."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, math.nan
    t = _T[len(values) - 2] if len(values) - 2 < len(_T) else 1.96
    return mean, t * statistics.stdev(values) / math.sqrt(len(values))


def ideal_fibre(backbone: Backbone, groups: Sequence[Group], kilometres: Sequence[float]) -> float:
    """Byte-kilometres of IP multicast along shortest ways: no link carries anything twice."""
    total = 0.0
    for group in groups:
        used = {
            link for target in group.targets for link in backbone.fibre_links(group.origin, target)
        }
        total += group.rate_bps * sum(kilometres[link] for link in used)
    return total


def one_backbone(seed: int, *, edges: int, vias: int, tracks: int) -> dict[str, dict[str, float]]:
    """All ways of choosing in one world."""
    backbone = make_backbone(seed, edges=edges, vias=vias)
    network = network_of(backbone, share=SYNTH_SHARE)
    demand = tracks_of(make_demand(backbone, tracks=tracks))
    groups = aggregate(demand)
    kilometres = [link[2] for link in load_fibre().links]
    cache: dict[tuple[int, int], list[int]] = {}

    def wires(a: int, b: int) -> list[int]:
        if (a, b) not in cache:
            cache[a, b] = backbone.fibre_links(a, b)
        return cache[a, b]

    def measure(trees: Sequence[Tree]) -> Figures:
        return figures(network, SYNTH_POLICY, groups, trees, wires=wires, kilometres=kilometres)

    started = time.process_time()
    made = compose_plan(
        network, SYNTH_POLICY, demand, name="world", version=1, now_us=1, lifetime_us=900_000_000
    )
    cpu = time.process_time() - started
    greedy = draft(network, SYNTH_POLICY, groups)
    ways: dict[str, Callable[[], list[Tree]]] = {
        "star": lambda: evaluate.star(network, groups),
        "hops, then sRTT": lambda: evaluate.hops_then_srtt(network, groups),
        "hierarchy (HIER)": lambda: evaluate.hierarchy(network, groups),
        "marginal cost": lambda: evaluate.marginal_cost(network, groups),
        "greedy alone": lambda: trees_of(greedy),
        "our plan": lambda: trees_of(made.draft),
        "MILP bound": lambda: trees_of(milp.exact(network, SYNTH_POLICY, groups)),
    }
    measured = {name: measure(trees()) for name, trees in ways.items()}
    base, multicast = measured["hierarchy (HIER)"], ideal_fibre(backbone, groups, kilometres)
    rows = {
        name: _row(found, base, measured["star"], multicast)
        | {"objective": found.objective / measured["MILP bound"].objective}
        for name, found in measured.items()
    }
    faults, silent = check(made.plan, network, demand)
    rows["our plan"] |= {
        "cpu_s": cpu,
        "entries": len(made.plan.entries),
        "violations": len(faults),
        "no_via_allowed": sum(1 for item in silent if "allowed" in item.reason[-7:]),
        "no_room": sum(1 for item in silent if "room" in item.reason),
        "moved_by_capacity": len(made.draft.displaced | dict.fromkeys(made.draft.full)),
        "over_vs_star": 1 - rows["our plan"]["over"] / max(rows["star"]["over"], 1e-9),
        **_optimality(network, demand),
        **_next_hour(backbone, network, demand),
    }
    return rows


def _row(found: Figures, base: Figures, star: Figures, multicast: float) -> dict[str, float]:
    return {
        "wan": found.wan_cost / star.wan_cost,
        "dup": found.duplication,
        "stress": found.stress,
        "fibre": found.fibre / multicast,
        "p50/HIER": found.delay_p50_ms / base.delay_p50_ms,
        "p95/HIER": found.delay_p95_ms / base.delay_p95_ms,
        "p95 ms": found.delay_p95_ms,
        "over": found.over_limit,
        "hops": found.hops,
    }


def _optimality(network: Network, demand: Sequence[Track]) -> dict[str, float]:
    """The plan's objective by the exact optimum with capacity left out: 1 is a perfect plan."""
    made, _ = choose_vias(network, SYNTH_POLICY, demand)
    started = time.process_time()
    pairs = [(ours % UNSERVED, best % UNSERVED) for ours, best in milp.audit(made).values()]
    return {
        "by_optimum": sum(ours for ours, _ in pairs) / sum(best for _, best in pairs),
        "milp_cpu_s": time.process_time() - started,
    }


def next_hour(backbone: Backbone, demand: Sequence[Track]) -> list[Track]:
    """A tenth of the tracks ends, and as many begin."""
    kept = [track for number, track in enumerate(demand) if number % 10]
    fresh = make_demand(
        replace(backbone, seed=backbone.seed + 1_000_000), tracks=len(demand) - len(kept)
    )
    return [*kept, *tracks_of(fresh)]


def _next_hour(backbone: Backbone, network: Network, demand: Sequence[Track]) -> dict[str, float]:
    """Other tracks, and other prices in one region: changes without and with a budget."""
    later = next_hour(backbone, demand)
    before = compose_plan(
        network, SYNTH_POLICY, demand, name="world", version=1, now_us=1, lifetime_us=900_000_000
    ).plan
    rise = network.priced(network.nodes[0].region, 1.5)
    found = {}
    for name, budget in (("changes", None), ("changes_budget_20", 20)):
        policy = replace(SYNTH_POLICY, hard=replace(SYNTH_POLICY.hard, change_budget=budget))
        made = compose_plan(
            rise,
            policy,
            later,
            name="world",
            version=2,
            now_us=2,
            lifetime_us=900_000_000,
            previous=before,
        )
        found[name] = float(made.changed)
        faults, silent = check(made.plan, rise, later, previous=before)
        found["violations_next"] = found.get("violations_next", 0.0) + len(faults)
        if budget is not None:
            found["no_budget"] = sum(1.0 for item in silent if "budget" in item.reason)
    return found


def growth(seed: int, *, edges: int, vias: int, tracks: int) -> None:
    """How long one plan of a large world takes, and nothing else."""
    backbone = make_backbone(seed, edges=edges, vias=vias)
    network = network_of(backbone)  # all of it: the tracks are many
    demand = tracks_of(make_demand(backbone, tracks=tracks, viewers=1_000_000))
    started = time.process_time()
    made = compose_plan(
        network, SYNTH_POLICY, demand, name="world", version=1, now_us=1, lifetime_us=900_000_000
    )
    spent = time.process_time() - started
    print(
        f"{edges + vias} relays, {tracks} tracks: {len(made.draft.cells)} decisions,"
        f" {len(made.plan.entries)} entries, {len(made.draft.displaced)} moved by capacity,"
        f" {spent:.1f} s of CPU"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--edges", type=int, default=120)
    parser.add_argument("--vias", type=int, default=25)
    parser.add_argument("--tracks", type=int, default=60)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--growth", action="store_true", help="only how long one plan takes")
    given = parser.parse_args()
    if given.growth:
        growth(1, edges=given.edges, vias=given.vias, tracks=given.tracks)
        return
    results = []
    for seed in range(1, given.seeds + 1):
        results.append(one_backbone(seed, edges=given.edges, vias=given.vias, tracks=given.tracks))
        if sys.stderr.isatty():
            print(f"\rseed {seed} of {given.seeds}", end="", file=sys.stderr)
    table = {
        way: {key: interval([result[way][key] for result in results]) for key in results[0][way]}
        for way in results[0]
    }
    if given.json:
        print(json.dumps({"seeds": given.seeds, "table": table}, indent=1))
        return
    print(f"| {'way of choosing':18} | " + " | ".join(f"{name:>15}" for name in COLUMNS) + " |")
    print(f"| {'-' * 18} | " + " | ".join("-" * 14 + ":" for _ in COLUMNS) + " |")
    for way, row in table.items():
        cells = [f"{mean:.3g} ± {half:.2g}" for mean, half in (row[name] for name in COLUMNS)]
        print(f"| {way:18} | " + " | ".join(f"{cell:>15}" for cell in cells) + " |")
    print()
    for name, (mean, half) in table["our plan"].items():
        if name not in COLUMNS:
            print(f"{name:20} {mean:.4g} ± {half:.2g}")


if __name__ == "__main__":
    main()
