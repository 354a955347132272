"""Changelog fragments are named so that towncrier finds them, and say something."""

from __future__ import annotations

import re
from pathlib import Path

FRAGMENTS = Path(__file__).resolve().parent.parent.parent / "changes"


def test_fragments_are_well_named_sentences() -> None:
    for path in FRAGMENTS.iterdir():
        assert re.fullmatch(r"\+[a-z0-9-]+\.(added|changed|fixed|removed)\.md", path.name), path
        assert path.read_text(encoding="utf-8").strip().endswith("."), path
