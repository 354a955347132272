"""What groups share: a budget of changes, and the capacity of relays and links."""

from __future__ import annotations

from typing import Final

import numpy as np

from laps_analytics.plan.core.network import Floats
from laps_analytics.plan.core.place import DIRECT, GONE, Draft, InForce
from laps_analytics.plan.core.rules import capacities

__all__ = ["Loads", "keep_to_budget", "old_via", "relieve"]

_ROUNDING: Final = 1e-3
"""Bits a second that come from adding up in another order."""


def old_via(draft: Draft, cell: int, in_force: InForce) -> int:
    """The Via that the plan in force has for a cell: that of its first track that has one."""
    found = draft.cells[cell]
    group = draft.groups[found.group]
    said: tuple[int | str, ...] = (*group.keys, group.scope)
    for key in said:
        via = in_force.get((group.origin, found.region, key))
        if via is not None:
            return via
    return DIRECT


def keep_to_budget(draft: Draft, in_force: InForce, budget: int | None) -> set[int]:
    """Leave what gains least as it is; the cells that differ from the plan in force.

    What must change, because its Via is not allowed any more, does not count.
    """
    changed: set[int] = set()
    voluntary: list[tuple[float, int, int]] = []
    for number in range(len(draft.cells)):
        old, new = old_via(draft, number, in_force), draft.via[number]
        if old == new:
            continue
        changed.add(number)
        before = draft.cost_of(number, old)
        if old in (DIRECT, GONE) or np.isfinite(before):
            if old == GONE:
                continue
            gain = min(before, 1e9) - draft.cost_of(number, new)
            voluntary.append((-gain, number, old))
    if budget is None:
        return changed
    voluntary.sort()
    for _, number, old in voluntary[budget:]:
        changed.discard(number)
        draft.kept[number] = draft.via[number]
        draft.via[number] = old
        draft.uncovered.pop(number, None)
        if old == DIRECT and not np.isfinite(draft.tables[number].direct):
            draft.uncovered[number] = "the budget of changes is used up"
    return changed


Spot = tuple[int, ...]
"""A relay, or a link as two relays."""


class Loads:
    """What a draft puts on relays and links."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self.node_spare, self.link_spare = capacities(draft.network, draft.policy)
        self._uses: dict[tuple[int, int], int] = {}
        for number, via in enumerate(draft.via):
            if via != DIRECT:
                self._put(number, via, 1)

    def _put(self, number: int, via: int, sign: int) -> None:
        draft = self._draft
        cell = draft.cells[number]
        group = draft.groups[cell.group]
        rate = group.rate_bps * sign
        targets = np.array(group.targets)[list(cell.members)]
        self.node_spare[via] -= rate * len(targets)
        self.link_spare[via, targets] -= rate
        used = self._uses.get((cell.group, via), 0) + sign
        self._uses[cell.group, via] = used
        if used == (1 if sign > 0 else 0):
            self.link_spare[group.origin, via] -= rate

    def move(self, number: int, via: int) -> None:
        """Give a cell another Via."""
        old = self._draft.via[number]
        if old != DIRECT:
            self._put(number, old, -1)
        if via != DIRECT:
            self._put(number, via, 1)
        self._draft.via[number] = via

    def fits(self, number: int, via: int) -> bool:
        """Whether a cell can be added to a Via."""
        draft = self._draft
        cell = draft.cells[number]
        group = draft.groups[cell.group]
        rate = group.rate_bps
        targets = np.array(group.targets)[list(cell.members)]
        first = 0.0 if self._uses.get((cell.group, via), 0) else rate
        return bool(
            self.node_spare[via] >= rate * len(targets)
            and self.link_spare[group.origin, via] >= first
            and (self.link_spare[via, targets] >= rate).all()
        )

    def crowded(self) -> list[tuple[Spot, list[int]]]:
        """Relays and links that are over their capacity, worst first, and the cells that use them.

        A spot is a relay, or a link as two relays.
        """
        users: dict[Spot, list[int]] = {}
        for number, via in enumerate(self._draft.via):
            if via != DIRECT:
                for spot in self.spots(number):
                    users.setdefault(spot, []).append(number)
        over = [(self.spare(spot), spot) for spot in users if self.spare(spot) < -_ROUNDING]
        return [(spot, users[spot]) for _, spot in sorted(over)]

    def spare(self, spot: Spot) -> float:
        """What is left of a relay or link; below 0 it carries too much."""
        return float(self.node_spare[spot[0]] if len(spot) == 1 else self.link_spare[spot])

    def spots(self, number: int) -> list[Spot]:
        """The relay and the links that a cell uses."""
        draft = self._draft
        cell = draft.cells[number]
        group, via = draft.groups[cell.group], draft.via[number]
        return [
            (via,),
            (group.origin, via),
            *((via, group.targets[member]) for member in cell.members),
        ]


def relieve(draft: Draft, changed: set[int]) -> None:
    """Move cells off relays and links that cannot carry them, those first that change anyway.

    A cell goes only where it fits, so what is relieved stays relieved, and one round is enough.
    """
    loads = Loads(draft)
    for spot, users in loads.crowded():
        # Where cells were moved for another spot, they do not count here any more.
        still = [
            number
            for number in users
            if draft.via[number] != DIRECT and spot in loads.spots(number)
        ]
        if loads.spare(spot) >= -_ROUNDING:
            continue
        order = sorted((number not in changed, _weight(draft, loads, number)) for number in still)
        for _, (_, number) in order:
            if loads.spare(spot) >= -_ROUNDING:
                break
            via, _ = _elsewhere(draft, loads, number)
            draft.crowded_out.setdefault(number, draft.via[number])
            loads.move(number, via)
            changed.add(number)
            if via == DIRECT and not np.isfinite(draft.tables[number].direct):
                draft.uncovered[number] = "no Via has room for it"


def _weight(draft: Draft, loads: Loads, number: int) -> tuple[float, int]:
    """What a move of a cell costs for each bit that it relieves; and the cell."""
    _, extra = _elsewhere(draft, loads, number)
    return extra / (draft.rate(number) * draft.members(number)), number


def _elsewhere(draft: Draft, loads: Loads, number: int) -> tuple[int, float]:
    """The cheapest other choice that fits, and what it costs more; direct if there is none."""
    group = draft.groups[draft.cells[number].group]
    here = draft.via[number]
    total: Floats = draft.tables[number].cost + draft.choices.first_legs(group)
    now = draft.cost_of(number, here)
    now = now if np.isfinite(now) else 0.0
    plain = draft.tables[number].direct
    best, found = (DIRECT, plain) if np.isfinite(plain) else (DIRECT, float("inf"))
    for at in np.argsort(total, kind="stable"):
        if not total[at] < found:
            break
        via = int(draft.choices.candidates[at])
        if via != here and loads.fits(number, via):
            best, found = via, float(total[at])
            break
    return best, min(found, 1e9) - now
