"""What the client port and the peer port share: a socket, a clock, turns and one timer.

::

    events of a connection -> the core -> settle: rounds until all is quiet -> observers -> timer
    the timer -------------> the core -> settle
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from laps_sdk.quic.base import Address
from laps_sdk.quic.endpoint import Endpoint

__all__ = ["TurnServer"]


class TurnServer(ABC):
    """A server that drives its core in turns: ``EdgeServer`` and ``PeerServer`` derive from it."""

    CLOSED: ClassVar[str] = "the server is not running"

    def __init__(self) -> None:
        self.on_turn: Callable[[float], None] | None = None
        """Called after every turn that may have made events; it reads ``relay.poll_events()``."""
        self.settling = False
        self._again = False
        self._endpoint: Endpoint | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: float | None = None

    # Life

    @property
    def running(self) -> bool:
        """Whether the socket is open."""
        return self._endpoint is not None

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint; raises ``RuntimeError`` unless the server is running."""
        if self._endpoint is None:
            raise RuntimeError(self.CLOSED)
        return self._endpoint

    @property
    def address(self) -> Address:
        """The address that the server listens on."""
        return self.endpoint.local_address

    @property
    def now(self) -> float:
        """The loop's clock, which the core uses; raises ``RuntimeError`` before ``start``."""
        if self._loop is None:
            raise RuntimeError(self.CLOSED)
        return self._loop.time()

    def reload_certificate(self) -> None:
        """Read the certificate files again, for new connections."""
        self.endpoint.reload_certificate()

    def cancel_timer(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._timer_at = None

    # Turns

    @abstractmethod
    def round(self, now: float) -> None:
        """Run one round of a turn; a call of ``settle`` from inside requests another round."""

    @abstractmethod
    def turned(self, now: float) -> None:
        """Handle the end of a turn."""

    @abstractmethod
    def next_due(self) -> float | None:
        """Return when to call :meth:`due`; None for never."""

    @abstractmethod
    def due(self, now: float) -> None:
        """Handle the timers that are due."""

    def settle(self) -> None:
        """Run rounds until nothing is left to do, then set the timer.

        A round for one session may make events for others, so rounds repeat. A call from inside a
        round (a session that closes, for example) returns at once and requests another round.
        """
        self._again = True
        if self.settling:
            return
        self.settling = True
        try:
            now = self.now
            while self._again:
                self._again = False
                self.round(now)
            self.turned(now)
            self._arm()
        finally:
            self.settling = False

    def is_late(self, due: float | None) -> bool:
        """Return whether the timer is set to a time after ``due``."""
        return due is not None and (self._timer_at is None or due < self._timer_at)

    def _arm(self) -> None:
        """Set the timer to the earliest due time."""
        due = self.next_due()
        if due == self._timer_at or self._loop is None:
            return
        self.cancel_timer()
        self._timer_at = due
        if due is not None and self._endpoint is not None:
            self._timer = self._loop.call_at(due, self._tick)

    def _tick(self) -> None:
        self._timer = self._timer_at = None
        self.due(self.now)
        self.settle()
