"""Output of ``laps-analytics plan`` and ``laps-analytics explain``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import typer

from laps_analytics.errors import PlanError
from laps_analytics.plan import milp
from laps_analytics.plan.assemble import Assembled
from laps_analytics.plan.core.compose import PlanResult
from laps_analytics.plan.core.explain import Explanation, declared_legs
from laps_analytics.plan.core.placement import Draft
from laps_analytics.plan.core.revert import Part
from laps_analytics.plan.core.rules import UNSERVED
from laps_analytics.plan.core.verify import LeftOut
from laps_analytics.plan.simulation import SimulationResult
from laps_wire.plan import Plan, PlanEntry

__all__ = ["print_decisions", "print_entries", "print_plan", "proposals"]


def print_plan(
    made: PlanResult,
    assembled: Assembled,
    simulation: SimulationResult,
    silent: Sequence[LeftOut],
    as_json: bool,
) -> None:
    """Print what a plan decided, and which cells have no choice and why."""
    plan = made.plan
    legs, declared = declared_legs(made.draft)
    facts: dict[str, Any] = {
        "id": plan.id,
        "version": plan.version,
        "entries": len(plan.entries),
        "decisions": len(made.draft.cells),
        "without_choice": len(made.draft.uncovered),
        "left_out": dict(Counter(f"{item.constraint}: {item.reason}" for item in silent)),
        "changed": made.changed,
        "no_room": len(made.draft.displaced),
        "legs": legs,
        "legs_declared": declared,
        "by_optimum": _optimality(made.draft),
        "suspects": list(assembled.suspects),
        "aside": list(assembled.excluded),
        "predicted": assembled.predicted,
        "data_until": f"{datetime.fromtimestamp(assembled.until_us / 1e6, UTC):%Y-%m-%dT%H:%M:%SZ}",
        "loss_predicted": assembled.loss_predicted,
        "expires_us": plan.expires_us,
        "simulated": simulation.summary,
    }
    if as_json:
        typer.echo(json.dumps({**facts, "simulation": simulation.verdict}))
        return
    for label, value in facts.items():
        shown: object = (
            'not checked (pip install -e "packages/laps-analytics[plan]")'
            if value is None
            else value
        )
        typer.echo(f"{label:16} {shown}")
    for number, reason in sorted(made.draft.uncovered.items()):
        cell = made.draft.cells[number]
        origin = made.draft.network.nodes[made.draft.groups[cell.group].origin].id
        typer.echo(f"no choice        {origin} > {cell.region}: {reason}", err=True)


def _optimality(made: Draft) -> float | None:
    """Return the cost of the small groups by their exact optimum; None without HiGHS."""
    try:
        pairs = [(ours % UNSERVED, best % UNSERVED) for ours, best in milp.audit(made).values()]
    except PlanError:
        return None
    best = sum(pair[1] for pair in pairs)
    return round(sum(pair[0] for pair in pairs) / best, 4) if best > 0 else 1.0


def print_entries(plan: Plan, rows: list[PlanEntry], as_json: bool) -> None:
    """Print entries of a plan with their reasons."""
    plain = [
        {
            "origin": str(entry.origin),
            "region": entry.region,
            "class": entry.scope,
            "tracks": None if entry.tracks is None else len(entry.tracks),
            "via": str(entry.via),
            "fallback": None if entry.fallback is None else str(entry.fallback),
            "wan_saved": entry.wan_saved_permille / 1000,
            "delay_ms": entry.delay_us / 1000,
            "reason": entry.reason,
        }
        for entry in rows
    ]
    if as_json:
        typer.echo(json.dumps(plain))
        return
    typer.echo(f"plan {plan.id} version {plan.version}, {len(plan.entries)} entries")
    for entry in rows:
        wan, delay = -entry.wan_saved_permille / 1000, entry.delay_us / 1000
        typer.echo(
            f"{entry.origin} > {entry.region} ({entry.scope or 'no class'}): {entry.via},"
            f" WAN {wan:+.0%}, {delay:+.1f} ms; {entry.reason}"
        )


def print_decisions(
    plan: Plan,
    found: Sequence[tuple[Explanation, Mapping[str, int]]],
    silent: Sequence[PlanEntry],
    same: bool,
    as_json: bool,
) -> None:
    """Print the decisions from current data, and where the plan differs from them.

    ``silent`` has entries of the plan without current demand. ``same`` says whether the plan was
    made from the same data.
    """
    if as_json:
        rows = [{**asdict(item), "plan": said, "same_data": same} for item, said in found]
        typer.echo(json.dumps(rows))
        return
    name = f"plan {plan.id} version {plan.version}"
    if same:
        typer.echo(f"{name} was made from this data")
    else:
        upon = " (or upon another plan: --previous)" if plan.version > 1 else ""
        typer.echo(f"{name} was made from other data{upon}; below is what the data of now says")
    for item, said in found:
        lines = _explained(item)
        if set(said) != {item.via}:
            words = " and ".join(
                via if len(said) == 1 else f"{via} for {count} tracks"
                for via, count in sorted(said.items())
            )
            lines.insert(1, f"  the plan says {words}; with the data of now {item.via}")
        typer.echo("\n".join(lines))
    for entry in silent:
        typer.echo(
            f"{entry.origin} > {entry.region} ({entry.scope or 'no class'}): the plan says"
            f" {entry.via}; with the data of now nobody watches there"
        )


def _explained(item: Explanation) -> list[str]:
    """Return a decision and its alternatives as lines."""
    cost = "-" if item.cost is None else f"{item.cost:.3g}"
    what = f"{item.origin} > {item.region} ({item.scope or 'no class'})"
    whom = f"{item.tracks} tracks to {item.targets} relays"
    lines = [f"{what}, {whom}: {item.via}, {cost} an hour (hub and spoke {item.star_cost:.3g})"]
    if item.note:
        lines.append(f"  {item.note}")
    for other in item.alternatives[:8]:
        if other.bound:
            lines.append(f"  {other.via}: not allowed, {other.bound}")
        else:
            more = "" if other.extra is None else f" ({other.extra:+.1%})"
            lines.append(f"  {other.via}: {other.cost:.3g}{more}")
    return lines


def proposals(plan: Plan, worse: Mapping[Part, Sequence[str]]) -> list[str]:
    """Return one proposal to revert for each part that got worse. Nothing reverts by itself."""
    lines = []
    for part, metrics in worse.items():
        count = sum(1 for entry in plan.entries if part.has(entry.region, entry.scope))
        what = ", ".join(metrics)
        if part == Part():
            lines.append(
                f"proposal: {what} got worse: go back on all {count} entries of version"
                f" {plan.version}"
            )
        else:
            lines.append(
                f"proposal: {what} got worse in {part}: go back on the {count} entries of version"
                f" {plan.version} towards it"
            )
    return lines
