"""The commands ``laps-analytics plan``, ``explain``, ``diff`` and ``what-if``."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from laps_analytics.cli.common import AsJson, LakeFolder
from laps_analytics.cli.plan_common import (
    AllowUnknown,
    Constraints,
    DimensionFile,
    MaxAge,
    Minutes,
    Simulate,
    assembled_from,
    listed,
    write_signed_plan,
)
from laps_analytics.cli.plan_measure import measure
from laps_analytics.cli.plan_output import print_decisions, print_entries, print_plan
from laps_analytics.errors import UsageError
from laps_analytics.plan.constraints import read_settings
from laps_analytics.plan.core.compose import choose_vias, snapshot_hash
from laps_analytics.plan.core.explain import (
    Scenario,
    diff,
    entries_without_demand,
    explain,
    planned_vias,
    what_if,
)
from laps_analytics.plan.core.placement import Draft
from laps_analytics.plan.core.revert import Part
from laps_analytics.plan.signing import (
    check_signature,
    make_key,
    read_key,
    read_plan,
)
from laps_wire.plan import PlanEntry

__all__ = ["plan_app", "show_diff", "show_explanation", "show_what_if"]

plan_app = typer.Typer(invoke_without_command=True)


@plan_app.callback()
def make_plan(  # noqa: PLR0917 - typer's options
    context: typer.Context,
    lake: Annotated[Path | None, typer.Option("--lake", help="Folder of the lake.")] = None,
    constraints: Annotated[
        Path | None, typer.Option("--constraints", help="File of constraints (TOML).")
    ] = None,
    key: Annotated[
        Path | None, typer.Option("--key", help="Private key (PEM) to sign the plan with.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="File to write the plan to.")] = None,
    dimensions: DimensionFile = None,
    previous: Annotated[
        Path | None, typer.Option("--previous", help="File of the plan in force.")
    ] = None,
    name: Annotated[
        str, typer.Option("--name", help="Name of the plan; its versions share it.")
    ] = "laps",
    minutes: Minutes = 60,
    max_age: MaxAge = 30,
    allow_unknown: AllowUnknown = False,
    hold: Annotated[
        list[str] | None,
        typer.Option(
            "--hold",
            help="Region or region/class that keeps its entries of the plan in force; repeatable.",
        ),
    ] = None,
    simulate: Simulate = None,
    as_json: AsJson = False,
) -> None:
    """Make a plan from the last hour of a lake, verify, simulate and sign it.

    The command stops if the data fails its quality checks or is too old. It writes nothing if the
    verifier or the simulator finds a fault. A part given to --hold keeps its entries of the plan in
    force; without a plan in force it gets no entries, and the relays choose.
    """
    if context.invoked_subcommand is not None:
        return
    if lake is None or constraints is None or key is None or out is None:
        given = {"--lake": lake, "--constraints": constraints, "--key": key, "--out": out}
        raise UsageError(f"a plan needs {listed([name for name in given if given[name] is None])}")
    signer = read_key(key)
    settings = read_settings(constraints)
    before = None if previous is None else read_plan(previous).plan
    assembled = assembled_from(
        lake, settings, dimensions, minutes, max_age=max_age, allow_unknown=allow_unknown
    )
    held = tuple(Part.parse(text) for text in hold or ())
    made, silent, simulation = write_signed_plan(
        assembled,
        settings,
        signer,
        out,
        name=before.id if before is not None else name,
        version=1 if before is None else before.version + 1,
        previous=before,
        hold=held,
        simulate=simulate,
    )
    print_plan(made, assembled, simulation, silent, as_json)


@plan_app.command("keygen")
def keygen(
    file: Annotated[
        Path,
        typer.Argument(
            help="File for the private key; the public key is written beside it as .pub.pem."
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Make a key pair for signing plans; relays read the public key from `plan.keys`."""
    public, name = make_key(file)
    found = {"key": str(file), "public": str(public), "id": name}
    typer.echo(json.dumps(found) if as_json else f"{name}  {public}")


plan_app.command("measure")(measure)


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
        print_entries(signed.plan, rows, as_json)
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
    print_decisions(signed.plan, found, silent, same, as_json)


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


def _is_about(entry: PlanEntry, group: str | None) -> bool:
    tracks = () if entry.tracks is None else entry.tracks
    return group in (None, str(entry.origin), entry.region) or any(
        group == f"{track:016x}" for track in tracks
    )


def _has_track(made: Draft, number: int, group: str | None) -> bool:
    return any(group == f"{key:016x}" for key in made.groups[made.cells[number].group].keys)


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
