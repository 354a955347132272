"""Tables as plain Parquet files and a log: see :mod:`laps_analytics.lake.table`."""

from __future__ import annotations

from laps_analytics.lake.frames import compact, read, spark_path, write
from laps_analytics.lake.horizon import Horizon, horizon_of, move_horizon
from laps_analytics.lake.rows import read_rows, row_count, write_rows
from laps_analytics.lake.table import DataFile, Lake, Snapshot, Table

__all__ = [
    "DataFile",
    "Horizon",
    "Lake",
    "Snapshot",
    "Table",
    "compact",
    "horizon_of",
    "move_horizon",
    "read",
    "read_rows",
    "row_count",
    "spark_path",
    "write",
    "write_rows",
]
