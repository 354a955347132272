"""Peers that misbehave: how often a peer sends what no correct relay sends.

What a peer passes on may be invented by another node, and is only reported: a wrong key, a round
trip that is too short. Two things no correct relay sends: an impossible path, and a set with
targets that were never advertised to it. The second can be a race with a withdrawal;
:class:`RecentWithdrawals` knows those. A session ends with more than ``MAX_VIOLATIONS`` within
``PERIOD``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from laps_wire.nodeid import NodeId

__all__ = ["MAX_VIOLATIONS", "PERIOD", "RecentWithdrawals", "ViolationCounter"]

MAX_VIOLATIONS: Final = 16
"""Violations of one session that are tolerated within :data:`PERIOD`."""
PERIOD: Final = 60.0
"""Seconds."""


class ViolationCounter:
    """Counts the violations of each session."""

    __slots__ = ("_times",)

    def __init__(self) -> None:
        self._times: dict[int, deque[float]] = {}

    def add(self, now: float, session: int) -> bool:
        """Count one more; return whether that is too many."""
        times = self._times.setdefault(session, deque(maxlen=MAX_VIOLATIONS + 1))
        times.append(now)
        return len(times) > MAX_VIOLATIONS and times[0] > now - PERIOD

    def __len__(self) -> int:
        """How many sessions have violations that still count."""
        return len(self._times)

    def forget(self, session: int) -> None:
        """Drop the counter of a session that has ended."""
        self._times.pop(session, None)


class RecentWithdrawals:
    """Nodes that were withdrawn from peers a short time ago."""

    __slots__ = ("_blind", "_most", "_times", "_window")

    def __init__(self, window: float, most: int = 65_536) -> None:
        """Remember for ``window`` seconds; with more than ``most`` every peer is trusted."""
        self._window = window
        self._most = most
        self._times: dict[tuple[NodeId, NodeId], float] = {}
        """The oldest first."""
        self._blind = float("-inf")

    def add(self, now: float, peer: NodeId, nodes: Iterable[NodeId]) -> None:
        """Record that these nodes are withdrawn from a peer now."""
        times = self._times
        for node in nodes:
            times.pop((peer, node), None)
            times[peer, node] = now
        while times:
            oldest = next(iter(times))
            if times[oldest] > now - self._window:
                if len(times) <= self._most:
                    break
                self._blind = now + self._window
            del times[oldest]

    def recent(self, now: float, peer: NodeId, node: NodeId) -> bool:
        """Return whether a withdrawal may not have reached the peer yet."""
        then = self._times.get((peer, node))
        return now < self._blind or (then is not None and then > now - self._window)

    def __len__(self) -> int:
        return len(self._times)
