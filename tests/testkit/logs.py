"""Logging is the process's own: tests put it back."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager

from laps_relay.observe.logs import set_level

__all__ = ["restored_logging"]


@contextmanager
def restored_logging() -> Generator[None]:
    """Whatever is set up inside is undone behind it."""
    root, uvicorn = logging.getLogger(), logging.getLogger("uvicorn")
    handlers, level, uvicorn_level = list(root.handlers), root.level, uvicorn.level
    try:
        yield
    finally:
        set_level("info")
        root.handlers[:] = handlers
        root.setLevel(level)
        uvicorn.setLevel(uvicorn_level)
