"""The command ``laps-analytics demo``."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from laps_analytics.cli.common import Memory, NoProgress, session_maker

if TYPE_CHECKING:
    from laps_analytics.synth.demo import Demo

__all__ = ["demo"]


def demo(
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the network; the same seed gives the same network.")
    ] = 7,
    out: Annotated[Path, typer.Option(help="New folder for all output.")] = Path("laps-demo"),
    quick: Annotated[bool, typer.Option("--quick", help="Use a small network.")] = False,
    memory: Memory = "3g",
    no_progress: NoProgress = False,
) -> None:
    """Simulate a relay network, analyse its telemetry, make a plan and measure the plan's effect.

    The demo needs no network access and takes a few minutes.
    """
    from laps_analytics.synth.dataset import FULL, QUICK  # noqa: PLC0415
    from laps_analytics.synth.demo import STEPS, run_demo  # noqa: PLC0415 - a second to load

    with _step_printer(STEPS, no_progress) as progress:
        made = run_demo(
            out,
            session_maker("local[2]", None, memory),
            seed=seed,
            size=QUICK if quick else FULL,
            progress=progress,
        )
    typer.echo(summary(made))


@contextmanager
def _step_printer(steps: int, no_progress: bool) -> Iterator[Callable[[int, str], None] | None]:
    """Yield a function that prints the steps: with a status line on a terminal, plain elsewhere."""
    began = time.monotonic()
    if no_progress:
        yield None
    elif sys.stderr.isatty():
        console = Console(stderr=True)
        with console.status("") as status:

            def show(number: int, text: str) -> None:
                seconds = time.monotonic() - began
                console.print(f"[dim]{seconds:4.0f} s[/dim]  {number}/{steps}  {text}")
                status.update(f"{number}/{steps}  {text}")

            yield show
    else:
        yield lambda number, text: typer.echo(
            f"{time.monotonic() - began:4.0f} s  {number}/{steps}  {text}", err=True
        )


def summary(made: Demo) -> str:
    """Return the results of the demo as text for a first-time user."""
    lines = [
        (
            f"A world of {made.relays} relays and {made.tracks} tracks wrote {made.lines:,} lines"
            f" of telemetry. It took {sum(made.seconds.values()):.0f} s."
        ),
        "",
        "What the tables say of the network as it is:",
    ]
    lines += [f"  {question}\n    {answer}" for _, question, answer in made.report.answers]
    vias = len({entry.via for entry in made.plan.entries})
    lines += [
        "",
        f"The plan in the relay simulator: {made.simulated}.",
        "",
        (
            f"The plan moves copies over {vias} Vias in {len(made.plan.entries)} entries. What it"
            " gained, measured at the same time of the next day:"
        ),
        "",
        f"  {'':<58} {'before':>10} {'after':>10} {'change':>8}",
    ]
    for gain in made.gains:
        change = "" if gain.change is None else f"{gain.change:+.0%}"
        what = f"{gain.what}, {gain.unit}"
        row = f"  {what:<58} {gain.before:>10.2f} {gain.after:>10.2f} {change:>8}  {gain.verdict}"
        lines.append(row.rstrip())
    lines += [
        "",
        "Files, all in " + str(made.folder) + ":",
        "  report.html         the network as it is: begin here",
        "  report-after.html   the same with the plan",
        "  gain.csv, numbers/  the figures of both",
        "  plan.json           the signed plan, as laps-relay reads it",
        "  before/truth.json   what was put into the world: incidents, totals",
        f"  lake/               all tables: laps-analytics sql --lake {made.folder / 'lake'}",
    ]
    return "\n".join(lines)
