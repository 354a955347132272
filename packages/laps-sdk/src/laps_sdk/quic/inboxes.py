"""Events on their way to the handlers: in order for each connection, fairly between them.

One connection gets at most ``quota`` events in a round; what is more waits for the next round, so
that a busy publisher cannot starve the others. A connection with more than ``limit`` events waiting
is *full*: the endpoint then drops its packets, its peer sees loss and slows down, and nobody else
notices.

Pure.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from laps_sdk.quic.events import Event

__all__ = ["Inboxes"]

K = TypeVar("K", bound=Hashable)


class Inboxes(Generic[K]):
    """Who has events waiting, in the order in which they get them."""

    __slots__ = ("_limit", "_quota", "_waiting")

    def __init__(self, *, quota: int = 256, limit: int = 4096) -> None:
        self._quota = quota
        self._limit = limit
        self._waiting: dict[K, list[Event]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, owner: K, events: list[Event]) -> None:
        """Add events behind those that wait; the list is kept."""
        waiting = self._waiting.get(owner)
        if waiting is None:
            self._waiting[owner] = events
        else:
            waiting.extend(events)

    def full(self, owner: K) -> bool:
        """Whether nothing more should be taken in for this owner now."""
        waiting = self._waiting.get(owner)
        return waiting is not None and len(waiting) >= self._limit

    def round(self) -> list[tuple[K, list[Event]]]:
        """One list for each owner with events; the rest stays for the next round."""
        quota = self._quota
        waiting, self._waiting = self._waiting, {}
        found: list[tuple[K, list[Event]]] = []
        for owner, events in waiting.items():
            if len(events) > quota:
                self._waiting[owner] = events[quota:]
                del events[quota:]
            found.append((owner, events))
        return found
