"""Choose which days to remove, and which old days must stay. Pure functions.

::

    tier      kept for  needed until then
    bronze    7 days    to rebuild an hour of silver for late events; to find duplicates
    silver    30 days   to rebuild a day of gold
    gold      2 years   for queries and reports
    bills     forever   they were stated to a tenant

Whole days are removed: of each tier all days before its horizon. So the first day that is still
needed also keeps all later days.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Final

from laps_analytics.errors import UsageError
from laps_analytics.ingest.hours import Hour
from laps_analytics.lake import Horizon

__all__ = ["FOREVER", "Decision", "KeptDays", "Periods", "day_before", "decide", "period"]

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


def day_before(day: str) -> str:
    """Return the day before a day."""
    return str(date.fromisoformat(day) - timedelta(days=1))
