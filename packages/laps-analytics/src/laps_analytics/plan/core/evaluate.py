"""Evaluate distribution trees: cost, delay and duplication; of plans and of baselines.

A tree maps each target to the relays on its path from the origin. A link carries a track once,
however many targets are behind it.

A baseline is an algorithm to compare plans with. It returns a tree for every group. Baselines use
the same network as the planner and ignore its constraints.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from laps_analytics.plan.core.inputs import Floats, Group, Network
from laps_analytics.plan.core.placement import DIRECT, HOP_MS, Draft, Policy, hourly_cost

__all__ = [
    "Figures",
    "Tree",
    "figures",
    "hierarchy",
    "hops_then_srtt",
    "marginal_cost",
    "star",
    "trees_of",
    "weighted_percentile",
]

# Trees and their figures

Tree = Mapping[int, tuple[int, ...]]
"""Target to the relays on its path, origin first, target last."""

Wires = Callable[[int, int], Sequence[int]]
"""Returns the fibre links between two relays, as numbers."""


def trees_of(made: Draft) -> list[Tree]:
    """Return the trees of a draft; cells without a Via are hub and spoke."""
    found: list[dict[int, tuple[int, ...]]] = [
        {target: (group.origin, target) for target in group.targets} for group in made.groups
    ]
    for cell, via in zip(made.cells, made.via, strict=True):
        if via != DIRECT:
            group = made.groups[cell.group]
            for member in cell.members:
                target = group.targets[member]
                found[cell.group][target] = (group.origin, via, target)
    return list(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Cost and quality of a set of trees."""

    wan_cost: float
    """Price of an hour between regions."""
    cost: float
    """Price of an hour between and within regions."""
    duplication: float
    """WAN bytes by the bytes of one copy for each region."""
    stress: int
    """Most copies of a track over one fibre link; between two regions if fibre is unknown."""
    fibre: float
    """Byte-kilometres, or bytes if fibre is unknown."""
    delay_p50_ms: float
    delay_p95_ms: float
    over_limit: float
    """Share of viewers with a round trip time or loss over the limit of their class."""
    objective: float
    """Objective of the planner: price, delay, and viewers over a limit."""
    hops: float
    """Mean number of links to a viewer."""


def figures(
    network: Network,
    policy: Policy,
    groups: Sequence[Group],
    trees: Sequence[Tree],
    *,
    wires: Wires | None = None,
    kilometres: Sequence[float] = (),
) -> Figures:
    """Evaluate trees; delays are weighted by viewers."""
    regions = network.regions()
    wan = cost = wan_bytes = ideal = fibre = 0.0
    stress = 1
    delays: list[float] = []
    viewers: list[int] = []
    hops: list[int] = []
    poor = 0
    for group, tree in zip(groups, trees, strict=True):
        rule = policy.rule(group.scope)
        limit = np.inf if rule.limit_us is None else rule.limit_us / 1000
        most = 1.0 if rule.limit_loss_ppm is None else rule.limit_loss_ppm / 1e6
        own = regions[group.origin]
        ideal += group.rate_bps * len({regions[t] for t in group.targets} - {own})
        edges = {pair for path in tree.values() for pair in pairwise(path)}
        used: dict[object, int] = {}
        for a, b in edges:
            price = float(hourly_cost(group.rate_bps, float(network.price[a, b])))
            cost += price
            if regions[a] != regions[b]:
                wan += price
                wan_bytes += group.rate_bps
            if wires is None:
                fibre += group.rate_bps
                if regions[a] != regions[b]:
                    used[regions[a], regions[b]] = used.get((regions[a], regions[b]), 0) + 1
                continue
            for wire in wires(a, b):
                used[wire] = used.get(wire, 0) + 1
                fibre += group.rate_bps * kilometres[wire]
        stress = max(stress, *used.values()) if used else stress
        for target, heads in zip(group.targets, group.viewers, strict=True):
            path = tree[target]
            delay = float(network.rtt_ms[path[:-1], path[1:]].sum()) + HOP_MS * (len(path) - 2)
            delays.append(delay)
            viewers.append(heads)
            hops.append(len(path) - 1)
            kept = float(np.prod(1 - network.loss[path[:-1], path[1:]]))
            if delay > limit or 1 - kept > most + 1e-9:
                poor += heads
    heads_of = np.array(viewers, dtype=float)
    total = max(1.0, float(heads_of.sum()))
    return Figures(
        wan_cost=wan,
        cost=cost,
        duplication=wan_bytes / ideal if ideal else 1.0,
        stress=stress,
        fibre=fibre,
        delay_p50_ms=weighted_percentile(np.array(delays), heads_of, 0.5),
        delay_p95_ms=weighted_percentile(np.array(delays), heads_of, 0.95),
        over_limit=poor / total,
        objective=cost
        + float(np.array(delays) @ heads_of) * policy.weights.delay_price
        + poor * policy.weights.poor_price,
        hops=float((np.array(hops) * heads_of).sum() / total),
    )


def weighted_percentile(values: Floats, weights: Floats, share: float) -> float:
    """Return the least value with at least ``share`` of the weight at or below it; 0 if empty."""
    if not len(values):
        return 0.0
    order = np.argsort(values, kind="stable")
    sums = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(sums, share * sums[-1] - 1e-12)])


# Baselines


def star(network: Network, groups: Sequence[Group]) -> list[Tree]:
    """Return hub-and-spoke trees: the origin sends a copy to each s-relay."""
    del network
    return [{target: (group.origin, target) for target in group.targets} for group in groups]


def hops_then_srtt(network: Network, groups: Sequence[Group], *, peers: int = 2) -> list[Tree]:
    """Return the trees of the seed's selection algorithm on a configured network.

    Every Edge peers with its nearest Vias only, and all Vias with each other. The fewest hops win,
    then the least sum of round trip times.
    """
    vias = _vias(network)
    size = network.size
    near: list[set[int]] = [set() for _ in range(size)]
    for node in range(size):
        others = vias if node in vias else sorted(vias, key=lambda via: network.rtt_ms[node, via])
        for other in others if node in vias else others[:peers]:
            if other != node:
                near[node].add(other)
                near[other].add(node)
    paths: dict[int, dict[int, tuple[int, ...]]] = {}
    found = []
    for group in groups:
        if group.origin not in paths:
            paths[group.origin] = _fewest_hops(network, near, group.origin)
        found.append({target: paths[group.origin][target] for target in group.targets})
    return list(found)


def _fewest_hops(
    network: Network, near: Sequence[set[int]], origin: int
) -> dict[int, tuple[int, ...]]:
    best: dict[int, tuple[int, ...]] = {}
    queue: list[tuple[int, float, tuple[int, ...]]] = [(0, 0.0, (origin,))]
    while queue:
        hops, cost, path = heapq.heappop(queue)
        at = path[-1]
        if at in best:
            continue
        best[at] = path
        for other in near[at]:
            if other not in best:
                queue_cost = cost + float(network.rtt_ms[at, other])
                heapq.heappush(queue, (hops + 1, queue_cost, (*path, other)))
    return best


def hierarchy(network: Network, groups: Sequence[Group], *, cores: int = 2) -> list[Tree]:
    """Return the trees of a fixed CDN hierarchy: Edge, regional, core, regional, Edge.

    The regional of a region is the Via nearest to its relays. The cores are the Vias nearest to
    all. A track uses the core nearest to the regional of its origin.
    """
    vias = _vias(network)
    means = {via: float(np.mean(_finite(network.rtt_ms[via]))) for via in vias}
    top = sorted(vias, key=lambda via: (means[via], via))[:cores]
    regional: dict[str, int] = {}
    for region in sorted(set(network.regions())):
        members = [i for i, name in enumerate(network.regions()) if name == region]
        regional[region] = min(
            vias, key=lambda via: (float(np.sum(network.rtt_ms[via, members])), via)
        )
    found = []
    for group in groups:
        up = regional[network.nodes[group.origin].region]
        core = min(top, key=lambda via: (float(network.rtt_ms[up, via]), via))
        tree = {}
        for target in group.targets:
            down = regional[network.nodes[target].region]
            path = [group.origin, up, core, down, target]
            tree[target] = tuple(at for i, at in enumerate(path) if i == 0 or at != path[i - 1])
        found.append(tree)
    return list(found)


def marginal_cost(network: Network, groups: Sequence[Group]) -> list[Tree]:
    """Return trees in which each target joins where one more copy is cheapest, then nearest.

    Targets with the most viewers join first.
    """
    found = []
    for group in groups:
        order = sorted(zip(group.viewers, group.targets, strict=True), key=lambda x: (-x[0], x[1]))
        tree: dict[int, tuple[int, ...]] = {group.origin: (group.origin,)}
        for _, target in order:
            source = min(
                tree, key=lambda at: (network.price[at, target], network.rtt_ms[at, target], at)
            )
            tree[target] = (*tree[source], target)
        del tree[group.origin]
        found.append(tree)
    return list(found)


def _vias(network: Network) -> list[int]:
    return [i for i, node in enumerate(network.nodes) if node.kind == "via" and node.usable]


def _finite(values: Floats) -> Floats:
    found: Floats = values[np.isfinite(values)]
    return found
