"""One lake with the telemetry of three networks of real relays, for all tests that need one.

::

    recorded_network   0.1:0.1 > 0.2:0.1 > 0.3:0.1          tenant "show"
    reporting_viewers  0.4:0.1                              tenant "film"
    sold_network       0.5:0.1 > 0.6:0.1, 0.6:0.2 > 0.7:0.1  tenants "acme" and "globex"

The networks have no relay and no track in common, so each test reads the rows of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from pyspark.sql import SparkSession

from laps_analytics.gold.build import build, read_gold
from laps_analytics.gold.dimensions import Dimensions, TrackFacts
from laps_analytics.ingest.run import Summary, ingest
from laps_analytics.lake import Lake
from laps_wire.telemetry import Event
from testkit.logs import restored_logging
from testkit.recorded_network import Recorded, events_of, record
from testkit.reporting_viewers import Watched, watch
from testkit.sold_network import Sold, sell

__all__ = ["FILM", "SHOW", "RelayLake", "make_relay_lake"]

SHOW, FILM = "show", "film"
VIEWED = "0.4:0.1"
"""The Edge of the viewers that report."""
_TABLES = (
    *("traffic_1m", "traffic_1h", "traffic_1d", "link_quality_5m", "track_fanout_5m", "blame"),
    *("qoe_region_1m", "cache_eff_1h", "quality_1h", "usage_tenant_day"),
)


@dataclass(frozen=True)
class RelayLake:
    """The lake, and what the networks counted themselves."""

    lake: Lake
    summaries: tuple[Summary, Summary]
    """Of the ingest, and of the next one, which finds nothing new."""
    recorded: Recorded
    watched: Watched
    sold: Sold
    gold: dict[str, pd.DataFrame]

    def events(self) -> int:
        """Return the number of events that all relays wrote."""
        folders = (self.recorded.folder, self.watched.folder, self.sold.folder)
        return sum(1 for folder in folders for _ in events_of(folder))


def make_relay_lake(spark: SparkSession, folder: Path) -> RelayLake:
    """Run the networks, ingest their telemetry twice, and build gold tables."""
    with restored_logging():
        # The objects of every group are timed.
        recorded = asyncio.run(record(folder / "recorded", delivery_sample=1))
        watched = asyncio.run(watch(folder / "watched", node=VIEWED))
        sold = asyncio.run(sell(folder / "sold"))
    owners = {
        **dict.fromkeys(_tracks(recorded.events()), SHOW),
        **dict.fromkeys(_tracks(watched.events()), FILM),
        **{track: tenant for tenant, track in sold.tracks.items()},
    }
    assert set(owners.values()) == {SHOW, FILM, *sold.tracks}
    lake = Lake.open(folder / "lake", create=True)
    places = [recorded.folder, watched.folder, sold.folder]
    first, second = (ingest(lambda: spark, lake, places) for _ in range(2))
    facts = Dimensions(tracks={track: TrackFacts("", owner) for track, owner in owners.items()})
    build(spark, lake, dimensions=facts, tables=_TABLES)
    gold = {name: read_gold(spark, lake, name).toPandas() for name in _TABLES}
    return RelayLake(lake, (first, second), recorded, watched, sold, gold)


def _tracks(events: Iterable[Event]) -> set[str]:
    found = {getattr(event.body, "track", None) for event in events}
    return {track for track in found if track}
