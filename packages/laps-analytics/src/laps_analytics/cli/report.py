"""The command ``laps-analytics report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from laps_analytics.cli.common import parse_day
from laps_analytics.errors import InputError, UsageError
from laps_analytics.lake import Lake
from laps_wire.plan import PlanFormatError, loads

__all__ = ["report"]


def report(
    lake: Annotated[Path, typer.Option(help="Folder of the lake; its gold tables must be built.")],
    out: Annotated[Path, typer.Option(help="HTML file to write.")] = Path("report.html"),
    csv: Annotated[
        Path | None, typer.Option("--csv", help="Also write the tables as CSV, into this folder.")
    ] = None,
    json: Annotated[
        Path | None, typer.Option("--json", help="Also write the tables as JSON, into this folder.")
    ] = None,
    plan: Annotated[
        Path | None, typer.Option(help="Plan to include; its signature is not checked.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            help="First day, yyyy-mm-dd; by default the last 24 hours, and the month for usage.",
            show_default=False,
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--until", help="Last day, yyyy-mm-dd; by default the newest.", show_default=False
        ),
    ] = None,
    title: Annotated[str, typer.Option(help="Title of the page.")] = "Network report",
) -> None:
    """Write an HTML page with answers, plots and tables from the gold tables of a lake.

    The command does not start Spark. It also prints the five main answers.
    """
    # Pictures and tables take a second to load, and the other commands need neither.
    from laps_analytics.plan.history import history_of  # noqa: PLC0415
    from laps_analytics.report.build import (  # noqa: PLC0415
        export_csv,
        export_json,
        make_report,
        write_page,
    )
    from laps_analytics.report.gold import read_gold  # noqa: PLC0415
    from laps_analytics.report.plans import PlanHistory  # noqa: PLC0415

    shown = None
    if plan is not None:
        try:
            shown = loads(plan.read_bytes()).plan
        except (OSError, PlanFormatError) as error:
            raise InputError(
                f"{plan} is not a readable plan: {error}; name a plan that `laps-analytics"
                " plan --out` wrote"
            ) from None
    first, last = parse_day(since, "--since"), parse_day(until, "--until")
    if first is not None and last is not None and first > last:
        raise UsageError(f"--since {first} is later than --until {last}: name an earlier day")
    place = Lake.open(lake)
    gold = read_gold(place, since=first, until=last)
    moment = gold.until()
    if moment is None:
        before = "" if last is None else f" up to {last}"
        raise UsageError(f"{lake} has no gold tables{before}: run `laps-analytics build` first")
    if first is not None and moment.date() < first:
        raise UsageError(
            f"{lake} has no rows since {first}: its last day is {moment:%Y-%m-%d}, name an"
            " earlier one"
        )
    history = PlanHistory(**history_of(place, gold.span_us()))
    made = make_report(gold, title=title, plan=shown, history=history)
    write_page(made, out)
    written = [out]
    if csv is not None:
        written += export_csv(made, csv)
    if json is not None:
        written += export_json(made, json)
    for _, question, answer in made.answers:
        typer.echo(f"{question} {answer}")
    typer.echo(f"wrote {out} and {len(written) - 1} other files", err=True)
