"""Durations and sizes as people write them: ``5s``, ``250ms``, ``64MiB``.

A plain number is seconds or bytes. Fields of these types parse text, hold a number, and write the
text again.
"""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

__all__ = ["Duration", "Size", "format_duration", "format_size", "parse_duration", "parse_size"]

_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES: Final = {
    "B": 1,
    "kB": 1000,
    "MB": 1000**2,
    "GB": 1000**3,
    "KiB": 1024,
    "MiB": 1024**2,
    "GiB": 1024**3,
}
_DURATION: Final = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)\s*(ms|s|m|h|d)?")
_SIZE: Final = re.compile(r"(\d{1,15})\s*(B|kB|MB|GB|KiB|MiB|GiB)?")


def parse_duration(value: object) -> object:
    """Return seconds; other types than text are left for the model to check."""
    if not isinstance(value, str):
        return value
    found = _DURATION.fullmatch(value.strip())
    if found is None:
        raise ValueError("a duration is a number with ms, s, m, h or d behind it, such as '5s'")
    return float(found[1]) * _SECONDS[found[2] or "s"]


def parse_size(value: object) -> object:
    """Return bytes; other types than text are left for the model to check."""
    if not isinstance(value, str):
        return value
    found = _SIZE.fullmatch(value.strip())
    if found is None:
        raise ValueError(
            "a size is a whole number with B, kB, MB, GB, KiB, MiB or GiB behind it, such as"
            " '64MiB'"
        )
    return int(found[1]) * _BYTES[found[2] or "B"]


def format_duration(value: float) -> str:
    """Return a duration in the largest unit without a fraction."""
    for unit, factor in reversed(_SECONDS.items()):
        count = value / factor
        if value and count >= 1 and count == int(count):
            return f"{int(count)}{unit}"
    return f"{value:g}s"


def format_size(value: int) -> str:
    """Return a size in the largest binary unit without a fraction."""
    for unit in ("GiB", "MiB", "KiB"):
        if value and value % _BYTES[unit] == 0:
            return f"{value // _BYTES[unit]}{unit}"
    return f"{value}B"


Duration = Annotated[
    float,
    Field(ge=0, allow_inf_nan=False),
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str, when_used="json"),
    WithJsonSchema({"type": ["string", "number"], "format": "duration", "examples": ["5s"]}),
]
"""Seconds in the program, ``5s`` in files."""

Size = Annotated[
    int,
    Field(ge=0),
    BeforeValidator(parse_size),
    PlainSerializer(format_size, return_type=str, when_used="json"),
    WithJsonSchema({"type": ["string", "integer"], "format": "size", "examples": ["64MiB"]}),
]
"""Bytes in the program, ``64MiB`` in files."""
