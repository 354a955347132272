"""How much memory the process of a simulation has needed."""

from __future__ import annotations

import resource
import sys
from functools import cache
from typing import Final

__all__ = ["before_all", "peak"]

_MIB: Final = 1024.0 * 1024.0


def peak() -> float:
    """The most that this process has had so far, in MiB."""
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used / (_MIB if sys.platform == "darwin" else 1024.0)


@cache
def before_all() -> float:
    """The same, as it was when this was first asked for: before the first run of the process."""
    return peak()
