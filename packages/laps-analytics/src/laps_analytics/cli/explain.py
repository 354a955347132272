"""The commands ``laps-analytics explain``, ``diff`` and ``what-if``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from laps_analytics.cli.common import AsJson, LakeFolder
from laps_analytics.cli.plan import (
    AllowUnknown,
    Constraints,
    DimensionFile,
    Minutes,
    assembled_from,
)
from laps_analytics.errors import UsageError
from laps_analytics.plan.constraints import read_settings
from laps_analytics.plan.core.compose import choose_vias, snapshot_hash
from laps_analytics.plan.core.explain import (
    Explanation,
    Scenario,
    diff,
    entries_without_demand,
    explain,
    planned_vias,
    what_if,
)
from laps_analytics.plan.core.placement import Draft
from laps_analytics.plan.signing import (
    check_signature,
    read_plan,
)
from laps_wire.plan import Plan, PlanEntry

__all__ = ["show_diff", "show_explanation", "show_what_if"]


# The command explain


def show_explanation(  # noqa: PLR0917 - typer's options
    plan: Annotated[Path, typer.Argument(help="File of a plan.")],
    group: Annotated[
        str | None, typer.Option("--group", help="Only entries of this origin, region or track.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option("--key", help="Public key (PEM) to check the signature with.")
    ] = None,
    lake: Annotated[
        Path | None,
        typer.Option(
            "--lake",
            help="Folder of a lake: choose again from its data, and show all alternatives.",
        ),
    ] = None,
    constraints: Annotated[
        Path | None, typer.Option("--constraints", help="With --lake: file of constraints (TOML).")
    ] = None,
    dimensions: DimensionFile = None,
    previous: Annotated[
        Path | None,
        typer.Option(
            "--previous", help="With --lake: file of the plan in force when this one was made."
        ),
    ] = None,
    minutes: Minutes = 60,
    allow_unknown: AllowUnknown = False,
    as_json: AsJson = False,
) -> None:
    """Show why a plan chose its Vias; with --lake, show every alternative.

    With --lake the choice is made again from current data. Where it differs from the plan, both are
    shown.
    """
    signed = read_plan(plan)
    if key is not None:
        check_signature(signed, key)
    if lake is None:
        rows = [entry for entry in signed.plan.entries if _is_about(entry, group)]
        _print_entries(signed.plan, rows, as_json)
        return
    if constraints is None:
        raise UsageError("--lake needs --constraints: give the file of constraints")
    settings = read_settings(constraints)
    assembled = assembled_from(lake, settings, dimensions, minutes, allow_unknown=allow_unknown)
    base = None if previous is None else read_plan(previous).plan
    made, _ = choose_vias(assembled.network, settings.policy, assembled.tracks, base)
    same = snapshot_hash(assembled.network, made.groups) == signed.plan.based_on
    found = [
        (item, planned_vias(signed.plan, made, number))
        for number in range(len(made.cells))
        if group in (None, (item := explain(made, number)).origin, item.region)
        or _has_track(made, number, group)
    ]
    silent = [
        entry for entry in entries_without_demand(signed.plan, made) if _is_about(entry, group)
    ]
    _print_decisions(signed.plan, found, silent, same, as_json)


def _is_about(entry: PlanEntry, group: str | None) -> bool:
    tracks = () if entry.tracks is None else entry.tracks
    return group in (None, str(entry.origin), entry.region) or any(
        group == f"{track:016x}" for track in tracks
    )


def _has_track(made: Draft, number: int, group: str | None) -> bool:
    return any(group == f"{key:016x}" for key in made.groups[made.cells[number].group].keys)


def _print_entries(plan: Plan, rows: list[PlanEntry], as_json: bool) -> None:
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


def _print_decisions(
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


# The command diff


def show_diff(
    old: Annotated[Path, typer.Argument(help="File of a plan.")],
    new: Annotated[Path, typer.Argument(help="File of another plan.")],
    as_json: AsJson = False,
) -> None:
    """Show the entries in which two plans differ."""
    changes = diff(read_plan(old).plan, read_plan(new).plan)
    if as_json:
        typer.echo(json.dumps([asdict(item) for item in changes]))
        return
    for item in changes:
        # A track that gets a class is one entry that goes, and one that comes.
        what = f"{item.scope or '(no class)':12} {item.track or 'all its tracks':18}"
        way = f"{item.before or '-'} > {item.after or '-'}"
        typer.echo(f"{item.kind:8} {item.origin:14} {item.region:16} {what} {way}")
    if not changes:
        typer.echo("no difference")


# The command what-if


def show_what_if(  # noqa: PLR0917 - typer's options
    lake: LakeFolder,
    constraints: Constraints,
    drain: Annotated[
        list[str] | None,
        typer.Option("--drain", help="Node id of a relay that drains; repeatable."),
    ] = None,
    price: Annotated[
        list[str] | None,
        typer.Option("--price", help="region=factor: change of the price of a region; repeatable."),
    ] = None,
    demand: Annotated[
        float, typer.Option("--demand", min=0.01, help="Factor by which demand changes.")
    ] = 1.0,
    dimensions: DimensionFile = None,
    minutes: Minutes = 60,
    allow_unknown: AllowUnknown = False,
    as_json: AsJson = False,
) -> None:
    """Compare delay and cost if relays drain, prices change or demand grows."""
    settings = read_settings(constraints)
    prices = dict(_factor(text) for text in price or [])
    if not drain and not prices and demand == 1.0:
        raise UsageError("the scenario changes nothing: give --drain, --price or --demand")
    assembled = assembled_from(lake, settings, dimensions, minutes, allow_unknown=allow_unknown)
    outcome = what_if(
        assembled.network,
        settings.policy,
        assembled.tracks,
        Scenario(drain=tuple(drain or ()), prices=prices, demand=demand),
    )
    if as_json:
        typer.echo(json.dumps(asdict(outcome)))
        return
    before, after = outcome.before, outcome.after
    rows = [
        ("delay p50, ms", before.delay_p50_ms, after.delay_p50_ms),
        ("delay p95, ms", before.delay_p95_ms, after.delay_p95_ms),
        ("WAN cost an hour", before.wan_cost, after.wan_cost),
        ("cost an hour", before.cost, after.cost),
        ("viewers over limit", before.over_limit, after.over_limit),
        ("without a choice", outcome.uncovered_before, outcome.uncovered_after),
    ]
    typer.echo(f"{'':20} {'before':>10} {'after':>10}")
    for label, one, two in rows:
        typer.echo(f"{label:20} {one:10.4g} {two:10.4g}")
    typer.echo(f"{'decisions moved':20} {'':10} {outcome.moved:10}")


def _factor(text: str) -> tuple[str, float]:
    region, _, number = text.partition("=")
    try:
        factor = float(number)
    except ValueError:
        factor = math.nan
    if not 0 < factor < math.inf:
        raise UsageError(
            f"--price {text!r}: write region=factor with a positive factor, such as eu-west=1.5"
        )
    return region, factor
