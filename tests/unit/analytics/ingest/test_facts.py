from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from laps_analytics.ingest.facts import facts_of
from laps_analytics.lake import Lake, Table

HOUR = "dt=2026-11-17/hour={}/type={}"


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Lake.open(tmp_path / "lake", create=True).table("bronze/events")


def put(table: Table, hour: str, kind: str, *rows: tuple[str, int, int, int, str]) -> None:
    """Rows of relay, boot, number, time and shape, seen at 100 by batch 3."""
    columns = ("relay", "boot", "event_seq", "ts_us", "shape")
    plain: list[dict[str, Any]] = [
        {**dict(zip(columns, row, strict=True)), "seen_us": 100, "batch": 3} for row in rows
    ]
    staged = table.staging()
    place = staged / HOUR.format(hour, kind)
    place.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(plain), place / "x.parquet")
    table.commit(staged, base=table.snapshot())


def test_numbers_shapes_and_relays_of_a_batch(table: Table) -> None:
    put(table, "05", "a", ("r", 1, 4, 40, "X"), ("r", 1, 6, 60, "Y"), ("s", 2, 1, 130, "X"))
    put(table, "05", "b", ("r", 1, 5, 20, "Z"))
    put(table, "06", "a", ("r", 1, 9, 90, "X"))
    found = facts_of(table, table.snapshot().files.values())
    assert found.numbers == {"a": {("r", 1): (4, 9), ("s", 2): (1, 1)}, "b": {("r", 1): (5, 5)}}
    assert found.shapes == {"a": {"X", "Y"}, "b": {"Z"}}
    assert found.copied == set()
    relays = {(row.pop("hour"), row.pop("relay")): row for row in found.relays}
    assert relays["05", "r"] == {
        "dt": "2026-11-17",
        "events": 3,
        "first_us": 20,
        "last_us": 60,
        "first_batch": 3,
        "ahead_us": -40,
    }
    assert (relays["05", "s"]["ahead_us"], relays["06", "r"]["events"]) == (30, 1)
    assert len(relays) == 3


def test_copies_are_seen_within_a_file_and_between_files(table: Table) -> None:
    put(table, "05", "within", ("r", 1, 4, 40, "X"), ("r", 1, 4, 40, "X"))
    put(table, "05", "between", ("r", 1, 7, 40, "X"), ("r", 1, 5, 40, "X"))
    put(table, "05", "between", ("r", 1, 5, 40, "X"))
    put(table, "05", "other", ("r", 1, 4, 40, "X"), ("r", 2, 4, 40, "X"), ("s", 1, 4, 40, "X"))
    found = facts_of(table, table.snapshot().files.values())
    assert found.copied == {"within", "between"}
