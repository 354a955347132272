"""How much an engine would take now, less what it holds already. Pure."""

from __future__ import annotations

from typing import Final

from laps_sdk.quic.engine import EngineConnection

__all__ = ["SendWindow"]

_STUCK_AFTER: Final = 0.1
"""Seconds after which backlog that does not move although there is window is not counted."""
_STUCK_LIMIT: Final = 256 * 1024
"""... and how much of it at most: an engine that does not tell the connection's flow control
must not be filled without end."""


class SendWindow:
    """Asks one engine, and sees backlog that no flush can move.

    Streams that the peer gives no credit hold such backlog; it must not keep the others waiting.
    """

    __slots__ = ("_engine", "_seen", "_since", "_stuck", "recheck", "stalled")

    def __init__(self, engine: EngineConnection) -> None:
        self._engine = engine
        self.stalled = 0
        """Backlog of streams that are known to wait for their own credit."""
        self.recheck: float | None = None
        """When to measure again although nothing else happens: backlog may turn out stuck."""
        self._stuck = self._seen = 0
        self._since = 0.0

    def measure(self, now: float | None = None) -> int:
        """Bytes that may be given; with ``now``, also look whether backlog is stuck."""
        engine = self._engine
        window = engine.send_window()
        backlog = engine.total_backlog() - self.stalled
        self.recheck = None
        if window <= 0 or backlog <= 0:
            self._stuck = self._seen = 0
            return max(0, window)
        self._stuck = min(self._stuck, backlog)
        if now is not None:
            if backlog < self._seen or not self._seen:
                self._since = now
            elif now - self._since >= _STUCK_AFTER:
                self._stuck = min(backlog, _STUCK_LIMIT)
            self._seen = backlog
            if window <= backlog - self._stuck:
                self.recheck = max(self._since, now) + _STUCK_AFTER
        return max(0, window - (backlog - self._stuck))

    def blocked(self, now: float) -> None:
        """All that could be given was given, and more waits: look again even if nothing happens.

        What was given last may be what no flush can move: then no acknowledgement comes for it.
        """
        if self.recheck is None:
            self.recheck = now + _STUCK_AFTER
