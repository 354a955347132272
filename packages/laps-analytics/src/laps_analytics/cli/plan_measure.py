"""The command ``laps-analytics plan measure``: compare before and after, and revert."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from laps_analytics.cli.common import AsJson, LakeFolder
from laps_analytics.cli.plan_common import (
    AllowUnknown,
    DimensionFile,
    MaxAge,
    Minutes,
    Simulate,
    assembled_from,
    write_signed_plan,
)
from laps_analytics.cli.plan_output import proposals
from laps_analytics.errors import UsageError
from laps_analytics.lake import Lake
from laps_analytics.plan.adoption import Adoption, adoption_of
from laps_analytics.plan.before_after import before_and_after, hours_after, worse_parts
from laps_analytics.plan.constraints import read_settings
from laps_analytics.plan.core.explain import diff
from laps_analytics.plan.core.measure import Verdict
from laps_analytics.plan.core.revert import Part, reverted_plan, widest
from laps_analytics.plan.signing import read_key, read_plan
from laps_wire.plan import Plan

__all__ = ["measure"]

Found = Mapping[str, Mapping[Part, Verdict]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _RevertRequest:
    """Input and output of a plan that reverts parts of the plan in force."""

    lake: Path
    constraints: Path
    dimensions: Path | None
    key: Path
    out: Path
    earlier: Plan | None
    in_force: Plan
    minutes: int
    max_age: int
    allow_unknown: bool
    simulate: bool | None


def measure(  # noqa: PLR0917 - typer's options
    plan: Annotated[Path, typer.Argument(help="File of the plan to judge.")],
    lake: LakeFolder,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="If something got worse, write the plan that reverts it to this file."
        ),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option("--key", help="With --out: private key (PEM) to sign the plan with."),
    ] = None,
    constraints: Annotated[
        Path | None, typer.Option("--constraints", help="With --out: file of constraints (TOML).")
    ] = None,
    dimensions: DimensionFile = None,
    revert_to: Annotated[
        Path | None,
        typer.Option(
            "--revert-to",
            help="With --out: earlier plan to restore entries from; without it they are removed.",
        ),
    ] = None,
    previous: Annotated[
        Path | None,
        typer.Option(
            "--previous", help="File of the plan in force, if it is later than the judged one."
        ),
    ] = None,
    since: Annotated[
        int | None,
        typer.Option(
            "--since",
            min=1,
            help="Judge all versions from this one to that of the file together.",
            show_default=False,
        ),
    ] = None,
    minutes: Minutes = 60,
    max_age: MaxAge = 30,
    allow_unknown: AllowUnknown = False,
    simulate: Simulate = None,
    as_json: AsJson = False,
) -> None:
    """Compare similar hours before and after a plan, and propose to revert what got worse.

    Hours in which relays did not follow the plan are left out. With --since all versions from that
    one on are judged together, from the time at which the first of them was followed.

    With --out, --key and --constraints the command writes the next version of the plan. In the
    regions and classes that got worse it has the entries of an earlier plan, or none; all other
    entries stay. The new plan is verified, simulated and signed like any plan. You deliver it to
    the relays.
    """
    document = read_plan(plan).plan
    request = _revert_request(
        document,
        lake,
        out,
        key,
        constraints,
        dimensions,
        revert_to,
        previous,
        minutes,
        max_age,
        allow_unknown,
        simulate,
    )
    place = Lake.open(lake)
    if since is not None and since > document.version:
        raise UsageError(
            f"--since {since} is later than version {document.version} of {plan}: name an"
            " earlier version"
        )
    adoption = adoption_of(place, document.id, since or document.version, document.version)
    at = adoption.since_us
    found = before_and_after(place, at, counts=adoption.covers_hour)
    hours = hours_after(place, at)
    counted = sum(map(adoption.covers_hour, hours))
    worse = worse_parts(found)
    parts = widest(worse)
    written = None if request is None or not parts else _write_revert(request, parts)
    if as_json:
        plain = {
            metric: {
                str(part): {**asdict(verdict), "word": verdict.word}
                for part, verdict in by_part.items()
                if verdict.pairs
            }
            for metric, by_part in found.items()
        }
        facts = {
            "at_us": at,
            "versions": [since or document.version, document.version],
            "accepted": len(adoption.accepted),
            "refused": len(adoption.refused),
            "hours": counted,
            "hours_left_out": len(hours) - counted,
            "revert": bool(worse),
            "worse": {str(part): metrics for part, metrics in worse.items()},
            "metrics": plain,
            "written": written,
        }
        typer.echo(json.dumps(facts))
        return
    typer.echo(_adoption_line(adoption, counted, len(hours)))
    _print_verdicts(document, found, {part: worse[part] for part in parts}, request, written)


def _revert_request(  # noqa: PLR0917 - typer's options
    document: Plan,
    lake: Path,
    out: Path | None,
    key: Path | None,
    constraints: Path | None,
    dimensions: Path | None,
    revert_to: Path | None,
    previous: Path | None,
    minutes: int,
    max_age: int,
    allow_unknown: bool,
    simulate: bool | None,
) -> _RevertRequest | None:
    """Return what to write if something got worse; None without ``--out``."""
    if out is None:
        return None
    if key is None or constraints is None:
        raise UsageError("a plan that reverts needs --out, --key and --constraints")
    earlier = None if revert_to is None else read_plan(revert_to).plan
    if earlier is not None and (earlier.id, earlier.version >= document.version) != (
        document.id,
        False,
    ):
        raise UsageError(
            f"--revert-to {revert_to} is {earlier.id} version {earlier.version}: name a plan of"
            f" {document.id} before version {document.version}"
        )
    in_force = document if previous is None else read_plan(previous).plan
    if (in_force.id, in_force.version < document.version) != (document.id, False):
        raise UsageError(
            f"--previous {previous} is {in_force.id} version {in_force.version}: name the plan of"
            f" {document.id} that relays follow, version {document.version} or later"
        )
    return _RevertRequest(
        lake=lake,
        constraints=constraints,
        dimensions=dimensions,
        key=key,
        out=out,
        earlier=earlier,
        in_force=in_force,
        minutes=minutes,
        max_age=max_age,
        allow_unknown=allow_unknown,
        simulate=simulate,
    )


def _write_revert(request: _RevertRequest, parts: Sequence[Part]) -> dict[str, Any]:
    """Write the next version of the plan and return a description of it."""
    signer = read_key(request.key)
    settings = read_settings(request.constraints)
    assembled = assembled_from(
        request.lake,
        settings,
        request.dimensions,
        request.minutes,
        max_age=request.max_age,
        allow_unknown=request.allow_unknown,
    )
    wanted = reverted_plan(request.in_force, request.earlier, parts)
    # Other entries change only if they must: their Via is gone, forbidden or overloaded.
    still = replace(settings.policy, hard=replace(settings.policy.hard, change_budget=0))
    made, _, simulation = write_signed_plan(
        assembled,
        replace(settings, policy=still),
        signer,
        request.out,
        name=request.in_force.id,
        version=request.in_force.version + 1,
        previous=wanted,
        hold=parts,
        simulate=request.simulate,
    )
    changes = diff(request.in_force, made.plan)
    return {
        "file": str(request.out),
        "version": made.plan.version,
        "entries": len(made.plan.entries),
        "parts": [str(part) for part in parts],
        "restored": None if request.earlier is None else request.earlier.version,
        "changes": {
            kind: sum(1 for item in changes if item.kind == kind)
            for kind in ("added", "moved", "removed")
        },
        "simulated": simulation.summary,
    }


def _adoption_line(adoption: Adoption, counted: int, hours: int) -> str:
    words = (
        f"followed by {len(adoption.accepted)} relays, refused by {len(adoption.refused)};"
        f" {counted} of {hours} hours count"
    )
    return words if counted or not hours else f"{words}: judge a series of versions with --since"


def _line(what: str, whom: str, verdict: Verdict) -> str:
    span = f"[{verdict.low:+.4g}, {verdict.high:+.4g}]" if verdict.pairs else ""
    change = f"{verdict.change:+.4g}" if verdict.pairs else "-"
    return f"{what:8} {whom:16} {verdict.word:8} {change:>10} {span}"


def _print_verdicts(
    document: Plan,
    found: Found,
    worse: Mapping[Part, Sequence[str]],
    request: _RevertRequest | None,
    written: Mapping[str, Any] | None,
) -> None:
    for metric, by_part in found.items():
        for part, verdict in by_part.items():
            typer.echo(_line(metric, str(part), verdict))
    for line in proposals(document, worse):
        typer.echo(line)
    if written is not None:
        changes = ", ".join(f"{count} {kind}" for kind, count in written["changes"].items())
        typer.echo(
            f"{written['file']}: version {written['version']}, {written['entries']} entries,"
            f" {changes}; {written['simulated']}"
        )
    elif request is not None:
        typer.echo("nothing got worse: no plan was written")
