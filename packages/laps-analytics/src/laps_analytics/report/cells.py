"""Text in CSV that a spreadsheet would take for a formula.

A name comes from telemetry, so whoever can publish a track can choose what a cell begins with. A
cell of text that begins with one of these characters gets an apostrophe before it, as spreadsheets
mark text; numbers, also negative ones, stay as they are.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ["escape_formula"]

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def escape_formula(value: Any) -> Any:
    """The same value, or text that no spreadsheet calculates."""
    if not isinstance(value, str) or not value.startswith(_FORMULA):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value
