"""The reference page is that of the contracts."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]


def test_the_page_is_that_of_the_contracts() -> None:
    page = (ROOT / "docs" / "reference" / "gold-tables.md").read_text(encoding="utf-8")
    made = runpy.run_path(str(ROOT / "scripts" / "gold_page.py"))
    assert page.endswith(made["MARK"] + "\n" + made["markdown"]()), "python scripts/gold_page.py"
