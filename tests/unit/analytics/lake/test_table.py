from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from laps_analytics.errors import ConflictError, LakeError, OutputError
from laps_analytics.lake import Horizon, horizon_of, move_horizon
from laps_analytics.lake.table import Lake, Table, writing


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Lake.open(tmp_path / "lake", create=True).table("silver/hop_stat")


def staged(table: Table, *names: str) -> Path:
    place = table.staging()
    for name in names:
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"rows")
    return place


def test_a_commit_is_all_that_readers_see(table: Table) -> None:
    empty = table.snapshot()
    assert (empty.version, empty.files) == (0, {})
    place = staged(table, "dt=2026-11-17/a%3Ab=x/1.parquet", "dt=2026-11-18/a%3Ab=y/2.parquet")
    assert table.snapshot().files == {}
    assert table.commit(place, base=empty, meta={"from": 7}) == 1
    seen = table.snapshot()
    assert seen.partitions("dt", "a:b") == {("2026-11-17", "x"), ("2026-11-18", "y")}
    assert all((table.root / path).read_bytes() == b"rows" for path in seen.files)
    assert seen.meta == {"from": 7}
    assert [entry["version"] for entry in table.history()] == [1]


def test_what_is_removed_stays_for_readers_of_before(table: Table) -> None:
    table.commit(staged(table, "1.parquet"), base=table.snapshot())
    before = table.snapshot()
    table.commit(staged(table, "2.parquet"), base=before, remove=before.files)
    after = table.snapshot()
    assert set(after.files).isdisjoint(before.files)
    assert table.snapshot(1).files == before.files
    assert all((table.root / path).exists() for path in before.files)
    assert table.vacuum(older_than=1e9) == []
    assert table.vacuum(older_than=-1.0) == list(before.files)
    assert all((table.root / path).exists() for path in after.files)


def test_what_was_taken_out_of_some_partitions_is_purged_later(table: Table) -> None:
    """What was taken out of others stays, and so does the log."""
    place = staged(table, "dt=1/a.parquet", "dt=2/b.parquet", "dt=2/c.parquet")
    table.commit(place, base=table.snapshot(), now=1_000.0)
    base = table.snapshot()
    gone = [path for path, file in base.files.items() if file.partition["dt"] == "1"]
    other = [path for path, file in base.files.items() if file.partition["dt"] == "2"][:1]
    table.commit(None, base=base, remove=[*gone, *other], now=2_000.0)

    def purge(now: float) -> list[str]:
        return table.purge(lambda path: path.startswith("dt=1/"), now=now)

    assert purge(5_000.0) == []
    assert purge(6_000.0) == gone
    assert purge(6_000.0) == []
    assert all((table.root / path).exists() for path in (*other, *table.snapshot().files))
    assert len(table.history()) == 2


def test_what_was_taken_out_is_swept_later(table: Table) -> None:
    table.commit(staged(table, "1.parquet"), base=table.snapshot(), now=1_000.0)
    first = list(table.snapshot().files)
    base = table.snapshot()
    table.commit(staged(table, "2.parquet"), base=base, remove=first, now=2_000.0)
    assert table.sweep(now=5_000.0) == []
    assert table.sweep(now=6_000.0) == first
    assert table.sweep(now=6_000.0) == []
    assert all((table.root / path).exists() for path in table.snapshot().files)


def test_the_second_of_two_writers_is_told(table: Table) -> None:
    base = table.snapshot()
    table.commit(staged(table, "1.parquet"), base=base)
    with pytest.raises(ConflictError, match="another process committed version 1 first"):
        table.commit(staged(table, "2.parquet"), base=base)
    assert len(table.snapshot().files) == 1
    assert len(list(table.root.rglob("[0-9a-f]*.parquet"))) == 1


def test_a_batch_counts_once(table: Table) -> None:
    table.commit(staged(table, "1.parquet"), base=table.snapshot(), batch="b1")
    again = table.commit(staged(table, "1.parquet"), base=table.snapshot(), batch="b1")
    assert again == 1
    assert len(table.snapshot().files) == 1


def test_a_lake_says_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match=r"not a lake, because it has no lake\.json"):
        Lake.open(tmp_path)
    (tmp_path / "holiday.jpg").touch()
    with pytest.raises(OutputError, match="neither empty nor a lake"):
        Lake.open(tmp_path, create=True)
    lake = Lake.open(tmp_path / "new", create=True)
    assert lake.tables() == []
    table = lake.table("gold/x")
    table.commit(None, base=table.snapshot())
    assert Lake.open(tmp_path / "new").tables() == ["gold/x"]
    (tmp_path / "new/lake.json").write_text('{"laps_lake": 99}')
    with pytest.raises(LakeError, match="upgrade laps-analytics"):
        Lake.open(tmp_path / "new")
    (tmp_path / "new/lake.json").write_text("{")
    with pytest.raises(LakeError, match="cannot be read"):
        Lake.open(tmp_path / "new")


def test_a_long_log_has_sums(table: Table) -> None:
    table.commit(staged(table, "1.parquet"), base=table.snapshot(), batch="first")
    for number in range(2, 70):
        meta = {"gone": None if number > 50 else number, "number": number}
        table.commit(None, base=table.snapshot(), batch=f"b{number}", meta=meta)
    log = table.root / "_log"
    assert [path.stem for path in log.glob("*.sum")] == [f"{64:020}"]
    seen = table.snapshot()
    assert (seen.version, seen.batches["first"], seen.meta["number"]) == (69, 1, 69)
    assert len(seen.files) == 1
    assert [file.path for file in table.files_of("first")] == list(seen.files)
    assert table.files_of("b7") == table.files_of("nobody's") == []
    assert table.snapshot(50).meta["gone"] == 50
    (log / f"{64:020}.sum").write_text("{}")
    with pytest.raises(LakeError, match="not a checkpoint of a log"):
        Table(table.root, table.name).snapshot()


def test_what_was_read_of_a_log_is_not_read_again(table: Table) -> None:
    for number in range(3):
        table.commit(None, base=table.snapshot(), meta={"number": number})
    seen = table.snapshot()
    # Entries never change, so a damaged one that was read before does not matter.
    (table.root / "_log" / f"{2:020}.json").write_text("{")
    assert table.snapshot() is seen
    other = Table(table.root, table.name)
    with pytest.raises(LakeError, match="not a log entry"):
        other.snapshot()
    table.commit(None, base=seen, meta={"number": 3, "more": None})
    assert table.snapshot().meta == {"number": 3}
    assert seen.meta == {"number": 2}


def test_a_log_that_goes_on_stays_short(table: Table) -> None:
    """As many entries as a day has, and readers that begin at any time, or long before."""
    old, log = Table(table.root, table.name), table.root / "_log"
    old.commit(staged(table, "first.parquet"), base=old.snapshot(), batch="first", now=0.0)
    assert old.snapshot().version == 1
    first = list(old.snapshot().files)
    base = table.snapshot()
    table.commit(staged(table, "1.parquet"), base=base, remove=first, batch="b2", now=1.0)
    for number in range(3, 200):
        table.commit(None, base=table.snapshot(), batch=f"b{number}", now=float(number))
    assert len(list(log.iterdir())) == 199 + 3
    assert table.sweep(older_than=100.0, now=210.0) == first
    # Two sums hold 128; what is younger than 100 s stays.
    assert min(path.name for path in log.iterdir()) == f"{111:020}.json"
    assert [path.stem for path in sorted(log.glob("*.sum"))] == [f"{128:020}", f"{192:020}"]
    assert table.sweep(older_than=0.0, now=1e6) == []
    kept = sorted(path.name for path in log.glob("*.json"))
    assert kept[0] == f"{129:020}.json"
    for reader in (table, old, Table(table.root, table.name)):
        seen = reader.snapshot()
        assert (seen.version, len(seen.files), seen.batches["b2"]) == (199, 1, 2)
    assert table.snapshot(150).version == 150
    assert table.history()[0]["version"] == 129
    with pytest.raises(LakeError, match="the log entry of b2 was deleted"):
        table.files_of("b2")
    with pytest.raises(LakeError, match="version 1 is missing"):
        Table(table.root, table.name).snapshot(100)
    assert table.commit(None, base=table.snapshot(), batch="b2") == 2


def test_what_killed_writers_staged_is_vacuumed(table: Table) -> None:
    table.commit(staged(table, "1.parquet"), base=table.snapshot())
    left = staged(table, "dt=1/_temporary/0/2.parquet", "dt=1/.2.parquet.crc")
    assert table.vacuum(older_than=1e9) == []
    assert left.exists()
    table.vacuum(older_than=-1.0)
    assert not left.exists()
    assert all((table.root / path).exists() for path in table.snapshot().files)


def test_a_log_with_a_hole_is_refused(table: Table) -> None:
    for _ in range(3):
        table.commit(None, base=table.snapshot())
    log = sorted((table.root / "_log").iterdir())
    log[1].unlink()
    with pytest.raises(LakeError, match="version 2 is missing"):
        table.snapshot()
    log[0].write_text("{")
    with pytest.raises(LakeError, match="not a log entry"):
        table.snapshot()


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot be written: Not a directory"):
        Lake.open(tmp_path / "file" / "lake", create=True)


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.ENOSPC, "Free space"),
        (errno.EACCES, "Name a folder that you may write to"),
        (errno.EROFS, "Name a folder that you may write to"),
        (errno.ENOENT, "Name another folder"),
    ],
)
def test_the_advice_is_for_what_is_wrong(tmp_path: Path, number: int, advice: str) -> None:
    with pytest.raises(OutputError, match=rf"cannot be written: .*\. {advice}"), writing(tmp_path):
        raise OSError(number, os.strerror(number))


def test_a_lake_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for create in (False, True):
        with pytest.raises(LakeError, match="is a file, and a lake is a folder"):
            Lake.open(tmp_path / "file", create=create)


def test_a_lake_from_which_nothing_was_removed_takes_all(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path / "lake", create=True)
    assert horizon_of(lake) == Horizon()
    assert horizon_of(lake).accepted_from is None


def test_a_horizon_is_one_commit_and_never_moves_back(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path / "lake", create=True)
    first = Horizon(bronze="2026-11-10", silver="2026-10-18", gold="2024-11-17")
    for _ in range(2):
        move_horizon(lake, first)
    assert horizon_of(Lake.open(lake.root)) == first
    assert lake.table("_retention").snapshot().version == 1
    other = Horizon(bronze="2026-11-09", silver="2026-10-20")
    moved = Horizon(bronze="2026-11-10", silver="2026-10-20", gold="2024-11-17")
    assert first.moved(other) == moved


def test_events_are_taken_from_two_hours_after_what_is_kept() -> None:
    """The hour before, and its neighbour, are needed whole for clocks that were wrong."""
    assert Horizon(bronze="2026-11-10").accepted_from == ("2026-11-10", "02")
    late = Horizon(bronze="2026-11-10", silver="2026-11-12")
    assert late.accepted_from == ("2026-11-12", "02")
