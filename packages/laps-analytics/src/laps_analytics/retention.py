"""Retention: remove the days of a lake that are older than their limits.

::

    limits, days of tables -> decide -> new horizon, kept days -> retain -> commits, deleted files

    tier      kept for  needed until then
    bronze    7 days    to rebuild an hour of silver for late events; to find duplicates
    silver    30 days   to rebuild a day of gold
    gold      2 years   for queries and reports
    bills     forever   they were stated to a tenant

:func:`decide` chooses the days and touches no file. Whole days are removed: of each tier all days
before its horizon. So the first day that is still needed also keeps all later days.

:func:`retain` removes the days. A killed run can be repeated at any point:

::

    horizon   _retention                  one commit: these days count as removed
    tables    each: one commit that removes the files
    files     deleted an hour later, when no reader needs them: by the next run or ingest

      killed                      state afterwards
      before the horizon          unchanged
      after it                    ingest and build treat the days as removed; the next run finds
                                  the same files before the horizon and commits their removal
      after the commits           removed files remain on disk; the next run deletes them

A run holds the lock of ingest and requires that no batch is unfinished, so it removes nothing that
a batch needs. Only the ``ingest`` and ``retain`` commands import this module. See
``docs/how-to/keep-a-lake-small.md``.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import unquote

from laps_analytics.errors import ConflictError, UsageError
from laps_analytics.gold.build import NOTE, Inputs, days_of, unbounded_kinds, unbuilt
from laps_analytics.ingest.hours import Hour
from laps_analytics.ingest.journal import Journal
from laps_analytics.lake import DataFile, Horizon, Lake, Table, horizon_of, move_horizon
from laps_analytics.schema import table_name

__all__ = [
    "FOREVER",
    "READERS_S",
    "Decision",
    "Periods",
    "Removed",
    "Retained",
    "decide",
    "period",
    "retain",
    "retain_locked",
]

# Decision

FOREVER: Final = "forever"
_PERIOD: Final = re.compile(r"([1-9][0-9]{0,4})([dwy])")
_DAYS: Final = {"d": 1, "w": 7, "y": 365}
_FEW: Final = 3
"""Number of tables that a message names."""


def period(text: str) -> int | None:
    """Return ``7d``, ``4w`` or ``2y`` in days; None for ``forever``."""
    if text == FOREVER:
        return None
    if (found := _PERIOD.fullmatch(text)) is None:
        raise UsageError(
            f"{text!r} is not a period: use days, weeks or years such as 7d, 4w or 2y, or"
            f" {FOREVER};"
            " the least is 1d"
        )
    return int(found[1]) * _DAYS[found[2]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Periods:
    """Days for which each tier is kept; None for ever."""

    bronze: int | None = 7
    silver: int | None = 30
    gold: int | None = 730
    bills: int | None = None

    def __post_init__(self) -> None:
        kept = {"silver": self.silver, "gold": self.gold, "bills": self.bills}
        for (lower, less), (upper, more) in pairwise(kept.items()):
            if more is not None and (less is None or less > more):
                raise UsageError(
                    f"{lower} would be kept longer than {upper}, which is built from it:"
                    f" keep {upper} at least as long"
                )

    @classmethod
    def of(cls, text: str) -> Periods:
        """Parse the periods of bronze, silver and gold, such as ``7d,30d,2y``. Bills are kept."""
        parts = text.split(",")
        if len(parts) != 3:
            raise UsageError(
                f"{text!r} is not three periods for bronze, silver and gold: write them as"
                " 7d,30d,2y"
            )
        bronze, silver, gold = map(period, parts)
        return cls(bronze=bronze, silver=silver, gold=gold)


@dataclass(frozen=True, slots=True)
class KeptDays:
    """Days that are old enough to be removed and stay, with the reason."""

    tier: str
    first: str
    """First of the days."""
    reason: str


@dataclass(frozen=True, slots=True)
class Decision:
    """The new horizon, and the old days that stay."""

    horizon: Horizon
    kept: tuple[KeptDays, ...]


def decide(
    now_us: int,
    periods: Periods,
    before: Horizon,
    *,
    days: Iterable[str],
    unbuilt: Callable[[str], list[str]],
    open_hours: Iterable[Hour],
) -> Decision:
    """Return the new horizon, which is never before the current one.

    ``days`` are the days of silver. ``unbuilt`` returns the gold tables that lack a day.
    ``open_hours`` have rows of a stream and are not rebuilt yet.
    """
    kept: list[KeptDays] = []
    bronze, silver = _due(now_us, periods.bronze), _due(now_us, periods.silver)
    if first := min(map(_needed_from, open_hours), default=""):
        why = "a stream left an hour open: run `laps-analytics ingest`"
        if bronze > first:
            bronze = first
            kept.append(KeptDays("bronze", first, why))
        if silver > first:
            silver = first
            kept.append(KeptDays("silver", first, why))
    for day in sorted(days):
        if before.silver <= day < silver and (tables := unbuilt(day)):
            silver = day
            kept.append(KeptDays("silver", day, _not_built(tables)))
            break
    gold = _due(now_us, periods.gold)
    # What silver still has would only be built again.
    if gold > silver:
        kept.append(KeptDays("gold", silver, "its silver is kept"))
        gold = silver
    bills = min(gold, _due(now_us, periods.bills))
    new = Horizon(bronze=bronze, silver=silver, gold=gold, bills=bills)
    return Decision(before.moved(new), tuple(kept))


def _due(now_us: int, days: int | None) -> str:
    """Return the first day to keep; empty to keep all."""
    if days is None:
        return ""
    today = datetime.fromtimestamp(now_us // 1_000_000, UTC).date()
    return str(today - timedelta(days=days))


def _needed_from(hour: Hour) -> str:
    """Return the latest horizon with which an hour can be rebuilt.

    See :attr:`Horizon.accepted_from`.
    """
    at = datetime.strptime(f"{hour[0]} {hour[1]}", "%Y-%m-%d %H").replace(tzinfo=UTC)
    return str((at - timedelta(hours=2)).date())


def _not_built(tables: list[str]) -> str:
    some = ", ".join(tables[:_FEW]) + (f" and {len(tables) - _FEW} more" * (len(tables) > _FEW))
    return f"it is not built into gold ({some}): run `laps-analytics build`, or give --unbuilt"


def _day_before(day: str) -> str:
    """Return the day before a day."""
    return str(date.fromisoformat(day) - timedelta(days=1))


# Removal

READERS_S: Final = 3600.0
"""Seconds for which a removed file stays on disk for its readers."""
_BILLS: Final = "gold/usage_tenant_day"
_LAST_HOUR: Final = "23"
_NOTES: Final = timedelta(days=60)
"""Time for which a table keeps its note about a day of gold. Later days look back at it."""


@dataclass(frozen=True, slots=True)
class Removed:
    """Files that a run removed from a table."""

    table: str
    days: tuple[str, ...]
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Retained:
    """Result of a run, or of a dry run."""

    horizon: Horizon
    removed: tuple[Removed, ...]
    kept: tuple[KeptDays, ...]
    deleted: int
    """Number of files deleted from disk; earlier runs may have removed them from their tables."""

    def as_dict(self) -> dict[str, Any]:
        """Return the result as JSON-compatible data."""
        return asdict(self)


def retain(
    lake: Lake,
    periods: Periods,
    *,
    now_us: int | None = None,
    any_built: bool = False,
    dry: bool = False,
    readers_s: float = READERS_S,
    progress: Callable[[str], None] = lambda _: None,
) -> Retained:
    """Remove days older than their limits; with ``dry``, only return what would be removed.

    ``any_built`` includes days that are not built into gold. ``readers_s`` is the time for which
    removed files stay on disk.
    """
    journal = Journal(lake)
    with journal.locked():
        return retain_locked(
            lake,
            journal,
            periods,
            now_us=time.time_ns() // 1000 if now_us is None else now_us,
            any_built=any_built,
            dry=dry,
            readers_s=readers_s,
            progress=progress,
        )


def retain_locked(
    lake: Lake,
    journal: Journal,
    periods: Periods,
    *,
    now_us: int,
    any_built: bool = False,
    dry: bool = False,
    readers_s: float = READERS_S,
    progress: Callable[[str], None] = lambda _: None,
) -> Retained:
    """Do the same for a caller that holds the lock of ingest.

    Raises :class:`ConflictError` if a batch is unfinished.
    """
    if journal.state.get("batch") is not None:
        raise ConflictError(
            f"an ingest into {lake.root} is unfinished: run `laps-analytics ingest` first"
        )
    inputs = Inputs(lake)
    found = decide(
        now_us,
        periods,
        horizon_of(lake),
        days=days_of(lake),
        unbuilt=(lambda _: []) if any_built else (lambda day: unbuilt(lake, day, inputs)),
        open_hours=[(dt, hour) for dt, hour in journal.state.get("dirty") or ()],
    )
    if dry:
        return _result(
            found, [_expired(lake.table(name), found.horizon)[0] for name in _tables(lake)]
        )
    move_horizon(lake, found.horizon)
    progress("horizon")
    done = []
    for name in _tables(lake):
        done.append(_commit_removal(lake.table(name), found.horizon))
        progress(name)
    deleted = sum(_delete(lake.table(name), found.horizon, readers_s) for name in _tables(lake))
    return _result(found, done, deleted)


def _result(found: Decision, done: list[Removed], deleted: int = 0) -> Retained:
    return Retained(found.horizon, tuple(item for item in done if item.files), found.kept, deleted)


def _tables(lake: Lake) -> list[str]:
    return [name for name in lake.tables() if not name.startswith("_")]


def _is_kept(table: str, horizon: Horizon, partition: dict[str, str]) -> bool:
    """Return whether a partition lies on or after the horizon."""
    day = partition["dt"]
    tier, _, name = table.partition("/")
    if tier == "gold":
        return day >= (horizon.bills if table == _BILLS else horizon.gold)
    if table in {"bronze/events", "bronze/qlog"}:
        return day >= horizon.bronze
    if tier == "silver" and name in {table_name(kind) for kind in unbounded_kinds()}:
        return True
    # Lines that could not be read are part of what silver's days are judged by.
    if day >= horizon.silver or tier == "bronze":
        return day >= horizon.silver
    # A day of gold looks back at the hour before it: the first that is kept must not be stale.
    return day == _day_before(horizon.silver) and partition["hour"] == _LAST_HOUR


def _expired(table: Table, horizon: Horizon) -> tuple[Removed, list[DataFile]]:
    files = [
        file
        for file in table.snapshot().files.values()
        if not _is_kept(table.name, horizon, dict(file.partition))
    ]
    days = sorted({file.partition["dt"] for file in files})
    size = sum(file.bytes for file in files)
    return Removed(table.name, tuple(days), len(files), size), files


def _commit_removal(table: Table, horizon: Horizon) -> Removed:
    """Commit the removal of files before the horizon."""
    base = table.snapshot()
    removed, files = _expired(table, horizon)
    notes: dict[str, Any] = {}
    if horizon.gold and table.name.startswith("gold/") and table.name != _BILLS:
        oldest = NOTE + str(date.fromisoformat(horizon.gold) - _NOTES)
        notes = {key: None for key in base.meta if key.startswith(NOTE) and key < oldest}
    if files or notes:
        table.commit(None, base=base, remove=[file.path for file in files], meta=notes)
    return removed


def _delete(table: Table, horizon: Horizon, readers_s: float) -> int:
    """Delete removed files and return their number. Of gold, only files before the horizon."""

    def is_gone(path: str) -> bool:
        partition = dict(unquote(part).split("=", 1) for part in PurePosixPath(path).parts[:-1])
        return not _is_kept(table.name, horizon, partition)

    if table.name.startswith("gold/"):
        gone = table.purge(is_gone, older_than=readers_s)
    else:
        gone = table.sweep(older_than=readers_s)
    for path in gone:
        if is_gone(path):
            # Only where nobody will write again.
            folder = (table.root / path).parent
            while folder != table.root:
                with contextlib.suppress(OSError):
                    folder.rmdir()
                folder = folder.parent
    return len(gone)
