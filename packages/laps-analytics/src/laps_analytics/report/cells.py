"""Escape text in CSV that a spreadsheet would evaluate as a formula.

Names come from telemetry, so a publisher can choose the first character of a cell. Text that begins
like a formula gets an apostrophe in front. Numbers stay as they are.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ["escape_formula"]

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def escape_formula(value: Any) -> Any:
    """Return the value, with an apostrophe in front if a spreadsheet would evaluate it."""
    if not isinstance(value, str) or not value.startswith(_FORMULA):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value
