"""One viewer is one viewer, for the planner: the rule of ``gold.viewers``, without Spark.

In a minute in which a player reports, its reports stand for its session, and those of the relay
count for nothing there; and what a player sent elsewhere is put where its relay has it. That both
say the same of the same reports is tested.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from laps_analytics.gold.viewers import POSTED

__all__ = ["COLUMNS", "SESSION", "is_posted", "one_viewer"]

SESSION: Final = ("relay", "boot", "session_id")
COLUMNS: Final = ("ts", *SESSION, "measured_by", "player_session", "region", "track")
"""What it is told by."""
_MINUTE_US: Final = 60_000_000


def one_viewer(reports: pa.Table) -> pa.Table:
    """Reports with nobody in them twice; ``ts`` is in microseconds."""
    placed = _placed(reports)
    minute = pc.divide(placed["ts"], _MINUTE_US)
    parts = [*(placed[name].cast(pa.string()) for name in SESSION), minute.cast(pa.string())]
    key = pc.binary_join_element_wise(*parts, " ")
    player = _by_players(placed)
    told = pc.is_in(key, pc.unique(key.filter(player)))
    return placed.filter(pc.or_(player, pc.invert(told)))


def is_posted(reports: pa.Table) -> Any:
    """Which of them players sent elsewhere than to their relay."""
    return pc.and_(_by_players(reports), pc.starts_with(reports["session_id"], POSTED))


def _by_players(reports: pa.Table) -> Any:
    return pc.fill_null(pc.equal(reports["measured_by"], "player"), False)


def _placed(reports: pa.Table) -> pa.Table:
    """Reports that were sent elsewhere get the session that a relay has for their player."""
    elsewhere = is_posted(reports)
    posted = reports.filter(elsewhere)
    if not posted.num_rows:
        return reports
    others = reports.filter(pc.invert(elsewhere))
    known = others.filter(
        pc.and_(pc.is_valid(others["player_session"]), pc.invert(_by_players(others)))
    )
    sessions: dict[str, dict[tuple[Any, ...], list[dict[str, Any]]]] = {}
    for row in known.select(COLUMNS).sort_by("ts").to_pylist():
        own = sessions.setdefault(row["player_session"], {})
        own.setdefault(tuple(row[name] for name in SESSION), []).append(row)

    def near(row: dict[str, Any]) -> dict[str, Any]:
        own = sessions.get(row["player_session"], {})
        if not own:
            return row
        at = row["ts"] // _MINUTE_US

        def apart(name: tuple[Any, ...]) -> int:
            first, last = (own[name][end]["ts"] // _MINUTE_US for end in (0, -1))
            return int(max(first - at, at - last, 0))

        rows = own[min(own, key=lambda name: (apart(name), name))]
        last = rows[-1]
        place = {name: last[name] for name in SESSION}
        region = row["region"] if last["region"] is None else last["region"]
        return {**row, **place, "region": region, "track": row["track"] or last["track"]}

    moved = [near(row) for row in posted.to_pylist()]
    return pa.concat_tables([others, pa.Table.from_pylist(moved, schema=others.schema)])
