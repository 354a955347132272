"""Every command that README and docs show works, and prints what the page says it prints.

A ``console`` block is read as a shell session: ``$ `` starts a command, the lines after it are its
output (``...`` stands for anything, as in doctest). Commands that would start this very suite again
(``make test``, ``nox``, ``tox``) are held to what they name; all others run.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("packages/*/README.md"),
        *(ROOT / "docs").rglob("*.md"),
    ]
)


@dataclass(frozen=True, slots=True)
class Shown:
    """A command as a page shows it."""

    page: Path
    line: int
    command: str
    output: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def commands_of(page: Path) -> list[Shown]:
    found: list[Shown] = []
    inside = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if line.startswith("```"):
            inside = line.strip() == "```console"
        elif inside and line.startswith("$ "):
            found.append(Shown(page, number, line[2:], ""))
        elif inside and found:
            last = found[-1]
            found[-1] = Shown(page, last.line, last.command, last.output + line + "\n")
    return found


SHOWN = [shown for page in PAGES for shown in commands_of(page)]


def run(command: str) -> subprocess.CompletedProcess[str]:
    """In a shell, as a reader would, with ``python`` being the one under test."""
    bin_dir = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{bin_dir}{os.pathsep}{os.environ['PATH']}"}
    environment |= {"NO_COLOR": "1", "COLUMNS": "100"}
    return subprocess.run(
        ["/bin/bash", "-c", command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        encoding="utf-8",
    )


def comment_free(command: str) -> list[str]:
    return shlex.split(command, comments=True)


def check_named(words: list[str]) -> bool:
    """Commands that are held to what they name; False if ``words`` is not one of them."""
    match words:
        case ["make", target]:
            assert shutil.which("make")
            ended = subprocess.run(
                ["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=False
            )
            assert ended.returncode == 0, ended.stderr
        case ["nox", "--list"]:
            assert (ROOT / "noxfile.py").exists()
        case ["nox", "-s", session, *_]:
            source = (ROOT / "noxfile.py").read_text(encoding="utf-8")
            names = re.findall(r'@nox\.session(?:\(name="([^"]+)"\))?\ndef (\w+)', source)
            assert session in {given or function for given, function in names}
        case [".venv/bin/tox" | "tox", "run", "-e", environment, *_]:
            assert f"[testenv:{environment}]" in (ROOT / "tox.ini").read_text(encoding="utf-8")
        case [".venv/bin/pytest", path, *_]:
            assert (ROOT / path).exists()
        case ["git", "clone", *_] | ["cd", _]:
            pass
        case _:
            return False
    return True


@pytest.mark.docs
@pytest.mark.parametrize("shown", SHOWN, ids=str)
def test_a_shown_command_works(shown: Shown) -> None:
    if check_named(comment_free(shown.command)):
        return
    ended = run(shown.command)
    printed = ended.stdout + ended.stderr
    # Without output shown the command must succeed; with it, the words are what counts.
    if not shown.output.strip():
        assert ended.returncode == 0, printed
        return
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    same = doctest.OutputChecker().check_output(shown.output, printed, flags)
    assert same, f"{shown.command}\nthe page says:\n{shown.output}\nit printed:\n{printed}"


def test_pages_show_commands() -> None:
    assert any(shown.page.name == "README.md" for shown in SHOWN)
