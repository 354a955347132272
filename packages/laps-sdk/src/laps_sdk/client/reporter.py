"""How a playback goes, told to the relay: a track of reports beside the media.

::

    async with session.reports("match-42") as reporter:
        reporter.started()
        async with session.subscribe("live", "video", on_gap=reporter.gap) as video:
            ...
            reporter.measured(buffer=1.2, latency=0.9)
            reporter.stalled()
            reporter.resumed()

Nothing here waits or raises because of the relay or the network: what happens is noted, and a task
sends it. What does not fit is dropped, and counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from laps_sdk.client.core.playback import Playback
from laps_sdk.client.core.progress import Gap
from laps_wire.errors import LapsError

if TYPE_CHECKING:
    from typing import Self

    from laps_sdk.client.publication import PublishedTrack

__all__ = ["Reporter"]

_SPACING: Final = 1.0
"""Seconds between two objects, whatever happens: what happens meanwhile goes into one."""
_GRACE: Final = 1.0
"""Seconds that the last words may take."""


class Reporter:
    """What a player tells of its playback; made by :meth:`laps_sdk.Session.reports`."""

    __slots__ = (
        "_began",
        "_interval",
        "_playback",
        "_publish",
        "_task",
        "_wake",
        "refused",
        "sent",
    )

    def __init__(
        self,
        publish: Callable[[], Awaitable[PublishedTrack]],
        playback: Playback,
        interval: float,
    ) -> None:
        self._publish = publish
        """Offers the track of reports to the relay."""
        self._playback = playback
        self._interval = interval
        self._began = 0.0
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.refused: str | None = None
        """Why nothing is sent (any more): what the relay or the connection said."""
        self.sent = 0
        """Objects sent."""

    @property
    def dropped(self) -> int:
        """Reports that were made and not sent, for others had to wait too long."""
        return self._playback.dropped

    # Life

    async def __aenter__(self) -> Self:
        self._began = time.monotonic()
        self._task = asyncio.create_task(self._run(), name="laps-reports")
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._playback.end(time.monotonic(), time.time())
        self._wake.set()
        task = self._task
        if task is not None:
            await asyncio.wait([task], timeout=_GRACE)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    # What happens

    def started(self, startup: float | None = None) -> None:
        """The first frame is shown, so many seconds after the wish to see it.

        Without ``startup`` the time counts from the beginning of ``async with``.
        """
        now = time.monotonic()
        took = now - self._began if startup is None else startup
        self._playback.started(now, time.time(), took)
        self._wake.set()

    def measured(
        self,
        *,
        buffer: float | None = None,
        latency: float | None = None,
        bitrate: float | None = None,
        asked: float | None = None,
        rate: float | None = None,
    ) -> None:
        """What is so now, for the next report; what is left out stays as it was.

        ``buffer`` and ``latency`` (behind live) are seconds, ``bitrate`` is that of the media and
        ``asked`` what the player would be content with, in bits a second; ``rate`` 1 is real time.
        """
        self._playback.measured(
            buffer=buffer, latency=latency, bitrate=bitrate, asked=asked, rate=rate
        )

    def gap(self, gap: Gap) -> None:
        """Objects did not arrive: give this as ``on_gap`` to a subscription."""
        self._playback.missed(gap.objects or 1)

    def stalled(self) -> None:
        """The buffer is empty and nothing moves; said again it changes nothing."""
        self._playback.stalled(time.monotonic(), time.time())
        self._wake.set()

    def resumed(self) -> None:
        """A stall is over."""
        self._playback.resumed(time.monotonic(), time.time())
        self._wake.set()

    def state(self, state: str) -> None:
        """The player does something else, as CMCD writes it.

        ``s`` starting, ``p`` playing, ``k`` seeking, ``r`` stalled, ``a`` paused, ``w`` waiting,
        ``e`` ended, ``f`` failed, ``q`` quit, ``d`` preloading.
        """
        self._playback.become(time.monotonic(), time.time(), state)
        self._wake.set()

    def failed(self, code: str, *, fatal: bool = False) -> None:
        """Something went wrong: ``code`` is a word of your own, such as ``decode``."""
        self._playback.failed(time.monotonic(), time.time(), code, fatal=fatal)
        self._wake.set()

    # The task

    async def _run(self) -> None:
        try:
            track = await self._publish()
            async with track:
                await self._send_for_ever(track)
        except LapsError as error:
            # A relay that takes no reports, a token that does not reach so far, a session that is
            # over: the media is what matters.
            self.refused = str(error)

    async def _send_for_ever(self, track: PublishedTrack) -> None:
        playback = self._playback
        due = time.monotonic() + self._interval
        while True:
            now = time.monotonic()
            if now >= due and not playback.ended:
                playback.tick(now, time.time())
                due = now + self._interval
            self._wake.clear()
            data = playback.take()
            if data is not None:
                await track.write(data, end_of_group=True, ttl=self._interval)
                self.sent = track.objects
                if not playback.ended:
                    await self._pause(_SPACING, until_the_end=True)
            elif playback.ended:
                return
            else:
                await self._pause(max(0.0, due - now))

    async def _pause(self, seconds: float, *, until_the_end: bool = False) -> None:
        """Wait so long, or until something happens; or only until the end."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
                while until_the_end and not self._playback.ended:
                    self._wake.clear()
                    await self._wake.wait()
