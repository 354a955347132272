"""Explain decisions, compare plans and evaluate scenarios."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from laps_analytics.plan.core.compose import choose_vias
from laps_analytics.plan.core.evaluate import Figures, figures, trees_of
from laps_analytics.plan.core.inputs import Floats, Network, Track, scaled
from laps_analytics.plan.core.placement import DIRECT, Draft, Policy
from laps_wire.plan import Plan, PlanEntry

__all__ = [
    "Alternative",
    "Change",
    "Explanation",
    "Outcome",
    "Scenario",
    "declared_legs",
    "diff",
    "entries_without_demand",
    "explain",
    "planned_vias",
    "what_if",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """A choice that was not taken."""

    via: str
    """Node id; "direct" for hub and spoke."""
    cost: float | None
    """Cost of the cell for an hour; None if the choice is not allowed."""
    extra: float | None
    """Additional cost, as a share of the present cost."""
    bound: str
    """Constraint that forbids it; empty if it is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A decision and its alternatives."""

    origin: str
    region: str
    scope: str
    tracks: int
    targets: int
    via: str
    """Node id; "direct" if the plan has no entry."""
    cost: float | None
    star_cost: float
    """Cost of hub and spoke, whether or not it is allowed."""
    note: str
    """Why the best choice was not taken, or why there is none; empty otherwise."""
    alternatives: tuple[Alternative, ...]
    """Alternatives: allowed ones first, cheapest first."""

    @property
    def next_best(self) -> Alternative | None:
        """The cheapest allowed alternative."""
        return next((item for item in self.alternatives if not item.bound), None)


def explain(made: Draft, number: int) -> Explanation:
    """Explain the choice for a cell."""
    cell, table = made.cells[number], made.tables[number]
    group = made.groups[cell.group]
    names = [node.id for node in made.network.nodes]
    legs = made.choices.first_legs(group)
    here = made.via[number]
    total = _total(made, number, here, legs)
    found: list[Alternative] = []
    if here != DIRECT:
        too_many = len(cell.members) > made.policy.hard.max_fanout
        bound = f"fan-out: {len(cell.members)} copies" if too_many else "country"
        direct = table.direct
        if number in made.full:
            bound, direct = "capacity", float("inf")
        found.append(_alternative("direct", direct, total, bound))
    for column, via in enumerate(made.choices.candidates.tolist()):
        if via == here:
            continue
        bound = (
            "not known to reach all targets"
            if table.unknown[column]
            else "country or region"
            if table.banned[column]
            else "latency"
            if table.slow[column]
            else "loss"
            if table.lossy[column]
            else "no second way"
        )
        found.append(_alternative(names[via], _total(made, number, via, legs), total, bound))
    found.sort(key=lambda item: (item.cost is None, item.cost or 0.0, item.via))
    note = made.uncovered.get(number, "")
    if number in made.displaced:
        note = f"{names[made.displaced[number]]} would be better and has no room"
    elif number in made.kept and not note:
        better = made.kept[number]
        note = (
            f"the budget of changes keeps it from {'direct' if better == DIRECT else names[better]}"
        )
    return Explanation(
        origin=names[group.origin],
        region=cell.region,
        scope=group.scope,
        tracks=len(group.keys),
        targets=len(cell.members),
        via="direct" if here == DIRECT else names[here],
        cost=total if np.isfinite(total) else None,
        star_cost=made.choices.star(group, cell),
        note=note,
        alternatives=tuple(found),
    )


def _total(made: Draft, number: int, via: int, legs: Floats) -> float:
    cost = made.cost_of(number, via)
    column = None if via == DIRECT else made.column(via)
    return cost if column is None else cost + float(legs[column])


def _alternative(via: str, cost: float, now: float, bound: str) -> Alternative:
    if not np.isfinite(cost):
        return Alternative(via=via, cost=None, extra=None, bound=bound)
    extra = cost / now - 1 if np.isfinite(now) and now > 0 else None
    return Alternative(via=via, cost=cost, extra=extra, bound="")


def planned_vias(plan: Plan, made: Draft, number: int) -> dict[str, int]:
    """Return the Vias of a cell in a plan, each with its number of tracks.

    "direct" stands for tracks without an entry.
    """
    cell = made.cells[number]
    group = made.groups[cell.group]
    table = _by_key(plan)
    origin = made.network.nodes[group.origin].id
    found: dict[str, int] = {}
    for key in group.keys:
        entry = table.get((origin, cell.region, key))
        if entry is None:
            entry = table.get((origin, cell.region, group.scope))
        via = "direct" if entry is None else str(entry.via)
        found[via] = found.get(via, 0) + 1
    return found


def entries_without_demand(plan: Plan, made: Draft) -> list[PlanEntry]:
    """Return the entries of a plan whose tracks are not in a draft."""
    there: set[tuple[str, str, int | str]] = set()
    for cell in made.cells:
        group = made.groups[cell.group]
        origin = made.network.nodes[group.origin].id
        keys: tuple[int | str, ...] = (*group.keys, group.scope)
        there.update((origin, cell.region, key) for key in keys)
    return [
        entry
        for entry in plan.entries
        if there.isdisjoint((str(entry.origin), entry.region, key) for key in _keys(entry))
    ]


def _by_key(plan: Plan) -> Mapping[tuple[str, str, int | str], PlanEntry]:
    return {
        (str(entry.origin), entry.region, key): entry
        for entry in plan.entries
        for key in _keys(entry)
    }


def _keys(entry: PlanEntry) -> Sequence[int | str]:
    """Return the tracks of an entry, or its class."""
    return (entry.scope,) if entry.tracks is None else entry.tracks


def declared_legs(made: Draft) -> tuple[int, int]:
    """Return the number of links of a draft, and of those with declared countries."""
    used: set[tuple[int, int]] = set()
    for cell, via in zip(made.cells, made.via, strict=True):
        group = made.groups[cell.group]
        source = group.origin if via == DIRECT else via
        legs = [(source, group.targets[member]) for member in cell.members]
        used.update((min(leg), max(leg)) for leg in [*legs, (group.origin, source)])
    used = {(a, b) for a, b in used if a != b}
    said = {(min(pair), max(pair)) for pair in made.network.countries}
    return len(used), len(used & said)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A difference between two plans."""

    kind: str
    """added, removed or moved."""
    origin: str
    region: str
    scope: str
    track: str
    """Hash of the track; empty for an entry of a whole class."""
    before: str | None
    after: str | None


def diff(old: Plan, new: Plan) -> list[Change]:
    """Return all differences between two plans, in order."""
    before, after = _table(old), _table(new)
    found = []
    for key in sorted(before.keys() | after.keys()):
        a, b = before.get(key), after.get(key)
        if a is not None and b is not None and a.via == b.via:
            continue
        entry = a or b
        if entry is None:
            continue
        found.append(
            Change(
                kind="added" if a is None else "removed" if b is None else "moved",
                origin=str(entry.origin),
                region=entry.region,
                scope=entry.scope,
                track=key[2],
                before=None if a is None else str(a.via),
                after=None if b is None else str(b.via),
            )
        )
    return found


def _table(plan: Plan) -> Mapping[tuple[int, str, str, str], PlanEntry]:
    return {
        (int(entry.origin), entry.region, "" if key is None else f"{key:016x}", entry.scope): entry
        for entry in plan.entries
        for key in (entry.tracks if entry.tracks is not None else (None,))
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Changes of a scenario."""

    drain: tuple[str, ...] = ()
    """Node ids of relays that stop forwarding for others."""
    prices: Mapping[str, float] = field(default_factory=dict)
    """Region to the price factor of traffic that leaves it."""
    demand: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Figures before and after a scenario."""

    before: Figures
    after: Figures
    moved: int
    """Number of cells whose Via changes."""
    uncovered_before: int
    uncovered_after: int


def what_if(
    network: Network, policy: Policy, tracks: Sequence[Track], scenario: Scenario
) -> Outcome:
    """Plan without and with a scenario, and compare."""
    other = network.drained(scenario.drain)
    for region, factor in sorted(scenario.prices.items()):
        other = other.priced(region, factor)
    first, _ = choose_vias(network, policy, tracks)
    changed: Iterable[Track] = tracks
    if scenario.demand != 1.0:
        changed = scaled(tracks, scenario.demand)
    second, _ = choose_vias(other, policy, changed)
    return Outcome(
        before=figures(network, policy, first.groups, trees_of(first)),
        after=figures(other, policy, second.groups, trees_of(second)),
        moved=sum(1 for a, b in zip(first.via, second.via, strict=True) if a != b),
        uncovered_before=len(first.uncovered),
        uncovered_after=len(second.uncovered),
    )
