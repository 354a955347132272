"""The reference page is that of the commands."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]


def test_the_page_is_that_of_the_commands() -> None:
    page = (ROOT / "docs" / "reference" / "analytics-cli.md").read_text(encoding="utf-8")
    made = runpy.run_path(str(ROOT / "scripts" / "analytics_page.py"))
    assert page.endswith(f"{made['MARK']}\n{made['markdown']()}"), "scripts/analytics_page.py"
