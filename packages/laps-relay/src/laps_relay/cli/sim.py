"""``laps-relay sim``: networks in virtual time, from seeds that can be replayed."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from laps_relay.cli.common import one_line_errors
from laps_relay.network.relay import NetworkRelay
from laps_relay.server.plans import PlanKeeper, PlanKeys, read_plan_keys
from laps_relay.sim.mutants import MUTANTS, hunt
from laps_relay.sim.plans import PlanVerdict, Stage, made_up, play_plan, read_stage, sampled
from laps_relay.sim.runner import Figures, Outcome, run_seeds, simulate, simulate_seed
from laps_relay.sim.scenarios.scenario import KINDS, scenario
from laps_relay.sim.world.build import network_relay
from laps_wire.errors import LapsError
from laps_wire.plan import PlanFormatError, SignedPlan, loads

__all__ = ["app"]

_SHOWN_FAULTS: Final = 20
"""Faults that are printed."""

app = typer.Typer(no_args_is_help=True)


class _AnySigner:
    """Accepts every signature, for plans that are played without ``--keys``."""

    def verify(self, signature: bytes, data: bytes) -> None:
        """Accept the signature."""


@app.command()
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
        signed = _read_plan(file)
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
        _show_verdict(verdict)
    if not verdict.ok:
        raise typer.Exit(1)


def _read_plan(file: Path) -> SignedPlan:
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


def _show_verdict(verdict: PlanVerdict) -> None:
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
    for fault in verdict.faults[:_SHOWN_FAULTS]:
        typer.echo(f"WRONG {fault.check} at {fault.where}: {fault.text}")
    if len(verdict.faults) > _SHOWN_FAULTS:
        typer.echo(f"and {len(verdict.faults) - _SHOWN_FAULTS} more (--json has all)")
    if verdict.ok:
        typer.echo("the plan holds")


def _kind(text: str | None) -> str | None:
    if text is not None and text not in KINDS:
        raise typer.BadParameter(f"{text!r}: one of {', '.join(KINDS)}")
    return text


Relays = Annotated[
    int | None,
    typer.Option("--relays", min=3, help="Number of relays; default: 12 to 30, by the seed."),
]
TopologyName = Annotated[
    str | None,
    typer.Option(
        "--topology",
        help="Topology: ring, chord, tree, random, dense or regions; a TOML file; or a backbone of"
        " topohub such as topozoo/Abilene.",
    ),
]
Kind = Annotated[
    str | None,
    typer.Option(
        "--kind",
        callback=_kind,
        help="Kind of scenario: planned (changes), faults, steering (Vias are injected), narrow"
        " (links), or busy (many short streams over bad links).",
    ),
]


def _seeds(text: str) -> range:
    first, _, last = text.partition(":")
    try:
        start = int(first)
        numbers = range(start, int(last) + 1 if last else start + 1)
    except ValueError:
        raise typer.BadParameter(f"{text!r}: a number, or first:last") from None
    if not numbers:
        raise typer.BadParameter(f"{text!r}: no seeds at all; the first one comes first")
    return numbers


def _command(outcome: Outcome, relays: int | None, topology: str | None, kind: str | None) -> str:
    """Return the command that replays a run."""
    words = ["laps-relay", "sim", "replay", "--seed", str(outcome.seed)]
    for name, value in (("relays", relays), ("topology", topology), ("kind", kind)):
        if value is not None:
            words += [f"--{name}", str(value)]
    return " ".join(words)


@app.command()
def run(
    seeds: Annotated[
        str, typer.Option("--seeds", help="Seeds to run: first:last, or one.")
    ] = "1:20",
    relays: Relays = None,
    topology: TopologyName = None,
    kind: Kind = None,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Number of processes.")] = 1,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object for each seed.")
    ] = False,
) -> None:
    """Run seeds; exit code 1 if anything broke, with the command that replays it."""
    figures = Figures()
    numbers = _seeds(seeds)
    play = partial(simulate_seed, relays=relays, topology=topology, kind=kind)
    with one_line_errors():
        for outcome in run_seeds(numbers, play, jobs=jobs):
            figures.add(outcome)
            if as_json:
                typer.echo(json.dumps(outcome.as_dict()))
            elif not outcome.ok:
                typer.echo(f"seed {outcome.seed} ({outcome.topology}): {outcome.problem}")
                typer.echo(f"  {_command(outcome, relays, topology, kind)}")
            sys.stdout.flush()
            if figures.seeds % 10 == 0:
                typer.echo(
                    f"{figures.seeds} of {len(numbers)} seeds, {figures.breaks} broke, "
                    f"{figures.deliveries:,} objects delivered",
                    err=True,
                )
    if as_json:
        typer.echo(json.dumps({"figures": figures.as_dict()}))
    else:
        for name, value in figures.rows():
            typer.echo(f"{name:39} {value}")
    if figures.breaks:
        raise typer.Exit(1)


@app.command()
def replay(
    seed: Annotated[int, typer.Option("--seed", help="Seed to replay.")],
    relays: Relays = None,
    topology: TopologyName = None,
    kind: Kind = None,
    trace: Annotated[bool, typer.Option("--trace", help="Print every message too.")] = False,
) -> None:
    """Show the story of a run: relays, sessions, actions, and what broke."""
    with one_line_errors():
        made = scenario(seed, relays=relays, topology=topology, kind=kind)
        outcome, played = simulate(made, network_relay, tracing=trace)
    for line in played.world.story:
        typer.echo(line)
    typer.echo(
        f"{outcome.topology}: {outcome.relays} relays, {outcome.links} links,"
        f" {outcome.actions} actions"
    )
    typer.echo(f"trace {outcome.digest}")
    if not outcome.ok:
        typer.echo(f"BROKEN {outcome.problem}")
        raise typer.Exit(1)
    typer.echo("everything held")


@app.command()
def mutants(
    only: Annotated[str | None, typer.Option("--only", help="Hunt only this mutant.")] = None,
) -> None:
    """Break the relay on purpose in many ways, and show that the simulator detects each break."""
    if only is not None and only not in MUTANTS:
        raise typer.BadParameter(f"{only!r}: one of {', '.join(MUTANTS)}", param_hint="--only")
    missed = 0
    typer.echo(f"{'break':28} {'seen as':16} {'seed':>6} {'CPU':>7}  what it is")
    for name, mutant in MUTANTS.items():
        if only is not None and name != only:
            continue
        found = hunt(mutant)
        missed += found is None
        if found is None:
            typer.echo(f"{name:28} {'NOT SEEN':16} {'':6} {'':7}  {mutant.what}")
        else:
            typer.echo(f"{name:28} {found.rule:16} {found.seed:6} {found.cpu:6.2f}s  {mutant.what}")
    if missed:
        raise typer.Exit(1)
