"""When a draining relay may end: not before everything that it took is sent.

::

    drain      targets move elsewhere, streams end, queues run empty       a flight
      |------------------------- something is under way -------------------|------->| DONE
      |-------------------------------- limit ------------------------------------------> LATE

"Under way" is data that passes the relay by its tables (peers have not withdrawn their sets), what
it has begun to send, what waits to be sent, and what was sent and has not arrived. Control messages
count like data: a peer that has the data may wait for its set, whose message is sent again.

The flight afterwards is for what peers sent before they learned of the drain, and for the last
bytes, which a close would overtake. A relay that is late gives up what still waits, and reports how
much that is.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["DrainMonitor", "Standing"]


class Standing(Enum):
    """The state of a relay that drains."""

    STAYS = "something is under way"
    DONE = "nothing is under way any more"
    LATE = "its time is over"


class DrainMonitor:
    """Decides how long one relay stays while it drains."""

    __slots__ = ("_busy", "deadline")

    def __init__(self, now: float, seconds: float) -> None:
        self.deadline = now + seconds
        """When the relay ends in any case."""
        self._busy: float | None = None
        """When something was last under way; None before the first call."""

    def look(self, now: float, *, busy: bool, flight: float) -> Standing:
        """Return whether the relay may end now; ``flight`` is the time to a peer in seconds."""
        if busy or self._busy is None:
            self._busy = now
        if now >= self.deadline:
            return Standing.LATE
        if busy or now < self._busy + flight:
            return Standing.STAYS
        return Standing.DONE
