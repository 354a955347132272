"""From which day on a lake keeps what: the log of retention.

::

    lake/_retention/_log/00000000000000000001.json    the first day of bronze, silver and gold

A day before a horizon is gone, whether its files are gone already or not. So the horizon is moved
first, in one commit, and files follow, table by table: whoever reads or writes in between treats a
day that is half removed like one that is. A horizon never moves back.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Final

from laps_analytics.lake.table import Lake

__all__ = ["Horizon", "horizon_of", "move_horizon"]

_TABLE: Final = "_retention"
_APART: Final = timedelta(hours=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """The first day that is kept of each tier, yyyy-mm-dd; empty: nothing was ever removed."""

    bronze: str = ""
    silver: str = ""
    gold: str = ""
    bills: str = ""

    @property
    def accepted_from(self) -> tuple[str, str] | None:
        """The first hour, as partitions name it, that may still get events; None: any.

        An hour of silver is made from all of its bronze, and from that of its neighbours if clocks
        were wrong, by less than an hour. So of what is kept the first two hours are not made again:
        the first lacks a neighbour, and events of the second may belong into the first.
        """
        first = max(self.bronze, self.silver)
        if not first:
            return None
        at = datetime.fromisoformat(first) + _APART
        return f"{at:%Y-%m-%d}", f"{at:%H}"

    def moved(self, to: Horizon) -> Horizon:
        """The later of both, tier by tier."""
        ours, theirs = asdict(self), asdict(to)
        return Horizon(**{tier: max(day, theirs[tier]) for tier, day in ours.items()})


def horizon_of(lake: Lake) -> Horizon:
    """What the log says now."""
    meta = lake.table(_TABLE).snapshot().meta
    return Horizon(**{tier: str(meta.get(tier, "")) for tier in asdict(Horizon())})


def move_horizon(lake: Lake, to: Horizon) -> None:
    """Note a horizon, in one step; what is noted already is not noted again."""
    table = lake.table(_TABLE)
    if horizon_of(lake) != to:
        table.commit(None, base=table.snapshot(), meta=asdict(to))
