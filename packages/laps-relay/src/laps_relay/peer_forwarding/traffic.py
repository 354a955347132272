"""Traffic by track and session, for telemetry; counted only on request.

::

    Session 3 --came--> track 7f.. --sent--> Session 5
                                   '-sent--> Session 6

A Via does not parse what it forwards: it counts streams and datagrams, and bytes with their data
header. So what one relay sent is what the next one received, to the byte. Bytes that were written
and then given up, because the peer was too slow, are subtracted again.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Arrival", "Departure", "Traffic"]


class Arrival(NamedTuple):
    """What arrived of a track from one session."""

    key: int
    """The full-name hash of the track."""
    source: int
    """The session; ``LOCAL`` for what our own clients publish."""
    units: int
    """Streams that ended, and datagrams."""
    bytes: int


class Departure(NamedTuple):
    """What was forwarded of a track to another session."""

    key: int
    source: int
    target: int
    units: int
    bytes: int
    dropped: int
    """Streams that were given up, and datagrams that were not sent."""


class Traffic:
    """Sums since they were last taken."""

    __slots__ = ("_came", "_sent")

    def __init__(self) -> None:
        self._came: dict[tuple[int, int], list[int]] = {}
        self._sent: dict[tuple[int, int, int], list[int]] = {}

    def came(self, key: int, source: int, size: int, units: int = 0) -> None:
        """Count bytes of a track that arrived, and ended streams."""
        sums = self._came.get((key, source))
        if sums is None:
            self._came[key, source] = [units, size]
        else:
            sums[0] += units
            sums[1] += size

    def sent(
        self, key: int, source: int, target: int, size: int, units: int = 0, dropped: int = 0
    ) -> None:
        """Count bytes that were forwarded; a negative size takes back what was given up."""
        way = (key, source, target)
        sums = self._sent.get(way)
        if sums is None:
            self._sent[way] = [units, size, dropped]
        else:
            sums[0] += units
            sums[1] += size
            sums[2] += dropped

    def take(self) -> tuple[list[Arrival], list[Departure]]:
        """Return the sums since the last call, and reset them.

        A stream may give up more bytes than were written since the last call. A sum is never
        negative: the rest is subtracted from the next sum.
        """
        came, self._came = self._came, {}
        sent, self._sent = self._sent, {}
        for way, sums in sent.items():
            if sums[1] < 0:
                self._sent[way] = [0, sums[1], 0]
                sums[1] = 0
        return (
            [Arrival(*flow, *sums) for flow, sums in came.items() if any(sums)],
            [Departure(*way, *sums) for way, sums in sent.items() if any(sums)],
        )
