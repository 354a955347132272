"""One viewer is one viewer, for the planner: the rule of ``gold.viewers``, without Spark.

In a minute in which a player reports, its reports stand for its session, and those of the relay
count for nothing there. That both say the same of the same reports is tested.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["COLUMNS", "SESSION", "one_viewer"]

SESSION: Final = ("relay", "boot", "session_id")
COLUMNS: Final = ("ts", *SESSION, "measured_by")
"""What it is told by."""
_MINUTE_US: Final = 60_000_000


def one_viewer(reports: pa.Table) -> pa.Table:
    """Reports with nobody in them twice; ``ts`` is in microseconds."""
    minute = pc.divide(reports["ts"], _MINUTE_US)
    parts = [*(reports[name].cast(pa.string()) for name in SESSION), minute.cast(pa.string())]
    key = pc.binary_join_element_wise(*parts, " ")
    player = pc.fill_null(pc.equal(reports["measured_by"], "player"), False)
    told = pc.is_in(key, pc.unique(key.filter(player)))
    return reports.filter(pc.or_(player, pc.invert(told)))
