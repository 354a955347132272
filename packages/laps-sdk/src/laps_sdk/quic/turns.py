"""What the client port and the peer port have in common: a socket, a clock, turns and one timer.

::

    events of a connection -> the core -> settle: until all is quiet -> observers -> the timer
    the timer -------------> the core -> settle
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

from laps_sdk.quic.base import Address
from laps_sdk.quic.endpoint import Endpoint
from laps_sdk.quic.events import Event

__all__ = ["Deaf", "TurnServer"]


class TurnServer(ABC):
    """A server whose core is asked and told in turns."""

    CLOSED: ClassVar[str] = "the server is not running"

    def __init__(self) -> None:
        self.on_turn: Callable[[float], None] | None = None
        """Called behind every turn that may have brought events: takes ``relay.poll_events()``."""
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
        """The socket; only between ``start`` and ``stop``."""
        if self._endpoint is None:
            raise RuntimeError(self.CLOSED)
        return self._endpoint

    @property
    def address(self) -> Address:
        """Where it listens."""
        return self.endpoint.local_address

    @property
    def now(self) -> float:
        """The clock that the core is told."""
        if self._loop is None:
            raise RuntimeError(self.CLOSED)
        return self._loop.time()

    def reload_certificate(self) -> None:
        """New connections get the certificate that lies on the disk now."""
        self.endpoint.reload_certificate()

    def cancel_timer(self) -> None:
        """Nothing more is due."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._timer_at = None

    # Turns

    @abstractmethod
    def round(self, now: float) -> None:
        """Carry on what a turn began; ``settle`` from inside lets it go round again."""

    @abstractmethod
    def turned(self, now: float) -> None:
        """A turn is over."""

    @abstractmethod
    def next_due(self) -> float | None:
        """When :meth:`due` wants to be called."""

    @abstractmethod
    def due(self, now: float) -> None:
        """Do what is due."""

    def settle(self) -> None:
        """Let a turn come to its end, and set the timer.

        Settling one session may bring up events for others, so it goes on until all is quiet. A
        call from inside (a session that closes while it is settled) is left to the outer one, which
        then goes round again.
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

    def _arm(self) -> None:
        """Set the one timer to whatever is due first."""
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


class Deaf:
    """The handler of a connection that was refused."""

    def handle_events(self, events: Sequence[Event]) -> None:
        """Nothing more is said on it."""
