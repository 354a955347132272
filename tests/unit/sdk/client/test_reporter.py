"""A playback that tells how it goes, as the relay sees it."""

from __future__ import annotations

import asyncio
import functools
import uuid

import pytest

from laps_sdk import Gap, Location, Reporter, Session
from laps_sdk.client import reporter as reporter_module
from laps_sdk.client.core.playback import Playback
from laps_wire.errors import EncodeError
from laps_wire.moqt.codepoints import PropertyTypeD18, RequestErrorCode
from laps_wire.moqt.messages import Publish
from laps_wire.moqt.session import PublishEnded
from laps_wire.reports import NAMESPACE, PlayerReport, decode_reports
from testkit.moqt_server import ServerPeer, eventually, joined, soon

pytestmark = pytest.mark.anyio


def told(peer: ServerPeer) -> list[PlayerReport]:
    objects = sorted(peer.objects, key=lambda each: each.header.location)
    return [report for each in objects for report in decode_reports(each.payload)]


async def taken(peer: ServerPeer) -> Publish:
    """The relay takes the track."""
    asked = await peer.request(Publish)
    peer.do(lambda s: s.accept(asked.request_id))
    message = asked.message
    assert isinstance(message, Publish)
    return message


async def test_a_playback_is_told(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        async with session.reports("film", playback="me") as reporter:
            asked = await taken(peer)
            reporter.measured(buffer=0.5, latency=1.0, bitrate=1e6, asked=2e6, rate=1.0)
            reporter.started(0.4)
            reporter.gap(Gap(first=Location(1, 2), last=Location(1, 4)))
            reporter.gap(Gap(first=Location(2, 0), last=Location(3, 0)))
            await peer.until(lambda: peer.finished == 1)
            reporter.stalled()
            reporter.resumed()
            reporter.failed("decode")
            reporter.state("a")
        await peer.until(lambda: peer.finished == 2)
        await peer.expect(PublishEnded)
        assert (asked.track.namespace, asked.track.name) == (NAMESPACE, b"me")
        assert any(
            pair.type == PropertyTypeD18.DEFAULT_PUBLISHER_PRIORITY and pair.value == 255
            for pair in asked.track_properties
        )
        assert {each.header.location for each in peer.objects} == {(0, 0), (1, 0)}
        first, *rest = told(peer)
        assert (first.session, first.content, first.startup_ms) == ("me", "film", 400)
        assert (first.buffer_ms, first.latency_ms, first.bitrate_kbps) == (500, 1000, 1000)
        assert [(each.event, each.state) for each in rest] == [
            ("ps", "r"),
            ("ps", "p"),
            ("e", "p"),
            ("ps", "a"),
            ("ps", "q"),
        ]
        assert (rest[-1].gaps, rest[-1].stalls) == (4, 1)
        assert (reporter.sent, reporter.dropped, reporter.refused) == (2, 0, None)


async def test_every_interval(draft: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporter_module, "_SPACING", 0.0)
    async with joined(draft) as (session, peer, _):
        publish = functools.partial(session.publish, "reports", "playback")
        reporter = Reporter(publish, Playback(uuid.uuid4().hex, None), 0.001)
        async with reporter:
            await taken(peer)
            await peer.until(lambda: peer.finished >= 3)
            reporter.started()
        assert {each.event for each in told(peer)[:3]} == {"t"}
        assert len(told(peer)[0].session) == 32


async def test_a_relay_that_wants_none_is_no_error(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        async with session.reports() as reporter:
            asked = await peer.request(Publish)
            code = RequestErrorCode.NOT_SUPPORTED
            peer.do(lambda s: s.reject(asked.request_id, code, "this relay takes no reports"))
            await eventually(lambda: reporter.refused is not None)
            for _ in range(100):
                reporter.stalled()
                reporter.resumed()
        assert "this relay takes no reports" in (reporter.refused or "")
        assert (reporter.sent, reporter.dropped) == (0, 200 - 16 + 1)


async def test_a_relay_that_does_not_answer_is_not_waited_for(
    draft: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporter_module, "_GRACE", 0.0)
    async with joined(draft) as (session, _, _):
        async with session.reports() as reporter:
            reporter.started()
        assert (reporter.sent, reporter.refused) == (0, None)


async def test_a_session_that_is_over_ends_the_reports(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        async with session.reports() as reporter:
            await taken(peer)
            reporter.started()
            await peer.until(lambda: peer.finished == 1)
            await soon(session.close())
            reporter.stalled()
        assert reporter.refused is not None


async def test_a_reporter_that_was_never_begun(draft: str) -> None:
    async with joined(draft) as (session, _, _):
        reporter = session.reports()
        await reporter.__aexit__(None, None, None)
        with pytest.raises(EncodeError, match="interval"):
            session.reports(interval=0.5)


async def test_the_last_words_do_not_wait_for_the_next_turn(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        assert isinstance(session, Session)
        async with session.reports() as reporter:
            assert isinstance(reporter, Reporter)
            await taken(peer)
            reporter.started()
            await peer.until(lambda: peer.finished == 1)
            await asyncio.sleep(0)
        await peer.until(lambda: peer.finished == 2)
        assert [each.state for each in told(peer)] == ["p", "q"]
