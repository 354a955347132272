"""The garbage collector of a process that forwards packets.

Every packet makes a few hundred objects that die by their reference counts at once. With Python's
defaults they set off a collection every 700 allocations, which looks at every connection and every
cached object again and again: with ten subscribers a tenth of the relay's time, with a hundred a
fifth. What is in cycles (closed connections) can wait for a rarer one.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["THRESHOLDS", "rare_collections"]

THRESHOLDS: Final = (50_000, 20, 50)
"""Allocations before the youngest are looked at, and how often before older ones are."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect rarely while the block runs, and never what existed before it."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
