"""``laps-analytics report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from laps_analytics.errors import InputError
from laps_analytics.lake import Lake
from laps_wire.plan import PlanFormatError, loads

__all__ = ["report"]


def report(
    lake: Annotated[Path, typer.Option(help="The lake, with gold tables built.")],
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    csv: Annotated[
        Path | None, typer.Option("--csv", help="A folder for the same numbers as CSV.")
    ] = None,
    json: Annotated[
        Path | None, typer.Option("--json", help="A folder for the same numbers as JSON.")
    ] = None,
    plan: Annotated[
        Path | None, typer.Option(help="A plan to show; its signature is not checked here.")
    ] = None,
    title: Annotated[str, typer.Option(help="The title of the page.")] = "Network report",
) -> None:
    """Write one HTML page with the answers, the pictures and the numbers of a lake.

    Spark is not started: gold tables are read as they are. The five answers go to stdout as well.
    """
    # Pictures and tables take a second to load, and the other commands need neither.
    from laps_analytics.report.build import (  # noqa: PLC0415
        export_csv,
        export_json,
        make_report,
        write_page,
    )
    from laps_analytics.report.gold import read_gold  # noqa: PLC0415

    shown = None
    if plan is not None:
        try:
            shown = loads(plan.read_bytes()).plan
        except (OSError, PlanFormatError) as error:
            raise InputError(f"{plan} cannot be read as a plan: {error}") from None
    made = make_report(read_gold(Lake.open(lake)), title=title, plan=shown)
    write_page(made, out)
    written = [out]
    if csv is not None:
        written += export_csv(made, csv)
    if json is not None:
        written += export_json(made, json)
    for _, question, answer in made.answers:
        typer.echo(f"{question} {answer}")
    typer.echo(f"wrote {out} and {len(written) - 1} other files", err=True)
