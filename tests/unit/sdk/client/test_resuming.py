"""Publishers that come back after a lost connection: what they held is sent again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import laps_sdk
from laps_sdk import Location, PublishedTrack, Session
from laps_sdk.client.link import Link
from laps_sdk.client.reconnect import Reconnector
from laps_sdk.quic.base import EgressLimits
from laps_wire.moqt.codepoints import FilterType, SessionCode
from laps_wire.moqt.data import ObjectHeader, parse_extensions
from laps_wire.moqt.messages import Publish, PublishNamespace
from laps_wire.moqt.parameters import Parameters, TrackProperties
from laps_wire.moqt.session import PublishEnded, RequestAccepted, RequestReceived
from laps_wire.moqt.structures import SubscriptionFilter
from laps_wire.names import FullTrackName, Namespace
from testkit.moqt_server import (
    MoqtServer,
    ServerPeer,
    eventually,
    hurry,
    joined,
    link_of,
    moqt_server,
    soon,
)

pytestmark = pytest.mark.anyio

VIDEO = FullTrackName(Namespace.of(b"demo"), b"video")


LARGE = b"x" * 100_000
"""More than a first flight: without acknowledgements a part of it is not sent."""


class Rig:
    """A publisher, and the relays that it was connected to, the latest last."""

    def __init__(self, session: Session, peer: ServerPeer, server: MoqtServer) -> None:
        self.session = session
        self.peer = peer
        self.server = server

    async def publish(self, **options: Any) -> PublishedTrack:
        task = asyncio.create_task(self.session.publish(VIDEO, **{"first": 1, **options}))
        await self.accept()
        return await soon(task)

    async def accept(self, answer: Parameters | None = None) -> RequestReceived:
        """Accept the next PUBLISH."""
        asked = await self.peer.request(Publish)
        self.peer.do(lambda s: s.accept(asked.request_id, answer or Parameters()))
        return asked

    async def lose(self) -> None:
        """Lose the connection; the next one is there."""
        old = self.peer
        old.do(lambda s: s.close(SessionCode.INTERNAL_ERROR, "restart"))
        self.peer = await self.server.session()
        await self.peer.until(lambda: self.peer.peer.session.established)

    async def lose_unacknowledged(self) -> None:
        """Lose the connection before the relay gets anything of what was written."""
        link_of(self.session).connection.close()
        await eventually(lambda: not self.session.connected)
        self.server.network.drop = None

    async def back(self) -> None:
        """Wait for the next connection."""
        self.peer = await self.server.session()
        await self.peer.until(lambda: self.peer.peer.session.established)

    async def lose_and_accept(self, answer: Parameters | None = None) -> Location | None:
        """Lose the connection and accept the track again; return its largest location."""
        await self.lose()
        asked = await self.accept(answer)
        return asked.message.parameters.largest_object

    def got(self) -> list[tuple[int, int, int | None, bytes]]:
        """What the latest relay got: group, object, subgroup, payload."""
        found = []
        for item in self.peer.objects:
            header: ObjectHeader = item.header
            found.append((header.group_id, header.object_id, header.subgroup_id, item.payload))
        return found

    async def has(self, count: int) -> list[tuple[int, int, int | None, bytes]]:
        await self.peer.until(lambda: len(self.peer.objects) >= count)
        await self.peer.round_trip()
        return self.got()


@asynccontextmanager
async def publisher(draft: str, **how: Any) -> AsyncIterator[Rig]:
    async with joined(draft, **how) as (session, peer, server):
        yield Rig(session, peer, server)


async def test_a_track_goes_on_where_it_was(draft: str) -> None:
    async with publisher(draft) as rig:
        track = await rig.publish()
        for payload in (b"a", b"b", b"c"):
            await track.write(payload, end_of_group=payload == b"b", extensions=[(0x100, 5)])
        await rig.has(3)
        assert await rig.lose_and_accept() is None
        assert await soon(track.write(b"d")) == Location(2, 1)
        assert await rig.has(4) == [
            (1, 0, 0, b"a"), (1, 1, 0, b"b"), (2, 0, 0, b"c"), (2, 1, 0, b"d"),
        ]  # fmt: skip
        # One stream for each subgroup: the first ended, and the second goes on.
        assert len(rig.peer.headers) == 2
        assert rig.peer.finished == 1
        assert all(header.end_of_group for header in rig.peer.headers)
        assert all(header.first_object for header in rig.peer.headers) == (draft == "moqt-18")
        pairs = parse_extensions(rig.peer.objects[0].header.extensions, rig.peer.draft).pairs
        assert [pair.type for pair in pairs] == [0x100, laps_sdk.CAPTURE_TIMESTAMP]
        assert (track.objects, track.resent, track.lost, track.unsent) == (4, 3, 0, 0)
        await track.end()
        done = await rig.peer.expect(PublishEnded)
        assert done.message.stream_count == 2


async def test_the_capture_time_is_the_first_one(draft: str) -> None:
    async with publisher(draft) as rig:
        track = await rig.publish()
        await track.write(b"a")
        await rig.has(1)
        before = rig.peer.objects[0].header.extensions
        await rig.lose_and_accept()
        await rig.has(1)
        assert rig.peer.objects[0].header.extensions == before


async def test_objects_that_the_relay_did_not_acknowledge(draft: str) -> None:
    async with publisher(draft) as rig:
        track = await rig.publish()
        await track.write(b"arrives", end_of_group=True)
        await rig.has(1)
        await eventually(lambda: not track.unacknowledged)
        rig.server.network.drop = lambda _: True
        for _ in range(3):
            await track.write(LARGE, end_of_group=True)
        assert track.unacknowledged == 3
        await rig.lose_unacknowledged()
        assert (track.unacknowledged, track.lost) == (3, 0)
        waiting = asyncio.create_task(track.write(b"waits"))
        await rig.back()
        await rig.accept()
        assert await soon(waiting) == Location(5, 0)
        assert sorted(await rig.has(5)) == [
            (1, 0, 0, b"arrives"), *((group, 0, 0, LARGE) for group in (2, 3, 4)),
            (5, 0, 0, b"waits"),
        ]  # fmt: skip
        assert (track.lost, track.resent, track.objects) == (0, 4, 5)


async def test_a_relay_that_is_killed_and_restarted(draft: str) -> None:
    async with publisher(draft) as rig:
        track = await rig.publish()
        await track.write(b"a")
        await rig.has(1)
        port = rig.server.port
        await rig.server.stop()
        await eventually(lambda: not rig.session.connected)
        waiting = asyncio.create_task(track.write(b"b"))
        await rig.server.start([draft], port)
        rig.peer = await rig.server.session()
        await rig.accept()
        await soon(waiting)
        assert await rig.has(2) == [(1, 0, 0, b"a"), (1, 1, 0, b"b")]


async def test_it_is_lost_again_and_again(draft: str) -> None:
    async with publisher(draft) as rig:
        track = await rig.publish()
        await track.write(b"a")
        await rig.has(1)
        for count in (1, 2, 3):
            await rig.lose_and_accept()
            assert await rig.has(1) == [(1, 0, 0, b"a")]
            assert track.resent == count
        await rig.lose()
        await rig.peer.request(Publish)
        await rig.lose()  # before the answer
        await rig.accept()
        assert await rig.has(1) == [(1, 0, 0, b"a")]


async def test_several_subgroups(draft: str) -> None:
    async with publisher(draft) as rig:
        track = await rig.publish()
        base = track.subgroup(5, 0, end_of_group=True)
        detail = track.subgroup(5, 3, priority=200)
        await base.write(b"a")
        await detail.write(b"b")
        await base.write(b"c")
        await detail.end()
        await rig.has(3)
        assert await rig.lose_and_accept() is None
        await base.write(b"d")
        await base.end()
        assert sorted(await rig.has(4)) == [
            (5, 0, 0, b"a"), (5, 1, 3, b"b"), (5, 2, 0, b"c"), (5, 3, 0, b"d"),
        ]  # fmt: skip
        await rig.peer.until(lambda: rig.peer.finished == 2)
        assert [(h.subgroup_id, h.priority, h.end_of_group) for h in rig.peer.headers] == [
            (0, None, True),
            (3, 200, False),
        ]


async def test_what_is_no_longer_held(draft: str) -> None:
    """The stream begins at the first object that is held, and subscriptions before it."""
    async with publisher(draft) as rig:
        track = await rig.publish(resume_bytes=250)
        for number in range(5):
            await track.write(b"%d" % number * 100)
        await rig.has(5)
        await eventually(lambda: not track.unacknowledged)
        assert await rig.lose_and_accept() == Location(1, 2)
        await soon(track.write(b"x"))
        found = await rig.has(3)
        assert [(place, subgroup) for _, place, subgroup, _ in found] == [(3, 0), (4, 0), (5, 0)]
        (header,) = rig.peer.headers
        assert not header.first_object
        assert (track.resent, track.lost) == (2, 0)


async def test_what_is_no_longer_held_and_was_not_acknowledged_is_lost(draft: str) -> None:
    async with publisher(draft) as rig:
        track = await rig.publish(resume_bytes=250_000)
        rig.server.network.drop = lambda _: True
        for _ in range(5):
            await track.write(LARGE, end_of_group=True)
        await rig.lose_unacknowledged()
        assert (track.lost, track.unacknowledged) == (3, 2)
        await rig.back()
        asked = await rig.accept()
        assert isinstance(asked.message, Publish)
        assert asked.message.parameters.largest_object == Location(3, 0)
        await rig.has(2)
        assert (track.lost, track.resent) == (3, 2)


async def test_nothing_is_held_on_request(draft: str) -> None:
    async with publisher(draft) as rig:
        track = await rig.publish(resume_bytes=0)
        await track.write(b"a")
        await rig.has(1)
        assert await rig.lose_and_accept() == Location(1, 0)
        await soon(track.write(b"b"))
        # The subgroup goes on.
        assert await rig.has(1) == [(1, 1, 0, b"b")]
        assert track.resent == 0


async def test_held_objects_grow_old(draft: str) -> None:
    async with publisher(draft) as rig:
        track = await rig.publish(resume_time=0.05)
        await track.write(b"a", end_of_group=True)
        await rig.has(1)
        await eventually(lambda: not track._held)
        assert await rig.lose_and_accept() == Location(1, 0)
        await soon(track.write(b"b"))
        assert await rig.has(1) == [(2, 0, 0, b"b")]


async def test_nothing_grows_old_while_there_is_no_relay(draft: str) -> None:
    async with publisher(draft) as rig:
        track = await rig.publish(resume_time=0.5)
        await track.write(b"a", end_of_group=True)
        await rig.has(1)
        port = rig.server.port
        await rig.server.stop()
        await eventually(lambda: not rig.session.connected)
        await asyncio.sleep(0.7)  # the time is the matter of the test
        await rig.server.start([draft], port)
        rig.peer = await rig.server.session()
        await rig.accept()
        assert await rig.has(1) == [(1, 0, 0, b"a")]


async def test_objects_that_are_too_old_are_left_out(draft: str) -> None:
    async with publisher(draft) as rig:
        track = await rig.publish()
        await track.write(b"a", ttl=30.0)
        await track.write(b"b", ttl=0.2)
        await track.write(b"c")
        await rig.has(3)
        await eventually(lambda: not track.unacknowledged)
        await asyncio.sleep(0.2)
        await rig.lose_and_accept()
        assert [payload for *_, payload in await rig.has(2)] == [b"a", b"c"]
        assert (track.resent, track.lost) == (2, 0)


async def test_a_planned_move_sends_nothing_again(draft: str) -> None:
    async with publisher(draft) as rig, moqt_server(draft, network=rig.server.network) as other:
        track = await rig.publish()
        await track.write(b"a")
        await rig.has(1)
        rig.peer.do(lambda s: s.goaway(other.url))
        rig.peer = await other.session()
        asked = await rig.accept()
        assert isinstance(asked.message, Publish)
        assert asked.message.parameters.largest_object == Location(1, 0)
        await eventually(lambda: len(track._held) == 0)
        await soon(track.write(b"b"))
        assert await rig.has(1) == [(1, 1, 0, b"b")]
        # Nor when the connection after that is lost.
        rig.server = other
        assert await rig.lose_and_accept() == Location(1, 0)
        assert await rig.has(1) == [(1, 1, 0, b"b")]
        assert (track.resent, track.lost) == (1, 0)


async def test_a_relay_that_dies_when_the_next_one_has_begun(
    draft: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it got is sent behind what the next relay has of the same subgroup."""

    async def drain(reconnector: Reconnector, link: Link) -> None:
        await eventually(lambda: link.error is not None)

    monkeypatch.setattr(Reconnector, "_drain", drain)
    async with publisher(draft) as rig, moqt_server(draft, network=rig.server.network) as other:
        track = await rig.publish()
        await track.write(b"a")
        await rig.has(1)
        first = link_of(rig.session)
        rig.peer.do(lambda s: s.goaway(other.url))
        old, rig.peer = rig.peer, await other.session()
        await rig.accept()
        await eventually(lambda: track.receiver is not None and track.receiver.link is not first)
        await soon(track.write(b"b"))
        assert await rig.has(1) == [(1, 1, 0, b"b")]
        old.do(lambda s: s.close(SessionCode.INTERNAL_ERROR, "killed"))
        assert await rig.has(2) == [(1, 1, 0, b"b"), (1, 0, 0, b"a")]
        await soon(track.write(b"c", end_of_group=True))
        assert (await rig.has(3))[2] == (1, 2, 0, b"c")
        assert [header.end_of_group for header in rig.peer.headers] == [True, False]
        assert rig.peer.finished == 1
        assert (track.resent, track.lost, track.objects) == (1, 0, 3)
        monkeypatch.undo()


async def test_a_relay_that_says_goodbye_and_dies(draft: str) -> None:
    async with publisher(draft) as rig, moqt_server(draft, network=rig.server.network) as other:
        track = await rig.publish()
        await track.write(b"a")
        await rig.has(1)
        rig.peer.do(lambda s: s.goaway(other.url))
        old, rig.peer = rig.peer, await other.session()
        asked = await rig.peer.request(Publish)
        old.do(lambda s: s.close(SessionCode.INTERNAL_ERROR, "killed"))
        await eventually(
            lambda: track.receiver is not None and track.receiver.link.error is not None
        )
        rig.peer.do(lambda s: s.accept(asked.request_id))
        assert await rig.has(1) == [(1, 0, 0, b"a")]
        await soon(track.write(b"b"))
        assert await rig.has(2) == [(1, 0, 0, b"a"), (1, 1, 0, b"b")]


async def test_a_relay_without_subscribers_gets_everything_when_one_comes(draft: str) -> None:
    async with publisher(draft) as rig:
        track = await rig.publish()
        await track.write(b"a")
        await rig.has(1)
        await rig.lose()
        asked = await rig.accept(Parameters(forward=False))
        await eventually(lambda: track.receiver is not None)
        await soon(track.write(b"b", end_of_group=True))
        await soon(track.write(b"c"))
        assert (track.unsent, track.objects) == (2, 1)
        rig.peer.do(lambda s: s.update(asked.request_id, Parameters(forward=True)))
        assert await rig.has(3) == [(1, 0, 0, b"a"), (1, 1, 0, b"b"), (2, 0, 0, b"c")]
        assert (track.unsent, track.objects, track.resent) == (0, 3, 1)
        await soon(track.write(b"d"))
        assert (await rig.has(4))[3] == (2, 1, 0, b"d")


async def test_without_subscribers_it_is_given_up(draft: str) -> None:
    async with publisher(draft) as rig:
        track = await rig.publish(resume_time=0.2)
        await track.write(b"a")
        await rig.has(1)
        await rig.lose()
        asked = await rig.accept(Parameters(forward=False))
        await eventually(lambda: track.receiver is not None)
        await soon(track.write(b"b"))
        await eventually(lambda: not track._held)
        rig.peer.do(lambda s: s.update(asked.request_id, Parameters(forward=True)))
        await soon(track.subscribed())
        await soon(track.write(b"c"))
        assert await rig.has(1) == [(1, 2, 0, b"c")]
        assert (track.unsent, track.objects, track.resent) == (1, 2, 0)


async def test_an_announced_track(draft: str) -> None:
    start = SubscriptionFilter(FilterType.LARGEST_OBJECT)

    async def subscribe(rig: Rig) -> Location | None:
        rig.peer.do(lambda s: s.subscribe(VIDEO, Parameters(subscription_filter=start)))
        accepted = await rig.peer.expect(RequestAccepted)
        return accepted.message.parameters.largest_object

    async def announce(rig: Rig) -> None:
        asked = await rig.peer.request(PublishNamespace)
        rig.peer.do(lambda s: s.accept(asked.request_id))

    async with publisher(draft) as rig:
        task = asyncio.create_task(rig.session.publish(VIDEO, announce=True, first=1))
        await announce(rig)
        track = await soon(task)
        await track.write(b"nobody", end_of_group=True)
        await subscribe(rig)
        await soon(track.subscribed())
        await track.write(b"a", end_of_group=True)
        await rig.has(1)
        await rig.lose()
        await announce(rig)
        await soon(track.write(b"b"))
        assert await subscribe(rig) == Location(1, 0)
        assert await rig.has(2) == [(2, 0, 0, b"a"), (3, 0, 0, b"b")]
        assert (track.unsent, track.resent) == (1, 1)


async def test_the_relay_says_where_it_begins(draft: str) -> None:
    start = SubscriptionFilter(FilterType.ABSOLUTE_START, Location(2, 0))
    async with publisher(draft) as rig:
        track = await rig.publish()
        for payload in (b"a", b"b"):
            await track.write(payload, end_of_group=True)
        await rig.has(2)
        await eventually(lambda: not track.unacknowledged)
        await rig.lose_and_accept(Parameters(subscription_filter=start))
        assert await rig.has(1) == [(2, 0, 0, b"b")]
        assert (track.resent, track.lost) == (1, 0)


async def test_a_subgroup_that_was_given_up(draft: str) -> None:
    """By the relay, or by the application."""
    async with publisher(draft) as rig:
        track = await rig.publish()
        stopped = track.group()
        await stopped.write(b"a")
        await rig.has(1)
        (stream_id,) = rig.peer.receiving
        rig.peer.peer.stop_data(stream_id, 1)
        await rig.peer.round_trip()
        abandoned = track.group()
        await abandoned.write(b"b")
        await rig.has(2)
        abandoned.abandon()
        await track.write(b"c")
        await rig.has(3)
        await rig.lose_and_accept()
        assert await rig.has(1) == [(3, 0, 0, b"c")]


async def test_a_stream_that_was_dropped_ends_before_the_next_one(draft: str) -> None:
    """The rest of its group is another subgroup, and the group ends in that one only."""
    async with publisher(draft) as rig:
        track = await rig.publish()
        await track.write(b"a")
        await rig.has(1)
        rig.server.network.drop = lambda _: True
        await track.write(b"x" * 200_000, ttl=0.05)
        await eventually(
            lambda: rig.session.stats is not None and rig.session.stats.dropped_streams == 1
        )
        rig.server.network.drop = None
        await soon(track.write(b"b", end_of_group=True))
        await rig.has(2)
        await rig.lose_and_accept()
        assert await rig.has(2) == [(1, 0, 0, b"a"), (1, 2, 2, b"b")]
        assert [header.end_of_group for header in rig.peer.headers] == [False, True]
        await rig.peer.until(lambda: rig.peer.finished == 2)


async def test_more_groups_than_streams(draft: str) -> None:
    """Resending waits until the relay allows more streams, and new objects wait behind it."""
    async with publisher(draft) as rig:
        track = await rig.publish()
        count = 3000
        for number in range(count):
            await track.write(b"%d" % number, end_of_group=True)
            if not number % 100:
                await rig.peer.round_trip()
        await rig.has(count)
        await rig.lose_and_accept()
        await soon(track.write(b"next"))
        payloads = [payload for *_, payload in await rig.has(count + 1)]
        assert sorted(payloads) == sorted([*(b"%d" % number for number in range(count)), b"next"])
        stats = rig.session.stats
        assert stats is not None
        assert stats.dropped_streams == 0
        assert (track.resent, track.lost) == (count, 0)


async def test_resending_waits_for_a_congested_connection(draft: str) -> None:
    egress = EgressLimits(high_water=20_000, low_water=1_000)
    async with publisher(draft, egress=egress) as rig:
        track = await rig.publish()
        group = track.group()
        for _ in range(50):
            await soon(track.write(b"x" * 10_000, end_of_group=True))
        await soon(group.write(b"x"))
        await rig.has(51)
        await rig.lose()
        await rig.accept()
        await eventually(lambda: track.resent > 0)
        assert track.resent < 51
        group.write_now(b"y")  # behind the others, without waiting
        assert track.resent == 51
        await rig.has(52)
        assert track.lost == 0


@pytest.mark.parametrize("whole_session", [False, True])
async def test_ending_right_after_the_connection_is_back(draft: str, whole_session: bool) -> None:
    async with publisher(draft) as rig:
        track = await rig.publish()
        rig.server.network.drop = lambda _: True
        await track.write(LARGE)
        await rig.lose_unacknowledged()
        await rig.back()
        asked = await rig.peer.request(Publish)
        await eventually(lambda: rig.session.connected)
        ending = asyncio.create_task(rig.session.close() if whole_session else track.end())
        await rig.peer.round_trip()
        assert not ending.done()
        rig.peer.do(lambda s: s.accept(asked.request_id))
        await soon(ending)
        await rig.peer.expect(PublishEnded)
        await rig.peer.until(lambda: rig.peer.finished == 1)
        assert rig.got() == [(1, 0, 0, LARGE)]
        assert (track.lost, track.resent) == (0, 1)


async def test_a_session_that_ends_without_a_relay_says_what_is_lost(draft: str) -> None:
    async with publisher(draft) as rig:
        track = await rig.publish()
        rig.server.network.drop = lambda _: True
        await track.write(LARGE)
        await rig.lose_unacknowledged()
        with pytest.raises(laps_sdk.ConnectionLostError, match="acknowledge: 1 of demo video"):
            await rig.session.close()
        assert (track.lost, track.unacknowledged) == (1, 0)


async def test_a_relay_that_never_answers_does_not_hold_the_end_up(draft: str) -> None:
    async with publisher(draft) as rig:
        hurry(rig.session, drain_timeout=0.05)
        track = await rig.publish()
        rig.server.network.drop = lambda _: True
        await track.write(LARGE)
        await rig.lose_unacknowledged()
        await rig.back()
        asked = await rig.peer.request(Publish)
        await eventually(lambda: rig.session.connected)
        await soon(track.end())
        assert track.lost == 1
        # The answer comes late: the track is ended at once.
        rig.peer.do(lambda s: s.accept(asked.request_id))
        await rig.peer.expect(PublishEnded)


async def test_the_instance_is_the_same_as_long_as_the_track_is(draft: str) -> None:
    def instance(asked: RequestReceived) -> int | None:
        assert isinstance(asked.message, Publish)
        return TrackProperties.of(asked.message.track_properties, rig.peer.draft).publisher_instance

    async with publisher(draft) as rig:
        publishing = asyncio.create_task(rig.session.publish(VIDEO))
        first = instance(await rig.accept())
        track = await soon(publishing)
        assert first is not None
        assert 0 <= first < 1 << 48
        await rig.lose()
        assert instance(await rig.accept()) == first
        await eventually(lambda: track.wanted)
        await track.end()
        publishing = asyncio.create_task(rig.session.publish(VIDEO))
        assert instance(await rig.accept()) != first
        await soon(publishing)
