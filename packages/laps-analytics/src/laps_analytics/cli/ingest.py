"""The commands ``laps-analytics ingest`` and ``laps-analytics retain``."""

from __future__ import annotations

import contextlib
import json
import signal
import threading
import time
from pathlib import Path
from typing import Annotated

import typer

from laps_analytics.cli.common import (
    AsJson,
    LakeFolder,
    Master,
    Memory,
    NoProgress,
    Remote,
    progress_printer,
    session_maker,
)
from laps_analytics.errors import ConflictError, UsageError
from laps_analytics.ingest.intake import find_sources, require_sources
from laps_analytics.ingest.journal import Journal
from laps_analytics.ingest.run import Summary, ingest
from laps_analytics.ingest.stream import follow
from laps_analytics.lake import Lake
from laps_analytics.retention import (
    FOREVER,
    READERS_S,
    Periods,
    Removed,
    Retained,
    period,
    retain,
    retain_locked,
)

__all__ = ["ingest_files", "retain_days"]


def ingest_files(
    sources: Annotated[
        list[Path],
        typer.Argument(help="Telemetry files, or folders that contain them.", metavar="SOURCE"),
    ],
    lake: LakeFolder,
    *,
    master: Master = None,
    remote: Remote = None,
    memory: Memory = "4g",
    follow_on: Annotated[
        bool, typer.Option("--follow", help="Keep running and load new data until Ctrl-C.")
    ] = False,
    trigger: Annotated[
        float,
        typer.Option(
            "--trigger", help="With --follow: seconds between two searches for new data.", min=0.1
        ),
    ] = 10.0,
    keep: Annotated[
        str | None,
        typer.Option(
            "--retain",
            help="With --follow: periods to keep bronze, silver and gold, such as 7d,30d,2y.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
    no_progress: NoProgress = False,
) -> None:
    """Load telemetry into a lake: raw events into bronze tables, typed events into silver tables.

    Each event is stored once. Files that were loaded before are skipped. A run that was killed is
    completed first.
    """
    if follow_on and remote:
        raise UsageError(
            "--follow and --remote exclude each other: a stream needs a local driver, use --master"
        )
    if keep and not follow_on:
        raise UsageError("--retain needs --follow: without it, use `laps-analytics retain`")
    periods = Periods.of(keep) if keep else None
    maker, progress = session_maker(master, remote, memory), progress_printer(no_progress)
    # A lake is made when there is something for it; a stream may begin with an empty folder.
    (find_sources if follow_on else require_sources)(sources, without=lake)
    place = Lake.open(lake, create=True)

    def report(summary: Summary) -> None:
        typer.echo(json.dumps(summary.as_dict()) if as_json else show(summary))

    if not follow_on:
        report(ingest(maker, place, sources, progress=progress))
        return
    spark, stop = maker(), threading.Event()
    # After Spark has started: its own handler of Ctrl-C would cancel the batch under way.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())

    def retain_today(journal: Journal) -> None:
        if periods is not None:
            # What somebody else commits at the same time can wait until tomorrow.
            with contextlib.suppress(ConflictError):
                retain_locked(
                    place, journal, periods, now_us=time.time_ns() // 1000, progress=progress
                )

    follow(
        spark,
        place,
        sources,
        trigger=trigger,
        stop=stop,
        progress=progress,
        report=report,
        each_day=retain_today,
    )


def show(summary: Summary) -> str:
    """Return the summary of an ingest as text."""
    rows = [
        ("files", f"{summary.files:,} with something new, {summary.unchanged:,} without"),
        ("events", f"{summary.events:,} ({summary.bytes:,} bytes)"),
    ]
    if summary.resumed:
        rows.insert(0, ("resumed", "a batch that was begun before is done"))
    if summary.quarantined:
        rows.append(("quarantined", f"{summary.quarantined:,} lines"))
        rows += [("", f"{count:,}  {reason}") for reason, count in summary.reasons.items()]
    if summary.traces:
        rows.append(("traces", f"{summary.traces:,} events of qlog"))
    if summary.hours:
        first, last = summary.hours[0], summary.hours[-1]
        rows += [
            ("hours made", f"{len(summary.hours):,}, {first} to {last}"),
            ("rows there", f"{sum(summary.rows.values()):,} of {len(summary.rows)} types"),
            ("copies", f"{summary.copies:,} left out"),
            ("late", f"{summary.late:,}"),
            ("unfit", f"{summary.unfit:,} (table silver/quarantine)"),
        ]
    if summary.broken_clocks:
        rows.append(("broken clock", ", ".join(summary.broken_clocks)))
    return "\n".join(f"{name:13} {text}".rstrip() for name, text in rows)


def retain_days(
    lake: LakeFolder,
    *,
    bronze: Annotated[str, typer.Option("--bronze", help="How long to keep raw events.")] = "7d",
    silver: Annotated[str, typer.Option("--silver", help="How long to keep typed events.")] = "30d",
    gold: Annotated[
        str, typer.Option("--gold", help="How long to keep gold tables, except bills.")
    ] = "2y",
    bills: Annotated[
        str, typer.Option("--bills", help="How long to keep bills (the table usage_tenant_day).")
    ] = FOREVER,
    unbuilt: Annotated[
        bool, typer.Option("--unbuilt", help="Also remove days that are not built into gold.")
    ] = False,
    at_once: Annotated[
        bool, typer.Option("--at-once", help="Delete files now, not an hour after their removal.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be removed.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Remove days of a lake that are older than the limit of their tier: 7d, 4w, 2y or forever.

    Days that are still needed stay, and the command names the reason. Events that arrive later for
    a removed day go to bronze/quarantine. Gold tables of such a day do not change.
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
    typer.echo(json.dumps(done.as_dict()) if as_json else show_retained(done, dry=dry_run))


def show_retained(done: Retained, *, dry: bool = False) -> str:
    """Return the result of a retention run as text."""
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
