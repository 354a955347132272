"""Small networks for tests of planning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from laps_analytics.plan.core.inputs import Network, Node, Track
from laps_analytics.plan.core.placement import Policy, Weights
from laps_wire.plan import ClassRule, HardConstraints

__all__ = ["line_network", "random_case", "random_network"]

REGIONS = ("us", "eu", "asia", "sa")
COUNTRIES = ("US", "DE", "JP", "BR", "CA", "FR")


def line_network(
    places: Sequence[tuple[str, str, float]],
    *,
    rtt: Mapping[tuple[int, int], float] | None = None,
    countries: Mapping[tuple[int, int], frozenset[str]] | None = None,
    capacity_bps: float = 1e12,
) -> Network:
    """Relays on a line: kind, region (which is the country, too) and position in ms."""
    count = len(places)
    where = np.array([place[2] for place in places])
    table = np.abs(where[:, None] - where[None, :])
    for (a, b), value in (rtt or {}).items():
        table[a, b] = table[b, a] = value
    same = np.array([[a[1] == b[1] for b in places] for a in places])
    price = np.where(same, 0.2, 1.0)
    np.fill_diagonal(price, 0.0)
    return Network(
        nodes=tuple(
            Node(
                id=f"0.0:0.{number + 1}",
                kind=kind,
                region=region,
                country=region.upper()[:2],
                capacity_bps=capacity_bps,
            )
            for number, (kind, region, _) in enumerate(places)
        ),
        rtt_ms=table,
        loss=np.zeros((count, count)),
        price=price,
        capacity_bps=np.full((count, count), 1e12),
        load_bps=np.zeros((count, count)),
        countries=countries or {},
    )


def random_network(rng: np.random.Generator, *, edges: int = 14, vias: int = 6) -> Network:
    """Relays anywhere on a plane, with triangle violations, holes, and small capacities."""
    count = edges + vias
    spot = rng.uniform(0, 120, size=(count, 2))
    region = rng.integers(len(REGIONS), size=count)
    gap = np.hypot(*(spot[:, None, :] - spot[None, :, :]).transpose(2, 0, 1))
    noise = np.exp(0.35 * rng.standard_normal((count, count)))
    table = np.triu(gap * noise + 1, 1)
    table = table + table.T
    holes = np.triu(rng.random((count, count)) < 0.03, 1)
    table[holes | holes.T] = np.inf
    same = region[:, None] == region[None, :]
    loss = np.triu(2e-3 * np.exp(1.5 * rng.standard_normal((count, count))), 1)
    price = np.where(same, 0.2, 1.0) * rng.uniform(0.5, 3, size=count)[:, None]
    np.fill_diagonal(price, 0.0)
    return Network(
        nodes=tuple(
            Node(
                id=f"0.0:0.{number + 1}",
                kind="edge" if number < edges else "via",
                region=REGIONS[region[number]],
                country=str(rng.choice(COUNTRIES)),
                capacity_bps=float(rng.uniform(20e6, 400e6)),
                load_bps=float(rng.uniform(0, 10e6)),
                usable=bool(rng.random() < 0.95),
            )
            for number in range(count)
        ),
        rtt_ms=table,
        loss=np.minimum(loss + loss.T, 1.0),
        price=price,
        capacity_bps=rng.uniform(5e6, 200e6, size=(count, count)),
        load_bps=np.zeros((count, count)),
        countries={
            (a, b): frozenset(rng.choice(COUNTRIES, size=2).tolist())
            for a in range(count)
            for b in range(a + 1, count)
            if rng.random() < 0.3
        },
    )


def random_case(seed: int) -> tuple[Network, list[Track], Policy]:
    """A network, demand and policy from a seed."""
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    edges = [i for i, node in enumerate(network.nodes) if node.kind == "edge"]
    tracks = []
    for number in range(int(rng.integers(1, 14))):
        origin = int(rng.choice(edges))
        size = int(rng.integers(1, len(edges)))
        chosen = rng.choice(edges, size=size, replace=False)
        tracks.append(
            Track(
                key=number + 1,
                origin=origin,
                scope=str(rng.choice(["gold", "silver", ""])),
                rate_bps=float(rng.uniform(1e6, 8e6)),
                viewers={int(edge): int(rng.integers(1, 50)) for edge in chosen},
            )
        )
    return network, tracks, random_policy(rng)


def random_policy(rng: np.random.Generator) -> Policy:
    """A policy with every kind of rule, some of the time."""
    gold = ClassRule(slack_permille=1300, extra_us=30_000, limit_us=90_000, disjoint=True)
    silver = ClassRule(slack_permille=1700, extra_us=60_000)
    if rng.random() < 0.5:
        silver = replace(silver, deny_countries=(str(rng.choice(COUNTRIES)),))
    if rng.random() < 0.3:
        gold = replace(gold, allow_countries=COUNTRIES[:4])
    if rng.random() < 0.3:
        silver = replace(silver, via_regions=REGIONS[:3])
    if rng.random() < 0.5:
        gold = replace(gold, limit_loss_ppm=8000)
        silver = replace(silver, limit_loss_ppm=int(rng.integers(1000, 20_000)))
    return Policy(
        hard=HardConstraints(
            max_fanout=int(rng.integers(1, 4)),
            headroom_permille=800,
            change_budget=int(rng.integers(0, 4)),
            classes={"gold": gold, "silver": silver, "": ClassRule(slack_permille=3000)},
        ),
        weights=Weights(delay_price=1e-4),
    )
