"""Nodes of which neither end of a session tells the other, and since when.

Who has a way to a node tells its peers, but those through whom it goes; and those tell it. So on a
session between two that know a node something is said of it, in one direction at least. ::

    r7 ... r3 --- r5 --- r1 --- r2 --- r6 ... r7      policy: nothing may go through r3 and r6

r5 still knows r7, and may not use what r3 says, so it does not pass it on; it is the same with r2.
So r1 has lost a node that its peers know. What it has forgotten because of that must be told again
when one of them speaks of the node (:mod:`laps_relay.network.flood.flood_doubts`).

Only short silences must be remembered: of one that is not, all that counts is that it was long.
"""

from __future__ import annotations

from typing import Final

from laps_wire.nodeid import NodeId

__all__ = ["MAX_SILENCES", "TOLD_AGAIN", "Silences"]

MAX_SILENCES: Final = 65_536
"""Of more the oldest are forgotten, as if they were long ones: somebody tells a little more."""
TOLD_AGAIN: Final = 0.5
"""After this share of the convergence time a giver tells everything again."""


class Silences:
    """When they began, as far as that was not long ago."""

    __slots__ = ("_began", "_most", "_window")

    def __init__(self, window: float, most: int = MAX_SILENCES) -> None:
        """``window``: from how many seconds on a silence is long."""
        self._window = window
        self._most = most
        self._began: dict[tuple[NodeId, NodeId], float] = {}
        """Peer and node, the oldest first."""

    def __len__(self) -> int:
        return len(self._began)

    def begin(self, now: float, peer: NodeId, node: NodeId) -> None:
        """Nothing is said of a node any more."""
        began = self._began
        began.pop((peer, node), None)
        began[peer, node] = now
        while began:
            oldest = next(iter(began))
            if len(began) <= self._most and began[oldest] > now - self._window:
                break
            del began[oldest]

    def end(self, now: float, peer: NodeId, node: NodeId, opened: float) -> float:
        """One tells the other of it: for how long none did, since the session was ``opened``."""
        return now - max(self._began.pop((peer, node), opened), opened)
