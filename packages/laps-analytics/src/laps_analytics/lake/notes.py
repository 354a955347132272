"""What is noted of a lake as a whole, in ``lake.json``, and small files beside its tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from laps_analytics.errors import LakeError
from laps_analytics.lake.table import Lake, create_file, writing

__all__ = ["note", "notes", "put"]

_MARK: Final = "lake.json"


def notes(lake: Lake) -> Mapping[str, Any]:
    """What is noted of a lake."""
    path = lake.root / _MARK
    try:
        found: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise LakeError(f"{path} cannot be read: {error}") from None
    return found


def note(lake: Lake, key: str, value: object) -> None:
    """Note something of a lake; of two who do so at the same time one is forgotten."""
    put(lake, _MARK, json.dumps({**notes(lake), key: value}))


def put(lake: Lake, name: str, text: str) -> None:
    """A small file beside the tables, as a whole; in the place of one that was there."""
    with writing(lake.root):
        create_file(lake.root / name, text, again=True)
