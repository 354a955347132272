"""The commands ``laps-analytics plan``, ``plan keygen`` and ``plan measure``.

``plan`` makes a plan, verifies, simulates and signs it. ``plan measure`` compares the time before
and after a plan, and writes a plan that reverts parts of it. The options and checks are shared with
:mod:`.explain`.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from laps_analytics.cli.common import AsJson, LakeFolder
from laps_analytics.errors import InputError, PlanError, UsageError
from laps_analytics.gold.dimensions import dimensions_for
from laps_analytics.lake import Lake
from laps_analytics.plan import milp
from laps_analytics.plan.assemble import Assembled, assemble
from laps_analytics.plan.constraints import Settings, read_settings
from laps_analytics.plan.core.compose import PlanResult, compose_plan
from laps_analytics.plan.core.explain import (
    declared_legs,
    diff,
)
from laps_analytics.plan.core.placement import UNSERVED, Draft
from laps_analytics.plan.core.revert import Part, reverted_plan, widest
from laps_analytics.plan.core.verify import LeftOut, Violation, check
from laps_analytics.plan.effect import (
    Adoption,
    Verdict,
    adoption_of,
    before_and_after,
    hours_after,
    worse_parts,
)
from laps_analytics.plan.observation import (
    Observation,
    gate_of,
    known_relays,
    observe,
    require_fresh,
    untrusted_relays,
)
from laps_analytics.plan.signing import (
    make_key,
    public_pem,
    read_key,
    read_plan,
    sign,
    write_plan,
)
from laps_analytics.plan.simulation import SimulationResult, simulate_plan, simulator
from laps_wire.plan import Plan, SignedPlan

__all__ = [
    "AllowUnknown",
    "Constraints",
    "DimensionFile",
    "Minutes",
    "assembled_from",
    "plan_app",
]

plan_app = typer.Typer(invoke_without_command=True)

# Options and checks

Constraints: TypeAlias = Annotated[
    Path, typer.Option("--constraints", help="File of constraints (TOML).", show_default=False)
]
DimensionFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--dimensions",
        help="Classes and capacities (TOML or CSV); by default those of the last build.",
        show_default=False,
    ),
]
Minutes: TypeAlias = Annotated[
    int, typer.Option("--minutes", min=5, help="Minutes of data that the plan is based on.")
]
AllowUnknown: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--allow-unknown",
        help="Accept constraints about relays without data in the last eight days.",
    ),
]
MaxAge: TypeAlias = Annotated[
    int,
    typer.Option("--max-age", min=5, help="Maximum age of the newest data in minutes."),
]
Simulate: TypeAlias = Annotated[
    bool | None,
    typer.Option(
        "--simulate/--no-simulate",
        help="Run the plan in the relay simulator first; by default if laps-relay is installed.",
        show_default=False,
    ),
]


def assembled_from(
    lake: Path,
    settings: Settings,
    dimensions: Path | None,
    minutes: int,
    *,
    max_age: int | None = None,
    allow_unknown: bool = False,
) -> Assembled:
    """Return the input of a plan: the observed network and its demand.

    Raises :class:`GateError` if too many relays fail their quality checks, or if the data is older
    than ``max_age`` minutes.
    """
    place = Lake.open(lake)
    observed = observe(place, minutes=minutes)
    if max_age is not None:
        now = time.time_ns() // 1000
        require_fresh(observed, now_us=now, max_age_us=max_age * 60_000_000)
    excluded = untrusted_relays(gate_of(place, at_us=observed.at_us), observed)
    if not allow_unknown:
        _require_known(place, observed, settings)
    assembled = assemble(observed, settings, dimensions_for(place, dimensions), excluded=excluded)
    _require_classes(settings, assembled)
    return assembled


def _listed(words: Sequence[str]) -> str:
    """Join words with commas and a final "and"."""
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _require_known(lake: Lake, observed: Observation, settings: Settings) -> None:
    """Raise :class:`InputError` for constraints about relays that no table knows."""
    named = {*settings.nodes, *(end for link in settings.links for end in link)}
    missing = named - {row.node for row in observed.nodes}
    if not missing:
        return
    known = known_relays(lake, at_us=observed.at_us)
    if unknown := sorted(missing - known):
        words = []
        for name in unknown[:5]:
            near = ", ".join(get_close_matches(name, sorted(known), n=3))
            words.append(f"{name} (near: {near or 'none'})")
        more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
        raise InputError(
            f"the constraints name relays without data in the last eight days:"
            f" {', '.join(words)}{more}; correct [node] and [link], or give --allow-unknown"
        )


def _require_classes(settings: Settings, assembled: Assembled) -> None:
    """Raise :class:`UsageError` if rules name classes and no track has a class."""
    named = sorted(settings.policy.hard.classes.keys() - {""})
    if named and assembled.tracks and not any(track.scope for track in assembled.tracks):
        raise UsageError(
            f"the constraints have rules for the class{'es' if named[1:] else ''}"
            f" {', '.join(named)}, and no track has a class: give --dimensions, here or to"
            " `laps-analytics build`, which stores them in the lake"
        )


def _require_none(faults: Sequence[Violation]) -> None:
    """Raise :class:`PlanError` if the verifier found a violation."""
    if faults:
        raise PlanError(
            f"the verifier found {len(faults)} violations, so nothing was signed; the first:"
            f" {faults[0].constraint} at {faults[0].where}: {faults[0].text}"
        )


def _run_simulation(
    signed: SignedPlan, made: PlanResult, signer: Ed25519PrivateKey, simulate: bool | None
) -> SimulationResult:
    """Run a plan in the relay simulator.

    Raises :class:`PlanError` for a fault, and if ``simulate`` is true and there is no verdict.
    """
    if simulate is False:
        return SimulationResult(None, "--no-simulate")
    program = simulator()
    if simulate and program is None:
        raise UsageError(
            "laps-relay is not installed: pip install -e packages/laps-sdk -e packages/laps-relay,"
            " or give --no-simulate"
        )
    simulation = simulate_plan(
        program, signed, public_pem(signer), made.draft.network, made.draft.groups
    )
    if simulate and simulation.verdict is None:
        raise PlanError(f"{simulation.summary}; nothing was written")
    simulation.require()
    return simulation


def _write_signed_plan(
    assembled: Assembled,
    settings: Settings,
    signer: Ed25519PrivateKey,
    out: Path,
    *,
    name: str,
    version: int,
    previous: Plan | None,
    hold: Collection[Part],
    simulate: bool | None,
) -> tuple[PlanResult, list[LeftOut], SimulationResult]:
    """Compose a plan, verify, sign and simulate it, and write it to a file.

    Returns the plan, what it leaves out, and the result of the simulator. Raises
    :class:`PlanError` and writes nothing if the verifier or the simulator finds a fault.
    """
    made = compose_plan(
        assembled.network,
        settings.policy,
        assembled.tracks,
        name=name,
        version=version,
        now_us=time.time_ns() // 1000,
        lifetime_us=settings.lifetime_us,
        previous=previous,
        hold=hold,
    )
    faults, omitted = check(
        made.plan,
        assembled.network,
        assembled.tracks,
        previous=previous,
        edges_as_vias=settings.policy.edges_as_vias,
        hold=hold,
        undeclared=settings.policy.undeclared,
    )
    _require_none(faults)
    signed = sign(made.plan, signer)
    simulation = _run_simulation(signed, made, signer, simulate)
    write_plan(signed, out)
    return made, omitted, simulation


# The command plan


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
        raise UsageError(f"a plan needs {_listed([name for name in given if given[name] is None])}")
    signer = read_key(key)
    settings = read_settings(constraints)
    before = None if previous is None else read_plan(previous).plan
    assembled = assembled_from(
        lake, settings, dimensions, minutes, max_age=max_age, allow_unknown=allow_unknown
    )
    held = tuple(Part.parse(text) for text in hold or ())
    made, silent, simulation = _write_signed_plan(
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
    _print_plan(made, assembled, simulation, silent, as_json)


def _print_plan(
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


# The command plan keygen


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


# The command plan measure

_Found = Mapping[str, Mapping[Part, Verdict]]


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


@plan_app.command("measure")
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
    made, _, simulation = _write_signed_plan(
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
    found: _Found,
    worse: Mapping[Part, Sequence[str]],
    request: _RevertRequest | None,
    written: Mapping[str, Any] | None,
) -> None:
    for metric, by_part in found.items():
        for part, verdict in by_part.items():
            typer.echo(_line(metric, str(part), verdict))
    for line in _proposals(document, worse):
        typer.echo(line)
    if written is not None:
        changes = ", ".join(f"{count} {kind}" for kind, count in written["changes"].items())
        typer.echo(
            f"{written['file']}: version {written['version']}, {written['entries']} entries,"
            f" {changes}; {written['simulated']}"
        )
    elif request is not None:
        typer.echo("nothing got worse: no plan was written")


def _proposals(plan: Plan, worse: Mapping[Part, Sequence[str]]) -> list[str]:
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
