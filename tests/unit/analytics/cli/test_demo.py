"""What ``laps-analytics demo`` says on the way and at the end; the way has a test of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from laps_analytics.cli import app
from laps_analytics.report.build import Report
from laps_analytics.synth import demo
from laps_analytics.synth.dataset import FULL, QUICK
from laps_analytics.synth.demo import Gain
from laps_wire.plan import Plan


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """A demo that ends at once."""
    calls: list[dict[str, Any]] = []

    def run(folder: Path, spark: object, **options: Any) -> demo.Demo:
        calls.append({"folder": folder, **options})
        if options["progress"] is not None:
            options["progress"](1, "A world")
        plan = Plan(id="p", version=1, made_us=1, expires_us=2, based_on="0" * 64)
        answers = (("usage", "Who pays what?", "tenant-1 pays."),)
        gains = [Gain("WAN rate", 200.0, 100.0, "Mbit/s", "better"), Gain("x", 0.0, 0.0, "%")]
        return demo.Demo(
            *(folder, 7, 12, 5, 8275, Report("", answers, {}), plan, gains, {"world": 2.0}),
            "0 of 9 objects lost",
        )

    monkeypatch.setattr(demo, "run_demo", run)
    return calls


def test_the_end_is_for_newcomers(asked: list[dict[str, Any]], tmp_path: Path) -> None:
    ended = CliRunner().invoke(app, ["demo", "--quick", "--seed", "9", "--out", str(tmp_path)])
    assert ended.exit_code == 0, ended.output
    assert (asked[0]["seed"], asked[0]["size"], asked[0]["folder"]) == (9, QUICK, tmp_path)
    for words in (
        "12 relays and 5 tracks",
        "8,275 lines",
        "tenant-1 pays.",
        "-50%  better",
        "simulator: 0 of 9",
    ):
        assert words in ended.stdout
    assert f"Files, all in {tmp_path}" in ended.stdout
    assert "1/8  A world" in ended.stderr
    assert "1/8" not in ended.stdout


def test_progress_can_be_turned_off(asked: list[dict[str, Any]], tmp_path: Path) -> None:
    ended = CliRunner().invoke(app, ["demo", "--no-progress", "--out", str(tmp_path)])
    assert ended.stderr == ""
    assert (asked[0]["seed"], asked[0]["size"]) == (7, FULL)
