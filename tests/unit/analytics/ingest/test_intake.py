from __future__ import annotations

import bz2
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import zstandard

from laps_analytics.errors import ConflictError, InputError
from laps_analytics.ingest.intake import Taken, find_sources, recover, take
from laps_analytics.ingest.journal import Journal
from laps_analytics.lake import Lake
from testkit.telemetry_book import lines_of
from testkit.telemetry_lines import network

LINES = [f"{line}\n".encode() for line in lines_of(network(3, seconds=20)["3:3"])]
TEXT = b"".join(LINES)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    journal = Journal(Lake.open(tmp_path / "lake", create=True))
    with journal.locked():
        pass
    return journal


def taken(journal: Journal, place: Path, **more: Any) -> Taken:
    with journal.locked():
        recover(journal)
        return take(journal, find_sources([place]), **more)


def inbox(journal: Journal) -> list[bytes]:
    """What was taken, and not yet read."""
    found = [path.read_bytes() for path in sorted(journal.inbox.iterdir())]
    for path in journal.inbox.iterdir():
        path.unlink()
    return found


def test_a_file_is_taken_once(journal: Journal, place: Path) -> None:
    (place / "a.jsonl").write_bytes(TEXT)
    assert taken(journal, place) == Taken(files=1, bytes=len(TEXT))
    assert inbox(journal) == [TEXT]
    assert taken(journal, place) == Taken(unchanged=1)
    (place / "a.jsonl").rename(place / "b.jsonl")
    assert taken(journal, place).files == 0
    (place / "a.jsonl").write_bytes(TEXT)
    assert taken(journal, place).files == 0
    assert inbox(journal) == []


def test_an_open_file_gives_its_whole_lines_and_then_the_rest(
    journal: Journal, place: Path
) -> None:
    part = place / ".telemetry-3_3-7-11-1.part"
    part.write_bytes(LINES[0] + LINES[1] + LINES[2][:30])
    assert taken(journal, place).bytes == len(LINES[0] + LINES[1])
    assert inbox(journal) == [LINES[0] + LINES[1]]
    part.write_bytes(b"".join(LINES[:4]))
    assert taken(journal, place).files == 1
    assert inbox(journal) == [LINES[2] + LINES[3]]
    part.rename(place / "telemetry-3_3-7-000000.jsonl")
    assert taken(journal, place).files == 0
    part = place / "telemetry-3_3-7-000000.jsonl"
    part.write_bytes(TEXT)
    assert taken(journal, place).files == 1
    assert inbox(journal) == [b"".join(LINES[4:])]
    (place / "telemetry-3_3-7-000000.jsonl.gz").write_bytes(gzip.compress(TEXT))
    part.unlink()
    assert taken(journal, place) == Taken()


def test_another_file_that_begins_the_same_is_not_taken_for_it(
    journal: Journal, place: Path
) -> None:
    (place / "a.jsonl").write_bytes(b"".join(LINES[:3]))
    other = b"".join([LINES[0], *LINES[2:5]])
    (place / "b.jsonl").write_bytes(other)
    assert taken(journal, place).files == 2
    assert inbox(journal) == [b"".join(LINES[:3]), other]


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, zstandard.compress])
def test_a_compressed_file_that_is_cut_off_gives_what_it_has(
    journal: Journal, place: Path, pack: Any
) -> None:
    packed = pack(TEXT * 40)
    (place / "a.jsonl.gz").write_bytes(packed)
    found = taken(journal, place)
    assert found.faults == []
    assert inbox(journal) == [TEXT * 40]
    (place / "b.jsonl.gz").write_bytes(pack(LINES[1] + TEXT * 40)[: len(packed) * 3 // 4])
    found = taken(journal, place)
    (fault,) = found.faults
    assert fault.source == "b.jsonl.gz"
    assert "cut off" in fault.reason
    *lines, faults = inbox(journal)
    if lines:  # bzip2 has blocks larger than this file
        assert lines[0].endswith(b"\n")
        assert (LINES[1] + TEXT * 40).startswith(lines[0])
    assert json.loads(faults)[0]["reason"] == fault.reason
    assert taken(journal, place).faults == []
    # The rest comes after all: nothing is taken twice.
    (place / "b.jsonl.gz").write_bytes(pack(LINES[1] + TEXT * 40))
    assert taken(journal, place).faults == []
    assert b"".join([*lines, *inbox(journal)]) == LINES[1] + TEXT * 40


def test_joined_and_damaged_files(journal: Journal, place: Path) -> None:
    (place / "a.jsonl.gz").write_bytes(gzip.compress(LINES[0]) + gzip.compress(LINES[1]))
    damaged = bytearray(gzip.compress(TEXT))
    damaged[len(damaged) // 2] ^= 0xFF
    (place / "b.jsonl.gz").write_bytes(damaged)
    found = taken(journal, place)
    assert inbox(journal)[0] == LINES[0] + LINES[1]
    assert [fault.reason.partition(":")[0] for fault in found.faults] == ["damaged gzip"]


def test_a_finished_file_may_lack_the_end_of_its_last_line(journal: Journal, place: Path) -> None:
    (place / "a.jsonl").write_bytes(LINES[0] + LINES[1].rstrip())
    (place / "b.jsonl").write_bytes(LINES[2] + LINES[3][:50])
    found = taken(journal, place)
    assert inbox(journal)[:2] == [LINES[0] + LINES[1], LINES[2]]
    (fault,) = found.faults
    assert fault.reason.startswith("the file ends within a line: not JSON at column")
    assert fault.line == LINES[3][:50].decode()
    (place / "b.jsonl").write_bytes(LINES[2] + LINES[3])
    assert taken(journal, place).faults == []
    assert inbox(journal) == [LINES[3]]


def test_a_killed_intake_is_finished_or_forgotten(journal: Journal, place: Path) -> None:
    class KilledError(Exception): ...

    def kill_at(step: str) -> Any:
        def tell(done: str) -> None:
            if done == step:
                raise KilledError

        return tell

    (place / "a.jsonl").write_bytes(TEXT)
    with pytest.raises(KilledError):
        taken(journal, place, progress=kill_at("spooled"))
    assert inbox(journal) == []
    with pytest.raises(KilledError):
        taken(journal, place, progress=kill_at("taken"))
    assert inbox(journal) == []
    assert taken(journal, place).unchanged == 1
    assert inbox(journal) == [TEXT]


def test_only_one_ingests(journal: Journal, place: Path, tmp_path: Path) -> None:
    with (
        journal.locked(),
        pytest.raises(ConflictError, match="another ingest holds the lock"),
        Journal(Lake.open(tmp_path / "lake")).locked(),
    ):
        pass
    (place / "empty.jsonl").touch()
    assert taken(journal, place) == Taken()


def test_places_that_are_not_there(place: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        find_sources([place / "x"])
    for name in ("x.qlog", "notes.txt", ".hidden.jsonl", "a.jsonl.zst"):
        (place / name).touch()
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "b.jsonl").touch()
    found = find_sources([tmp_path], without=tmp_path / "lake")
    assert [(source.path.name, source.kind) for source in found] == [
        ("a.jsonl.zst", "events"),
        ("x.qlog", "trace"),
    ]
    assert [source.kind for source in find_sources([place / "notes.txt"])] == ["events"]
