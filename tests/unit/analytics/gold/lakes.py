"""The lake that tests share, and rows of silver that are put into a copy of it by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from laps_analytics.gold.build import gold_name
from laps_analytics.gold.dimensions import Dimensions, TrackFacts
from laps_analytics.gold.silver import stored_type
from laps_analytics.gold.tables import GOLD
from laps_analytics.ingest.run import Summary
from laps_analytics.lake import Lake, write_rows
from laps_analytics.schema import table_name
from laps_wire.telemetry import Event
from testkit.gold_files import GoldFiles
from testkit.gold_world import TRACKS

DIMENSIONS = Dimensions(
    tracks={TRACKS[0]: TrackFacts("gold"), TRACKS[1]: TrackFacts("bronze", "initech")},
    relays={"e0:1": 500_000.0},
    links={("e0:1", "v1:1"): 100_000.0},
)
STATED_US = 77
"""When bills are stated."""


@dataclass(frozen=True)
class GoldLake:
    """A lake with everything built, and what it is from."""

    files: GoldFiles
    batches: tuple[tuple[int, list[Path]], ...]
    """When each ingest was, and which files were new to it."""
    summaries: tuple[Summary, ...]
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


def silver_row(event: Event) -> dict[str, Any]:
    """The row of silver that an event becomes whose clock is right."""
    at = datetime.fromtimestamp(event.ts_us // 1_000_000, UTC)
    return {
        "event_id": event.event_id,
        "relay": event.relay,
        "boot": event.boot,
        "event_seq": event.seq,
        "ts_us": event.ts_us,
        "ts": at.replace(microsecond=event.ts_us % 1_000_000),
        "skew_us": 0,
        "late": False,
        "tenant": event.tenant,
        "region": event.region,
        **event.as_dict()["body"],
        "dt": f"{at:%Y-%m-%d}",
        "hour": f"{at:%H}",
    }


def silver_rows(events: Iterable[Event]) -> dict[str, list[dict[str, Any]]]:
    """Rows by event type, with all columns."""
    found: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        row = dict.fromkeys(stored_type(event.type).fieldNames()) | silver_row(event)
        found.setdefault(event.type, []).append(row)
    return found


def fill(lake: Lake, events: Iterable[Event]) -> None:
    """Add events to the silver tables; without Spark, which takes a second for each table."""
    for kind, rows in silver_rows(events).items():
        table = lake.table(f"silver/{table_name(kind)}")
        write_rows(rows, stored_type(kind), table, partition_by=("dt", "hour"))


def frames(
    spark: SparkSession, silver: Mapping[str, list[dict[str, Any]]], folder: Path
) -> dict[str, DataFrame]:
    """Rows by event type as frames, in the order that they have."""
    found = {}
    for kind, rows in silver.items():
        schema = to_arrow_schema(stored_type(kind), timezone="UTC")
        path = folder / f"{kind}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
        found[kind] = spark.read.schema(stored_type(kind)).parquet(str(path))
    return found
