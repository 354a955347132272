"""The objects that a publisher holds, so that it can send them again after a lost connection.

::

    written --> sent -----lost connection-----> at risk, unless acknowledged
                 ^                                 |
                 '-------------sent again----------'

    written while nobody receives, after a lost connection --> unsent

An acknowledged object is held too: the relay may have ended before it passed the object on. The
oldest object is dropped first, by age or by the number of bytes. The age does not grow while there
is no connection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Generic, TypeVar

from laps_wire.moqt.structures import Location

__all__ = ["HeldObject", "HeldObjects", "Sending"]

S = TypeVar("S")
"""The subgroup of an object, as its owner knows it."""
T = TypeVar("T")
"""A stream, as its owner knows it."""


class Sending(IntEnum):
    """What became of a held object."""

    SENT = 0
    AT_RISK = 1
    """Sent on a connection that was lost before the relay acknowledged the object."""
    UNSENT = 2
    """Not sent yet: nobody received when it was written."""


class HeldObject(Generic[S, T]):
    """One object, as the application wrote it."""

    __slots__ = (
        "at",
        "deadline",
        "end",
        "extensions",
        "location",
        "payload",
        "sending",
        "stamp",
        "stream",
        "subgroup",
    )

    def __init__(
        self,
        subgroup: S,
        location: Location,
        payload: bytes,
        extensions: tuple[tuple[int, int | bytes], ...],
        stamp: float | None,
        deadline: float | None,
        stream: T | None = None,
        end: int = 0,
    ) -> None:
        self.subgroup = subgroup
        self.location = location
        self.payload = payload
        self.extensions = extensions
        """Before their encoding, which depends on the draft."""
        self.stamp = stamp
        """The capture time."""
        self.deadline = deadline
        """When the object is too old to be sent; None: never."""
        self.stream = stream
        """The latest stream that it was sent on; None if it was not sent."""
        self.end = end
        """Where it ends in that stream."""
        self.sending = Sending.UNSENT if stream is None else Sending.SENT
        self.at = 0.0


class HeldObjects(Generic[S, T]):
    """Holds the last objects of one track, in the order in which they were written.

    ``seconds`` and ``size`` limit the age and the bytes of payload. With either at 0 nothing is
    held.
    """

    __slots__ = ("_bytes", "_objects", "_paused", "_skew", "at_risk", "lost", "seconds", "size")

    def __init__(self, seconds: float, size: int) -> None:
        self.seconds = seconds
        self.size = size if seconds > 0 else 0
        self._objects: deque[HeldObject[S, T]] = deque()
        self._bytes = 0
        self._paused: float | None = None
        self._skew = 0.0  # the time that passed without a connection
        self.at_risk = 0
        """Objects that may not have arrived."""
        self.lost = 0
        """Objects that were dropped while they were at risk."""

    def __iter__(self) -> Iterator[HeldObject[S, T]]:
        return iter(self._objects)

    def __len__(self) -> int:
        return len(self._objects)

    @property
    def bytes(self) -> int:
        """Bytes of payload that are held."""
        return self._bytes

    def add(self, held: HeldObject[S, T], now: float) -> None:
        """Hold an object that was written now; drops older ones if there are too many bytes."""
        held.at = now - self._skew
        self._objects.append(held)
        self._bytes += len(held.payload)
        while self._bytes > self.size:
            self._drop(self._objects.popleft())

    def expire(self, now: float) -> float | None:
        """Drop what is too old; return the seconds until the next object is, or None."""
        if self._paused is not None:
            return None
        objects, first = self._objects, now - self._skew - self.seconds
        while objects and objects[0].at <= first:
            self._drop(objects.popleft())
        return objects[0].at - first if objects else None

    def _drop(self, held: HeldObject[S, T]) -> None:
        self._bytes -= len(held.payload)
        if held.sending is Sending.AT_RISK:
            self.at_risk -= 1
            self.lost += 1

    def drop(self, which: Callable[[HeldObject[S, T]], bool] | None = None) -> None:
        """Drop some objects, or all."""
        objects, self._objects = self._objects, deque()
        for held in objects:
            if which is None or which(held):
                self._drop(held)
            else:
                self._objects.append(held)

    # Lost connections

    def pause(self, now: float) -> None:
        """Let nothing grow older: there is no connection."""
        if self._paused is None:
            self._paused = now

    def go_on(self, now: float) -> None:
        """Let objects grow older again."""
        if self._paused is not None:
            self._skew += now - self._paused
            self._paused = None

    def lose(self, arrived: Callable[[HeldObject[S, T]], bool]) -> int:
        """Put objects that did not arrive at risk; return their number."""
        before = self.at_risk
        for held in self._objects:
            if held.sending is Sending.SENT and not arrived(held):
                held.sending = Sending.AT_RISK
                self.at_risk += 1
        return self.at_risk - before

    def sent_again(self, held: HeldObject[S, T], stream: T, end: int, now: float) -> None:
        """Note that an object was sent on another stream, up to ``end`` of it."""
        self.at_risk -= held.sending is Sending.AT_RISK
        held.sending = Sending.SENT
        held.stream, held.end = stream, end
        held.at = now - self._skew

    def any(self, which: Callable[[HeldObject[S, T]], bool]) -> bool:
        """Return whether there is such an object."""
        return any(map(which, self._objects))

    def subgroups(
        self, which: Callable[[HeldObject[S, T]], bool] = lambda _: True
    ) -> dict[S, list[HeldObject[S, T]]]:
        """Return some of the objects by subgroup, both in the order of writing."""
        found: dict[S, list[HeldObject[S, T]]] = {}
        for held in self._objects:
            if which(held):
                found.setdefault(held.subgroup, []).append(held)
        return found
