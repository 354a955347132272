from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError

import pytest
from typer.testing import CliRunner

from laps_analytics import cli
from laps_analytics.cli import app
from laps_wire.telemetry.schema import VERSION


def test_versions_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    told = CliRunner().invoke(app, ["version", "--json"], catch_exceptions=False)
    plain = json.loads(told.stdout)
    assert list(plain) == ["laps-analytics", "laps-wire", "pyspark", "telemetry"]
    assert plain["telemetry"] == VERSION

    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(cli, "version", missing)
    told = CliRunner().invoke(app, ["version"], catch_exceptions=False)
    assert "pyspark          not installed" in told.stdout.splitlines()
