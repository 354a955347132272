"""The past of a subscription: fetched first, while live objects wait behind it.

::

    begin -> (live objects are kept) -> run: FETCH -> its objects go out -> end: live ones follow
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from laps_sdk.api.core.progress import Gap, GapCause, Progress
from laps_sdk.api.fetching import FetchRun
from laps_sdk.api.link import Link
from laps_sdk.api.objects import Object
from laps_wire.errors import LapsError
from laps_wire.moqt.codepoints import GroupOrder
from laps_wire.moqt.data import MoqObject, RangeEnd
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.structures import FetchTarget, Location

__all__ = ["CatchUp", "Past"]


class Past(NamedTuple):
    """What to fetch."""

    target: FetchTarget
    start: Location
    end: Location
    """The last object."""
    cause: GapCause | None
    """What to call it if it does not come; None: nothing, nobody was promised it."""


class Owner(Protocol):
    """The subscription."""

    def take(self, item: MoqObject, received_at: float, *, live: bool) -> None:
        """An object of the past."""

    def absent(self, item: RangeEnd) -> None:
        """There is nothing up to here."""

    def put(self, obj: Object, size: int) -> None:
        """A live object whose turn has come."""

    def dropped_early(self, size: int) -> None:
        """A live object for which there was no room."""

    def note_gap(self, gap: Gap) -> None:
        """The past did not come."""

    def report(self) -> None:
        """Gaps may have become known."""

    def settle(self) -> None:
        """The end may have come in the meantime."""


class CatchUp:
    """One subscription's way from the past to the present."""

    __slots__ = ("_kept", "_most", "_owner", "_progress", "_run", "_what", "active")

    def __init__(self, owner: Owner, what: str, progress: Progress, most: int) -> None:
        self._owner = owner
        self._what = what
        self._progress = progress
        self._most = most
        self._kept: list[tuple[Object, int]] = []
        self._run: FetchRun | None = None
        self.active = False
        """Whether live objects have to wait."""

    def begin(self) -> None:
        """From now on live objects wait, and nothing counts as missing."""
        self.active = True
        self._progress.hold()

    def keep(self, obj: Object, size: int) -> None:
        """A live object waits."""
        if len(self._kept) >= self._most:
            self._owner.dropped_early(size)
        else:
            self._kept.append((obj, size))

    async def run(self, link: Link, past: Past, seconds: float) -> None:
        """Fetch; returns when the relay has answered, and goes on in the background."""
        run = self._run = FetchRun(
            link,
            self._what,
            take=lambda item, at: self._owner.take(item, at, live=False),
            over=lambda error: self._over(past, error),
            absent=self._owner.absent,
        )
        try:
            await run.start(past.target, Parameters(group_order=GroupOrder.ASCENDING), seconds)
        except LapsError as error:
            self._over(past, error)

    def _over(self, past: Past, error: Exception | None) -> None:
        if error is not None:
            self._progress.account(past.start, past.end)
            if past.cause is not None:
                self._owner.note_gap(Gap(first=past.start, last=past.end, cause=past.cause))
        self.end()
        self._owner.settle()

    def end(self) -> None:
        """The past has come, as far as it comes: live objects follow."""
        self._run = None
        self.active = False
        self._progress.release()
        kept, self._kept = self._kept, []
        for obj, size in kept:
            self._owner.put(obj, size)
        self._owner.report()

    def cancel(self) -> None:
        """Nothing is wanted any more."""
        run, self._run = self._run, None
        self._kept.clear()
        if run is not None:
            run.cancel()

    def pause(self) -> None:
        """The queue is full."""
        if self._run is not None:
            self._run.link.incoming.pause(self._run)

    def resume(self) -> None:
        """The queue has room."""
        if self._run is not None:
            self._run.link.incoming.resume(self._run)
