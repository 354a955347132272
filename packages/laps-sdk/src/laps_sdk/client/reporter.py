"""Reports playback quality to the relay, on a track beside the media.

::

    async with session.reports("match-42") as reporter:
        reporter.started()
        async with session.subscribe("live", "video", on_gap=reporter.gap) as video:
            ...
            reporter.measured(buffer=1.2, latency=0.9)
            reporter.stalled()
            reporter.resumed()

No method waits or raises because of the relay or the network: a task sends the records. Records
that do not fit are dropped and counted.
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
"""The shortest time between two objects, in seconds; records in between share one object."""
_GRACE: Final = 1.0
"""Seconds to wait for the last record to be sent."""


class Reporter:
    """Reports one playback; :meth:`laps_sdk.Session.reports` makes it."""

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
        """Publishes the track of reports."""
        self._playback = playback
        self._interval = interval
        self._began = 0.0
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.refused: str | None = None
        """Why no reports are sent: the error of the relay or the connection; None if they are."""
        self.sent = 0
        """Objects sent."""

    @property
    def dropped(self) -> int:
        """Records that were dropped because too many were waiting."""
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
        """Report the first frame, ``startup`` seconds after the user asked for it.

        By default the time counts from the beginning of ``async with``.
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
        """Set measurements for the next report; omitted ones keep their values.

        ``buffer`` and ``latency`` (behind live) are in seconds. ``bitrate`` is that of the media,
        ``asked`` the one that the player needs, both in bits per second. ``rate`` is the playback
        rate; 1 is real time.
        """
        self._playback.measured(
            buffer=buffer, latency=latency, bitrate=bitrate, asked=asked, rate=rate
        )

    def gap(self, gap: Gap) -> None:
        """Count missing objects; pass this method as ``on_gap`` to a subscription."""
        self._playback.missed(gap.objects or 1)

    def stalled(self) -> None:
        """Report the begin of a stall; a second call changes nothing."""
        self._playback.stalled(time.monotonic(), time.time())
        self._wake.set()

    def resumed(self) -> None:
        """Report the end of a stall."""
        self._playback.resumed(time.monotonic(), time.time())
        self._wake.set()

    def state(self, state: str) -> None:
        """Report the state of the player as a CMCD code.

        ``s`` starting, ``p`` playing, ``k`` seeking, ``r`` stalled, ``a`` paused, ``w`` waiting,
        ``e`` ended, ``f`` failed, ``q`` quit, ``d`` preloading.
        """
        self._playback.become(time.monotonic(), time.time(), state)
        self._wake.set()

    def failed(self, code: str, *, fatal: bool = False) -> None:
        """Report an error; ``code`` is a word of the application, such as ``decode``."""
        self._playback.failed(time.monotonic(), time.time(), code, fatal=fatal)
        self._wake.set()

    # The task

    async def _run(self) -> None:
        try:
            track = await self._publish()
            async with track:
                await self._send_for_ever(track)
        except LapsError as error:
            # The relay refuses reports, the token does not allow them, or the session is over:
            # none of these may disturb the playback.
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
        """Wait for ``seconds`` or the next event; with ``until_the_end`` for the end only."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
                while until_the_end and not self._playback.ended:
                    self._wake.clear()
                    await self._wake.wait()
