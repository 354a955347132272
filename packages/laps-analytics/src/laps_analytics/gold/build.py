"""Build gold tables from silver, for the days whose input changed.

Each gold table records a *fingerprint* of the input of each day: silver files, lower gold tables
and dimensions. :class:`Inputs` computes it from the logs of a lake, without Spark. A day with the
same fingerprint is skipped. Late data adds a silver file, so the fingerprint changes; the day is
built again, and so is every table above it. Days whose silver was removed are not built again.

A second fingerprint leaves out the dimensions. So retention, which has no dimensions, can tell
whether all silver of a day is in gold.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from laps_analytics.errors import UsageError
from laps_analytics.gold import recipes
from laps_analytics.gold.builders.traffic import paths_5m
from laps_analytics.gold.dimensions import Dimensions, store_dimensions, stored_dimensions
from laps_analytics.gold.recipes import RECIPES, BuildContext
from laps_analytics.gold.silver import Silver, partitions_of, wanted
from laps_analytics.gold.tables import GOLD
from laps_analytics.lake import DataFile, Lake, Snapshot, horizon_of, read, write
from laps_analytics.schema import CLOCK, QUARANTINE, UNFIT, event_types, table_name

__all__ = [
    "NOTE",
    "Built",
    "Inputs",
    "Progress",
    "build",
    "days_of",
    "gold_name",
    "note",
    "read_gold",
    "to_build",
    "unbounded_kinds",
    "unbuilt",
]

# Inputs of each day

NOTE: Final = "built "
"""Prefix of the metadata key of a day."""


def gold_name(table: str) -> str:
    """Return the name of a gold table in the lake."""
    return f"gold/{table}"


def note(day: str) -> str:
    """Return the metadata key for the input of a day."""
    return f"{NOTE}{day}"


def _arrival_days(day: str) -> tuple[str, str]:
    """Return the days on which lines of a day arrive: the same and the next."""
    return day, str(date.fromisoformat(day) + timedelta(days=1))


def _days_back(day: str, count: int) -> list[str]:
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


def _require_days(lake: Lake, days: list[str] | None) -> list[str]:
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
            near = {"bronze/quarantine": _arrival_days(day), "silver/quarantine": (day,)}
            for refused, arrived in near.items():
                files = self._lake.table(refused).snapshot().files.values()
                source[refused] = sorted(
                    file.path for file in files if file.partition["dt"] in arrived
                )
        for lower, history in recipe.gold.items():
            meta = self._lake.table(gold_name(lower)).snapshot().meta
            source[lower] = [
                meta.get(note(earlier), {}).get("print") for earlier in _days_back(day, history)
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


# Build

_AT_ONCE: Final = 7
"""Days that one Spark job builds. A month at once would not fit a small machine."""

Progress = Callable[[str, int, int], None]
"""Called with the table, the number of steps done and the number of all steps."""


@dataclass(frozen=True, slots=True)
class Built:
    """Result of a build for one table."""

    table: str
    days: tuple[str, ...]
    """Days that were built; the others were up to date."""
    seconds: float
    version: int
    """Version of the table after the build."""


def read_gold(
    spark: SparkSession, lake: Lake, table: str, days: Iterable[str] | None = None
) -> DataFrame:
    """Return a gold table, of some days or of all."""
    contract = GOLD[table]
    chosen = None if days is None else frozenset(days)
    frame = read(
        spark,
        lake.table(gold_name(table)),
        contract.schema(),
        where=None if chosen is None else lambda file: file.partition["dt"] in chosen,
    )
    return frame.select(*[item.name for item in contract.columns])


def to_build(
    lake: Lake, days: Iterable[str] | None = None, tables: Iterable[str] | None = None
) -> tuple[list[str], tuple[str, ...]]:
    """Return the days and tables that :func:`build` would check, without starting Spark.

    Raises :class:`UsageError` for an unknown day or table.
    """
    chosen = _require_days(lake, None if days is None else sorted(set(days)))
    names = tuple(GOLD) if tables is None else tuple(tables)
    if unknown := [name for name in names if name not in GOLD]:
        raise UsageError(f"{unknown[0]} is not a gold table: choose from {', '.join(GOLD)}")
    return chosen, names


def build(
    spark: SparkSession,
    lake: Lake,
    days: Iterable[str] | None = None,
    *,
    dimensions: Dimensions | None = None,
    tables: Iterable[str] | None = None,
    now_us: int | None = None,
    again: bool = False,
    progress: Progress | None = None,
) -> list[Built]:
    """Build the stale days of each table; ``days`` None means all days of silver.

    ``tables`` selects some tables; the tables below them must be up to date. ``again`` also builds
    days that are not stale. ``now_us`` is the closing time of bills. ``dimensions`` are stored in
    the lake; without them the stored ones apply.
    """
    chosen, names = to_build(lake, days, tables)
    moment = int(time.time() * 1e6) if now_us is None else now_us
    if dimensions is not None:
        store_dimensions(lake, dimensions)
    facts = dimensions or stored_dimensions(lake) or Dimensions()
    done: list[Built] = []
    work = _Build(spark, lake, facts, moment, Inputs(lake))
    try:
        for step, name in enumerate(recipes.ORDER):
            if name in names:
                if progress is not None:
                    progress(name, step, len(recipes.ORDER))
                done.append(work.build(name, chosen, again=again))
    finally:
        work.close()
    if progress is not None:
        progress("", len(recipes.ORDER), len(recipes.ORDER))
    return done


@dataclass(slots=True)
class _Build:
    """One build. Snapshots of silver are read once."""

    spark: SparkSession
    lake: Lake
    dimensions: Dimensions
    now_us: int
    inputs: Inputs
    held: dict[tuple[str, ...], DataFrame] = field(default_factory=dict)
    """Traffic by path of some days, which several tables share."""

    def close(self) -> None:
        """Release the cached frames."""
        for frame in self.held.values():
            frame.unpersist()

    def build(self, name: str, days: Sequence[str], *, again: bool) -> Built:
        began = time.monotonic()
        table = self.lake.table(gold_name(name))
        snapshot = table.snapshot()
        fingerprints = {day: self.inputs.fingerprint(name, day, self.dimensions) for day in days}
        stale = [
            day
            for day in days
            if again or snapshot.meta.get(note(day), {}).get("print") != fingerprints[day]
        ]
        version = snapshot.version
        recipe = RECIPES[name]
        for first in range(0, len(stale), _AT_ONCE):
            part = stale[first : first + _AT_ONCE]
            held: list[DataFrame] = []
            frame = recipe.make(self._context(held, part), part)
            notes = {note(day): self._origin(name, day, fingerprints[day]) for day in part}
            replace = None if recipe.adds else [{"dt": day} for day in part]
            try:
                version = write(frame, table, partition_by=("dt",), replace=replace, meta=notes)
            finally:
                for used in held:
                    used.unpersist()
        return Built(name, tuple(stale), time.monotonic() - began, version)

    def _context(self, held: list[DataFrame], days: Sequence[str]) -> BuildContext:
        def keep(frame: DataFrame) -> DataFrame:
            held.append(frame.persist())
            return held[-1]

        return BuildContext(
            self.spark,
            Silver.of_lake(self.spark, self.lake),
            self.dimensions,
            self.now_us,
            lambda name, days: read_gold(self.spark, self.lake, name, days),
            self._paths,
            keep,
            self._some(
                "bronze/quarantine", QUARANTINE, {at for day in days for at in _arrival_days(day)}
            ),
            self._some("silver/quarantine", UNFIT, set(days)),
            self._some("silver/clock", CLOCK, None),
        )

    def _paths(self, days: Sequence[str]) -> DataFrame:
        key = tuple(days)
        if key not in self.held:
            silver = Silver.of_lake(self.spark, self.lake)
            self.held[key] = paths_5m(silver, key, self.dimensions).persist()
        return self.held[key]

    def _some(self, name: str, schema: StructType, days: set[str] | None) -> DataFrame | None:
        """Return rows of some days (None for all) of a table of ingest; None if there are none."""
        table = self.lake.table(name)
        snapshot = table.snapshot()

        def chosen(file: DataFile) -> bool:
            return days is None or file.partition["dt"] in days

        if not any(map(chosen, snapshot.files.values())):
            return None
        return read(self.spark, table, schema, snapshot=snapshot, where=chosen)

    def _origin(self, name: str, day: str, mark: str) -> dict[str, Any]:
        kinds = RECIPES[name].silver
        versions = {table_name(kind): self.inputs.silver(kind).version for kind in kinds}
        return {"print": mark, "data": self.inputs.data_fingerprint(name, day), "silver": versions}
