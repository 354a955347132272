"""Format numbers, times and names for readers."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import pandas as pd

__all__ = ["bits", "bytes_", "cell", "clean", "clock", "percent", "ratio", "short", "span"]

_STEPS: Final = ("", "k", "M", "G", "T", "P", "E")
_LONGEST: Final = 200


def _scaled(value: float, unit: str) -> str:
    size, step = float(value), 0
    while abs(size) >= 1000 and step < len(_STEPS) - 1:
        size /= 1000
        step += 1
    digits = 0 if step == 0 or abs(size) >= 100 else 1
    return f"{size:.{digits}f} {_STEPS[step]}{unit}"


def bytes_(value: float) -> str:
    """Return ``12.3 GB``, with powers of ten as in bills."""
    return _scaled(value, "B")


def bits(value: float) -> str:
    """Return ``1.2 Gbit/s``."""
    return _scaled(value, "bit/s")


def percent(share: float, digits: int = 1) -> str:
    """Return ``4.2 %``."""
    return f"{share * 100:.{digits}f} %"


def ratio(value: float) -> str:
    """Return ``2.41``."""
    return f"{value:.2f}"


def clock(moment: pd.Timestamp) -> str:
    """Return ``18 Jun 19:05``."""
    return f"{moment:%d %b %H:%M}"


def span(first: pd.Timestamp, last: pd.Timestamp) -> str:
    """Return ``18 Jun 19:05 to 19:30``."""
    same = first.date() == last.date()
    return f"{clock(first)} to {last:%H:%M}" if same else f"{clock(first)} to {clock(last)}"


def clean(text: object) -> str:
    """Return untrusted text as one printable line of limited length."""
    shown = "".join(
        char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in str(text)
    )
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"


def short(text: object, length: int = 34) -> str:
    """Return the same for a plot, with a shorter limit."""
    shown = clean(text)
    return shown if len(shown) <= length else f"{shown[: length - 1]}\N{HORIZONTAL ELLIPSIS}"


def cell(value: Any) -> str:
    """Return a value of a table as text."""
    if value is None or value is pd.NA or value is pd.NaT:
        return "\N{EN DASH}"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, float | np.floating):
        number = float(value)
        if math.isnan(number):
            return "\N{EN DASH}"
        if number == int(number) and abs(number) < 1e15:
            return f"{number:,.0f}"
        return f"{number:,.2f}" if abs(number) >= 0.1 else f"{number:.4f}"
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    if isinstance(value, pd.Timestamp):
        return f"{value:%Y-%m-%d %H:%M}"
    return clean(value)
