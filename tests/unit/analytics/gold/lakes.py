"""A lake with silver tables, made without the pipeline: gold is tested alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from laps_analytics.gold.build import gold_name
from laps_analytics.gold.dimensions import Dimensions, TrackFacts
from laps_analytics.gold.silver import stored_type
from laps_analytics.gold.tables import GOLD
from laps_analytics.lake import Lake, write_rows
from laps_analytics.schema import table_name
from laps_wire.telemetry import Event, load_line
from testkit.gold_world import SKEW_US, TRACKS, World

DIMENSIONS = Dimensions(
    tracks={TRACKS[0]: TrackFacts("gold"), TRACKS[1]: TrackFacts("bronze", "initech")},
    relays={"e0:1": 500_000.0},
    links={("e0:1", "v1:1"): 100_000.0},
)
NOW_US = 77


@dataclass(frozen=True)
class Scene:
    """A lake with everything built, and what it is from."""

    world: World
    lines: Path
    lake: Lake


Rows = Callable[[str], list[dict[str, Any]]]


def rows_of(lake: Lake, name: str) -> list[dict[str, Any]]:
    """A gold table as Python has it; read without Spark, which is slow to begin."""
    table = lake.table(gold_name(name))
    found: list[dict[str, Any]] = []
    for file in table.snapshot().files.values():
        rows = pq.ParquetFile(table.root / file.path).read().to_pylist()
        found += [{"dt": file.partition["dt"], **row} for row in rows]
    keys = GOLD[name].keys
    return sorted(found, key=lambda row: [str(row[key]) for key in keys])


def silver_row(event: Event, *, late: bool = False) -> dict[str, Any]:
    """The row of silver that an event becomes."""
    skew = SKEW_US.get(event.relay, 0)
    at = datetime.fromtimestamp((event.ts_us - skew) // 1_000_000, UTC)
    micros = (event.ts_us - skew) % 1_000_000
    plain = event.as_dict()
    return {
        "event_id": event.event_id,
        "relay": event.relay,
        "boot": event.boot,
        "event_seq": event.seq,
        "ts_us": event.ts_us,
        "ts": f"{at:%Y-%m-%dT%H:%M:%S}.{micros:06}Z",
        "skew_us": skew,
        "late": late,
        "tenant": event.tenant,
        "region": event.region,
        **plain["body"],
        "dt": f"{at:%Y-%m-%d}",
        "hour": f"{at:%H}",
    }


def silver_rows(lines: Iterable[str], late: frozenset[str]) -> dict[str, list[dict[str, Any]]]:
    """Silver by event type: each event once, whatever the order of its copies."""
    rows: dict[str, dict[str, dict[str, Any]]] = {}
    for line in lines:
        event = load_line(line)
        row = silver_row(event, late=event.event_id in late)
        rows.setdefault(event.type, {})[event.event_id] = row
    return {kind: list(known.values()) for kind, known in rows.items()}


def frames(
    spark: SparkSession, lines: Iterable[str], late: frozenset[str], folder: Path
) -> dict[str, DataFrame]:
    """Silver by event type as frames."""
    found = {}
    for kind, rows in silver_rows(lines, late).items():
        path = folder / f"{kind}.json"
        path.write_text("\n".join(map(json.dumps, rows)))
        found[kind] = spark.read.schema(stored_type(kind)).json(str(path))
    return found


def fill(lake: Lake, lines: Iterable[str], late: frozenset[str]) -> None:
    """Add rows to the silver tables; without Spark, which takes a second for each table."""
    for kind, rows in silver_rows(lines, late).items():
        schema = stored_type(kind)
        whole = [
            {name: row.get(name) for name in schema.fieldNames()}
            | {"ts": datetime.fromisoformat(row["ts"])}
            for row in rows
        ]
        table = lake.table(f"silver/{table_name(kind)}")
        write_rows(whole, schema, table, partition_by=("dt", "hour"))
