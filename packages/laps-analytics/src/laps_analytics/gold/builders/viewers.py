"""One viewer is one viewer: what its relay and its player say of the same minute is not added up.

A relay reports on each client. If the player does so as well, it saw what the relay cannot: in a
minute in which a player reports, its reports stand for its session, and those of the relay count
for nothing there. In all other minutes the relay's do. Start-up is told once in the life of a
session: if the player tells it, the relay's is left out, in whichever minute of the day it stands.

What a player sent elsewhere (by POST) has the collector's name on it, and in ``session_id`` the
mark :data:`POSTED`. If the player told its relay the id of its playback when it connected, both
have its hash, and the report is put where the relay has the viewer: of several sessions in a day,
the one that was nearest in time.

What is billed stays with the relay: nobody pays, or is spared, for what a player says.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from laps_analytics.gold.builders.common import window
from laps_analytics.gold.silver import Silver

__all__ = ["POSTED", "by_relays", "viewers"]

POSTED: Final = "posted:"
"""How the session of a report begins that did not come over a session."""

_SESSION: Final = ("dt", "relay", "boot", "session_id")
_PLACE: Final = ("region", "tenant", "track")
_PLAYER: Final = "measured_by = 'player'"


def by_relays(reports: DataFrame) -> DataFrame:
    """What relays measured; before telemetry 1.4 nobody else did."""
    return reports.where(f"NOT coalesce({_PLAYER}, false)")


def _placed(reports: DataFrame) -> DataFrame:
    """Reports that were sent elsewhere get the session that a relay has for their player."""
    posted = f"{_PLAYER} AND session_id LIKE '{POSTED}%'"
    sessions = (
        by_relays(reports)
        .where("player_session IS NOT NULL")
        .groupBy(*_SESSION, "player_session")
        .agg(
            F.min("window_start").alias("first"),
            F.max("window_start").alias("last"),
            F.max("region").alias("region"),
            F.max("tenant").alias("tenant"),
            F.max_by("track", "window_start").alias("track"),
        )
        .groupBy("dt", "player_session")
        .agg(F.collect_list(F.struct("first", "last", *_SESSION[1:], *_PLACE)).alias("sessions"))
    )
    # The nearest in time, then by name: structs are compared from the left.
    apart = (
        "greatest(unix_micros(s.first) - unix_micros(window_start),"
        " unix_micros(window_start) - unix_micros(s.last), 0L)"
    )
    parts = ", ".join(f"s.{name}" for name in (*_SESSION[1:], *_PLACE))
    near = F.expr(f"array_min(transform(sessions, s -> struct({apart} AS apart, {parts})))")
    found = (
        reports.where(posted)
        .join(sessions, ["dt", "player_session"], "left")
        .withColumn("near", near)
        .withColumns({name: F.coalesce(f"near.{name}", name) for name in _SESSION[1:]})
        .withColumns({name: F.coalesce(name, f"near.{name}") for name in ("tenant", "track")})
        .withColumn("region", F.coalesce("near.region", "region"))
    )
    others = reports.where(f"NOT coalesce({posted}, false)")
    return others.unionByName(found.select(*reports.columns))


def viewers(silver: Silver, days: Iterable[str]) -> DataFrame:
    """``client.report`` with nobody in it twice, and its minute in ``window_start``."""
    said = silver.read("client.report", days).withColumn("window_start", window("ts", 60))
    reports = _placed(said)
    # A session in the order of its minutes answers both questions: sorted once, nothing is joined.
    session = Window.partitionBy(*_SESSION).orderBy("window_start")
    minute = session.rangeBetween(Window.currentRow, Window.currentRow)
    day = session.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    player = F.coalesce(F.expr(_PLAYER), F.lit(False))
    seen = reports.withColumns(
        {
            "reported": F.bool_or(player).over(minute),
            "told": F.bool_or(player & F.col("startup_ms").isNotNull()).over(day),
        }
    )
    mine = player | ~F.col("told")
    return (
        seen.where(player | ~F.col("reported"))
        .withColumn("startup_ms", F.when(mine, F.col("startup_ms")))
        .select(*reports.columns)
    )
