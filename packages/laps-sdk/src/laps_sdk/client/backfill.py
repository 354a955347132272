"""The past of a subscription: fetched first, while live objects wait behind it.

::

    begin -> (live objects are kept) -> run: FETCH -> its objects go out -> end: live ones follow
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple, Protocol

from laps_sdk.client.core.objects import Object
from laps_sdk.client.core.progress import Gap, GapCause, Progress
from laps_sdk.client.core.window import Verdict, Window, WindowLimits
from laps_sdk.client.fetch import FetchRun
from laps_sdk.client.link import Link
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

    def hold_live(self) -> None:
        """Live objects must wait at the relay."""

    def let_live(self) -> None:
        """They may come again."""

    def note_gap(self, gap: Gap) -> None:
        """The past did not come."""

    def report(self) -> None:
        """Gaps may have become known."""

    def settle(self) -> None:
        """The end may have come in the meantime."""


class CatchUp:
    """One subscription's way from the past to the present."""

    __slots__ = (
        "_kept",
        "_limits",
        "_owner",
        "_past",
        "_progress",
        "_reached",
        "_run",
        "_what",
        "_window",
        "active",
    )

    def __init__(self, owner: Owner, what: str, progress: Progress, limits: WindowLimits) -> None:
        self._owner = owner
        self._what = what
        self._progress = progress
        self._limits = limits
        self._window = Window(limits)
        self._kept: deque[tuple[Object, int]] = deque()
        self._run: FetchRun | None = None
        self._past: Past | None = None
        self._reached: Location | None = None
        """The last object of the past that came."""
        self.active = False
        """Whether live objects have to wait."""

    def begin(self) -> None:
        """From now on live objects wait, and nothing counts as missing."""
        self.active = True
        self._progress.hold()

    def keep(self, obj: Object, size: int) -> None:
        """A live object waits, within the limits of the queue that it waits for."""
        window = self._window
        while (verdict := window.judge(size)) is Verdict.DROP_OLDEST:
            _, old = self._kept.popleft()
            window.give(old)
            self._owner.dropped_early(old)
        if verdict is Verdict.DROP_NEWEST:
            self._owner.dropped_early(size)
            return
        window.take(size)
        self._kept.append((obj, size))
        if window.paused:
            self._owner.hold_live()

    async def run(self, link: Link, past: Past, seconds: float) -> None:
        """Fetch; returns when the relay has answered, and goes on in the background."""
        self._past, self._reached = past, None
        run = self._run = FetchRun(
            link, self._what, take=self._came, over=self._over, absent=self._owner.absent
        )
        try:
            await run.start(past.target, Parameters(group_order=GroupOrder.ASCENDING), seconds)
        except LapsError as error:
            if self._run is run:
                self._over(error)

    def _came(self, item: MoqObject, received_at: float) -> None:
        self._reached = item.header.location
        self._owner.take(item, received_at, live=False)

    def _over(self, error: Exception | None) -> None:
        if error is not None:
            self._missed()
        self.end()
        self._owner.settle()

    def _missed(self) -> None:
        """The rest of the past will not come: say so, if any of it was promised or has come."""
        past, first = self._past, self._first_missing()
        if past is None or first is None:
            return
        self._progress.account(first, past.end)
        if past.cause is not None or self._reached is not None:
            cause = past.cause or GapCause.MISSING
            self._owner.note_gap(Gap(first=first, last=past.end, cause=cause))

    def _first_missing(self) -> Location | None:
        past, reached = self._past, self._reached
        if past is None:
            return None
        first = past.start if reached is None else Location(reached.group, reached.object + 1)
        return first if first <= past.end else None

    def break_off(self) -> Location | None:
        """The link is being left: the first object of the past that has not come yet.

        Live objects go on waiting, for the rest of the past or for :meth:`give_up`.
        """
        run, self._run = self._run, None
        if run is None:
            return None
        run.cancel()
        return self._first_missing()

    def give_up(self) -> None:
        """Nobody has the rest of the past."""
        if self.active:
            self._missed()
            self.end()

    def end(self) -> None:
        """The past has come, as far as it comes: live objects follow."""
        self._run = self._past = None
        self.active = False
        self._progress.release()
        kept, self._kept = self._kept, deque()
        self._window = Window(self._limits)
        for obj, size in kept:
            self._owner.put(obj, size)
        self._owner.let_live()
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
