from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from laps_analytics.ingest.qlog import UNREADABLE, QlogDataSource, trace_rows

EVENT = {"time": 1.5, "name": "moqt:control_message_parsed", "data": {"message": {"type": "x"}}}
DOCUMENT = {
    "file_schema": "urn:ietf:params:qlog:file:contained",
    "traces": [
        {
            "common_fields": {"group_id": "7-1"},
            "vantage_point": {"type": "server"},
            "events": [EVENT, {"name": "a", "time": 2}],
        }
    ],
}
HEAD = {"qlog_format": "JSON-SEQ", "trace": {"vantage_point": {"type": "client"}}}
SEQUENCE = b"".join(b"\x1e" + json.dumps(item).encode() + b"\n" for item in (HEAD, EVENT, EVENT))


def test_both_forms_are_read() -> None:
    first, second = trace_rows(json.dumps(DOCUMENT).encode())
    assert first[:5] == (0, "server", "7-1", 1.5, "moqt:control_message_parsed")
    assert json.loads(first.data) == EVENT["data"]
    assert (second.time, second.data) == (2.0, "{}")
    rows = list(trace_rows(SEQUENCE))
    assert [(row.vantage, row.group_id, row.time) for row in rows] == [("client", None, 1.5)] * 2


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "Expecting value"),
        (b"{}", "this has none"),
        (b'{"traces":[{}]}', "trace 0 has no events"),
        (b'{"traces":[{"events":[{}]}]}', "an event has no name"),
        (b"\x1e[]\n", "first record"),
    ],
)
def test_what_cannot_be_read_says_why(content: bytes, reason: str) -> None:
    (row,) = trace_rows(content)
    assert row.name == UNREADABLE
    assert reason in row.data


def test_what_can_be_read_of_a_torn_sequence_is() -> None:
    rows = list(trace_rows(SEQUENCE[:-20]))
    assert [row.name for row in rows] == [EVENT["name"], UNREADABLE]


def test_files_of_a_folder_are_read_one_by_one(tmp_path: Path) -> None:
    """As Spark asks, without Spark."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.qlog").write_text(json.dumps(DOCUMENT))
    (tmp_path / "b.mlog.gz").write_bytes(gzip.compress(SEQUENCE)[:-9])
    source = QlogDataSource({"path": f"{tmp_path / 'in'}\n{tmp_path / 'b.mlog.gz'}\n"})
    assert source.name() == "laps_qlog"
    reader = source.reader(source.schema())
    found = [list(reader.read(part)) for part in reader.partitions()]
    assert [[(row[0], row[5]) for row in rows] for rows in found] == [
        [("a.qlog", EVENT["name"]), ("a.qlog", "a")],
        [("b.mlog.gz", EVENT["name"]), ("b.mlog.gz", EVENT["name"])],
    ]
    (tmp_path / "in" / "a.qlog").write_bytes(gzip.compress(json.dumps(DOCUMENT).encode())[:40])
    ((row,),) = ([*reader.read(part)] for part in reader.partitions()[:1])
    assert row[5:] == (UNREADABLE, "the gzip file is cut off")


@pytest.mark.spark
def test_spark_reads_a_folder_of_traces(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.qlog").write_text(json.dumps(DOCUMENT))
    (tmp_path / "b.mlog.gz").write_bytes(gzip.compress(SEQUENCE))
    spark.dataSource.register(QlogDataSource)
    frame = spark.read.format("laps_qlog").load(str(tmp_path))
    kind = "try_variant_get(parse_json(data), '$.message.type', 'string') t"
    found = frame.selectExpr("file", kind)
    assert sorted((row.file, row.t or "") for row in found.collect()) == [
        ("a.qlog", ""),
        ("a.qlog", "x"),
        ("b.mlog.gz", "x"),
        ("b.mlog.gz", "x"),
    ]
