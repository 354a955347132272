"""How much memory the process of a simulation has needed."""

from __future__ import annotations

import resource
import sys
from functools import cache
from pathlib import Path
from typing import Final

__all__ = ["before_all", "peak"]

_MIB: Final = 1024.0 * 1024.0
_STATUS: Final = Path("/proc/self/status")


def peak() -> float:
    """The most that this process has had so far, in MiB.

    Linux hands `ru_maxrss` on to whatever a process starts: a worker of a large program would look
    large from its first moment. What the kernel notes of the address space begins anew.
    """
    if _STATUS.exists():
        line = next(row for row in _STATUS.read_text().splitlines() if row.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024.0
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used / (_MIB if sys.platform == "darwin" else 1024.0)


@cache
def before_all() -> float:
    """The same, as it was when this was first asked for: before the first run of the process."""
    return peak()
