"""Which days may go, and which must stay although they are old enough. Pure.

::

    tier      for      until then it is needed for
    bronze    7 days   making an hour of silver again when late events come; finding copies
    silver    30 days  building a day of gold again
    gold      2 years  answers
    bills     for ever what was stated to a tenant

Whole days go, and of each tier those before one day, its horizon. So the first day that is still
needed holds all that come after it.
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
"""Tables that are named where many lack a day."""


def period(text: str) -> int | None:
    """``7d``, ``4w``, ``2y`` as days; None for ``forever``."""
    if text == FOREVER:
        return None
    if (found := _PERIOD.fullmatch(text)) is None:
        raise UsageError(
            f"{text!r} is not a time to keep something: 7d, 4w, 2y, or {FOREVER};"
            " the least is 1d, for hours that are open and for copies"
        )
    return int(found[1]) * _DAYS[found[2]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Periods:
    """For how many days each tier is kept after the day itself; None: for ever."""

    bronze: int | None = 7
    silver: int | None = 30
    gold: int | None = 730
    bills: int | None = None

    def __post_init__(self) -> None:
        kept = {"silver": self.silver, "gold": self.gold, "bills": self.bills}
        for (lower, less), (upper, more) in pairwise(kept.items()):
            if more is not None and (less is None or less > more):
                raise UsageError(
                    f"{lower} would be kept for longer than {upper}, which is made from it:"
                    f" keep {upper} at least as long"
                )

    @classmethod
    def of(cls, text: str) -> Periods:
        """Those of bronze, silver and gold, as ``7d,30d,2y``; bills are kept."""
        parts = text.split(",")
        if len(parts) != 3:
            raise UsageError(f"{text!r} is not three times, of bronze, silver and gold: 7d,30d,2y")
        bronze, silver, gold = map(period, parts)
        return cls(bronze=bronze, silver=silver, gold=gold)


@dataclass(frozen=True, slots=True)
class KeptDays:
    """Days that are old enough to go, and stay."""

    tier: str
    first: str
    """From this day on."""
    reason: str


@dataclass(frozen=True, slots=True)
class Decision:
    """From which day on each tier is kept, and what holds it there."""

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
    """The new horizon. It is never before the one that is there.

    ``days`` are those of silver, and ``unbuilt`` says which gold tables lack one of them.
    ``open_hours`` got rows from a stream and are not made whole yet.
    """
    kept: list[KeptDays] = []
    bronze, silver = _due(now_us, periods.bronze), _due(now_us, periods.silver)
    if first := min(map(_needed_from, open_hours), default=""):
        why = "an hour that a stream left open is not made whole: run `laps-analytics ingest`"
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
        kept.append(KeptDays("gold", silver, "its silver is still there"))
        gold = silver
    bills = min(gold, _due(now_us, periods.bills))
    new = Horizon(bronze=bronze, silver=silver, gold=gold, bills=bills)
    return Decision(before.moved(new), tuple(kept))


def _due(now_us: int, days: int | None) -> str:
    """The first day that is kept; nothing is before the empty one."""
    if days is None:
        return ""
    today = datetime.fromtimestamp(now_us // 1_000_000, UTC).date()
    return str(today - timedelta(days=days))


def _needed_from(hour: Hour) -> str:
    """The horizon with which an hour may still be made: see :attr:`Horizon.accepted_from`."""
    at = datetime.strptime(f"{hour[0]} {hour[1]}", "%Y-%m-%d %H").replace(tzinfo=UTC)
    return str((at - timedelta(hours=2)).date())


def _not_built(tables: list[str]) -> str:
    some = ", ".join(tables[:_FEW]) + (f" and {len(tables) - _FEW} more" * (len(tables) > _FEW))
    return f"gold is not built from it ({some}): run `laps-analytics build`, or say --unbuilt"


def day_before(day: str) -> str:
    """The day before a day."""
    return str(date.fromisoformat(day) - timedelta(days=1))
