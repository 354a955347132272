"""The largest packet size of a path: a search with probe packets (after RFC 8899).

::

    1200 ---search---> probe the target first, then halve the gap    acked: grow, and go on
                          |  three probes of one size lost: smaller
                          v
                       settled --many large packets lost--> probe the size in use again
                          ^                                    acked: it was congestion
                          '---- three lost, or no answers at all: back to 1200, search again

The caller builds the probes of PING and PADDING only. It must not count a lost probe as congestion.
"""

from __future__ import annotations

from typing import Final

__all__ = ["BASE_SIZE", "PathMtu"]

BASE_SIZE: Final = 1200
"""The packet size that every path of QUIC supports (RFC 9000, 14.1)."""
_TRIES: Final = 3
"""Lost probes of one size after which the size counts as too large (RFC 8899, 5.1.2)."""
_CLOSE_ENOUGH: Final = 20
"""The gap in bytes that is not worth another probe."""


class PathMtu:
    """The search on one path. It has no clock and continues whenever the caller can send."""

    __slots__ = ("_ceiling", "_outstanding", "_suspected", "_target", "_tries", "size")

    def __init__(self, target: int) -> None:
        self._target = max(target, BASE_SIZE)
        self.size = BASE_SIZE
        """The largest packet size in use."""
        self.reset()

    def reset(self) -> None:
        """Begin again on another path."""
        self.size = BASE_SIZE
        self._ceiling = self._target + 1
        self._outstanding: int | None = None
        self._suspected = False
        self._tries = 0

    def probe(self) -> int | None:
        """Return the size of the probe to send now; None if none is needed or one is in flight."""
        if self._outstanding is not None:
            return None
        if self._suspected:
            return self.size
        if self._ceiling > self._target:
            return self._target if self.size < self._target else None
        if self._ceiling - self.size <= _CLOSE_ENOUGH:
            return None
        return (self.size + self._ceiling) // 2

    def sent(self, size: int) -> None:
        """Record that a probe was sent."""
        self._outstanding = size

    def acked(self, size: int) -> bool:
        """Record that a probe was acknowledged; return whether ``size`` changed."""
        if size != self._outstanding:
            return False  # of a path that was left
        self._outstanding = None
        self._tries = 0
        self._suspected = False
        grown = size > self.size
        self.size = max(size, self.size)
        return grown

    def lost(self, size: int) -> bool:
        """Record that a probe was lost; return whether ``size`` changed."""
        if size != self._outstanding:
            return False
        self._outstanding = None
        self._tries += 1
        if self._tries < _TRIES:
            return False
        self._tries = 0
        if self._suspected:
            return self.shrink()
        self._ceiling = size
        return False

    def suspect(self) -> None:
        """Probe the present size again, because many large packets were lost."""
        if self.size > BASE_SIZE and self._outstanding is None:
            self._suspected = True

    def shrink(self) -> bool:
        """Return to the base size on a path that drops large packets; return whether it changed."""
        if self.size == BASE_SIZE:
            return False
        ceiling = self.size
        self.reset()
        self._ceiling = ceiling
        return True
