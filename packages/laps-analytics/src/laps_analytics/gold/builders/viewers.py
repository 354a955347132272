"""Client reports with each viewer counted once.

A relay reports on each client, and a player may report as well. In a minute in which the player
reports, its reports replace those of the relay. Start-up is reported once for each session: if the
player reports it, the value of the relay is dropped for the day.

A report that a player posted elsewhere carries the name of the collector, and a ``session_id`` that
begins with :data:`POSTED`. If the player gave its relay the same playback id, both have its hash.
The report is then assigned to the session of the viewer at that relay; of several sessions in a
day, to the nearest in time.

Bills use the reports of relays only, so a player cannot change them.
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
"""Prefix of the session of a report that was posted."""

_SESSION: Final = ("dt", "relay", "boot", "session_id")
_PLACE: Final = ("region", "tenant", "track")
_PLAYER: Final = "measured_by = 'player'"


def by_relays(reports: DataFrame) -> DataFrame:
    """Return the reports that relays measured; before telemetry 1.4 these are all."""
    return reports.where(f"NOT coalesce({_PLAYER}, false)")


def _placed(reports: DataFrame) -> DataFrame:
    """Assign posted reports to the session that a relay has for their player."""
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
    """Return ``client.report`` with each viewer once, and its minute in ``window_start``."""
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
