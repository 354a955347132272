from __future__ import annotations

import importlib.metadata

import pytest
from typer.testing import CliRunner

from laps_relay.cli import app


def test_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    known = importlib.metadata.version("laps-relay")

    def version(name: str) -> str:
        if name == "qh3":
            raise importlib.metadata.PackageNotFoundError(name)
        return known

    monkeypatch.setattr("laps_relay.cli.version.version", version)
    out = CliRunner().invoke(app, ["version"]).stdout
    assert f"laps-relay   {known}\n" in out
    assert "qh3          not installed\n" in out
    assert "python " in out
