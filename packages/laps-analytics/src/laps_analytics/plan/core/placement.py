"""Choose Vias by greedy facility location, for each group alone.

Opening a Via costs the first leg once for a group, whatever regions it serves. A region is served
by one Via or directly. The greedy step opens the Via that saves most, repeatedly. A local search
then closes and exchanges opened Vias while that helps. All groups share the change budget and the
capacities; see :mod:`~laps_analytics.plan.core.repair`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from laps_analytics.plan.core.demand import Cell, Group, cells
from laps_analytics.plan.core.network import Floats, Network
from laps_analytics.plan.core.rules import HOP_MS, UNSERVED, CellTable, Choices, Policy

__all__ = ["DIRECT", "GONE", "Draft", "InForce", "draft", "solve_group"]

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
