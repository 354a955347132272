"""Helpers for tests of tokens."""

from __future__ import annotations

from collections.abc import Callable

from laps_sdk.tokens.errors import TokenError

__all__ = ["fault_of"]


def fault_of(call: Callable[[], object]) -> str:
    """What a call says is wrong with a token; empty if nothing is."""
    try:
        call()
    except TokenError as error:
        return str(error)
    return ""
