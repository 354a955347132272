"""What a track did since somebody looked: with clients, and with each session of other relays.

Payload is counted, once for a subgroup and not once for each receiver of it. Who is a client is the
rest: all of a track without what came from other relays and went to them. So clients, of which
there are many, cost nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from laps_wire.names import FullTrackName

__all__ = ["LinkTraffic", "Tally", "TrackTraffic", "gained"]


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
