from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from laps_analytics.ingest.clock import LIMIT_US
from laps_analytics.ingest.hours import HOUR_US, WATERMARK_US
from laps_analytics.ingest.silver_hours import (
    BOOT_TTL_US,
    Boots,
    Facts,
    facts_of,
    maybe_seen,
    updated_boots,
)
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


NOW = 10 * HOUR_US


def test_only_higher_numbers_of_a_known_boot_are_new() -> None:
    boots: Boots = {"1:1:7": (10, NOW), "2:2:7": (10, NOW)}
    numbers = {("1:1", 7): (11, 20), ("2:2", 7): (10, 20), ("2:2", 8): (1, 5), ("3:3", 1): (0, 1)}
    assert maybe_seen(numbers, boots) == ["2:2:7", "2:2:8", "3:3:1"]
    assert maybe_seen({("1:1", 7): (11, 20)}, boots) == []


def test_the_highest_number_of_all_types_is_remembered() -> None:
    facts = Facts(
        numbers={"a": {("1:1", 7): (5, 20)}, "b": {("1:1", 7): (6, 9), ("2:2", 1): (0, 3)}}
    )
    after = updated_boots({"1:1:7": (10, 1), "3:3:1": (7, NOW - 1)}, facts, NOW)
    assert after == {"1:1:7": (20, NOW), "2:2:1": (3, NOW), "3:3:1": (7, NOW - 1)}
    # A number that is lower than one of before does not make it lower.
    assert updated_boots({"1:1:7": (30, 1)}, facts, NOW)["1:1:7"] == (30, NOW)


def test_boots_that_say_nothing_are_forgotten() -> None:
    boots: Boots = {"1:1:7": (10, NOW - BOOT_TTL_US), "2:2:7": (10, NOW - BOOT_TTL_US + 1)}
    assert updated_boots(boots, Facts(), NOW) == {"2:2:7": (10, NOW - BOOT_TTL_US + 1)}
    for hour in range(1000):
        now = NOW + hour * HOUR_US
        boots = updated_boots(boots, Facts(numbers={"a": {("1:1", hour): (1, 9)}}), now)
        assert len(boots) <= 3


def test_a_boot_is_known_for_as_long_as_its_events_can_come_to_an_open_hour() -> None:
    assert BOOT_TTL_US > HOUR_US + WATERMARK_US + LIMIT_US
