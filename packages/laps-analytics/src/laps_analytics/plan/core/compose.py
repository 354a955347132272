"""Compose a plan from a network, demand and policy."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from laps_analytics.plan.core.demand import Group, Track, aggregate, digest
from laps_analytics.plan.core.network import Network
from laps_analytics.plan.core.placement import DIRECT, GONE, Draft, InForce, draft
from laps_analytics.plan.core.repair import ChangeTracker, apply_change_budget, fit_to_capacity
from laps_analytics.plan.core.revert import Part
from laps_analytics.plan.core.rules import Policy
from laps_wire.nodeid import NodeId
from laps_wire.plan import Plan, PlanEntry

__all__ = ["PlanResult", "choose_vias", "compose_plan", "in_force", "snapshot_hash"]


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
    apply_change_budget(made, tracker)
    fit_to_capacity(made, tracker)
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
