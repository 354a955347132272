"""Choose Vias by greedy facility location, for each group alone.

:class:`Policy` has the constraints and the objective. :class:`Choices` has both as tables for one
group.

Opening a Via costs the first leg once for a group, whatever regions it serves. A region is served
by one Via or directly. The greedy step opens the Via that saves most, repeatedly. A local search
then closes and exchanges opened Vias while that helps. All groups share the change budget and the
capacities; see :mod:`~laps_analytics.plan.core.compose`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from laps_analytics.plan.core.inputs import Bools, Cell, Floats, Group, Network, cells
from laps_wire.plan import ClassRule, HardConstraints

__all__ = [
    "DIRECT",
    "GONE",
    "HOP_MS",
    "UNSERVED",
    "CellTable",
    "Choices",
    "Draft",
    "InForce",
    "Policy",
    "Weights",
    "capacities",
    "draft",
    "hourly_cost",
    "solve_group",
]

# Policy, and the choices of a group

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


# Drafts

DIRECT: Final = -1
"""No Via: the plan has no entry."""
GONE: Final = -2
"""A Via of the plan in force that is not in the network."""

InForce = Mapping[tuple[int, str, int | str], int]
"""Origin, region, and track or class to the Via of the plan in force, as rows of the network."""


@dataclass(slots=True, kw_only=True, eq=False)
class Draft:
    """A plan in progress: the Via of each cell, and the alternatives."""

    network: Network
    policy: Policy
    choices: Choices
    groups: Sequence[Group]
    cells: Sequence[Cell]
    tables: Sequence[CellTable]
    via: list[int]
    """Row of the Via of each cell, or :data:`DIRECT`."""
    uncovered: dict[int, str] = field(default_factory=dict)
    """Cells without an allowed choice, and why. Relays choose there."""
    displaced: dict[int, int] = field(default_factory=dict)
    """Cells that lack of capacity moved, and their best Via."""
    kept: dict[int, int] = field(default_factory=dict)
    """Cells that the change budget kept, and their best Via."""
    held: set[int] = field(default_factory=set)
    """Cells that must not change."""
    second: dict[int, int] = field(default_factory=dict)
    """Cells to their fallback, which has room for them."""
    full: set[int] = field(default_factory=set)
    """Cells that have a Via because their direct way cannot carry them."""

    def column(self, via: int) -> int | None:
        """The column of a Via among the candidates; None if it is none."""
        return self.choices.columns.get(via)

    def cost_of(self, cell: int, via: int) -> float:
        """What a cell costs over a Via, without the first leg; infinite if not allowed."""
        if via == DIRECT:
            return self.tables[cell].direct
        column = self.column(via)
        return float("inf") if column is None else float(self.tables[cell].cost[column])

    def over(self, cell: int, via: int) -> Floats:
        """Return the round trip times to the targets of a cell over a Via, or directly."""
        found, rtt = self.cells[cell], self.network.rtt_ms
        group = self.groups[found.group]
        targets = [group.targets[member] for member in found.members]
        direct: Floats = rtt[group.origin, targets]
        return direct if via == DIRECT else rtt[group.origin, via] + rtt[via, targets] + HOP_MS

    def viewers(self, cell: int) -> Floats:
        """Return the viewers at each target of a cell."""
        found = self.cells[cell]
        group = self.groups[found.group]
        return np.array([group.viewers[member] for member in found.members], dtype=float)

    def members(self, cell: int) -> int:
        """Return the number of targets of a cell."""
        return len(self.cells[cell].members)

    def rate(self, cell: int) -> float:
        """Return the rate of the group of a cell in bits a second."""
        return self.groups[self.cells[cell].group].rate_bps

    def objective(self) -> float:
        """Return the cost of the draft; cells without a choice cost what hub and spoke does."""
        total = 0.0
        opened: set[tuple[int, int]] = set()
        for number, cell in enumerate(self.cells):
            via = self.via[number]
            cost = self.cost_of(number, via)
            total += cost if np.isfinite(cost) else self._star(number)
            if via != DIRECT:
                opened.add((cell.group, via))
        for group, via in opened:
            column = self.column(via)
            if column is not None:
                total += float(self.choices.first_legs(self.groups[group])[column])
        return total

    def _star(self, number: int) -> float:
        """Return the cost of hub and spoke, whether or not it is allowed."""
        cell = self.cells[number]
        return self.choices.star(self.groups[cell.group], cell)


def draft(network: Network, policy: Policy, groups: Sequence[Group]) -> Draft:
    """Return the best choice of each group if it were alone."""
    choices = Choices(network, policy)
    every = cells(network, groups)
    tables = [choices.cell(groups[cell.group], cell) for cell in every]
    via = [DIRECT] * len(every)
    by_group: dict[int, list[int]] = {}
    for number, cell in enumerate(every):
        by_group.setdefault(cell.group, []).append(number)
    for group, numbers in by_group.items():
        legs = choices.first_legs(groups[group])
        chosen = solve_group([tables[number] for number in numbers], legs)
        for number, column in zip(numbers, chosen, strict=True):
            via[number] = DIRECT if column == DIRECT else int(choices.candidates[column])
    found = Draft(
        network=network,
        policy=policy,
        choices=choices,
        groups=groups,
        cells=every,
        tables=tables,
        via=via,
    )
    for number, table in enumerate(tables):
        if via[number] == DIRECT and not np.isfinite(table.direct):
            found.uncovered[number] = _uncovered_reason(
                table, policy.rule(groups[every[number].group].scope).disjoint
            )
    return found


def _uncovered_reason(table: CellTable, disjoint: bool) -> str:
    """Return why a cell has no choice."""
    if not len(table.cost):
        return "there is no Via"
    counts = {
        "too slow": int(table.slow.sum()),
        "too lossy": int(table.lossy.sum()),
        "in or through a country or region that is not allowed": int(table.banned.sum()),
        "not known to reach all targets": int(table.unknown.sum()),
    }
    words = [f"{count} {what}" for what, count in counts.items() if count]
    if disjoint and not all(table.slow | table.lossy | table.banned | table.unknown):
        words.append("no second way that shares no relay")
    return f"of {len(table.cost)} Vias " + ", ".join(words)


def solve_group(tables: Sequence[CellTable], legs: Floats) -> list[int]:
    """Return the candidate's column for each cell of a group, or :data:`DIRECT`."""
    if not len(legs):
        return [DIRECT] * len(tables)
    cost = np.stack([table.cost for table in tables])
    direct = np.array([min(table.direct, UNSERVED) for table in tables])
    opened: list[int] = []
    current = direct
    while True:
        gain = np.maximum(current[:, None] - cost, 0.0).sum(axis=0) - legs
        gain[opened] = -np.inf
        best = int(gain.argmax())
        if not gain[best] > 1e-9:
            break
        opened.append(best)
        current = np.minimum(current, cost[:, best])
    opened = _improve(opened, cost, direct, legs)
    if not opened:
        return [DIRECT] * len(tables)
    columns = np.array(opened)
    best_column = columns[cost[:, columns].argmin(axis=1)]
    best_cost = cost[:, columns].min(axis=1)
    return [
        int(column) if found < plain else DIRECT
        for column, found, plain in zip(best_column, best_cost, direct, strict=True)
    ]


def _improve(opened: list[int], cost: Floats, direct: Floats, legs: Floats) -> list[int]:
    """Close or exchange opened Vias while that lowers the cost, for a limited number of rounds."""
    for _ in range(12):
        now = _value(opened, cost, direct, legs)
        best, trial = now, opened
        for gone in opened:
            rest = [at for at in opened if at != gone]
            base = np.minimum(direct, cost[:, rest].min(axis=1)) if rest else direct
            fixed = float(legs[rest].sum())
            if (closed := float(base.sum()) + fixed) < best - 1e-9:
                best, trial = closed, rest
            totals = np.minimum(base[:, None], cost).sum(axis=0) + legs + fixed
            totals[opened] = np.inf
            new = int(totals.argmin())
            if totals[new] < best - 1e-9:
                best, trial = float(totals[new]), [*rest, new]
        if trial is opened:
            break
        opened = trial
    return opened


def _value(opened: list[int], cost: Floats, direct: Floats, legs: Floats) -> float:
    if not opened:
        return float(direct.sum())
    return float(np.minimum(direct, cost[:, opened].min(axis=1)).sum() + legs[opened].sum())
