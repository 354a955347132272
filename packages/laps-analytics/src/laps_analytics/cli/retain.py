"""``laps-analytics retain``."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from laps_analytics.cli.common import AsJson, LakeFolder
from laps_analytics.lake import Lake
from laps_analytics.retention.decide import FOREVER, Periods, period
from laps_analytics.retention.run import READERS_S, Removed, Retained, retain

__all__ = ["retain_days"]


def retain_days(
    lake: LakeFolder,
    *,
    bronze: Annotated[
        str, typer.Option("--bronze", help="For how long events are kept as they came.")
    ] = "7d",
    silver: Annotated[
        str, typer.Option("--silver", help="For how long typed events are kept.")
    ] = "30d",
    gold: Annotated[str, typer.Option("--gold", help="For how long answers are kept.")] = "2y",
    bills: Annotated[
        str, typer.Option("--bills", help="For how long usage_tenant_day is kept.")
    ] = FOREVER,
    unbuilt: Annotated[
        bool, typer.Option("--unbuilt", help="Days of silver too that gold is not built from.")
    ] = False,
    at_once: Annotated[
        bool, typer.Option("--at-once", help="Delete files now; else an hour after their day went.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove days that are kept no longer: 7d, 4w, 2y or forever, for each tier.

    What is still needed stays, and why is said. Events that come later for such days go to
    bronze/quarantine; gold that was built from them stays as it is.
    """
    periods = Periods(
        bronze=period(bronze), silver=period(silver), gold=period(gold), bills=period(bills)
    )
    done = retain(
        Lake.open(lake),
        periods,
        any_built=unbuilt,
        dry=dry_run,
        readers_s=0.0 if at_once else READERS_S,
    )
    typer.echo(json.dumps(done.as_dict()) if as_json else show(done, dry=dry_run))


def show(done: Retained, *, dry: bool = False) -> str:
    """What was done as text."""
    lines = [_line(item, "would go" if dry else "removed") for item in done.removed]
    if not lines:
        lines = ["nothing is old enough to go"]
    lines += [f"kept: {item.tier} from {item.first} on, {item.reason}" for item in done.kept]
    if done.deleted:
        lines.append(f"deleted: {done.deleted:,} files")
    return "\n".join(lines)


def _line(item: Removed, word: str) -> str:
    count = len(item.days)
    span = item.days[0] if count == 1 else f"{item.days[0]} to {item.days[-1]}"
    days = f"{count} day{'s' if count > 1 else ''} {word}, {span}"
    return f"{item.table:26} {days}, {item.files:,} files, {item.bytes:,} bytes"
