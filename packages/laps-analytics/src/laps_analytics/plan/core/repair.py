"""Fit a draft to the change budget and to the capacity of relays and links."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np

from laps_analytics.plan.core.loads import Loads, Resource
from laps_analytics.plan.core.placement import DIRECT, GONE, Draft, InForce
from laps_analytics.plan.core.revert import Part, is_in

__all__ = ["ChangeTracker", "apply_change_budget", "fit_to_capacity", "has_room", "old_via"]

_ROUNDS: Final = 8
"""Rounds of moving cells off overloaded resources. One is enough unless Edges are Vias."""

NO_ROOM: Final = "no Via has room for it"
NO_BUDGET: Final = "the budget of changes is used up"
HELD: Final = "it is held as it was"


def old_via(draft: Draft, cell: int, in_force: InForce) -> int:
    """Return the Via of a cell in the plan in force: that of its first track with an entry."""
    found = draft.cells[cell]
    group = draft.groups[found.group]
    said: tuple[int | str, ...] = (*group.keys, group.scope)
    for key in said:
        via = in_force.get((group.origin, found.region, key))
        if via is not None:
            return via
    return DIRECT


class ChangeTracker:
    """Cells that differ from the plan in force, and the changes that count.

    A change does not count if it is necessary: its Via is gone, is not allowed any more, or uses an
    overloaded resource. A held cell keeps its Via, or gets none if that is not allowed any more.
    Only an overload moves it.
    """

    def __init__(
        self, draft: Draft, in_force: InForce, budget: int | None, hold: Collection[Part] = ()
    ) -> None:
        self._draft = draft
        self.budget = budget
        self.old = [old_via(draft, number, in_force) for number in range(len(draft.cells))]
        for number, cell in enumerate(draft.cells):
            if is_in(hold, cell.region, draft.groups[cell.group].scope):
                draft.held.add(number)
                if not np.isfinite(draft.cost_of(number, self.old[number])):
                    self.old[number] = DIRECT
                draft.via[number] = self.old[number]
        self.changed = {n for n, via in enumerate(draft.via) if via != self.old[n]}
        """Cells that differ, whether or not the change counts."""
        self.must = {
            number
            for number, via in enumerate(self.old)
            if via != DIRECT and not np.isfinite(draft.cost_of(number, via))
        }
        if budget is not None:
            before = Loads(draft, self.old)
            self.must |= {number for _, users in before.overloaded() for number in users}

    def record(self, number: int) -> None:
        """Record that the Via of a cell in the draft changed."""
        if self._draft.via[number] == self.old[number]:
            self.changed.discard(number)
        else:
            self.changed.add(number)

    def allows(self, number: int, via: int) -> bool:
        """Return whether a cell may change to a Via."""
        if number in self._draft.held and number not in self.must:
            return via == self.old[number]
        free = via == self.old[number] or number in self.must or number in self.changed
        return free or self.budget is None or len(self.changed - self.must) < self.budget


def apply_change_budget(draft: Draft, tracker: ChangeTracker) -> None:
    """Undo the changes that gain least, down to the budget."""
    if tracker.budget is None:
        return
    voluntary = []
    for number in tracker.changed - tracker.must:
        before = draft.cost_of(number, tracker.old[number])
        gain = min(before, 1e9) - draft.cost_of(number, draft.via[number])
        voluntary.append((-gain, number))
    for _, number in sorted(voluntary)[tracker.budget :]:
        draft.kept[number] = draft.via[number]
        draft.via[number] = tracker.old[number]
        tracker.record(number)


def fit_to_capacity(draft: Draft, tracker: ChangeTracker) -> None:
    """Move cells off overloaded relays and links, then assign fallbacks.

    A cell moves only where it fits. A cell that fits nowhere becomes hub and spoke, and the reason
    is recorded.
    """
    loads = Loads(draft)
    for _ in range(_ROUNDS):
        moved = [
            _unload(draft, loads, tracker, resource, users)
            for resource, users in loads.overloaded()
        ]
        if not any(moved):
            break
    _assign_remaining(draft, loads, tracker)
    _assign_fallbacks(draft, loads, tracker)
    _assign_remaining(draft, loads, tracker, name=True)
    _record_uncovered(draft, loads)


def _unload(
    draft: Draft, loads: Loads, tracker: ChangeTracker, resource: Resource, users: list[int]
) -> bool:
    """Move cells off an overloaded resource: first changed ones, then the cheapest."""
    # Where cells were moved for another spot, they do not count here any more.
    still = [number for number in users if resource in loads.resources(number)]
    if not loads.is_over(resource):
        return False
    order = sorted(
        (number not in tracker.changed, *_weight(draft, loads, number)) for number in still
    )
    moved = False
    for _, _, number in order:
        if not loads.is_over(resource):
            break
        here = draft.via[number]
        via = _cheapest_alternative(draft, loads, number, tracker)
        if via is None and here != DIRECT:
            via = DIRECT
        if via is not None:
            if here == DIRECT:
                draft.full.add(number)
            else:
                draft.displaced.setdefault(number, here)
            loads.move(number, via)
            tracker.record(number)
            moved = True
    return moved


def _weight(draft: Draft, loads: Loads, number: int) -> tuple[float, int]:
    """Return the cost of moving a cell for each bit that it relieves, and the cell."""
    via = _cheapest_alternative(draft, loads, number, None)
    then = 1e9 if via is None else min(_total(draft, number, via), 1e9)
    now = _total(draft, number, draft.via[number])
    extra = then - (now if np.isfinite(now) else 0.0)
    return extra / (draft.rate(number) * draft.members(number)), number


def _total(draft: Draft, number: int, via: int) -> float:
    """Return the cost of a cell with its first leg."""
    cost = draft.cost_of(number, via)
    column = None if via == DIRECT else draft.column(via)
    if column is None:
        return cost
    group = draft.groups[draft.cells[number].group]
    return cost + float(draft.choices.first_legs(group)[column])


def _cheapest_alternative(
    draft: Draft, loads: Loads, number: int, tracker: ChangeTracker | None
) -> int | None:
    """Return the cheapest other choice that is allowed and fits; None if there is none."""
    group = draft.groups[draft.cells[number].group]
    here = draft.via[number]
    total = draft.tables[number].cost + draft.choices.first_legs(group)
    plain = draft.tables[number].direct
    found: int | None = None
    loads.remove(number)
    if here != DIRECT and np.isfinite(plain) and loads.fits(number, DIRECT):
        found = DIRECT if _allows(tracker, number, DIRECT) else None
    most = plain if found == DIRECT else np.inf
    for at in np.argsort(total, kind="stable"):
        if not total[at] < most:
            break
        via = int(draft.choices.candidates[at])
        if via != here and _allows(tracker, number, via) and has_room(draft, loads, number, via):
            found = via
            break
    loads.restore(number)
    return found


def has_room(draft: Draft, loads: Loads, number: int, via: int) -> bool:
    """Return whether a removed cell fits on a Via, with a fallback if it must have one."""
    if not loads.fits(number, via):
        return False
    return not _disjoint(draft, number) or loads.second(number, via) is not None


def _allows(tracker: ChangeTracker | None, number: int, via: int) -> bool:
    return tracker is None or tracker.allows(number, via)


def _disjoint(draft: Draft, number: int) -> bool:
    return draft.policy.rule(draft.groups[draft.cells[number].group].scope).disjoint


def _lacks_path(draft: Draft, loads: Loads, number: int) -> bool:
    """Return whether a cell has no Via and hub and spoke is not allowed or is overloaded."""
    return draft.via[number] == DIRECT and (
        not np.isfinite(draft.tables[number].direct)
        or any(loads.is_over(resource) for resource in loads.resources(number))
    )


def _assign_remaining(
    draft: Draft, loads: Loads, tracker: ChangeTracker, *, name: bool = False
) -> None:
    """Give a Via with room to each cell for which hub and spoke is not allowed."""
    moved = True
    while moved:
        moved = False
        for number in range(len(draft.cells)):
            if not _lacks_path(draft, loads, number):
                continue
            via = _previous_via(draft, loads, tracker, number)
            if via is None:
                via = _cheapest_alternative(draft, loads, number, tracker)
            if via is None:
                continue
            loads.move(number, via)
            tracker.record(number)
            moved = True
            if draft.displaced.get(number) == via:
                del draft.displaced[number]
            if name and (second := loads.second(number, via)) is not None:
                loads.reserve(number, via, second)
                draft.second[number] = second


def _previous_via(draft: Draft, loads: Loads, tracker: ChangeTracker, number: int) -> int | None:
    """Return the Via of the plan in force if it has room for the cell again; None otherwise."""
    old = tracker.old[number]
    if old in (DIRECT, GONE) or not np.isfinite(draft.cost_of(number, old)):
        return None
    loads.remove(number)
    fits = has_room(draft, loads, number, old)
    loads.restore(number)
    return old if fits else None


def _assign_fallbacks(draft: Draft, loads: Loads, tracker: ChangeTracker) -> None:
    """Assign a fallback with room to each cell; cells that must have one and lack it move."""
    while True:
        loads.release()
        draft.second.clear()
        without = []
        planned = [number for number, via in enumerate(draft.via) if via != DIRECT]
        for number in sorted(planned, key=lambda n: (not _disjoint(draft, n), n)):
            second = loads.second(number, draft.via[number])
            if second is not None:
                loads.reserve(number, draft.via[number], second)
                draft.second[number] = second
            elif _disjoint(draft, number):
                without.append(number)
        if not without:
            return
        for number in without:
            draft.displaced.setdefault(number, draft.via[number])
            if draft.via[number] == tracker.old[number]:
                tracker.must.add(number)
            loads.move(number, DIRECT)
            tracker.record(number)


def _record_uncovered(draft: Draft, loads: Loads) -> None:
    """Record the cells without an allowed path, and why."""
    for number in range(len(draft.cells)):
        if not _lacks_path(draft, loads, number):
            draft.uncovered.pop(number, None)
        elif np.isfinite(draft.tables[number].cost).any():
            fits = _cheapest_alternative(draft, loads, number, None) is not None
            why = HELD if number in draft.held else NO_BUDGET
            draft.uncovered[number] = why if fits else NO_ROOM
        elif number not in draft.uncovered:
            draft.uncovered[number] = "its direct way is full, and no Via is allowed"
