"""Constraints and objective of the planner, as tables for one group."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from laps_analytics.plan.core.demand import Cell, Group
from laps_analytics.plan.core.network import Bools, Floats, Network
from laps_wire.plan import ClassRule, HardConstraints

__all__ = [
    "HOP_MS",
    "UNSERVED",
    "CellTable",
    "Choices",
    "Policy",
    "Weights",
    "capacities",
    "hourly_cost",
]

HOP_MS: Final = 1.0
"""Delay that a relay on the path adds to a round trip."""

UNSERVED: Final = 1e12
"""Cost of a cell without an allowed choice; larger than all other costs together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Weights of the objective: delay beside the WAN price of an hour."""

    delay_price: float = 2e-5
    """Price of a millisecond of round trip of one viewer, for an hour."""
    poor_price: float = 0.02
    """Price of one viewer over a limit of the class, in delay or loss, for an hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Hard constraints and weights."""

    hard: HardConstraints = field(default_factory=HardConstraints)
    weights: Weights = field(default_factory=Weights)
    edges_as_vias: bool = False
    """Whether Edges may be Vias."""
    undeclared: frozenset[str] = frozenset()
    """Classes that must not use links without declared countries."""

    def rule(self, scope: str) -> ClassRule:
        """Return the rule of a class, or the default rule."""
        return self.hard.classes.get(scope, _DEFAULT)

    @property
    def headroom(self) -> float:
        """Share of a capacity that may be used."""
        return self.hard.headroom_permille / 1000


_DEFAULT: Final = ClassRule()


def hourly_cost(rate_bps: float, price: Floats | float) -> Floats | float:
    """Return the cost of an hour at a rate, by the price of a gigabyte."""
    return rate_bps * 3600 / 8e9 * price


class CellTable(NamedTuple):
    """Cost of the candidates for a cell, and why some are not allowed. Columns are candidates."""

    cost: Floats
    """Cost without the first leg, which the group pays once; infinite if not allowed."""
    direct: float
    """Cost of hub and spoke; infinite if not allowed."""
    slow: Bools
    """Not allowed: the delay to some target is too long."""
    lossy: Bools
    """Not allowed: the loss to some target is too high."""
    banned: Bools
    """Not allowed: a country or a region is denied."""
    unknown: Bools
    """Not allowed: a leg was not measured."""


class Choices:
    """Costs and permissions of all candidates, for one network and policy."""

    def __init__(self, network: Network, policy: Policy) -> None:
        self.network = network
        self.policy = policy
        kinds = {"via", "edge"} if policy.edges_as_vias else {"via"}
        self.candidates = np.array(
            [i for i, node in enumerate(network.nodes) if node.usable and node.kind in kinds],
            dtype=np.int64,
        )
        """Rows of the relays that may be Vias."""
        self.columns = {int(row): column for column, row in enumerate(self.candidates)}
        """Row to its position among the candidates."""
        self._closed: dict[str, tuple[Bools, Bools]] = {}

    def closed(self, scope: str) -> tuple[Bools, Bools]:
        """Return the links and relays that a class must not use.

        Denied countries close links and relays; denied regions close relays.
        """
        if scope not in self._closed:
            rule = self.policy.rule(scope)
            allowed = None if rule.allow_countries is None else set(rule.allow_countries)
            denied = set(rule.deny_countries)
            network = self.network
            links = np.full((network.size, network.size), scope in self.policy.undeclared)
            np.fill_diagonal(links, False)
            for a, b in network.countries:
                links[a, b] = links[b, a] = False
            for (a, b), passed in network.countries.items():
                # The ends of a link are relays, and judged as such.
                between = passed - {network.nodes[a].country, network.nodes[b].country}
                if between & denied or (allowed is not None and between - allowed):
                    links[a, b] = links[b, a] = True
            nodes = np.array(
                [
                    node.country in denied
                    or (allowed is not None and node.country not in allowed)
                    or (rule.via_regions is not None and node.region not in rule.via_regions)
                    for node in network.nodes
                ],
                dtype=bool,
            )
            self._closed[scope] = links, nodes
        return self._closed[scope]

    def first_legs(self, group: Group) -> Floats:
        """Return the cost of the first leg of a group to each candidate."""
        return np.asarray(
            hourly_cost(group.rate_bps, self.network.price[group.origin, self.candidates])
        )

    def cell(self, group: Group, cell: Cell) -> CellTable:
        """Return the table of a cell."""
        network, policy, vias, origin = self.network, self.policy, self.candidates, group.origin
        rule, weights = policy.rule(group.scope), policy.weights
        members = np.array(cell.members)
        targets = np.array(group.targets)[members]
        viewers = np.array(group.viewers, dtype=float)[members]
        direct = network.rtt_ms[origin, targets]
        over = (
            network.rtt_ms[origin, vias][:, None] + network.rtt_ms[np.ix_(vias, targets)] + HOP_MS
        )
        unknown = ~np.isfinite(over).all(axis=1) | (vias == origin)
        if policy.edges_as_vias:
            unknown |= np.isin(vias, targets)
        bound = np.where(
            np.isfinite(direct), direct * rule.slack_permille / 1000 + rule.extra_us / 1000, np.inf
        )
        slow = (over > bound + 1e-9).any(axis=1) & ~unknown
        plain_loss = network.loss[origin, targets]
        way_loss = 1 - (1 - network.loss[origin, vias])[:, None] * (
            1 - network.loss[np.ix_(vias, targets)]
        )
        lossy = np.zeros(len(vias), dtype=bool)
        if rule.limit_loss_ppm is not None:
            most = np.maximum(rule.limit_loss_ppm / 1e6, plain_loss)
            lossy = (way_loss > most + 1e-9).any(axis=1) & ~unknown
        links, nodes = self.closed(group.scope)
        banned = nodes[vias] | links[origin, vias] | links[np.ix_(vias, targets)].any(axis=1)
        price = hourly_cost(group.rate_bps, network.price[np.ix_(vias, targets)].sum(axis=1))
        cost = price + _quality(over, way_loss, viewers, rule, weights)
        cost = np.where(unknown | slow | lossy | banned, np.inf, cost)
        if rule.disjoint and np.isfinite(cost).sum() < 2:
            # Without a second way there is no first one.
            cost = np.full_like(cost, np.inf)
        plain = float("inf")
        known = np.isfinite(direct).all() and not links[origin, targets].any()
        if known and len(targets) <= policy.hard.max_fanout:
            plain = float(
                hourly_cost(group.rate_bps, network.price[origin, targets].sum())
                + _quality(direct[None, :], plain_loss[None, :], viewers, rule, weights)[0]
            )
        return CellTable(cost, plain, slow, lossy, banned, unknown)

    def star(self, group: Group, cell: Cell) -> float:
        """Return the cost of hub and spoke for a cell, whether or not it is allowed."""
        members = list(cell.members)
        targets = np.array(group.targets)[members]
        viewers = np.array(group.viewers, dtype=float)[members]
        rtt = self.network.rtt_ms[group.origin, targets]
        loss = self.network.loss[group.origin, targets]
        price = self.network.price[group.origin, targets].sum()
        rule, weights = self.policy.rule(group.scope), self.policy.weights
        worth = _quality(rtt[None, :], loss[None, :], viewers, rule, weights)
        return float(hourly_cost(group.rate_bps, price) + worth[0])


def _quality(
    over: Floats, loss: Floats, viewers: Floats, rule: ClassRule, weights: Weights
) -> Floats:
    """Return the cost of delay and loss, by row."""
    finite = np.where(np.isfinite(over), over, 0.0)
    cost: Floats = finite @ viewers * weights.delay_price
    poor = np.zeros(over.shape, dtype=bool)
    if rule.limit_us is not None:
        poor |= over > rule.limit_us / 1000
    if rule.limit_loss_ppm is not None:
        poor |= loss > rule.limit_loss_ppm / 1e6
    return cost + poor @ viewers * weights.poor_price


def capacities(network: Network, policy: Policy) -> tuple[Floats, Floats]:
    """Return the load that a plan may add to each relay and to each link."""
    nodes = np.array(
        [node.capacity_bps * policy.headroom - node.load_bps for node in network.nodes]
    )
    return nodes, network.capacity_bps * policy.headroom - network.load_bps
