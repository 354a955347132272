from __future__ import annotations

import asyncio
import json

from laps_relay.admin.live import MAX_WATCHERS, LiveFeed
from testkit.relay_views import NO_COUNTERS, FakeView, connection_stats, session_row, track_row


def filled() -> FakeView:
    view = FakeView()
    view.session_rows = [session_row(number) for number in range(150)]
    view.stats = {149: connection_stats()}
    view.track_rows = [
        track_row(number, NO_COUNTERS._replace(bytes_out=number)) for number in range(150)
    ]
    return view


def test_a_snapshot_holds_the_busiest_and_the_newest() -> None:
    live = asyncio.run(LiveFeed(filled()).snapshot())
    assert live.totals.tracks == live.totals.sessions == 150
    assert len(live.tracks) == len(live.sessions) == 100
    assert live.tracks[0].number == 149
    assert live.sessions[-1].rtt_ms == 25.0


def test_a_stream_ends_when_the_relay_stops() -> None:
    view = filled()

    async def watch() -> list[bytes]:
        feed = LiveFeed(view, 0.001)
        seen: list[bytes] = []
        async for chunk in feed.stream():
            assert feed.watchers == 1
            seen.append(chunk)
            view.now += 1.0
            if len(seen) == 3:
                feed.stop()
        assert feed.watchers == 0
        return seen

    seen = asyncio.run(watch())
    assert len(seen) == 3
    lines = seen[0].decode().splitlines()
    assert lines[0] == "event: live"
    assert json.loads(lines[1].removeprefix("data: "))["totals"]["sessions"] == 150


def test_watchers_share_a_snapshot() -> None:
    view = filled()
    feed = LiveFeed(view)
    first = asyncio.run(feed._current())
    assert asyncio.run(feed._current()) is first
    view.now += 1.0
    assert asyncio.run(feed._current()) is not first


def test_watchers_are_limited() -> None:
    feed = LiveFeed(FakeView())
    assert not feed.full
    feed.watchers = MAX_WATCHERS
    assert feed.full
