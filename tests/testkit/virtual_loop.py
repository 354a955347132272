"""An asyncio loop whose clock jumps: waiting takes no time.

For tests of endpoints on a :class:`~laps_sdk.quic.memory.network.MemoryNetwork`, where nothing
comes from outside. An hour of timers runs in as long as its callbacks take::

    run_virtually(main())
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["VirtualLoop", "run_virtually"]

T = TypeVar("T")


class _Selector(selectors.DefaultSelector):
    """Instead of waiting, moves the clock to the time of the next timer."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0)
        if not found:
            if timeout is None:
                raise RuntimeError("nothing is scheduled: this would wait for ever")
            self.now += max(0.0, timeout)
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    """See the module."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now


def run_virtually(main: Coroutine[Any, Any, T]) -> T:
    """As ``asyncio.run``, on a loop with virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
