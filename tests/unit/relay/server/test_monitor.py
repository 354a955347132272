"""What the planes counted gets to the writer: once, and not faster than the disk."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from laps_relay.server.monitor import TrafficRecorder
from laps_relay.telemetry.logs import Names
from laps_relay.telemetry.telemetry import TelemetrySettings, TelemetryWriter
from laps_sdk.edge.relay import EdgeRelay
from laps_sdk.edge.reports import PlaybackReports, ReportLimits
from laps_wire.reports import PlayerReport, encode_reports, hashed_id
from laps_wire.telemetry import Body, ClientReport, DeliverySample, HopStat
from testkit.plane import D16, Net, bodies, subgroup
from testkit.relay_views import connection_stats

pytestmark = pytest.mark.anyio


class Writer(TelemetryWriter):
    """Keeps what it is given; crowded so many times."""

    def __init__(self, path: Path) -> None:
        super().__init__(TelemetrySettings(directory=path, relay="0.0:0.1", boot=1))
        self.bodies: list[tuple[Body, float]] = []
        self.busy = 0

    @property
    def crowded(self) -> bool:
        self.busy -= 1
        return self.busy >= 0

    def put(self, body: Body, *, tenant: str | None = None, ago: float = 0.0) -> None:
        self.bodies.append((body, ago))


class Relay:
    """As much of an Edge as is asked for."""

    def take_fetch_joins(self) -> int:
        return 0

    def track_numbers(self) -> list[int]:
        return [1]

    def path_of(self, session: int) -> str:
        return f"/moq?CMCD=sid%3D%22player-{session}%22"


def made(path: Path, **options: Any) -> tuple[Net, Writer, TrafficRecorder]:
    net, writer = Net(), Writer(path)
    relay: Any = Relay()
    edge: EdgeRelay = relay
    clock = lambda: net.now  # noqa: E731 - the clock of the planes
    recording = TrafficRecorder(
        *(writer, edge, net.plane, Names(b"key"), lambda: None, clock),
        **{"one_in": 1, "wall": lambda: 5000.0 + net.now, **options},
    )
    return net, writer, recording


async def test_a_window_and_what_is_left_at_the_end(tmp_path: Path) -> None:
    net, writer, recording = made(tmp_path)
    publisher, viewer = net.publisher(), net.receiver()
    net.send(publisher, subgroup(D16, bodies(2)))
    net.wait(2.0)
    await recording.record({viewer: connection_stats()})
    await recording.report(1.0)
    (seen, _) = writer.bodies[-1]
    assert isinstance(seen, ClientReport)
    assert seen.player_session == hashed_id(b"key", f"player-{viewer}")
    assert seen.content is None
    kinds = [type(body).__name__ for body, _ in writer.bodies]
    assert kinds == ["HopStat", "DeliverySample", "CacheStat", "ClientReport"]
    (hop, _), (sample, ago), *_ = writer.bodies
    assert isinstance(hop, HopStat)
    assert (hop.window_ms, hop.in_bytes, hop.out_bytes, hop.objects) == (2000, 20, 20, 2)
    assert isinstance(sample, DeliverySample)
    assert (sample.track, sample.in_us, ago) == (hop.track, 5_100_000_000, 2.0)
    writer.bodies.clear()
    net.send(publisher, subgroup(D16, bodies(1), group=1))
    net.plane.remove_track(net.now, 1)
    recording.record_last()
    (last, _) = writer.bodies[0]
    assert isinstance(last, HopStat)
    assert last.out_bytes == 10


async def test_reports_wait_for_the_disk_but_not_for_ever(tmp_path: Path) -> None:
    net, writer, recording = made(tmp_path, one_in=0)
    net.publisher()
    viewer = net.receiver()
    for busy, patience in ((2, 10.0), (10**9, 0.0)):
        await recording.record({viewer: connection_stats()})
        assert not [body for body, _ in writer.bodies if isinstance(body, ClientReport)]
        writer.busy = busy
        await recording.report(patience)
        assert [body for body, _ in writer.bodies if isinstance(body, ClientReport)]
        writer.bodies.clear()
    await recording.record({viewer: connection_stats()})
    recording.record_last()
    assert [body for body, _ in writer.bodies if isinstance(body, ClientReport)]


async def test_what_players_say_stands_beside_what_the_relay_saw(tmp_path: Path) -> None:
    playback = PlaybackReports(ReportLimits(enabled=True))
    net, writer, recording = made(tmp_path, one_in=0, playback=playback)
    net.publisher()
    viewer, silent, other = net.receiver(), net.receiver(), net.session(D16)
    said = encode_reports([PlayerReport(at_ms=1, session="me", content="film", buffer_ms=5)])
    for session in (viewer, other):
        playback.open(net.now, session)
        playback.take(net.now, session, said)
    net.wait(2.0)
    await recording.record({viewer: connection_stats(), silent: connection_stats()})
    net.wait(0.5)
    await recording.report(1.0)
    reports = [(body, ago) for body, ago in writer.bodies if isinstance(body, ClientReport)]
    # All are of the time at which the window ended, whenever the disk takes them.
    assert {ago for _, ago in reports} == {0.5}
    assert [(body.session_id, body.measured_by) for body, _ in reports] == [
        (str(viewer), "relay"),
        (str(viewer), "player"),
        (str(silent), "relay"),
        (str(other), "player"),
    ]
    seen, told, _, elsewhere = (body for body, _ in reports)
    assert (told.track, told.buffer_ms, told.window_ms) == (seen.track, 5, 2000)
    assert elsewhere.track is None
    assert told.player_session not in (None, "me")
    assert told.content not in (None, "film")


async def test_a_relay_that_stops_within_a_sample_loses_nothing(tmp_path: Path) -> None:
    net, writer, recording = made(tmp_path, one_in=0)
    publisher = net.publisher()
    net.receiver()
    net.send(publisher, subgroup(D16, bodies(2)))
    task = asyncio.create_task(recording.record({}))
    await asyncio.sleep(0)  # the tracks are read, and nothing is written
    assert writer.bodies == []
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    recording.record_last()
    assert sum(body.out_bytes for body, _ in writer.bodies if isinstance(body, HopStat)) == 20
