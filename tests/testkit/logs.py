"""Logging is the process's own: tests put it back."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager

from laps_relay.telemetry.logs import set_level

__all__ = ["restored_logging"]


@contextmanager
def restored_logging() -> Generator[None]:
    """Whatever is set up inside is undone behind it."""
    root = logging.getLogger()
    loggers = [root, *map(logging.getLogger, ("uvicorn", "quic"))]
    handlers, levels = list(root.handlers), [logger.level for logger in loggers]
    try:
        yield
    finally:
        set_level("info")
        root.handlers[:] = handlers
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
