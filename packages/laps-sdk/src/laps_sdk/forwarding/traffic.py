"""What a track did since somebody looked: with clients, and with each session of other relays.

Payload is counted, once for a subgroup and not once for each receiver of it. Who is a client is the
rest: all of a track without what came from other relays and went to them. So clients, of which
there are many, cost nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from laps_wire.names import FullTrackName

__all__ = [
    "ClientTraffic",
    "LinkTraffic",
    "Service",
    "Tally",
    "TrackTraffic",
    "gained",
]


class Tally:
    """Figures of a track and one session of other relays."""

    __slots__ = ("bytes_in", "bytes_out", "objects_in", "objects_out")

    def __init__(self) -> None:
        self.objects_in = 0
        self.bytes_in = 0
        self.objects_out = 0
        self.bytes_out = 0

    def came(self, objects: int, size: int) -> None:
        """From the session."""
        self.objects_in += objects
        self.bytes_in += size

    def sent(self, objects: int, size: int) -> None:
        """To the session."""
        self.objects_out += objects
        self.bytes_out += size


class LinkTraffic(NamedTuple):
    """Of a track and one session of other relays."""

    session: int
    objects_in: int
    bytes_in: int
    objects_out: int
    bytes_out: int


class TrackTraffic(NamedTuple):
    """Of one track; the figures are those of clients."""

    name: FullTrackName
    objects_in: int
    bytes_in: int
    objects_out: int
    bytes_out: int
    dropped: int
    """Objects that some receiver did not get."""
    first_group: int | None
    last_group: int | None
    links: tuple[LinkTraffic, ...] = ()

    @property
    def is_idle(self) -> bool:
        """Whether nothing happened."""
        return not (any(self[1:6]) or any(map(any, (link[1:] for link in self.links))))


def gained(now: TrackTraffic, before: TrackTraffic | None) -> TrackTraffic:
    """What was added to totals since ``before``, and the groups in which that was."""
    if before is None:
        return now
    earlier = {link.session: link for link in before.links}
    links = []
    for link in now.links:
        old = earlier.get(link.session, (0,) * 5)
        pairs = zip(link[1:], old[1:], strict=True)
        links.append(LinkTraffic(link.session, *[new - was for new, was in pairs]))
    first, last = before.last_group, now.last_group
    if first is None or last is None:
        first = now.first_group
    elif first < last:
        first += 1
    return TrackTraffic(
        now.name,
        now.objects_in - before.objects_in,
        now.bytes_in - before.bytes_in,
        now.objects_out - before.objects_out,
        now.bytes_out - before.bytes_out,
        now.dropped - before.dropped,
        first,
        last,
        tuple(links),
    )


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
