"""Tracks that the relay takes itself: their objects are put together, handed over, and forgotten.

::

    stream --> Opening --> alias of an intake? --> Taking --whole object--> Taker
    datagram -----------------------------------------------whole object--'

No cache, no receivers, no counters of tracks. What a session can make us remember is one object of
limited size on each of a few streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from laps_sdk.forwarding.coding import CANCELLED, Mark
from laps_sdk.forwarding.interfaces import Taker
from laps_sdk.forwarding.scan import RunParser

if TYPE_CHECKING:
    from laps_sdk.forwarding.state import Session

__all__ = ["MOST_STREAMS", "Intake", "Taking"]

MOST_STREAMS: Final = 8
"""Streams of an intake that may be under way at a time."""


class Intake:
    """What an alias of a session stands for, if the relay takes it."""

    __slots__ = ("object_bytes", "streams", "taker")

    def __init__(self, taker: Taker, object_bytes: int) -> None:
        self.taker = taker
        self.object_bytes = object_bytes
        self.streams = 0
        """Under way."""


class Taking:
    """One stream of an intake."""

    __slots__ = ("_intake", "_open", "_parser", "_payload", "_session", "_stream_id")

    track = None
    """It belongs to no track that is forwarded."""

    def __init__(self, session: Session, stream_id: int, parser: RunParser, intake: Intake) -> None:
        self._session = session
        self._stream_id = stream_id
        self._parser = parser
        self._intake = intake
        self._payload = bytearray()
        self._open = True
        intake.streams += 1

    def data(self, now: float, data: bytes, fin: bool) -> None:
        """More of it."""
        if self._intake.streams > MOST_STREAMS:
            self._give_up("streams", f"more than {MOST_STREAMS} streams at a time")
            return
        marks: list[Mark] = []
        body, end = self._parser.scan(data, marks)
        at = 0
        for head, start, payload in marks:
            self._more(now, body[at:start], whole=True)
            if head.payload_length > self._intake.object_bytes:
                self._give_up("size", f"objects over {self._intake.object_bytes} bytes")
                return
            at = payload
        self._more(now, body[at:end], whole=not self._parser.left)
        if fin:
            self._parser.finish()
            self._close()

    def _more(self, now: float, piece: bytes, *, whole: bool) -> None:
        """A piece of an object's payload; ``whole`` if the object ends with it."""
        self._payload += piece
        if whole and self._payload:
            self._intake.taker.take(now, self._session.number, bytes(self._payload))
            self._payload.clear()

    def _give_up(self, kind: str, reason: str) -> None:
        self._intake.taker.refuse(self._session.number, kind, reason)
        self._session.stop(self._stream_id, CANCELLED)
        self._close()

    def _close(self) -> None:
        if self._open:
            self._open = False
            self._intake.streams -= 1
        self._payload.clear()

    def reset(self, now: float, code: int) -> None:  # noqa: ARG002 - Handler
        """What is not whole is not taken."""
        self._close()
