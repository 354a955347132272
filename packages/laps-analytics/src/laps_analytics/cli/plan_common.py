"""Options and checks that the commands about plans share."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from laps_analytics.errors import InputError, PlanError, UsageError
from laps_analytics.gold.dimensions import dimensions_for
from laps_analytics.lake import Lake
from laps_analytics.plan.assemble import Assembled, assemble
from laps_analytics.plan.constraints import Settings
from laps_analytics.plan.core.compose import PlanResult, compose_plan
from laps_analytics.plan.core.revert import Part
from laps_analytics.plan.core.verify import LeftOut, Violation, check
from laps_analytics.plan.observation import (
    Observation,
    gate_of,
    known_relays,
    observe,
    require_fresh,
    untrusted_relays,
)
from laps_analytics.plan.signing import public_pem, sign, write_plan
from laps_analytics.plan.simulation import SimulationResult, simulate_plan, simulator
from laps_wire.plan import Plan, SignedPlan

__all__ = [
    "AllowUnknown",
    "Constraints",
    "DimensionFile",
    "MaxAge",
    "Minutes",
    "Simulate",
    "assembled_from",
    "listed",
    "write_signed_plan",
]

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


def listed(words: Sequence[str]) -> str:
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


def write_signed_plan(
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
