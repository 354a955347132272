"""Read qlog and mlog traces: the Spark data source ``laps_qlog``.

::

    spark.dataSource.register(QlogDataSource)
    spark.read.format("laps_qlog").load("folder or file")

It reads files of draft-ietf-quic-qlog-main-schema and draft-pardue-moq-qlog-moq-events: one JSON
text with ``traces``, or JSON-SEQ. In JSON-SEQ a separator precedes each record, and the first
record describes the trace. aioquic, moq-rs and LAPS relays write such files. The data of an event
stays JSON text, because each draft has its own fields; ``parse_json`` makes a VARIANT of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from laps_analytics.ingest.hours import hour_at
from laps_analytics.ingest.intake import Decoded
from laps_analytics.lake import Lake, row_count, write, write_rows
from laps_analytics.schema import QLOG, QUARANTINE

__all__ = ["UNREADABLE", "QlogDataSource", "TraceRow", "trace_rows", "write_traces"]

UNREADABLE: Final = "laps:unreadable"
"""Name of a row that has the reason why a file, or the rest of it, cannot be read."""

_SEPARATOR: Final = b"\x1e"


class TraceRow(NamedTuple):
    """An event of a trace."""

    trace: int
    vantage: str | None
    group_id: str | None
    time: float | None
    name: str
    data: str


def trace_rows(content: bytes) -> Iterator[TraceRow]:
    """Yield the events of a file; if it cannot be read further, a last row has the reason."""
    try:
        if content.lstrip()[:1] == _SEPARATOR:
            yield from _sequence(content)
        else:
            document = json.loads(content)
            if not isinstance(document, dict) or not isinstance(document.get("traces"), list):
                raise ValueError("a qlog file has traces, and this has none")
            for number, trace in enumerate(document["traces"]):
                yield from _trace(number, trace)
    except (ValueError, RecursionError) as error:
        yield TraceRow(0, None, None, None, UNREADABLE, f"not qlog: {error}")


def _trace(number: int, trace: Any) -> Iterator[TraceRow]:
    if not isinstance(trace, dict) or not isinstance(trace.get("events"), list):
        raise ValueError(f"trace {number} has no events")  # noqa: TRY004 - of the file
    for event in trace["events"]:
        yield _row(number, trace, event)


def _sequence(content: bytes) -> Iterator[TraceRow]:
    head: Mapping[str, Any] | None = None
    for record in content.split(_SEPARATOR)[1:]:
        if not record.strip():
            continue
        plain = json.loads(record)
        if head is None:
            if not isinstance(plain, dict):
                raise ValueError("the first record does not describe the trace")
            trace = plain.get("trace")
            head = trace if isinstance(trace, dict) else {}
        else:
            yield _row(0, head, plain)


def _row(number: int, trace: Mapping[str, Any], event: Any) -> TraceRow:
    if not isinstance(event, dict) or not isinstance(event.get("name"), str):
        raise ValueError(f"trace {number}: an event has no name")  # noqa: TRY004 - of the file
    common = trace.get("common_fields")
    group = event.get("group_id", common.get("group_id") if isinstance(common, dict) else None)
    vantage = trace.get("vantage_point")
    time = event.get("time")
    return TraceRow(
        number,
        str(vantage["type"]) if isinstance(vantage, dict) and "type" in vantage else None,
        None if group is None else str(group),
        float(time) if isinstance(time, int | float) else None,
        event["name"],
        json.dumps(event.get("data", {})),
    )


class QlogDataSource(DataSource):
    """Data source ``laps_qlog``: one row for each event of the traces at a path."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "laps_qlog"

    def schema(self) -> StructType:
        """Return the columns of ``bronze/qlog`` without those that ingest adds."""
        return StructType([field for field in QLOG if field.name not in {"batch", "dt"}])

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - it is always ours
        """Return a reader of the files."""
        return _Reader([part for part in self.options.get("path", "").split("\n") if part])


class _Reader(DataSourceReader):
    def __init__(self, paths: list[str]) -> None:
        self._paths = paths

    def partitions(self) -> list[InputPartition]:
        found: list[InputPartition] = []
        for path in map(Path, self._paths):
            inside = sorted(path.rglob("*")) if path.is_dir() else [path]
            found += [InputPartition(str(item)) for item in inside if item.is_file()]
        return found

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        path = Path(partition.value)
        decoded = Decoded(path)
        content = b"".join(decoded)
        for row in trace_rows(content):
            if row.name == UNREADABLE and decoded.fault is not None:
                row = row._replace(data=decoded.fault)  # noqa: PLW2901
            yield (path.name, *row)


def write_traces(
    spark: SparkSession, lake: Lake, files: Iterable[Path], *, batch: int, now_us: int
) -> int:
    """Commit traces to ``bronze/qlog``, and unreadable files to quarantine.

    Repeating it for the same batch does nothing. Returns the number of rows of the batch.
    """
    key, day = f"batch-{batch}", hour_at(now_us)[0]
    table = lake.table("bronze/qlog")
    if key not in table.snapshot().batches:
        spark.dataSource.register(QlogDataSource)
        rows = spark.read.format("laps_qlog").load(
            "\n".join(str(file.absolute()) for file in files)
        )
        # The name of a file of the inbox has that of its source in the middle.
        source = fn.regexp_extract("file", r"^\d{8}-\d{5}-(.*)\.trace$", 1)
        rows = rows.select(
            source.alias("file"),
            *(name for name in rows.columns if name != "file"),
            fn.lit(batch).cast("bigint").alias("batch"),
            fn.lit(day).alias("dt"),
        )
        bad = rows.where(fn.col("name") == UNREADABLE).select("file", "data").collect()
        faults = [
            {
                "line": "",
                "source": row["file"],
                "reason": row["data"],
                "relay": None,
                "ts_us": None,
                "batch": batch,
                "seen_us": now_us,
                "dt": day,
            }
            for row in bad
        ]
        if faults:
            quarantine = lake.table("bronze/quarantine")
            write_rows(
                faults, QUARANTINE, quarantine, partition_by=("dt",), batch=f"traces-{batch}"
            )
        write(rows.where(fn.col("name") != UNREADABLE), table, partition_by=("dt",), batch=key)
    return row_count(table, (file.path for file in table.files_of(key)))
