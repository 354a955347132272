"""When a relay that drains may end: not before everything that it took is sent.

::

    drain      targets move elsewhere, streams end, queues run empty       a flight
      |------------------------- something is under way -------------------|------->| DONE
      |-------------------------------- limit ------------------------------------------> LATE

"Under way" is what goes through the relay by its tables (peers have not withdrawn their sets), what
it has begun to send, what waits to be sent, and what was sent and has not arrived, words as well as
data: a peer that has the data may wait for its set, whose message is sent again. The flight
afterwards is for what peers sent before they heard of it, and for the last bytes, which a close
would overtake. A relay that is late gives up what still waits, and says how much that is.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["DrainMonitor", "Standing"]


class Standing(Enum):
    """What becomes of a relay that drains."""

    STAYS = "something is under way"
    DONE = "nothing is under way any more"
    LATE = "its time is over"


class DrainMonitor:
    """How long one relay stays that drains."""

    __slots__ = ("_busy", "deadline")

    def __init__(self, now: float, seconds: float) -> None:
        self.deadline = now + seconds
        """When it ends in any case."""
        self._busy: float | None = None
        """When something was last under way. Who looks first cannot know what was before."""

    def look(self, now: float, *, busy: bool, flight: float) -> Standing:
        """Whether it may end now; ``flight`` is how long something is under way to a peer."""
        if busy or self._busy is None:
            self._busy = now
        if now >= self.deadline:
            return Standing.LATE
        if busy or now < self._busy + flight:
            return Standing.STAYS
        return Standing.DONE
