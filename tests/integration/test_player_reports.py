"""What players say over real QUIC is in telemetry; floods and garbage are not, and hurt nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from laps_sdk import RequestRefusedError
from laps_wire.reports import NAMESPACE, PlayerReport, encode_reports, hashed_id
from testkit.logs import restored_logging
from testkit.network_task import RunningRelay, network, until
from testkit.reporting_viewers import NAME_KEY, Watched, counted, watch

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    with restored_logging():
        yield


async def test_two_viewers_and_what_one_of_them_says(tmp_path: Path) -> None:
    found = await watch(tmp_path)
    relays, players = found.reports("relay"), found.reports("player")
    (player,) = {report.session_id for report in players}
    assert len({report.session_id for report in relays}) == 2
    assert player in {report.session_id for report in relays}
    assert [report.startup_ms for report in players if report.startup_ms is not None] == [400]
    assert {report.latency_ms for report in players} == {900}
    assert {report.buffer_ms for report in players} == {2000}
    assert sum(report.stall_ms or 0 for report in players) > 0
    assert all((report.stall_ms or 0) <= report.window_ms for report in players)
    assert (players[-1].state, players[-1].error) == ("q", "decode")
    # It is about the track that the relay knows it watches; its own ids are hashed.
    assert {report.track for report in players} & {report.track for report in relays}
    assert {report.player_session for report in players}.isdisjoint({"alice", None})
    assert {report.content for report in players}.isdisjoint({"film of the week", None})
    # What the relay writes of her has the same: by it, what she sends elsewhere is known.
    key = NAME_KEY.encode()
    ids = hashed_id(key, "alice"), hashed_id(key, "film of the week")
    for mine in (players, [report for report in relays if report.session_id == player]):
        assert {(report.player_session, report.content) for report in mine} == {ids}
    others = [report for report in relays if report.session_id != player]
    assert {(report.player_session, report.content) for report in others} == {(None, None)}
    written = "".join(path.read_text() for path in found.folder.glob("*.jsonl"))
    assert "alice" not in written
    assert "film of the week" not in written
    assert found.reporter is not None
    assert (found.reporter.refused, found.reporter.dropped) == (None, 0)
    assert found.logged == []


async def _send(relay: RunningRelay, found: Watched, objects: list[bytes], kind: str) -> None:
    """A client that hands in all of this, while the others go on."""
    async with relay.connect() as hostile:
        track = await hostile.publish(NAMESPACE, "hostile", first=0)
        for payload in objects:
            await track.write(payload, end_of_group=True)
        await until(lambda: counted(relay, "laps_reports_refused_total", reason=kind) > 0)
        before = dict(found.heard)
        await until(lambda: all(found.heard[name] > before[name] + 20 for name in before))


async def test_a_flood_is_limited_and_others_do_not_notice(tmp_path: Path) -> None:
    flood = [
        encode_reports([PlayerReport(at_ms=1, session="f", sequence=number, buffer_ms=1)])
        for number in range(500)
    ]
    counters: list[float] = []

    async def beside(relay: RunningRelay, found: Watched) -> None:
        await _send(relay, found, flood, "rate")
        counters.append(counted(relay, "laps_reports_refused_total", reason="rate"))

    found = await watch(tmp_path, beside)
    (line, *_) = found.logged
    assert (line["kind"], line["reason"]) == ("rate", "more than 1 objects a second")
    assert 0 < counters[0] <= 500 - 20
    players = found.reports("player")
    # However much is said, a session is one row for each window.
    assert 0 < sum(report.buffer_ms == 1 for report in players) <= len(found.reports("relay"))
    assert sum(report.startup_ms == 400 for report in players) == 1
    assert max(report.stall_ms or 0 for report in players) > 0


async def test_garbage_is_counted_and_others_do_not_notice(tmp_path: Path) -> None:
    garbage = [b"\x00\xff" * 20, b"[" * 900, b"x" * 100_000, b"{}", b"[]"]
    found = await watch(tmp_path, lambda relay, found: _send(relay, found, garbage, "form"))
    kinds = {line["kind"] for line in found.logged}
    assert kinds == {"form", "size"}
    players = found.reports("player")
    assert len({report.session_id for report in players}) == 1
    assert sum(report.startup_ms == 400 for report in players) == 1


async def test_an_edge_that_takes_none_and_one_that_others_ask(tmp_path: Path) -> None:
    async with network(tmp_path) as net:
        relay = await net.relay("edge")
        async with relay.connect() as player, relay.connect() as curious:
            async with player.reports() as reporter:
                reporter.started(0.1)
                async with asyncio.timeout(40):
                    await until(lambda: reporter.refused is not None)
            assert "this relay takes no reports" in (reporter.refused or "")
            with pytest.raises(RequestRefusedError, match="for the reports of players"):
                async with curious.subscribe(NAMESPACE, "alice") as heard:
                    await anext(heard)
