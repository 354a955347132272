"""Load files into bronze and silver, each event once, also if the process is killed.

::

    take      sources --> inbox                     journal: offset of each file
    begin     inbox files --> batch N               journal: files and time of N
    bronze    lines --> stage/N --> quarantine, then events      (their logs: batch N)
    silver    hours of N --> clock, then each table              (their logs: batch N)
    done                                            journal: N is done; its files are deleted

                 killed                             the next run
      take       before the entry of the journal    reads the same files again
                 after it                           moves the spool to the inbox
      bronze     anywhere                           reads the same files of the inbox again; skips
                                                    tables whose log has N
      silver     anywhere                           rebuilds the partitions that lack N, from the
                                                    same bronze
      done       before the entry                   finds nothing to do, and writes the entry
                 after it                           deletes the remaining files

A batch begins only after the one before it is done, so at most one batch is unfinished.
"""

from __future__ import annotations

import json
import shutil
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from laps_analytics.ingest.bronze import (
    batch_key,
    expired_key,
    hours_of_batch,
    lines_of,
    write_bronze,
)
from laps_analytics.ingest.compaction import UpkeepLimits, compact_after_batch
from laps_analytics.ingest.hours import Hour, hour_at
from laps_analytics.ingest.intake import (
    FAULTS_SUFFIX,
    SUFFIX,
    TRACE_SUFFIX,
    recover,
    require_sources,
    take,
)
from laps_analytics.ingest.journal import Journal
from laps_analytics.ingest.qlog import write_traces
from laps_analytics.ingest.silver_hours import append, is_over, rebuild
from laps_analytics.lake import Lake, read_rows, row_count, write_rows
from laps_analytics.schema import QUARANTINE

__all__ = ["Progress", "Summary", "begin_batch", "finish", "ingest"]

Progress = Callable[[str], None]

_TASK: Final = 16 << 20
"""Bytes of lines for each task of a micro-batch. Each task writes a file for each type."""


@dataclass(slots=True)
class Summary:
    """Result of an ingest."""

    files: int = 0
    """Files with new lines."""
    unchanged: int = 0
    """Files without new lines."""
    bytes: int = 0
    events: int = 0
    """Rows added to bronze."""
    quarantined: int = 0
    """Lines that are not events, and incomplete ends of files."""
    reasons: dict[str, int] = field(default_factory=dict)
    traces: int = 0
    """Events of qlog and mlog files."""
    hours: list[str] = field(default_factory=list)
    """Silver hours that were rebuilt."""
    rows: dict[str, int] = field(default_factory=dict)
    """Silver rows of these hours, by type."""
    copies: int = 0
    """Bronze rows of these hours that are duplicates."""
    late: int = 0
    """Silver rows of these hours that came after their hour had closed."""
    unfit: int = 0
    """Events of these hours with an invalid body or a broken clock."""
    broken_clocks: list[str] = field(default_factory=list)
    resumed: bool = False
    """Whether an unfinished batch was completed first."""

    def as_dict(self) -> dict[str, Any]:
        """Return the summary as JSON-compatible data."""
        return asdict(self)


def ingest(
    spark: Callable[[], SparkSession],
    lake: Lake,
    places: Iterable[Path],
    *,
    now_us: int | None = None,
    progress: Progress = lambda _: None,
) -> Summary:
    """Load new lines of ``places`` into bronze and silver.

    ``spark`` returns the session; it is not called if there is nothing to do.
    """
    now = time.time_ns() // 1000 if now_us is None else now_us
    sources = require_sources(places, without=lake.root)
    journal = Journal(lake)
    with journal.locked():
        recover(journal)
        summary = Summary()
        if finish(spark, lake, journal, summary, progress):
            summary.resumed = True
        taken = take(journal, sources, progress=progress)
        summary.files, summary.unchanged = taken.files, taken.unchanged
        summary.bytes = taken.bytes
        if (files := inbox_files(journal)) or journal.state.get("dirty"):
            begin_batch(journal, files, now)
        finish(spark, lake, journal, summary, progress)
    return summary


def inbox_files(journal: Journal) -> list[str]:
    """Return the names of the files in the inbox."""
    return sorted(path.name for path in journal.inbox.iterdir())


def begin_batch(
    journal: Journal,
    files: Iterable[str],
    now_us: int,
    **more: Any,
) -> None:
    """Record that some files of the inbox are the next batch."""
    number = int(journal.state.get("batches", 0)) + 1
    batch = {
        "number": number,
        "files": sorted(files),
        "now_us": now_us,
        "append": bool(more.pop("append", False)),
    }
    journal.note_all({"batches": number, "batch": batch, **more})


def finish(
    spark: Callable[[], SparkSession],
    lake: Lake,
    journal: Journal,
    summary: Summary,
    progress: Progress,
    upkeep: UpkeepLimits | None = None,
) -> bool:
    """Complete the batch in progress; return False if there is none."""
    batch: Mapping[str, Any] | None = journal.state.get("batch")
    if batch is None:
        return False
    progress("begun")
    number, now_us = int(batch["number"]), int(batch["now_us"])
    for left in journal.stage.iterdir():
        shutil.rmtree(left, ignore_errors=True)
    # Of this try alone: the JVM of a process that was killed may live, and write, a moment longer.
    stage = journal.stage / f"{number}-{uuid.uuid4().hex}"
    _write_faults(lake, journal, batch)
    lines = [journal.inbox / name for name in batch["files"] if name.endswith(SUFFIX)]
    if lines:
        read = lines_of(spark(), lines)
        if batch.get("append"):
            read = read.coalesce(1 + sum(path.stat().st_size for path in lines) // _TASK)
        write_bronze(
            lake,
            read,
            batch=number,
            seen_us=now_us,
            stage=stage,
            progress=progress,
        )
        bronze = lake.table("bronze/events")
        summary.events += row_count(bronze, (f.path for f in bronze.files_of(batch_key(number))))
    traces = [journal.inbox / name for name in batch["files"] if name.endswith(TRACE_SUFFIX)]
    if traces:
        summary.traces += write_traces(spark(), lake, traces, batch=number, now_us=now_us)
        progress("traces")
    whole, notes = _to_silver(spark, lake, journal, summary, progress)
    _count_refused(lake, number, summary)
    journal.note_all({"batch": None, "done": batch["files"], **notes})
    progress("done")
    shutil.rmtree(stage, ignore_errors=True)
    for name in batch["files"]:
        (journal.inbox / name).unlink(missing_ok=True)
    if compact_after_batch(
        spark, lake, journal, upkeep or UpkeepLimits(), batch=number, made=whole
    ):
        progress("compacted")
    return True


def _to_silver(
    spark: Callable[[], SparkSession],
    lake: Lake,
    journal: Journal,
    summary: Summary,
    progress: Progress,
) -> tuple[set[Hour], dict[str, Any]]:
    """Load the batch in progress from bronze into silver.

    Returns the rebuilt hours, and the values to record in the journal.
    """
    batch: Mapping[str, Any] = journal.state["batch"]
    number, now_us = int(batch["number"]), int(batch["now_us"])
    touched = hours_of_batch(lake, number)
    dirty = {(dt, hour) for dt, hour in journal.state.get("dirty", ())}
    notes: dict[str, Any] = {}
    if batch.get("append"):
        whole = {hour for hour in touched | dirty if is_over(hour, now_us)}
        boots = journal.state.get("boots", {})
        notes["boots"] = append(spark, lake, touched - whole, boots, batch=number, now_us=now_us)
        progress("appended")
        notes["dirty"] = sorted((dirty | touched) - whole)
        notes["closed"] = sorted({*map(tuple, journal.state.get("closed", ())), *whole}) or None
    else:
        whole = touched | dirty
        notes["dirty"] = []
        if touched:
            # A stream would take copies of these events for new ones.
            notes["boots"] = None
    if whole:
        made = rebuild(spark(), lake, whole, batch=number, progress=progress)
        summary.hours = sorted({*summary.hours, *(f"{dt} {hour}" for dt, hour in made.hours)})
        summary.rows = made.rows
        summary.late, summary.unfit = made.late, made.unfit
        summary.broken_clocks = made.broken
        summary.copies = made.copies
    return whole, notes


def _write_faults(lake: Lake, journal: Journal, batch: Mapping[str, Any]) -> None:
    """Write incomplete ends of files to quarantine."""
    rows = [
        {
            **fault,
            "relay": None,
            "ts_us": None,
            "batch": batch["number"],
            "seen_us": batch["now_us"],
            "dt": hour_at(batch["now_us"])[0],
        }
        for name in batch["files"]
        if name.endswith(FAULTS_SUFFIX)
        for fault in json.loads((journal.inbox / name).read_text())
    ]
    if rows:
        write_rows(
            rows,
            QUARANTINE,
            lake.table("bronze/quarantine"),
            partition_by=("dt",),
            batch=f"faults-{batch['number']}",
        )


def _count_refused(lake: Lake, number: int, summary: Summary) -> None:
    table = lake.table("bronze/quarantine")
    files = {
        file.path
        for key in (
            *(batch_key(number), expired_key(number)),
            *(f"faults-{number}", f"traces-{number}"),
        )
        for file in table.files_of(key)
    }
    reasons = Counter(summary.reasons)
    for row in read_rows(table, where=lambda file: file.path in files):
        reasons[row["reason"]] += 1
        summary.quarantined += 1
    summary.reasons = dict(reasons.most_common(20))
