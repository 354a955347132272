"""Byte vectors made by others: in ``../shared/vectors`` beside the checkout, if at all.

Tests marked ``foreign`` use them and are skipped where they are absent. ``nox -s interop`` sets
``LAPS_REQUIRE_VECTORS``, and then their absence is an error.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

DRAFT16 = Path(__file__).resolve().parents[2].parent / "shared" / "vectors" / "moqt-draft16"
"""Draft 16 codec vectors of moqtap."""


def foreign(function: Any) -> Any:
    """Mark a test that needs the vectors."""
    absent = pytest.mark.skipif(
        not DRAFT16.is_dir(), reason="the moqtap vectors are not beside the repository"
    )
    return pytest.mark.foreign(absent(function))


def draft16_vectors(name: str) -> list[dict[str, Any]]:
    """The vectors of one file, such as ``messages/goaway.json``; none where they are absent."""
    path = DRAFT16 / name
    if not path.is_file():
        if os.environ.get("LAPS_REQUIRE_VECTORS"):
            raise FileNotFoundError(f"the moqtap vectors are required, but absent: {name}")
        return []
    vectors: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["vectors"]
    return vectors


def draft16_messages() -> list[str]:
    """The names of all message files, such as ``goaway``."""
    return sorted(path.stem for path in (DRAFT16 / "messages").glob("*.json"))
