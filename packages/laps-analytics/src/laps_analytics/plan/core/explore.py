"""Trying Vias that are not the best by prediction, for a small share of what is carried.

A prediction is made from what was measured, and links that carry nothing are measured by little.
So a plan may try something (VIA, SIGCOMM 2016, does so with a part of its calls): predict, prune to
the few best, and among those take what would be best if its links were as good as they may well be,
two spreads better than predicted (the upper end of a confidence interval). What is tried keeps to
every constraint by its *prediction*, fits into capacity as it is, and the sum of all of it is at
most a share of the bits that go to other regions. Everything else stays what it would be.

What the plan in force tries goes on until it is judged, because a verdict takes hours and a plan
lives for minutes; it comes first when the share is given out. What was tried lately is not tried
again (``core.lessons``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, NamedTuple

import numpy as np

from laps_analytics.plan.core.lessons import DIRECTLY, Lessons, Trial, Way
from laps_analytics.plan.core.loads import Loads
from laps_analytics.plan.core.network import Floats
from laps_analytics.plan.core.place import DIRECT, GONE, Draft
from laps_analytics.plan.core.repair import Ledger, has_room

__all__ = ["Exploring", "explore", "still_tried", "trials_in"]

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
    upon: tuple[str, int] | None = None
    """Name and version of the plan in force; whoever makes the plan knows it."""


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
    begun = {chance.cell: chance for chance in _going_on(draft, ledger, exploring, fixed)}
    chances = (
        _best_chance(draft, number, users, exploring.spread_ms)
        for number in range(len(draft.cells))
        if number not in fixed and number not in begun
    )
    found = [*begun.values(), *(chance for chance in chances if chance is not None)]
    for chance in sorted(found, key=lambda item: (-item.gain, item.cell)):
        number, via = chance.cell, chance.via
        if bits[number] > left or not ledger.may(number, via):
            continue
        loads.lift(number)
        fits = has_room(draft, loads, number, via)
        loads.lower(number)
        if fits:
            # The budget of changes may have left a trial where it is.
            best = draft.kept.pop(number, draft.via[number])
            draft.trials[number] = (via, best)
            loads.move(number, via)
            ledger.noted(number)
            left -= bits[number]


def _going_on(
    draft: Draft, ledger: Ledger, exploring: Exploring, fixed: Collection[int]
) -> Iterator[_Try]:
    """What the plan in force tries, and prediction would still not choose."""
    for number, via in enumerate(ledger.old):
        if number in fixed or via in (DIRECT, GONE) or not np.isfinite(draft.cost_of(number, via)):
            continue
        tracks = draft.groups[draft.cells[number].group].keys
        if draft.kept.get(number, draft.via[number]) != via and draft.choices.lessons.going_on(
            draft.way(number, via), tracks, exploring.upon
        ):
            yield _Try(float("inf"), number, via)


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
    lately = draft.choices.lessons.trials
    untried = (
        via
        for via in sorted(total, key=lambda via: (total[via], via))
        if draft.way(number, via) not in lately
    )
    chances = [
        _Try(now - total[via] + _may_be_better(draft, number, via, spread), number, via)
        for via in islice(untried, _TOP)
    ]
    best = max(chances, key=lambda item: (item.gain, -item.via), default=None)
    return best if best is not None and best.gain > 0 else None


def _may_be_better(draft: Draft, number: int, via: int, spread: Floats) -> float:
    """What a way over a Via may be worth more than predicted, an hour."""
    cell = draft.cells[number]
    group, viewers = draft.groups[cell.group], draft.viewers(number)
    targets = [group.targets[member] for member in cell.members]
    known = np.nan_to_num(spread)
    less = _SURE * np.hypot(known[group.origin, via], known[via, targets])
    weights = draft.policy.weights
    worth = float(less @ viewers) * weights.delay_price
    limit = draft.policy.rule(group.scope).limit_us
    if limit is not None:
        over = draft.over(number, via)
        saved = (over > limit / 1000) & (over - less <= limit / 1000)
        worth += float(saved @ viewers) * weights.poor_price
    return worth


def still_tried(draft: Draft) -> None:
    """Forget trials that capacity has moved elsewhere since."""
    for number, (via, _) in list(draft.trials.items()):
        if draft.via[number] != via:
            del draft.trials[number]


def trials_in(
    draft: Draft, plan: tuple[str, int], made_us: int, before: Lessons, upon: tuple[str, int] | None
) -> list[Trial]:
    """What a finished plan tries, to be kept until it is judged; one for each way.

    What goes on from the plan in force has been tried since that began.
    """
    by_way: dict[Way, list[int]] = {}
    for number, (via, _) in sorted(draft.trials.items()):
        by_way.setdefault(draft.way(number, via), []).append(number)
    return [_trial(draft, way, cells, plan, made_us, before, upon) for way, cells in by_way.items()]


def _trial(
    draft: Draft,
    way: Way,
    cells: Sequence[int],
    plan: tuple[str, int],
    made_us: int,
    before: Lessons,
    upon: tuple[str, int] | None,
) -> Trial:
    tracks = tuple(sorted(key for n in cells for key in draft.groups[draft.cells[n].group].keys))
    if before.going_on(way, tracks, upon):
        return replace(before.trials[way], last=plan[1], tracks=tracks)
    instead = draft.trials[cells[0]][1]
    viewers = np.concatenate([draft.viewers(number) for number in cells])
    over = np.concatenate([draft.over(number, draft.trials[number][0]) for number in cells])
    usual = np.concatenate([draft.over(number, draft.trials[number][1]) for number in cells])
    return Trial(
        plan=plan[0],
        first=plan[1],
        last=plan[1],
        begun_us=made_us,
        way=way,
        instead=DIRECTLY if instead == DIRECT else draft.network.nodes[instead].id,
        tracks=tracks,
        predicted_ms=float(np.average(over, weights=viewers)),
        against_ms=float(np.average(usual, weights=viewers)),
        expected_ms=float(np.median(over - usual)),
    )
