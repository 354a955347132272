from __future__ import annotations

from laps_analytics.ingest.compaction import needs_compaction
from laps_analytics.lake import DataFile


def files(hour: str, kind: str, count: int, size: int = 1_000) -> list[DataFile]:
    partition = {"dt": "2026-11-17", "hour": hour, "type": kind}
    return [DataFile(f"{hour}/{kind}/{size}-{n}.parquet", partition, size) for n in range(count)]


def test_partitions_with_too_many_small_files_are_crowded() -> None:
    many, few = files("05", "a", 5), files("05", "b", 4)
    elsewhere, large = files("06", "a", 50), files("05", "a", 3, 1 << 30)
    found = needs_compaction(
        [*many, *few, *elsewhere, *large],
        lambda file: 4 if file.partition["hour"] == "05" else None,
    )
    assert found == many


def test_a_limit_may_differ_by_hour() -> None:
    limits = {"05": 2, "06": 10}
    mine = [*files("05", "a", 3), *files("06", "a", 10)]
    assert needs_compaction(mine, lambda file: limits[file.partition["hour"]]) == files(
        "05", "a", 3
    )
