"""Tables as plain Parquet files and a log: see :mod:`laps_analytics.lake.table`."""

from __future__ import annotations

from laps_analytics.lake.frames import (
    compact,
    read,
    read_rows,
    row_count,
    spark_path,
    write,
    write_rows,
)
from laps_analytics.lake.table import (
    DataFile,
    Horizon,
    Lake,
    Snapshot,
    Table,
    horizon_of,
    move_horizon,
)

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
