from __future__ import annotations

import fcntl
from pathlib import Path
from typing import IO

import pytest

from laps_relay.telemetry.telemetry import TelemetrySettings, TelemetryWriter
from laps_wire.telemetry import CacheStat, Event, PolicyChange, UnknownBody, load_line
from testkit.disk import full_disk

BODY = CacheStat(
    window_ms=1, hit_bytes=2, miss_bytes=3, expired_bytes=4, evicted_bytes=5, fetch_joins=6
)


def settings(path: Path, **changes: object) -> TelemetrySettings:
    known: dict[str, object] = {"directory": path, "relay": "0.1:0.2", "boot": 9, "region": "eu"}
    return TelemetrySettings(**{**known, **changes})  # type: ignore[arg-type]  # fields by name


def events(path: Path) -> list[Event]:
    return [
        load_line(line)
        for file in sorted(path.glob("*.jsonl"))
        for line in file.read_text(encoding="utf-8").splitlines()
    ]


def test_records_are_in_a_finished_file_after_a_stop(tmp_path: Path) -> None:
    directory = tmp_path / "deep" / "telemetry"
    writer = TelemetryWriter(settings(directory), wall=lambda: 1.5)
    writer.start()
    writer.put(BODY)
    writer.put(BODY, tenant="me")
    writer.stop()
    first, second = events(directory)
    assert (first.seq, first.ts_us, first.region, first.body) == (1, 1_500_000, "eu", BODY)
    assert (second.seq, second.tenant) == (2, "me")
    assert writer.counters == (2, 0, 0, 1, "")
    assert [path.name for path in directory.iterdir()] == ["telemetry-0.1_0.2-9-000000.jsonl"]


def test_files_are_closed_by_size(tmp_path: Path) -> None:
    writer = TelemetryWriter(settings(tmp_path, file_bytes=1))
    writer.start()
    for _ in range(3):
        writer.put(BODY)
    writer.stop()
    assert writer.counters.files == 3
    assert [event.seq for event in events(tmp_path)] == [1, 2, 3]


def test_files_are_closed_by_age(tmp_path: Path) -> None:
    clock = iter(range(0, 100_000, 400))
    writer = TelemetryWriter(settings(tmp_path), monotonic=lambda: next(clock))
    writer.start()
    writer.put(BODY)
    writer.put(BODY)
    writer.stop()
    assert writer.counters.files == 2


def test_nothing_written_leaves_nothing(tmp_path: Path) -> None:
    writer = TelemetryWriter(settings(tmp_path))
    writer.start()
    writer.stop()
    writer.stop()
    assert list(tmp_path.iterdir()) == []


def test_a_full_queue_is_counted_and_never_waited_for(tmp_path: Path) -> None:
    writer = TelemetryWriter(settings(tmp_path, queue=2))
    for _ in range(5):
        writer.put(BODY)
    assert writer.counters.lost == 3


def test_what_a_dead_relay_left_is_finished(tmp_path: Path) -> None:
    (tmp_path / ".telemetry-x-1.part").write_text("{}\n", encoding="ascii")
    (tmp_path / ".telemetry-x-2.part").touch()
    writer = TelemetryWriter(settings(tmp_path))
    writer.start()
    writer.stop()
    assert [path.name for path in tmp_path.iterdir()] == ["telemetry-x-1-left.jsonl"]


@pytest.mark.parametrize("torn", ['{"b":', "x" * 200_000])
def test_a_line_that_a_dead_relay_did_not_finish_is_left_out(tmp_path: Path, torn: str) -> None:
    (tmp_path / ".telemetry-x-1.part").write_text('{"a":1}\n' + torn, encoding="ascii")
    (tmp_path / ".telemetry-x-2.part").write_text(torn, encoding="ascii")
    TelemetryWriter(settings(tmp_path))._recover()
    (left,) = tmp_path.iterdir()
    assert left.read_text(encoding="ascii") == '{"a":1}\n'


def test_a_file_that_another_relay_has_finished_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".telemetry-x-2.part").write_text("{}\n", encoding="ascii")
    found = [tmp_path / ".telemetry-x-1.part", tmp_path / ".telemetry-x-2.part"]
    monkeypatch.setattr(Path, "glob", lambda _self, _pattern: iter(found))
    writer = TelemetryWriter(settings(tmp_path))
    writer.start()
    writer.stop()
    assert [path.name for path in tmp_path.iterdir()] == ["telemetry-x-2-left.jsonl"]


def test_a_file_that_another_relay_took_before_it_was_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = fcntl.flock
    neighbour = TelemetryWriter(settings(tmp_path))

    def late(file: IO[str], how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", lock)
        neighbour._recover()
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    writer = TelemetryWriter(settings(tmp_path))
    writer._write("one")
    writer._finish()
    assert writer.counters[:4] == (1, 0, 0, 1)
    (file,) = tmp_path.iterdir()
    assert file.read_text(encoding="ascii") == "one\n"


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    with pytest.raises(OSError, match=r"Not a directory|File exists"):
        TelemetryWriter(settings(blocked / "x")).start()


def test_a_full_disk_is_counted_and_what_it_took_is_kept(tmp_path: Path) -> None:
    writer = TelemetryWriter(settings(tmp_path))
    writer._write("one")
    writer._write("two")
    with full_disk(10):
        writer._write("three")
        assert writer.counters[:4] == (2, 0, 1, 1)
        assert "File too large" in writer.counters.last_error
    with full_disk():
        writer._write("four")
    assert writer.counters[:4] == (2, 0, 2, 1)
    writer._write("five")
    writer._finish()
    assert writer.counters[:4] == (3, 0, 2, 2)
    found = [path.read_text(encoding="ascii") for path in sorted(tmp_path.iterdir())]
    assert found == ["one\ntwo\n", "five\n"]


def test_a_file_that_cannot_be_opened_is_counted(tmp_path: Path) -> None:
    writer = TelemetryWriter(settings(tmp_path / "gone"))
    writer._write("one")
    assert writer.counters[:4] == (0, 0, 1, 0)


def test_a_file_of_a_relay_that_lives_is_left_alone(tmp_path: Path) -> None:
    first = TelemetryWriter(settings(tmp_path))
    first._write("one")
    second = TelemetryWriter(settings(tmp_path))
    second._opened = 1
    second._recover()
    second._write("two")
    second._finish()
    first._write("three")
    first._finish()
    found = [path.read_text(encoding="ascii") for path in sorted(tmp_path.iterdir())]
    assert found == ["two\n", "one\nthree\n"]
    assert first.counters[:4] == (2, 0, 0, 1)


def test_a_record_that_cannot_be_said_does_not_end_the_writer(tmp_path: Path) -> None:
    writer = TelemetryWriter(settings(tmp_path, queue=3))
    writer.start()
    writer.put(UnknownBody("x", {"big": "y" * 2_000_000}))
    writer.put(BODY)
    writer.stop()
    assert writer.counters[:4] == (1, 0, 1, 1)


def test_a_file_that_cannot_be_finished_is_counted(tmp_path: Path) -> None:
    writer = TelemetryWriter(settings(tmp_path))
    writer._write("one")
    writer._open_path().unlink()
    writer._finish()
    assert writer.counters.failed == 1
    writer._finish()
    assert writer.counters.files == 0


def test_who_can_wait_is_told_when_much_waits(tmp_path: Path) -> None:
    writer = TelemetryWriter(TelemetrySettings(directory=tmp_path, relay="0:1", boot=1, queue=4))
    crowded = []
    for _ in range(4):
        writer.put(PolicyChange(revision=1))
        crowded.append(writer.crowded)
    assert crowded == [False, False, True, True]
