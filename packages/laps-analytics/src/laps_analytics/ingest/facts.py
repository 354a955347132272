"""Summary of a batch, from a few columns of its files.

A micro-batch has few rows. Reading these columns with PyArrow costs less than three Spark jobs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from laps_analytics.ingest.hours import Hour, hour_of_file
from laps_analytics.lake import DataFile, Table

__all__ = ["Boot", "Facts", "facts_of"]

Boot = tuple[str, int]
"""A relay and one of its boots. Event numbers are unique within a boot."""

_COLUMNS: Final = ("relay", "boot", "event_seq", "ts_us", "shape", "batch", "seen_us")


@dataclass(slots=True)
class Facts:
    """Summary of the events of a batch."""

    numbers: dict[str, dict[Boot, tuple[int, int]]] = field(default_factory=dict)
    """Lowest and highest event number, by type and boot."""
    shapes: dict[str, set[str]] = field(default_factory=dict)
    """Shapes of bodies, by type."""
    copied: set[str] = field(default_factory=set)
    """Types with duplicates within the batch."""
    relays: list[dict[str, Any]] = field(default_factory=list)
    """One row for each relay and hour, as :func:`laps_analytics.ingest.clock.relay_rows` has it."""


def facts_of(table: Table, files: Iterable[DataFile]) -> Facts:
    """Return the summary of some files of ``bronze/events``."""
    found = Facts()
    kinds: defaultdict[str, list[DataFile]] = defaultdict(list)
    for file in files:
        kinds[file.partition["type"]].append(file)
    relays: dict[tuple[Hour, str], dict[str, Any]] = {}
    for kind, mine in sorted(kinds.items()):
        parts = []
        for file in mine:
            part = pq.ParquetFile(table.root / file.path).read(columns=list(_COLUMNS))
            _add_relays(relays, hour_of_file(file), part)
            parts.append(part)
        rows = pa.concat_tables(parts)
        found.shapes[kind] = set(rows["shape"].unique().to_pylist())
        numbers = rows.group_by(["relay", "boot"]).aggregate(
            [(("event_seq"), how) for how in ("min", "max", "count", "count_distinct")]
        )
        found.numbers[kind] = {}
        for row in numbers.to_pylist():
            span = row["event_seq_min"], row["event_seq_max"]
            found.numbers[kind][row["relay"], row["boot"]] = span
            if row["event_seq_count"] > row["event_seq_count_distinct"]:
                found.copied.add(kind)
    found.relays = list(relays.values())
    return found


def _add_relays(relays: dict[tuple[Hour, str], dict[str, Any]], hour: Hour, part: pa.Table) -> None:
    ahead = pa.compute.subtract(part["ts_us"], part["seen_us"])
    asked = [("ts_us", "count"), ("ts_us", "min"), ("ts_us", "max"), ("batch", "min")]
    rows = part.append_column("ahead", ahead).group_by(["relay"])
    rows = rows.aggregate([*asked, ("ahead", "max")])
    for row in rows.to_pylist():
        new = {
            "dt": hour[0],
            "hour": hour[1],
            "relay": row["relay"],
            "events": row["ts_us_count"],
            "first_us": row["ts_us_min"],
            "last_us": row["ts_us_max"],
            "first_batch": row["batch_min"],
            "ahead_us": row["ahead_max"],
        }
        old = relays.setdefault((hour, row["relay"]), new)
        if old is not new:
            _merge(old, new)


def _merge(old: dict[str, Any], new: Mapping[str, Any]) -> None:
    old["events"] += new["events"]
    for name in ("first_us", "first_batch"):
        old[name] = min(old[name], new[name])
    for name in ("last_us", "ahead_us"):
        old[name] = max(old[name], new[name])
