"""The reference page of the commands is that of the commands."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

from laps_sdk.cli import output

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "reference" / "cli.md"
MARKDOWN = runpy.run_path(str(ROOT / "scripts" / "cli_page.py"))["markdown"]()
TEXT = PAGE.read_text(encoding="utf-8")


def test_the_page_is_that_of_the_commands() -> None:
    assert TEXT.endswith(MARKDOWN), "run: python scripts/cli_page.py"


def test_every_exit_code_is_told() -> None:
    told = {int(code) for code in re.findall(r"^\| (\d+) \|", TEXT, re.MULTILINE)}
    assert told == {0, output.FAILED, output.USAGE, output.TIMEOUT, 130, 143}


def test_every_variable_that_is_read_is_told() -> None:
    source = ROOT / "packages" / "laps-sdk" / "src" / "laps_sdk"
    read = {
        name
        for folder in ("cli", "client")
        for file in (source / folder).rglob("*.py")
        for name in re.findall(r'"(LAPS_[A-Z_]+)"', file.read_text(encoding="utf-8"))
    }
    assert len(read) > 8
    assert not [name for name in sorted(read) if f"| `{name}` |" not in TEXT]


def test_options_and_arguments_have_words() -> None:
    rows = [line for line in MARKDOWN.splitlines() if line.startswith("| `")]
    assert len(rows) > 80
    assert not [row for row in rows if row.endswith("|  |")]
