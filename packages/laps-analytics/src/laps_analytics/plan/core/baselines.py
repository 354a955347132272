"""Baseline algorithms to compare plans with.

Each function returns a tree for every group. The baselines use the same network as the planner and
ignore its constraints.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from laps_analytics.plan.core.demand import Group
from laps_analytics.plan.core.evaluate import Tree
from laps_analytics.plan.core.network import Floats, Network

__all__ = ["hierarchy", "hops_then_srtt", "marginal_cost", "star"]


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
