"""Trying Vias that are not the best by prediction, for a small share of what is carried.

A prediction is made from what was measured, and links that carry nothing are measured by little.
So a plan may try something (VIA, SIGCOMM 2016, does so with a part of its calls): predict, prune to
the few best, and among those take what would be best if its links were as good as they may well be,
two spreads better than predicted (the upper end of a confidence interval). What is tried keeps to
every constraint by its *prediction*, fits into capacity as it is, and the sum of all of it is at
most a share of the bits that go to other regions. Everything else stays what it would be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from laps_analytics.plan.core.loads import Loads
from laps_analytics.plan.core.network import Floats
from laps_analytics.plan.core.place import Draft
from laps_analytics.plan.core.repair import Ledger, has_room
from laps_analytics.plan.core.rules import HOP_MS

__all__ = ["Exploring", "explore", "still_tried"]

_TOP: Final = 3
"""Choices that are left of the prediction for each cell."""
_SURE: Final = 2.0
"""Spreads by which a way may be better than predicted."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exploring:
    """How much is tried, and how far predictions may be off."""

    share: float
    """Of the bits that go to other regions."""
    spread_ms: Floats
    """By link: how far its round trip is usually from what is predicted; NaN: nobody knows."""


class _Try(NamedTuple):
    gain: float
    """What it may save an hour, at best."""
    cell: int
    via: int


def explore(draft: Draft, ledger: Ledger, exploring: Exploring) -> None:
    """Give some cells a Via to try; which it would have been is noted in ``draft.trials``."""
    loads = Loads(draft)
    bits = [draft.rate(number) * draft.members(number) for number in range(len(draft.cells))]
    left = exploring.share * sum(bits)
    users = Counter((cell.group, via) for cell, via in zip(draft.cells, draft.via, strict=True))
    fixed = draft.held | ledger.must
    chances = (
        _best_chance(draft, number, users, exploring.spread_ms)
        for number in range(len(draft.cells))
        if number not in fixed
    )
    found = [chance for chance in chances if chance is not None]
    for chance in sorted(found, key=lambda item: (-item.gain, item.cell)):
        number, via = chance.cell, chance.via
        if bits[number] > left or not ledger.may(number, via):
            continue
        loads.lift(number)
        fits = has_room(draft, loads, number, via)
        loads.lower(number)
        if fits:
            draft.trials[number] = (via, draft.via[number])
            loads.move(number, via)
            ledger.noted(number)
            left -= bits[number]


def _best_chance(
    draft: Draft, number: int, users: Mapping[tuple[int, int], int], spread: Floats
) -> _Try | None:
    """Of the next best choices for a cell, the one that may be better than what it has.

    A first leg counts if no other cell of the group pays it.
    """
    cell, here = draft.cells[number], draft.via[number]
    now = draft.cost_of(number, here)
    if not np.isfinite(now):
        return None  # relays choose there: nobody knows what a try would be compared with
    legs = draft.choices.first_legs(draft.groups[cell.group])
    column = draft.column(here)
    if column is not None and users[cell.group, here] == 1:
        now += float(legs[column])
    costs = draft.tables[number].cost
    total = {
        via: float(costs[at] if users.get((cell.group, via)) else costs[at] + legs[at])
        for at, via in enumerate(draft.choices.candidates.tolist())
        if via != here and np.isfinite(costs[at])
    }
    chances = [
        _Try(now - total[via] + _may_be_better(draft, number, via, spread), number, via)
        for via in sorted(total, key=lambda via: (total[via], via))[:_TOP]
    ]
    best = max(chances, key=lambda item: (item.gain, -item.via), default=None)
    return best if best is not None and best.gain > 0 else None


def _may_be_better(draft: Draft, number: int, via: int, spread: Floats) -> float:
    """What a way over a Via may be worth more than predicted, an hour."""
    cell = draft.cells[number]
    group, network = draft.groups[cell.group], draft.network
    targets = [group.targets[member] for member in cell.members]
    viewers = np.array([group.viewers[member] for member in cell.members], dtype=float)
    known = np.nan_to_num(spread)
    less = _SURE * np.hypot(known[group.origin, via], known[via, targets])
    weights = draft.policy.weights
    worth = float(less @ viewers) * weights.delay_price
    limit = draft.policy.rule(group.scope).limit_us
    if limit is not None:
        over = network.rtt_ms[group.origin, via] + network.rtt_ms[via, targets] + HOP_MS
        saved = (over > limit / 1000) & (over - less <= limit / 1000)
        worth += float(saved @ viewers) * weights.poor_price
    return worth


def still_tried(draft: Draft) -> None:
    """Forget trials that capacity has moved elsewhere since."""
    for number, (via, _) in list(draft.trials.items()):
        if draft.via[number] != via:
            del draft.trials[number]
