"""The lake: tables as Parquet files with a commit log.

::

    rows or frames -> frames.write -> staging folder -> table.commit -> log entry N
                                                                          |
    rows or frames <- frames.read  <------- table.snapshot <--------------+

:mod:`.table` has the log, snapshots and the retention horizon. :mod:`.frames` reads and writes
Spark frames. Without Spark it reads small tables as rows, and columns of large ones in batches.
Other rooms import the names below.
"""

from __future__ import annotations

from laps_analytics.lake.frames import (
    batches,
    between,
    compact,
    read,
    read_rows,
    row_count,
    spark_path,
    summed,
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
    "batches",
    "between",
    "compact",
    "horizon_of",
    "move_horizon",
    "read",
    "read_rows",
    "row_count",
    "spark_path",
    "summed",
    "write",
    "write_rows",
]
