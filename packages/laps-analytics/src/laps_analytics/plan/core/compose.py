"""Compose a plan from a network, demand and policy.

::

    Draft of each group --> change budget --> capacity --> entries of the Plan
                                                |
                                              Loads

:class:`Loads` has the load of relays and links under a draft, and their spare capacity. Every copy
counts: over a Via, sent directly by an origin, or sent within the region of the origin. A relay
sends each copy once. So an origin sends one copy for every target that it serves itself, and one
for every Via of a track.

A *reserve* is the load that a resource gets if one Via fails and its cells use their fallbacks. It
must fit into the full capacity. Planned load must fit into the share that headroom leaves.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from laps_analytics.plan.core.inputs import Floats, Group, Network, Track, aggregate, digest
from laps_analytics.plan.core.placement import (
    DIRECT,
    GONE,
    Draft,
    InForce,
    Policy,
    capacities,
    draft,
)
from laps_analytics.plan.core.revert import Part, is_in
from laps_wire.nodeid import NodeId
from laps_wire.plan import Plan, PlanEntry

__all__ = [
    "PlanResult",
    "choose_vias",
    "compose_plan",
    "in_force",
    "snapshot_hash",
]

# Load and spare capacity

_ROUNDING: Final = 1e-3
"""Difference in bits a second that may come from the order of additions."""

Resource = tuple[int, ...]
"""A relay, or a link as two relays."""


class Loads:
    """Spare capacity of relays and links.

    ``vias`` has a Via for each cell; by default those of the draft.
    """

    def __init__(self, draft: Draft, vias: Sequence[int] | None = None) -> None:
        self._draft = draft
        self._vias = draft.via if vias is None else vias
        self.node_spare, self.link_spare = capacities(draft.network, draft.policy)
        self._node_rest, self._link_rest = _rest(draft)
        self._uses: dict[tuple[int, int], int] = {}
        self._reserved: dict[Resource, dict[int, float]] = {}
        """Reserved rate by resource and failing Via."""
        self._second_uses: dict[tuple[int, int, int], int] = {}
        """Number of uses by group, failing Via and fallback."""
        planned: dict[int, set[int]] = {}
        for cell in draft.cells:
            planned.setdefault(cell.group, set()).update(cell.members)
        for number, group in enumerate(draft.groups):
            rest = set(range(len(group.targets))) - planned.get(number, set())
            if rest:
                self._send(group.origin, [group.targets[member] for member in rest], group.rate_bps)
        for number, via in enumerate(self._vias):
            self._put(number, via, 1)

    def targets(self, number: int) -> list[int]:
        """Return the rows of the targets of a cell."""
        cell = self._draft.cells[number]
        group = self._draft.groups[cell.group]
        return [group.targets[member] for member in cell.members]

    def _send(self, relay: int, targets: Sequence[int], rate: float) -> None:
        self.node_spare[relay] -= rate * len(targets)
        self.link_spare[relay, targets] -= rate

    def _put(self, number: int, via: int, sign: int) -> None:
        cell = self._draft.cells[number]
        group = self._draft.groups[cell.group]
        rate = group.rate_bps * sign
        if via == GONE:
            return
        self._send(group.origin if via == DIRECT else via, self.targets(number), rate)
        if via != DIRECT:
            used = self._uses.get((cell.group, via), 0) + sign
            self._uses[cell.group, via] = used
            if used == (1 if sign > 0 else 0):
                self._send(group.origin, [via], rate)

    def move(self, number: int, via: int) -> None:
        """Give a cell of the draft another Via."""
        self._put(number, self._draft.via[number], -1)
        self._put(number, via, 1)
        self._draft.via[number] = via

    # Room

    def remove(self, number: int) -> None:
        """Take the load of a cell off its resources; :meth:`restore` adds it again."""
        self._put(number, self._draft.via[number], -1)

    def restore(self, number: int) -> None:
        """Add the load of a removed cell again."""
        self._put(number, self._draft.via[number], 1)

    def fits(self, number: int, via: int) -> bool:
        """Return whether a removed cell fits on a Via, or on the direct path."""
        group = self._draft.groups[self._draft.cells[number].group]
        origin, rate, targets = group.origin, group.rate_bps, self.targets(number)
        if via == DIRECT:
            return self._has_room((origin,), rate * len(targets)) and all(
                self._has_room((origin, target), rate) for target in targets
            )
        first = 0.0 if self._uses.get((self._draft.cells[number].group, via), 0) else rate
        # One copy in the place of several: an origin is never worse off than it is now.
        eased = self._draft.via[number] == DIRECT or self._has_room((origin,), first)
        return (
            eased
            and self._has_room((via,), rate * len(targets))
            and self._has_room((origin, via), first)
            and all(self._has_room((via, target), rate) for target in targets)
        )

    def _has_room(self, resource: Resource, rate: float) -> bool:
        spare = self.spare(resource) - rate
        reserved = max(self._reserved.get(resource, {}).values(), default=0.0)
        return spare >= 0 and spare + self._rest_of(resource) >= reserved

    def spare(self, resource: Resource) -> float:
        """Return the spare capacity of a relay or link; negative if it is overloaded."""
        return float(
            self.node_spare[resource[0]] if len(resource) == 1 else self.link_spare[resource]
        )

    def _rest_of(self, resource: Resource) -> float:
        return float(
            self._node_rest[resource[0]] if len(resource) == 1 else self._link_rest[resource]
        )

    # Second ways

    def second(self, number: int, via: int) -> int | None:
        """Return the cheapest fallback with room for a cell if ``via`` failed; None without one."""
        draft = self._draft
        total = draft.tables[number].cost + draft.choices.first_legs(
            draft.groups[draft.cells[number].group]
        )
        for at in np.argsort(total, kind="stable"):
            if not np.isfinite(total[at]):
                break
            other = int(draft.choices.candidates[at])
            if other != via and all(
                self.spare(resource) + self._rest_of(resource)
                >= self._reserved.get(resource, {}).get(via, 0.0) + rate
                for resource, rate in self._taken_over(number, via, other)
            ):
                return other
        return None

    def reserve(self, number: int, via: int, second: int) -> None:
        """Reserve capacity for a fallback."""
        for resource, rate in self._taken_over(number, via, second):
            kept = self._reserved.setdefault(resource, {})
            kept[via] = kept.get(via, 0.0) + rate
        key = self._draft.cells[number].group, via, second
        self._second_uses[key] = self._second_uses.get(key, 0) + 1

    def release(self) -> None:
        """Release all reserves."""
        self._reserved.clear()
        self._second_uses.clear()

    def _taken_over(self, number: int, via: int, second: int) -> list[tuple[Resource, float]]:
        """Return the load of a fallback if the first Via fails."""
        cell = self._draft.cells[number]
        group = self._draft.groups[cell.group]
        rate, targets = group.rate_bps, self.targets(number)
        found: list[tuple[Resource, float]] = [((second,), rate * len(targets))]
        found += [((second, target), rate) for target in targets]
        known = self._uses.get((cell.group, second), 0)
        if not known and not self._second_uses.get((cell.group, via, second), 0):
            found.append(((group.origin, second), rate))
        return found

    # Crowds

    def resources(self, number: int) -> list[Resource]:
        """Return the relay and the links that a cell loads."""
        via = self._vias[number]
        origin = self._draft.groups[self._draft.cells[number].group].origin
        if via == GONE:
            return []
        source = origin if via == DIRECT else via
        found: list[Resource] = [(source,), *((source, target) for target in self.targets(number))]
        return found if via == DIRECT else [*found, (origin, via)]

    def is_over(self, resource: Resource) -> bool:
        """Return whether a resource is overloaded."""
        return self.spare(resource) < -_ROUNDING

    def over(self) -> set[Resource]:
        """Return the overloaded relays and links."""
        nodes = np.flatnonzero(self.node_spare < -_ROUNDING)
        links = np.argwhere(self.link_spare < -_ROUNDING)
        return {(int(node),) for node in nodes} | {(int(a), int(b)) for a, b in links}

    def overloaded(self) -> list[tuple[Resource, list[int]]]:
        """Return the overloaded resources, worst first, each with its cells."""
        over = self.over()
        users: dict[Resource, list[int]] = {}
        for number in range(len(self._vias)) if over else ():
            for resource in self.resources(number):
                if resource in over:
                    users.setdefault(resource, []).append(number)
        return [
            (resource, users[resource])
            for resource in sorted(users, key=lambda s: (self.spare(s), s))
        ]


def _rest(draft: Draft) -> tuple[Floats, Floats]:
    """Return the capacity that headroom reserves, of relays and of links."""
    share = 1 - draft.policy.headroom
    nodes = np.array([node.capacity_bps for node in draft.network.nodes])
    # Of what is not limited, nothing is nothing.
    rest = [
        np.where(np.isinf(room), np.inf, room * share)
        for room in (nodes, draft.network.capacity_bps)
    ]
    return rest[0], rest[1]


# Change budget and capacity

_ROUNDS: Final = 8
"""Rounds of moving cells off overloaded resources. One is enough unless Edges are Vias."""

NO_ROOM: Final = "no Via has room for it"
NO_BUDGET: Final = "the budget of changes is used up"
HELD: Final = "it is held as it was"


def _old_via(draft: Draft, cell: int, in_force: InForce) -> int:
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
        self.old = [_old_via(draft, number, in_force) for number in range(len(draft.cells))]
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


def _apply_change_budget(draft: Draft, tracker: ChangeTracker) -> None:
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


def _fit_to_capacity(draft: Draft, tracker: ChangeTracker) -> None:
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


# The plan


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlanResult:
    """A plan with its draft."""

    plan: Plan
    draft: Draft
    changed: int
    """Number of cells that differ from the plan in force."""


def in_force(plan: Plan | None, network: Network) -> InForce:
    """Return the plan in force as a table over the rows of a network."""
    found: dict[tuple[int, str, int | str], int] = {}
    for entry in () if plan is None else plan.entries:
        origin = network.index.get(str(entry.origin))
        if origin is None:
            continue
        via = network.index.get(str(entry.via), GONE)
        keys: Sequence[int | str] = (entry.scope,) if entry.tracks is None else entry.tracks
        for key in keys:
            found[origin, entry.region, key] = via
    return found


def choose_vias(
    network: Network,
    policy: Policy,
    tracks: Iterable[Track],
    previous: Plan | None = None,
    hold: Collection[Part] = (),
) -> tuple[Draft, set[int]]:
    """Choose the Vias of all cells; also return the cells that differ from the plan in force.

    Cells in a part of ``hold`` keep their entry of the plan in force.
    """
    old = in_force(previous, network)

    def vias(track: Track) -> tuple[int, ...]:
        """Return the Vias of a track in the plan in force; a group changes as a whole."""
        regions = sorted({network.nodes[target].region for target in track.viewers})
        by_class = [old.get((track.origin, region, track.scope), DIRECT) for region in regions]
        return tuple(
            old.get((track.origin, region, track.key), other)
            for region, other in zip(regions, by_class, strict=True)
        )

    made = draft(network, policy, aggregate(tracks, vias))
    budget = None if previous is None else policy.hard.change_budget
    tracker = ChangeTracker(made, old, budget, hold)
    _apply_change_budget(made, tracker)
    _fit_to_capacity(made, tracker)
    return made, tracker.changed


def snapshot_hash(network: Network, groups: Sequence[Group]) -> str:
    """Return a hash of the input of a plan."""
    return hashlib.sha256(f"{network.digest()} {digest(groups)}".encode()).hexdigest()


def compose_plan(
    network: Network,
    policy: Policy,
    tracks: Iterable[Track],
    *,
    name: str,
    version: int,
    now_us: int,
    lifetime_us: int,
    previous: Plan | None = None,
    hold: Collection[Part] = (),
) -> PlanResult:
    """Make a plan. The same arguments give the same plan."""
    made, changed = choose_vias(network, policy, tracks, previous, hold)
    # The first leg is shared by the cells of a group that use the same Via.
    sharing = Counter(
        (cell.group, via) for cell, via in zip(made.cells, made.via, strict=True) if via != DIRECT
    )
    entries = [
        _entry(made, number, sharing[made.cells[number].group, via])
        for number, via in enumerate(made.via)
        if via != DIRECT
    ]
    plan = Plan(
        id=name,
        version=version,
        made_us=now_us,
        expires_us=now_us + lifetime_us,
        based_on=snapshot_hash(network, made.groups),
        constraints=policy.hard,
        entries=tuple(sorted(entries, key=lambda e: (e.origin, e.region, e.scope, e.tracks or ()))),
    )
    return PlanResult(plan=plan, draft=made, changed=len(changed))


def _entry(made: Draft, number: int, sharing: int) -> PlanEntry:
    cell = made.cells[number]
    group, via = made.groups[cell.group], made.via[number]
    network = made.network
    targets = [group.targets[member] for member in cell.members]
    viewers = made.viewers(number)
    direct, over = made.over(number, DIRECT), made.over(number, via)
    star = float(network.price[group.origin, targets].sum())
    tree = float(network.price[group.origin, via] / sharing + network.price[via, targets].sum())
    back = made.second.get(number)
    known = np.isfinite(direct)
    delay = float(((over - direct)[known] * viewers[known]).sum() / viewers.sum())
    return PlanEntry(
        origin=NodeId.parse(network.nodes[group.origin].id),
        region=cell.region,
        scope=group.scope,
        tracks=group.keys,
        via=NodeId.parse(network.nodes[via].id),
        fallback=None if back is None else NodeId.parse(network.nodes[back].id),
        wan_saved_permille=round(1000 * (star - tree) / star) if star > 0 else 0,
        delay_us=round(delay * 1000),
        reason=_reason(made, number, delay, back),
    )


def _reason(made: Draft, number: int, delay_ms: float, next_best: int | None) -> str:
    """Return one sentence: the effect of an entry, and the next best Via."""
    cell = made.cells[number]
    count = len(cell.members)
    words = [
        f"{count} copies to {cell.region} become 1"
        if count > 1
        else f"shorter way to {cell.region}"
    ]
    if abs(delay_ms) >= 0.5:
        words[0] += f", {abs(delay_ms):.0f} ms {'longer' if delay_ms > 0 else 'shorter'}"
    if number in made.displaced:
        best = made.network.nodes[made.displaced[number]].id
        words.append(f"{best} would be better and has no room")
    elif number in made.held:
        words.append("held as it was")
    elif number in made.kept:
        words.append("the budget of changes keeps it")
    elif next_best is not None:
        words.append(f"next best {made.network.nodes[next_best].id}")
    return "; ".join(words)
