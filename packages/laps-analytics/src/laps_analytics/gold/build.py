"""Build gold tables from silver, for the days whose input changed.

Each gold table records a fingerprint of the input of each day: silver files, lower gold tables and
dimensions. A day with the same fingerprint is skipped. Late data adds a silver file, so the
fingerprint changes; the day is built again, and so is every table above it
(:mod:`laps_analytics.gold.inputs`). Days whose silver was removed are not built again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from laps_analytics.errors import UsageError
from laps_analytics.gold import recipes
from laps_analytics.gold.builders.hops import paths_5m
from laps_analytics.gold.dimensions import Dimensions, store_dimensions, stored_dimensions
from laps_analytics.gold.inputs import Inputs, arrival_days, days_of, gold_name, note, require_days
from laps_analytics.gold.recipes import RECIPES, BuildContext
from laps_analytics.gold.silver import Silver
from laps_analytics.gold.tables import GOLD
from laps_analytics.lake import DataFile, Lake, read, write
from laps_analytics.schema import CLOCK, QUARANTINE, UNFIT, table_name

__all__ = ["Built", "Progress", "build", "days_of", "gold_name", "read_gold", "to_build"]

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
    chosen = require_days(lake, None if days is None else sorted(set(days)))
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
                "bronze/quarantine", QUARANTINE, {at for day in days for at in arrival_days(day)}
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
