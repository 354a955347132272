"""The command ``laps-analytics report``."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from laps_analytics.errors import InputError, UsageError
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
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            help="First day, yyyy-mm-dd.  [default: a day back; a month for usage]",
            show_default=False,
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--until", help="Last day.  [default: the newest]", show_default=False),
    ] = None,
    title: Annotated[str, typer.Option(help="The title of the page.")] = "Network report",
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
            raise InputError(f"{plan} cannot be read as a plan: {error}") from None
    first, last = _day(since, "--since"), _day(until, "--until")
    if first is not None and last is not None and first > last:
        raise UsageError(f"--since {first} is after --until {last}")
    place = Lake.open(lake)
    gold = read_gold(place, since=first, until=last)
    moment = gold.until()
    if moment is None:
        before = "" if last is None else f" up to {last}"
        raise UsageError(f"{lake} has no rows of gold{before}: `laps-analytics build` first")
    if first is not None and moment.date() < first:
        raise UsageError(f"{lake} has no rows since {first}: its last day is {moment:%Y-%m-%d}")
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


def _day(text: str | None, option: str) -> date | None:
    if text is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{option} {text} is no day: write it as 2026-11-17") from None
