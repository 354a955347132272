"""Objects whose way through the relay is timed: few of them, and the same ones at every relay.

::

    stream begins --wants?--> no: nothing more is done for it
                         '--> yes: its first object is watched on each way out until it was sent

What is watched is asked a few times whether it was sent, ever more rarely. What is gone at the
first look left with the turn in which it was written, and has that time; what had to wait has the
time of the look that found it gone. One of these serves both planes, for an object may come by one
of them and leave by the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from laps_wire.names import FullTrackName
from laps_wire.telemetry import is_sampled

__all__ = ["Sample", "Samples"]

_FIRST: Final = 0.001
_LONGEST: Final = 0.05
"""Seconds between two looks, at first and at most."""
_PATIENCE: Final = 30.0
"""Seconds after which an object that waits is nobody's measure any more."""
_PENDING: Final = 1000
_BYWAYS: Final = 1000


class Sample(NamedTuple):
    """An object on one way through the relay."""

    key: int
    """The full-name hash of its track."""
    group_id: int
    object_id: int
    size: int
    came: float
    sent: float = 0.0
    source: int | None = None
    """The peer's session that it came from; None: see ``client``."""
    target: int | None = None
    """The peer's session that it went to; None: see ``viewer``."""
    client: int | None = None
    """The session of the Edge that it came from, if other relays are behind that."""
    viewer: int | None = None
    """The session of the Edge that it went to, if other relays are behind that."""


class _Watched:
    __slots__ = ("due", "interval", "sample", "was_sent", "written")

    def __init__(self, now: float, sample: Sample, was_sent: Callable[[], bool | None]) -> None:
        self.due = self.written = now
        self.interval = _FIRST
        self.sample = sample
        self.was_sent = was_sent


class Samples:
    """What is watched, and what was seen."""

    __slots__ = ("_byways", "_done", "_due", "_pending", "key_of", "one_in")

    def __init__(self, one_in: int, key_of: Callable[[FullTrackName], int]) -> None:
        self.one_in = one_in
        self.key_of = key_of
        self._pending: list[_Watched] = []
        self._due: float | None = None
        self._done: list[Sample] = []
        self._byways: dict[tuple[int, int], tuple[int, float]] = {}

    def wants(self, key: int, group_id: int) -> bool:
        """Whether objects of this group are timed."""
        return is_sampled(key, group_id, self.one_in)

    def watch(self, now: float, sample: Sample, was_sent: Callable[[], bool | None]) -> None:
        """Time an object that was written just now.

        ``was_sent`` says whether it was; None: it never will be.
        """
        if len(self._pending) < _PENDING:
            self._pending.append(_Watched(now, sample, was_sent))
            if self._due is None or now < self._due:
                self._due = now

    # What comes from another relay and goes to our own clients is seen by two planes.

    def arrived(self, key: int, group_id: int, session: int, came: float) -> None:
        """A group of a track that our own clients get came from a peer's session."""
        byways = self._byways
        byways[key, group_id] = session, came
        if len(byways) > _BYWAYS:
            del byways[next(iter(byways))]

    def arrival(self, key: int, group_id: int) -> tuple[int, float] | None:
        """Where and when that was."""
        return self._byways.get((key, group_id))

    # Time

    def poll_timeout(self) -> float | None:
        """When :meth:`handle_timeout` wants to be called."""
        return self._due

    def handle_timeout(self, now: float) -> None:
        """See what was sent."""
        if self._due is None or now < self._due:
            return
        still: list[_Watched] = []
        for watched in self._pending:
            if watched.due > now:
                still.append(watched)
                continue
            was_sent = watched.was_sent()
            if was_sent:
                sent = watched.written if watched.due == watched.written else now
                self._done.append(watched.sample._replace(sent=sent))
            elif was_sent is not None and now - watched.sample.came < _PATIENCE:
                watched.due = now + watched.interval
                watched.interval = min(2 * watched.interval, _LONGEST)
                still.append(watched)
        self._pending = still
        self._due = min((watched.due for watched in still), default=None)

    def take(self) -> list[Sample]:
        """What was sent; once."""
        taken, self._done = self._done, []
        return taken
