"""Input of each day of a gold table, from the logs of a lake; without Spark.

Each table records a *fingerprint* of its input for each day, by which a build finds stale days. A
second fingerprint leaves out the dimensions. So retention, which has no dimensions, can tell
whether all silver of a day is in gold.
"""

from __future__ import annotations

import hashlib
import json
from datetime import date, timedelta
from typing import Any, Final

from laps_analytics.errors import UsageError
from laps_analytics.gold.dimensions import Dimensions
from laps_analytics.gold.recipes import RECIPES
from laps_analytics.gold.silver import partitions_of, wanted
from laps_analytics.gold.tables import GOLD
from laps_analytics.lake import Lake, Snapshot, horizon_of
from laps_analytics.schema import event_types, table_name

__all__ = [
    "NOTE",
    "Inputs",
    "arrival_days",
    "days_back",
    "days_of",
    "gold_name",
    "note",
    "require_days",
    "unbounded_kinds",
    "unbuilt",
]

NOTE: Final = "built "
"""Prefix of the metadata key of a day."""


def gold_name(table: str) -> str:
    """Return the name of a gold table in the lake."""
    return f"gold/{table}"


def note(day: str) -> str:
    """Return the metadata key for the input of a day."""
    return f"{NOTE}{day}"


def arrival_days(day: str) -> tuple[str, str]:
    """Return the days on which lines of a day arrive: the same and the next."""
    return day, str(date.fromisoformat(day) + timedelta(days=1))


def days_back(day: str, count: int) -> list[str]:
    """Return a day and the days before it, ``count`` in all, oldest first."""
    last = date.fromisoformat(day)
    return [str(last - timedelta(days=step)) for step in reversed(range(count))]


def days_of(lake: Lake) -> list[str]:
    """Return the days of silver, oldest first, without removed and partly removed ones."""
    first = horizon_of(lake).silver
    found: set[str] = set()
    for kind in event_types():
        table = lake.table(f"silver/{table_name(kind)}")
        found |= {dt for (dt,) in table.snapshot().partitions("dt") if dt >= first}
    return sorted(found)


def require_days(lake: Lake, days: list[str] | None) -> list[str]:
    """Return the days to build: the given ones, or all.

    Raises :class:`UsageError` if silver lacks a day.
    """
    known = days_of(lake)
    for day in days or ():
        if day not in known:
            if day < (first := horizon_of(lake).silver):
                raise UsageError(
                    f"the silver tables of {day} were removed, and days from {first} on are kept:"
                    f" name a later day; the gold tables of {day} do not change"
                )
            span = f"{known[0]} to {known[-1]}" if known else "no day, run `laps-analytics ingest`"
            raise UsageError(f"there is no telemetry of {day}: the lake has {span}")
    return known if days is None else days


def unbounded_kinds() -> frozenset[str]:
    """Return the event types that some table reads from any earlier time."""
    return frozenset(
        kind for recipe in RECIPES.values() for kind, back in recipe.silver.items() if back == "all"
    )


class Inputs:
    """Fingerprints of the input of days. Snapshots of silver are read once."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._silver: dict[str, Snapshot] = {}

    def silver(self, kind: str) -> Snapshot:
        """Return the snapshot of the silver table of an event type."""
        if kind not in self._silver:
            self._silver[kind] = self._lake.table(f"silver/{table_name(kind)}").snapshot()
        return self._silver[kind]

    def fingerprint(self, name: str, day: str, dimensions: Dimensions) -> str:
        """Return the fingerprint of the input of a day, in sixteen digits."""
        recipe = RECIPES[name]
        source: dict[str, Any] = {"recipe": [name, recipe.edition], **self._tables(name, day)}
        if recipe.uses_dimensions:
            source["dimensions"] = dimensions.as_dict()
        return _digest(source)

    def data_fingerprint(self, name: str, day: str) -> str:
        """Return the fingerprint without the dimensions and the recipe."""
        return _digest(self._tables(name, day))

    def _tables(self, name: str, day: str) -> dict[str, Any]:
        recipe = RECIPES[name]
        source: dict[str, Any] = {}
        for kind, back in recipe.silver.items():
            needed = wanted([day], back)
            files = self.silver(kind).files.values()
            source[kind] = sorted(file.path for file in files if needed(*partitions_of(file)))
        if recipe.refused:
            # Who ever wrote is left out: a relay that is new makes no day of before stale.
            near = {"bronze/quarantine": arrival_days(day), "silver/quarantine": (day,)}
            for refused, arrived in near.items():
                files = self._lake.table(refused).snapshot().files.values()
                source[refused] = sorted(
                    file.path for file in files if file.partition["dt"] in arrived
                )
        for lower, history in recipe.gold.items():
            meta = self._lake.table(gold_name(lower)).snapshot().meta
            source[lower] = [
                meta.get(note(earlier), {}).get("print") for earlier in days_back(day, history)
            ]
        return source


def unbuilt(lake: Lake, day: str, inputs: Inputs) -> list[str]:
    """Return the gold tables that lack a day, or were built from other data."""
    found = []
    for name in GOLD:
        stated = lake.table(gold_name(name)).snapshot().meta.get(note(day))
        # Notes of before there were such prints: that the day was built is all that they say.
        if stated is None or stated.get("data", mine := inputs.data_fingerprint(name, day)) != mine:
            found.append(name)
    return found


def _digest(source: dict[str, Any]) -> str:
    text = json.dumps(source, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
