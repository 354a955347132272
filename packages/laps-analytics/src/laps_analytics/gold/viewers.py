"""One viewer is one viewer: what its relay and its player say of the same minute is not added up.

A relay reports on each client. If the player does so as well, it saw what the relay cannot: in a
minute in which a player reports, its reports stand for its session, and those of the relay count
for nothing there. In all other minutes the relay's do. Start-up is told once in the life of a
session: if the player tells it, the relay's is left out, in whichever minute of the day it stands.

What is billed stays with the relay: nobody pays, or is spared, for what a player says.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from laps_analytics.gold.common import window
from laps_analytics.gold.silver import Silver

__all__ = ["by_relays", "viewers"]

_SESSION: Final = ("dt", "relay", "boot", "session_id")
_PLAYER: Final = "measured_by = 'player'"


def by_relays(reports: DataFrame) -> DataFrame:
    """What relays measured; before telemetry 1.4 nobody else did."""
    return reports.where(f"NOT coalesce({_PLAYER}, false)")


def viewers(silver: Silver, days: Iterable[str]) -> DataFrame:
    """``client.report`` with nobody in it twice, and its minute in ``window_start``."""
    reports = silver.read("client.report", days).withColumn("window_start", window("ts", 60))
    players = reports.where(_PLAYER)
    minutes = players.select(*_SESSION, "window_start").distinct()
    told = (
        players.where("startup_ms IS NOT NULL")
        .select(*_SESSION)
        .distinct()
        .withColumn("told", F.lit(True))
    )
    relays = (
        by_relays(reports)
        .join(minutes, [*_SESSION, "window_start"], "left_anti")
        .join(told, [*_SESSION], "left")
        .withColumn("startup_ms", F.when(F.col("told").isNull(), F.col("startup_ms")))
    )
    return relays.select(*reports.columns).unionByName(players)
