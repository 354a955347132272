"""Rows of two engines, compared."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any

__all__ = ["differences"]


def _plain(value: Any) -> Any:
    """A value as both engines can say it."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        # A map comes as pairs from one of them.
        if value and all(isinstance(item, tuple) for item in value):
            return {key: _plain(item) for key, item in value}
        return [_plain(item) for item in value]
    return value


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        if not left and not right:
            return True
        return len(left) == len(right) and all(map(_same, left, right))
    if left in ([], {}) and right in ([], {}):
        return True  # an empty map is an empty list of pairs
    if isinstance(left, float) or isinstance(right, float):
        if left is None or right is None:
            return left is right
        return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-12)
    if isinstance(left, date) and isinstance(right, date):
        return str(left) == str(right)
    return bool(left == right) and type(left) is type(right)


def differences(
    ours: Iterable[Mapping[str, Any]],
    theirs: Iterable[Mapping[str, Any]],
    keys: Sequence[str],
    columns: Sequence[str],
) -> list[tuple[Any, ...]]:
    """What differs: a key that one of them lacks, or a value; (key, column, ours, theirs)."""

    def keyed(found: Iterable[Mapping[str, Any]]) -> dict[tuple[str, ...], dict[str, Any]]:
        rows = [{column: _plain(row[column]) for column in columns} for row in found]
        known = {tuple(str(row[key]) for key in keys): row for row in rows}
        assert len(known) == len(rows), "two rows have one key"
        return known

    mine, others = keyed(ours), keyed(theirs)
    assert mine, "a table without rows shows nothing"
    return [
        *((key, "only ours", row, None) for key, row in mine.items() if key not in others),
        *((key, "only theirs", None, row) for key, row in others.items() if key not in mine),
        *(
            (key, column, row[column], others[key][column])
            for key, row in mine.items()
            if key in others
            for column in columns
            if not _same(row[column], others[key][column])
        ),
    ]
