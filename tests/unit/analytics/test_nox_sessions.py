"""What the errands of noxfile.py start for analytics is there and starts."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


class Session:
    """Notes what an errand would run, and where."""

    def __init__(self) -> None:
        self.posargs: list[str] = []
        self.place = ROOT
        self.commands: list[tuple[Path, tuple[str, ...]]] = []

    def install(self, *_: str) -> None:
        pass

    def chdir(self, folder: str) -> None:
        self.place = ROOT / folder

    def run(self, *words: str, **_: Any) -> None:
        self.commands.append((self.place, words))


@pytest.fixture
def errands(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The functions of noxfile.py; nox itself is not needed."""
    nox: Any = ModuleType("nox")
    nox.options = SimpleNamespace()
    nox.project = SimpleNamespace(load_toml=dict, dependency_groups=lambda *_: [])
    nox.session = lambda *given, **_: given[0] if given else lambda function: function
    monkeypatch.setitem(sys.modules, "nox", nox)
    return runpy.run_path(str(ROOT / "noxfile.py"))


@pytest.mark.parametrize("name", ["analytics", "bench_analytics", "bench_streaming"])
def test_the_programs_of_an_errand_start(errands: dict[str, Any], name: str) -> None:
    session = Session()
    errands[name](session)
    programs = [
        (place, words)
        for place, words in session.commands
        if any(
            "analytics." in word or word.startswith(("benchmarks/", "scripts/")) for word in words
        )
    ]
    assert programs
    # As nox does: no path but that of the installed packages.
    bare = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    bare["PYTHONPATH"] = os.pathsep.join(
        str(ROOT / "packages" / package / "src") for package in ("laps-wire", "laps-analytics")
    )
    for place, words in programs:
        ended = subprocess.run(
            [sys.executable, *words[1:], "--help"],
            cwd=place,
            env=bare,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, (words, ended.stderr[-2000:])


@pytest.mark.parametrize("name", ["analytics", "cluster"])
def test_files_that_errands_name_are_there(errands: dict[str, Any], name: str) -> None:
    session = Session()
    errands[name](session)
    named = [
        place / word
        for place, words in session.commands
        for word in words
        if word.endswith(".py") or word.startswith("tests/")
    ]
    assert named
    assert [path for path in named if not path.exists()] == []
