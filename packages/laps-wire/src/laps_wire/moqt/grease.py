"""Grease: numbers that mean nothing, sent so that receivers stay tolerant (moq-transport-18, 14).

The numbers are ``0x7F * N + 0x9D``. They are reserved among setup options, properties, token types
and all codes for errors, but not among messages and message parameters, where every number must be
understood.
"""

from __future__ import annotations

from typing import Final

__all__ = ["grease", "is_grease"]

_FIRST: Final = 0x9D
_STEP: Final = 0x7F
_LAST: Final = 0x3FFF_FFFF_FFFF_FFDE


def grease(n: int) -> int:
    """The reserved number for ``n``, from 0 on."""
    return _FIRST + _STEP * n


def is_grease(value: int) -> bool:
    """Whether ``value`` is reserved for greasing."""
    return _FIRST <= value <= _LAST and (value - _FIRST) % _STEP == 0
