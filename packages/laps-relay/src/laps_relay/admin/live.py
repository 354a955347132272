"""The live stream: one snapshot a second as server-sent events, made once for all pages."""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import AsyncGenerator
from typing import Final

from laps_relay.admin.views import Live, RelayView, session_item, totals, track_item

__all__ = ["MAX_WATCHERS", "LiveFeed"]

MAX_WATCHERS: Final = 16
_ROWS: Final = 100
"""Sessions and tracks in a snapshot; the tables have all of them."""


class LiveFeed:
    """Makes snapshots while a page watches."""

    def __init__(self, view: RelayView, interval: float = 1.0) -> None:
        self._view = view
        self._interval = interval
        self.watchers = 0
        self._stopping = asyncio.Event()
        self._making = asyncio.Lock()
        self._made: tuple[float, bytes] | None = None

    def stop(self) -> None:
        """End all streams, because the relay stops."""
        self._stopping.set()

    @property
    def full(self) -> bool:
        """Whether no further watcher is accepted."""
        return self.watchers >= MAX_WATCHERS

    async def snapshot(self) -> Live:
        """Return a snapshot, busiest tracks first."""
        view, now = self._view, self._view.now
        tracks = await view.tracks_in_parts()
        busiest = heapq.nlargest(_ROWS, tracks, key=lambda row: row.counters.bytes_out)
        sessions = list(view.sessions())[-_ROWS:]
        return Live(
            time=time.time(),
            totals=totals(view, tracks),
            sessions=[session_item(row, view.connection(row.session), now) for row in sessions],
            tracks=[track_item(row) for row in busiest],
        )

    async def stream(self) -> AsyncGenerator[bytes]:
        """Yield server-sent events until the page closes or the relay stops."""
        self.watchers += 1
        try:
            while not self._stopping.is_set():
                yield await self._current()
                try:
                    async with asyncio.timeout(self._interval):
                        await self._stopping.wait()
                except TimeoutError:
                    continue
        finally:
            self.watchers -= 1

    async def _current(self) -> bytes:
        """Return the snapshot of this second, made at most once."""
        async with self._making:
            now = self._view.now
            if self._made is None or now - self._made[0] >= self._interval / 2:
                text = (await self.snapshot()).model_dump_json()
                self._made = (now, f"event: live\ndata: {text}\n\n".encode())
            return self._made[1]
