"""Builds gold from silver: only days that changed, and a second run changes nothing.

Each gold table notes, day by day, what it was made from: a print of the silver files of that day
(and of the time before that it looks at), of the gold tables below it, and of the dimensions. A day
whose print is the same is left alone. Late data adds a silver file, so the print differs: the day
is built again, and so is every table that stands on it.
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
from laps_analytics.gold.dimensions import Dimensions
from laps_analytics.gold.recipes import RECIPES, Recipe, Scene
from laps_analytics.gold.silver import Silver, partitions_of, wanted
from laps_analytics.gold.tables import GOLD
from laps_analytics.gold.ways import ways_5m
from laps_analytics.lake import DataFile, Lake, Snapshot, read, write
from laps_analytics.schema import CLOCK, QUARANTINE, UNFIT, event_types, table_name

__all__ = ["Built", "Progress", "build", "days_of", "gold_name", "read_gold", "to_build"]

_AT_ONCE: Final = 7
"""Days that one Spark job builds: a month at once would not fit a small machine."""

Progress = Callable[[str, int, int], None]
"""Told the table, and how many of how many steps are done."""


@dataclass(frozen=True, slots=True)
class Built:
    """What a build did to a table."""

    table: str
    days: tuple[str, ...]
    """Days that were built; the others were as they should be."""
    seconds: float
    version: int
    """The version of the table now."""


def gold_name(table: str) -> str:
    """The name in the lake."""
    return f"gold/{table}"


def read_gold(
    spark: SparkSession, lake: Lake, table: str, days: Iterable[str] | None = None
) -> DataFrame:
    """A gold table, of some days or of all."""
    contract = GOLD[table]
    chosen = None if days is None else frozenset(days)
    frame = read(
        spark,
        lake.table(gold_name(table)),
        contract.schema(),
        where=None if chosen is None else lambda file: file.partition["dt"] in chosen,
    )
    return frame.select(*[item.name for item in contract.columns])


def days_of(lake: Lake) -> list[str]:
    """The days that silver has anything of, oldest first."""
    found: set[str] = set()
    for kind in event_types():
        found |= {dt for (dt,) in _silver(lake, kind).partitions("dt")}
    return sorted(found)


def to_build(
    lake: Lake, days: Iterable[str] | None = None, tables: Iterable[str] | None = None
) -> tuple[list[str], tuple[str, ...]]:
    """The days and tables that :func:`build` would look at; :class:`UsageError` if one is none.

    Needs no Spark: what cannot be built is said before that is started.
    """
    known = days_of(lake)
    chosen = known if days is None else sorted(set(days))
    if strange := [day for day in chosen if day not in known]:
        raise UsageError(
            f"there is no telemetry of {strange[0]}: the lake has"
            f" {known[0] + ' to ' + known[-1] if known else 'no day at all'}"
        )
    names = tuple(GOLD) if tables is None else tuple(tables)
    if unknown := [name for name in names if name not in GOLD]:
        raise UsageError(f"{unknown[0]} is not a gold table: {', '.join(GOLD)}")
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
    """Build what is stale of some days (None: of all that silver has), table by table.

    ``tables`` builds only some; what they stand on should be built before. ``again`` builds days
    that are not stale too. ``now_us`` is when a bill is closed.
    """
    chosen, names = to_build(lake, days, tables)
    moment = int(time.time() * 1e6) if now_us is None else now_us
    facts = dimensions or Dimensions()
    done: list[Built] = []
    work = _Work(spark, lake, facts, moment)
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


def _silver(lake: Lake, kind: str) -> Snapshot:
    return lake.table(f"silver/{table_name(kind)}").snapshot()


@dataclass(slots=True)
class _Work:
    """One build: what silver and gold hold is looked at once."""

    spark: SparkSession
    lake: Lake
    dimensions: Dimensions
    now_us: int
    silver: dict[str, Snapshot] = field(default_factory=dict)
    held: dict[tuple[str, ...], DataFrame] = field(default_factory=dict)
    """The ways of some days: several tables stand on them."""

    def close(self) -> None:
        """Let go of what was held."""
        for frame in self.held.values():
            frame.unpersist()

    def build(self, name: str, days: Sequence[str], *, again: bool) -> Built:
        began = time.monotonic()
        table = self.lake.table(gold_name(name))
        snapshot = table.snapshot()
        prints = {day: self._print(name, day) for day in days}
        stale = [
            day
            for day in days
            if again or snapshot.meta.get(_note(day), {}).get("print") != prints[day]
        ]
        version = snapshot.version
        recipe = RECIPES[name]
        for first in range(0, len(stale), _AT_ONCE):
            part = stale[first : first + _AT_ONCE]
            held: list[DataFrame] = []
            frame = recipe.make(self._scene(held, part), part)
            notes = {_note(day): self._origin(recipe, prints[day]) for day in part}
            replace = None if recipe.adds else [{"dt": day} for day in part]
            try:
                version = write(frame, table, partition_by=("dt",), replace=replace, meta=notes)
            finally:
                for used in held:
                    used.unpersist()
        return Built(name, tuple(stale), time.monotonic() - began, version)

    def _scene(self, held: list[DataFrame], days: Sequence[str]) -> Scene:
        def keep(frame: DataFrame) -> DataFrame:
            held.append(frame.persist())
            return held[-1]

        return Scene(
            self.spark,
            Silver.of_lake(self.spark, self.lake),
            self.dimensions,
            self.now_us,
            lambda name, days: read_gold(self.spark, self.lake, name, days),
            self._ways,
            keep,
            self._some("bronze/quarantine", QUARANTINE, {at for day in days for at in _came(day)}),
            self._some("silver/quarantine", UNFIT, set(days)),
            self._some("silver/clock", CLOCK, None),
        )

    def _ways(self, days: Sequence[str]) -> DataFrame:
        key = tuple(days)
        if key not in self.held:
            silver = Silver.of_lake(self.spark, self.lake)
            self.held[key] = ways_5m(silver, key, self.dimensions).persist()
        return self.held[key]

    def _some(self, name: str, schema: StructType, days: set[str] | None) -> DataFrame | None:
        """The rows of some days (None: of all) of a table of the pipeline; None if it has none."""
        table = self.lake.table(name)
        snapshot = table.snapshot()

        def chosen(file: DataFile) -> bool:
            return days is None or file.partition["dt"] in days

        if not any(map(chosen, snapshot.files.values())):
            return None
        return read(self.spark, table, schema, snapshot=snapshot, where=chosen)

    def _seen(self, kind: str) -> Snapshot:
        if kind not in self.silver:
            self.silver[kind] = _silver(self.lake, kind)
        return self.silver[kind]

    def _print(self, name: str, day: str) -> str:
        """What a day of a table is made from, in sixteen digits."""
        recipe = RECIPES[name]
        source: dict[str, Any] = {"recipe": [name, recipe.edition]}
        if recipe.uses_dimensions:
            source["dimensions"] = self.dimensions.as_dict()
        for kind, back in recipe.silver.items():
            needed = wanted([day], back)
            files = self._seen(kind).files.values()
            source[kind] = sorted(file.path for file in files if needed(*partitions_of(file)))
        if recipe.refused:
            # Who ever wrote is left out: a relay that is new makes no day of before stale.
            came = {"bronze/quarantine": _came(day), "silver/quarantine": (day,)}
            for refused, near in came.items():
                files = self.lake.table(refused).snapshot().files.values()
                source[refused] = sorted(
                    file.path for file in files if file.partition["dt"] in near
                )
        for lower, history in recipe.gold.items():
            meta = self.lake.table(gold_name(lower)).snapshot().meta
            source[lower] = [
                meta.get(_note(earlier), {}).get("print") for earlier in days_back(day, history)
            ]
        text = json.dumps(source, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def _origin(self, recipe: Recipe, mark: str) -> dict[str, Any]:
        versions = {table_name(kind): self._seen(kind).version for kind in recipe.silver}
        return {"print": mark, "silver": versions}


def _came(day: str) -> tuple[str, str]:
    """When lines of a day come: the same day, or the next."""
    return day, str(date.fromisoformat(day) + timedelta(days=1))


def _note(day: str) -> str:
    return f"built {day}"


def days_back(day: str, count: int) -> list[str]:
    """A day and those before it, ``count`` in all, oldest first."""
    last = date.fromisoformat(day)
    return [str(last - timedelta(days=step)) for step in reversed(range(count))]
