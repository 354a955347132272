"""``laps-relay sim plan``: play a plan before a real relay gets it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Final

import typer

from laps_relay.cli.common import one_line_errors
from laps_relay.network.relay import NetworkRelay
from laps_relay.server.plans import PlanKeeper, PlanKeys, read_plan_keys
from laps_relay.sim.plans.run import PlanVerdict, play_plan
from laps_relay.sim.plans.stage import Stage, made_up, read_stage, sampled
from laps_wire.errors import LapsError
from laps_wire.plan import PlanFormatError, SignedPlan, loads

__all__ = ["plan"]

_SHOWN: Final = 20
"""Faults that are printed."""


class _AnySigner:
    """Accepts every signature, for plans that are played without ``--keys``."""

    def verify(self, signature: bytes, data: bytes) -> None:
        """Accept the signature."""


def plan(
    file: Annotated[Path, typer.Argument(help="Signed plan (JSON).", metavar="PLAN")],
    topology: Annotated[
        Path | None,
        typer.Option(
            "--topology",
            help="Relays, links and demand (TOML or JSON); default: derived from the plan.",
        ),
    ] = None,
    keys: Annotated[
        list[Path] | None,
        typer.Option(
            "--keys",
            help="Public key (PEM) that relays trust. May be repeated; default: trust any key.",
        ),
    ] = None,
    groups: Annotated[
        int, typer.Option("--groups", min=1, help="Largest number of tracks to publish.")
    ] = 12,
    seed: Annotated[
        int, typer.Option("--seed", help="Seed for the choice of tracks and times.")
    ] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
) -> None:
    """Play a plan on a simulated network; exit code 1 if anything is wrong with it.

    Every relay loads the plan as a server does. Tracks are published, and objects are counted while
    the plan is loaded and dropped.
    """
    with one_line_errors():
        signed = _read(file)
        trusted: PlanKeys = (
            read_plan_keys(keys) if keys else {signed.key_id: _AnySigner()}  # type: ignore[dict-item]
        )
        stage = _stage(signed, topology, groups, seed)

        def keeper(relay: NetworkRelay) -> PlanKeeper:
            return PlanKeeper(relay, lambda _: None, trusted)

        verdict = play_plan(signed, stage, keeper, seed=seed)
    if as_json:
        typer.echo(json.dumps(verdict.as_dict()))
    else:
        _tell(verdict)
    if not verdict.ok:
        raise typer.Exit(1)


def _read(file: Path) -> SignedPlan:
    try:
        return loads(file.read_bytes())
    except OSError as error:
        raise LapsError(f"{file}: {error.strerror}: name the file of a plan") from None
    except PlanFormatError as error:
        raise LapsError(f"{file} is not a plan: {error}") from None


def _stage(signed: SignedPlan, topology: Path | None, groups: int, seed: int) -> Stage:
    if topology is None:
        return made_up(signed.plan, groups, seed)
    return sampled(read_stage(topology), groups, seed)


def _tell(verdict: PlanVerdict) -> None:
    rows = [
        ("plan", f"{verdict.plan} version {verdict.version}"),
        ("relays, links", f"{verdict.relays:,}, {verdict.links:,}"),
        ("tracks, their subscribers' relays", f"{verdict.demands:,}, {verdict.subscribers:,}"),
        ("relays that accepted the plan", f"{verdict.accepted:,} of {verdict.relays:,}"),
        ("ways over the planned Via", f"{verdict.planned_ways:,} of {verdict.ways:,}"),
        (
            "ways over the second, one drains",
            f"{verdict.taken_fallbacks:,} of {verdict.fallbacks:,}",
        ),
        ("copies before, with the plan", f"{verdict.copies_before:,}, {verdict.copies_with:,}"),
        ("most copies towards a region", f"{verdict.most_copies:,}"),
        ("objects published, delivered", f"{verdict.published:,}, {verdict.delivered:,}"),
        ("objects lost", f"{verdict.lost:,}"),
        ("virtual time, CPU time", f"{verdict.virtual_s:.0f} s, {verdict.cpu_s:.1f} s"),
    ]
    for name, value in rows:
        typer.echo(f"{name:34} {value}")
    for fault in verdict.faults[:_SHOWN]:
        typer.echo(f"WRONG {fault.check} at {fault.where}: {fault.text}")
    if len(verdict.faults) > _SHOWN:
        typer.echo(f"and {len(verdict.faults) - _SHOWN} more (--json has all)")
    if verdict.ok:
        typer.echo("the plan holds")
