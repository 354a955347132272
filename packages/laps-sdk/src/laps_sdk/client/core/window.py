"""The fill level of a receive queue, and what to do with the next object.

::

    held bytes or objects
      hard   -----------------------------  above it: the newest object is dropped, and counted
      high   -------  pause reading ------
      low    -------  resume reading -----
      0

QUIC's flow control holds the sender back while reading is paused. Data within the credit already
granted still arrives: it uses the room between high and hard. With ``drop`` reading never pauses:
above the high mark the oldest object is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["Verdict", "Window", "WindowLimits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowLimits:
    """How much a queue holds."""

    max_bytes: int = 16 * 1024 * 1024
    max_objects: int = 4096
    hard_factor: int = 4
    """The hard limit is this multiple of the limits."""
    drop: bool = False
    """Drop the oldest object above the limits instead of holding the sender back."""


class Verdict(Enum):
    """What to do with an object that arrived."""

    TAKE = "take"
    DROP_NEWEST = "drop the newest"
    DROP_OLDEST = "drop the oldest, then take"


class Window:
    """Counts the objects and bytes of one receive queue; it does not hold them."""

    __slots__ = ("_limits", "bytes", "dropped", "dropped_bytes", "objects", "paused")

    def __init__(self, limits: WindowLimits) -> None:
        self._limits = limits
        self.objects = 0
        self.bytes = 0
        self.dropped = 0
        """Objects that were dropped for want of room."""
        self.dropped_bytes = 0
        self.paused = False
        """Whether reading should be paused now."""

    def judge(self, size: int) -> Verdict:
        """Decide about an object of ``size`` bytes. Ask again after DROP_OLDEST."""
        limits = self._limits
        if limits.drop:
            full = self.objects >= limits.max_objects or self.bytes + size > limits.max_bytes
            return Verdict.DROP_OLDEST if full and self.objects else Verdict.TAKE
        factor = limits.hard_factor
        if self.objects >= limits.max_objects * factor or (
            self.objects and self.bytes + size > limits.max_bytes * factor
        ):
            return Verdict.DROP_NEWEST
        return Verdict.TAKE

    def take(self, size: int) -> None:
        """Count an object that enters the queue."""
        self.objects += 1
        self.bytes += size
        limits = self._limits
        if not limits.drop and (
            self.objects >= limits.max_objects or self.bytes >= limits.max_bytes
        ):
            self.paused = True

    def give(self, size: int) -> bool:
        """Count an object that leaves the queue; True if reading is to be resumed."""
        self.objects -= 1
        self.bytes -= size
        limits = self._limits
        if (
            self.paused
            and self.objects <= limits.max_objects // 2
            and self.bytes <= limits.max_bytes // 2
        ):
            self.paused = False
            return True
        return False

    def drop(self, size: int) -> None:
        """Count an object that was dropped, before or after it was in the queue."""
        self.dropped += 1
        self.dropped_bytes += size
