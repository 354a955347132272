"""What became of what was sent to each client: the part of its experience that a relay can see."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from laps_wire.names import FullTrackName

if TYPE_CHECKING:
    from laps_sdk.forwarding.state import Session

__all__ = ["ClientTraffic", "Service", "take_clients"]

_FEW: Final = 16
"""With more subscriptions than these a session is not asked which track it gets most of."""


class Service:
    """How one session was served."""

    __slots__ = ("_asked", "_told", "gaps", "startup")

    def __init__(self) -> None:
        self.gaps = 0
        """Objects that it did not get."""
        self.startup: float | None = None
        """Seconds from its first subscription to the first object."""
        self._asked: float | None = None
        self._told: tuple[int, bool] = (0, False)

    def asked(self, now: float) -> None:
        """It has a subscription."""
        if self._asked is None:
            self._asked = now

    def began(self, now: float) -> None:
        """Something was sent to it."""
        if self.startup is None and self._asked is not None:
            self.startup = now - self._asked

    def take(self) -> tuple[int, float | None]:
        """Gaps since the last time; and the start-up, the first time."""
        gaps, started = self._told
        self._told = self.gaps, self.startup is not None
        return self.gaps - gaps, None if started else self.startup


class ClientTraffic(NamedTuple):
    """Of one client since the last time."""

    session: int
    gaps: int
    startup: float | None
    track: FullTrackName | None
    """The one that it got most of; None if it has many."""


def take_clients(sessions: Iterable[Session]) -> list[ClientTraffic]:
    """All clients that are subscribed to something."""
    found = []
    for session in sessions:
        receivers = session.receivers.values()
        if session.peering or not receivers:
            continue
        gaps, startup = session.service.take()
        track = None
        if len(receivers) <= _FEW:
            track = max(receivers, key=lambda each: each.counters().bytes).track.name
        found.append(ClientTraffic(session.number, gaps, startup, track))
    return found
