"""Every command that README and docs show works, and prints what the page says it prints.

A ``console`` block is read as a shell session: ``$ `` starts a command, the lines after it are its
output (``...`` stands for anything, as in doctest). Commands that would start this very suite again
(``make test``, ``nox``, ``tox``) or change its environment (``pip install``) are held to what they
name; all others run.

A page that shows ``$ laps-relay serve`` is one session: its commands and its ``python`` blocks run
in order, in one shell, with a relay of their own (:mod:`testkit.page_shell`).
"""

from __future__ import annotations

import doctest
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from testkit.page_shell import PageShell, environment
from testkit.pages import PAGES, ROOT, Step, serves, steps_of

SESSIONS = [page for page in PAGES if serves(page)]
SHOWN = [
    step
    for page in PAGES
    if page not in SESSIONS
    for step in steps_of(page)
    if not step.program
]  # fmt: skip


def run(command: str) -> subprocess.CompletedProcess[str]:
    """In a shell, as a reader would, with ``python`` being the one under test."""
    return subprocess.run(
        ["/bin/bash", "-c", command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
        encoding="utf-8",
    )


def comment_free(command: str) -> list[str]:
    return shlex.split(command, comments=True)


def check_installs(sources: list[str]) -> None:
    """Packages of ours come from the clone, with extras that they have."""
    for source in sources:
        found = re.fullmatch(r"packages/(laps-\w+)(?:\[([\w,]+)\])?", source)
        if found is None:
            assert "laps" not in source, f"{source}: the package index does not hold our packages"
            continue
        project = tomllib.loads((ROOT / "packages" / found[1] / "pyproject.toml").read_text())
        extras = project["project"].get("optional-dependencies", {})
        assert set((found[2] or "").split(",")) <= {"", *extras}, source


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
            names = re.findall(r'@nox\.session(?:\((?:name="([^"]+)")?.*\))?\ndef (\w+)', source)
            assert session in {given or function for given, function in names}
        case [".venv/bin/tox" | "tox", "run", "-e", environment, *_]:
            assert f"[testenv:{environment}]" in (ROOT / "tox.ini").read_text(encoding="utf-8")
        case [".venv/bin/pytest", path, *_]:
            assert (ROOT / path).exists()
        case ["pip", "install", *sources]:
            check_installs([source for source in sources if source != "-e"])
        case ["git", "clone", *_] | ["cd", _]:
            pass
        case _:
            return False
    return True


def check(step: Step, code: int, printed: str) -> None:
    """Without output shown a step must succeed; with it, the words are what counts."""
    if not step.output.strip():
        assert code == 0, f"{step}: {step.text}\nended with {code}:\n{printed}"
        return
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    same = doctest.OutputChecker().check_output(step.output, printed, flags)
    assert same, f"{step}: {step.text}\nthe page says:\n{step.output}\nit printed:\n{printed}"


@pytest.mark.docs
@pytest.mark.parametrize("shown", SHOWN, ids=str)
def test_a_shown_command_works(shown: Step) -> None:
    if not check_named(comment_free(shown.text)):
        ended = run(shown.text)
        check(shown, ended.returncode, ended.stdout + ended.stderr)


@pytest.mark.docs
@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", SESSIONS, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_with_a_relay_works(page: Path, tmp_path: Path) -> None:
    with PageShell(tmp_path) as shell:
        for step in steps_of(page):
            if step.program or not check_named(comment_free(step.text)):
                check(step, *shell.run(step))


def test_pages_show_commands() -> None:
    assert SHOWN
    assert ROOT / "README.md" in PAGES
    assert SESSIONS


ADVICE = re.compile(r"pip install ([^\n`]*)")
OURS = re.compile(r"[\w./-]*\blaps-\w+(?:\[[\w,]+\])?")


def test_advice_installs_from_the_clone() -> None:
    """So do errors that name an extra, and pages that do not run their commands."""
    sources = [
        source
        for path in [*PAGES, *(ROOT / "packages").rglob("src/**/*.py")]
        for advice in ADVICE.findall(path.read_text(encoding="utf-8"))
        for source in OURS.findall(advice)
    ]
    assert len(sources) > 10
    check_installs(sources)
