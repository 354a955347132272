"""The end of a subscription: the publisher's last word, and the streams that it has not overtaken.

::

    PUBLISH_DONE (n streams) -> n have come and none is open        -> over
                             -> some are missing or open            -> over when nothing moves
                             -> the reader has to catch up first    -> wait for the reader
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from laps_wire.moqt.messages import STREAM_COUNT_UNKNOWN, PublishDone

__all__ = ["Ending"]

_LINGER: Final = 2.0
"""Seconds to wait behind the last word for streams of which nothing has come."""


class Owner(Protocol):
    """The subscription."""

    objects: int
    """How many arrived; while it grows the end is not near."""

    @property
    def patience(self) -> float:
        """Seconds to wait for the rest of a stream that has begun."""

    @property
    def busy(self) -> bool:
        """Whether more will come as soon as the reader has taken what is there."""

    def finish(self) -> None:
        """It is over."""


class Ending:
    """Knows when nothing more will come."""

    __slots__ = ("_objects", "_open", "_owner", "_seen", "_timer", "last_word")

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._open = 0
        self._seen = 0
        self._objects = 0
        self._timer: asyncio.TimerHandle | None = None
        self.last_word: PublishDone | None = None

    def stream_opened(self) -> None:
        """A stream of the subscription began."""
        self._open += 1
        self._seen += 1

    def stream_closed(self) -> None:
        """... and ended."""
        self._open = max(0, self._open - 1)

    def restart(self) -> None:
        """The subscription begins on another link, or with another publisher."""
        self.cancel()
        self._open = self._seen = 0
        self.last_word = None

    def heard(self, message: PublishDone) -> None:
        """The last word."""
        self.last_word = message
        self.settle()

    def settle(self) -> None:
        """Finish if all has come; if not, see to it that it is finished one day."""
        last = self.last_word
        if last is None:
            return
        expected = last.stream_count
        complete = expected != STREAM_COUNT_UNKNOWN and self._seen >= expected
        if not self._open and complete:
            self.cancel()
            self._owner.finish()
        elif self._timer is None and not self._owner.busy:
            self._arm()

    def _arm(self) -> None:
        self._objects = self._owner.objects
        seconds = max(_LINGER, self._owner.patience) if self._open else _LINGER
        self._timer = asyncio.get_running_loop().call_later(seconds, self._waited)

    def _waited(self) -> None:
        self._timer = None
        if self._owner.busy:
            return  # the reader settles it when there is room again
        if self._owner.objects != self._objects:
            self._arm()
        else:
            self._owner.finish()

    def cancel(self) -> None:
        """Wait no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
