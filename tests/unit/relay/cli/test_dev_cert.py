from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner, Result

from laps_relay.cli import app


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["dev-cert", *map(str, arguments)])


def test_a_new_one_each_time_unless_kept(tmp_path: Path) -> None:
    first = json.loads(run("--state-dir", tmp_path, "--json").stdout)
    assert Path(first["certificate"]).exists()
    assert len(first["sha256"]) == 64
    kept = json.loads(run("--state-dir", tmp_path, "--keep", "--json").stdout)
    assert kept == first
    other = run("--state-dir", tmp_path, "--name", "relay.example", "--name", "192.0.2.1")
    assert other.exit_code == 0
    assert first["sha256"] not in other.stdout
    assert "sha256" in other.stdout


def test_what_is_wrong_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ended = run("--state-dir", tmp_path / "file")
    assert ended.exit_code == 2
    assert ended.stderr.count("\n") == 1
    assert "cannot be written" in ended.stderr
