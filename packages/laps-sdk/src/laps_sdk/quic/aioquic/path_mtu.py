"""How large packets may be on a path: a search with probe packets (after RFC 8899).

::

    1200 ---search---> probe the target first, then halve the gap    acked: grow, and go on
                          |  three probes of one size lost: smaller
                          v
                       settled --many large packets lost--> probe the size in use again
                          ^                                    acked: it was congestion
                          '---- three lost, or no answers at all: back to 1200, search again

Probes carry nothing but PING and PADDING, and losing them is no sign of congestion: the caller
sees to both.
"""

from __future__ import annotations

from typing import Final

__all__ = ["BASE_SIZE", "PathMtu"]

BASE_SIZE: Final = 1200
"""What every path of QUIC takes (RFC 9000, 14.1)."""
_TRIES: Final = 3
"""Probes of one size that must be lost before it counts as too large (RFC 8899, 5.1.2)."""
_CLOSE_ENOUGH: Final = 20
"""A gap that is not worth a further probe."""


class PathMtu:
    """The search on one path. It has no clock: it goes on whenever the caller can send."""

    __slots__ = ("_ceiling", "_outstanding", "_suspected", "_target", "_tries", "size")

    def __init__(self, target: int) -> None:
        self._target = max(target, BASE_SIZE)
        self.size = BASE_SIZE
        """What packets may have now."""
        self.reset()

    def reset(self) -> None:
        """Begin again: another path."""
        self.size = BASE_SIZE
        self._ceiling = self._target + 1
        self._outstanding: int | None = None
        self._suspected = False
        self._tries = 0

    def probe(self) -> int | None:
        """The size of a probe to send now; None: none is needed, or one is under way."""
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
        """A probe went out."""
        self._outstanding = size

    def acked(self, size: int) -> bool:
        """A probe arrived; whether ``size`` changed."""
        if size != self._outstanding:
            return False  # of a path that was left
        self._outstanding = None
        self._tries = 0
        self._suspected = False
        grown = size > self.size
        self.size = max(size, self.size)
        return grown

    def lost(self, size: int) -> bool:
        """A probe did not arrive; whether ``size`` changed."""
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
        """Many large packets were lost: make sure that the size still passes."""
        if self.size > BASE_SIZE and self._outstanding is None:
            self._suspected = True

    def shrink(self) -> bool:
        """The path swallows large packets: back to the base; whether ``size`` changed."""
        if self.size == BASE_SIZE:
            return False
        ceiling = self.size
        self.reset()
        self._ceiling = ceiling
        return True
