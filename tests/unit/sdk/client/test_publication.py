"""Tracks that a client publishes, as the relay sees them."""

from __future__ import annotations

import asyncio

import pytest

import laps_sdk
from laps_sdk import DatagramTooLargeError, PublishedTrack, Session
from laps_sdk.quic.base import EgressLimits
from laps_wire.errors import StateError
from laps_wire.moqt.codepoints import (
    PUBLISH_DONE_CODES,
    FilterType,
    PropertyTypeD18,
    RequestErrorCode,
)
from laps_wire.moqt.data import parse_extensions
from laps_wire.moqt.keyvalue import KeyValue
from laps_wire.moqt.messages import (
    Publish,
    PublishNamespace,
    RelativeJoiningFetch,
    StandaloneFetch,
)
from laps_wire.moqt.parameters import PUBLISHER_INSTANCE, Parameters
from laps_wire.moqt.session import (
    PublishEnded,
    RequestAccepted,
    RequestCancelled,
    RequestRejected,
    UpdateAccepted,
)
from laps_wire.moqt.structures import Location, SubscriptionFilter
from laps_wire.names import FullTrackName, Namespace
from testkit.moqt_server import ServerPeer, eventually, hurry, joined, soon

pytestmark = pytest.mark.anyio

VIDEO = FullTrackName(Namespace.of(b"demo", b"camera"), b"video")


async def published(
    session: Session, peer: ServerPeer, answer: Parameters | None = None, **options: object
) -> tuple[PublishedTrack, int]:
    """A track that the relay has taken, and its request id."""
    task = asyncio.create_task(session.publish("demo/camera", "video", **options))  # type: ignore[arg-type] # options are as varied as their names
    asked = await peer.request(Publish)
    peer.do(lambda s: s.accept(asked.request_id, answer or Parameters()))
    return await soon(task), asked.request_id


async def announced(session: Session, peer: ServerPeer) -> PublishedTrack:
    task = asyncio.create_task(session.publish("demo/camera", "video", announce=True))
    asked = await peer.request(PublishNamespace)
    peer.do(lambda s: s.accept(asked.request_id))
    return await soon(task)


async def test_objects_arrive_in_their_group(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        track, _ = await published(session, peer, first=100)
        places = [
            await track.write(b"a"),
            await track.write(b"b", end_of_group=True),
            await track.write(b"c"),
            await track.write(b"d", new_group=True),
            await track.write(b"e", group=500),
        ]
        assert places == [(100, 0), (100, 1), (101, 0), (102, 0), (500, 0)]
        assert track.largest == Location(500, 0)
        await track.end()
        await peer.until(lambda: peer.finished == 4)
        assert [(o.header.location, o.payload) for o in peer.objects] == [
            ((100, 0), b"a"), ((100, 1), b"b"), ((101, 0), b"c"), ((102, 0), b"d"),
            ((500, 0), b"e"),
        ]  # fmt: skip
        assert (track.objects, track.bytes, track.unsent) == (5, 5, 0)
        done = await peer.expect(PublishEnded)
        codes = PUBLISH_DONE_CODES[peer.draft]
        assert (done.message.status_code, done.message.stream_count) == (codes.TRACK_ENDED, 4)


async def test_groups_are_numbered_by_the_clock_and_objects_stamped(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        track, _ = await published(session, peer)
        await track.write(b"x", extensions=[(0x100, 5)])
        await peer.until(lambda: len(peer.objects) == 1)
        header = peer.objects[0].header
        assert header.group_id > 1_700_000_000_000
        pairs = parse_extensions(header.extensions, peer.draft).pairs
        assert pairs[0] == KeyValue(0x100, 5)
        assert pairs[1].type == laps_sdk.CAPTURE_TIMESTAMP


async def test_stamps_can_be_left_out(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        track, _ = await published(session, peer, timestamps=False)
        await track.write(b"x" * 5000)
        await peer.until(lambda: len(peer.objects) == 1)
        assert peer.objects[0].header.extensions == b""
        assert peer.objects[0].payload == b"x" * 5000


async def test_what_is_said_about_the_track(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        task = asyncio.create_task(
            session.publish(
                VIDEO,
                priority=3,
                cache_duration=1.5,
                delivery_timeout=0.25,
                order="descending",
                forward=False,
            )
        )
        asked = await peer.request(Publish)
        assert isinstance(asked.message, Publish)
        assert asked.message.track == VIDEO
        assert asked.message.parameters.forward is False
        *properties, instance = asked.message.track_properties
        assert properties == [
            KeyValue(PropertyTypeD18.OBJECT_DELIVERY_TIMEOUT, 250),
            KeyValue(PropertyTypeD18.MAX_CACHE_DURATION, 1500),
            KeyValue(PropertyTypeD18.DEFAULT_PUBLISHER_PRIORITY, 3),
            KeyValue(PropertyTypeD18.DEFAULT_PUBLISHER_GROUP_ORDER, 2),
        ]
        assert instance.type == PUBLISHER_INSTANCE
        peer.do(lambda s: s.accept(asked.request_id))
        track = await soon(task)
        assert not track.wanted
        await track.write(b"nobody wants it")
        assert (track.objects, track.unsent) == (0, 1)


async def test_a_refusal_says_what_the_relay_answered(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        task = asyncio.create_task(session.publish("demo/camera", "video"))
        asked = await peer.request(Publish)
        code = RequestErrorCode.UNAUTHORIZED
        peer.do(lambda s: s.reject(asked.request_id, code, "no token", retry_interval=2001))
        with pytest.raises(laps_sdk.RequestRefusedError) as caught:
            await soon(task)
        assert "PUBLISH demo-camera--video" in str(caught.value)
        assert "UNAUTHORIZED: no token" in str(caught.value)
        assert caught.value.code_name == "UNAUTHORIZED"
        assert caught.value.retry_after == 2.0
        # The name is free again.
        track, _ = await published(session, peer)
        with pytest.raises(StateError, match="published already"):
            await session.publish(VIDEO)
        await track.end()


async def test_an_unanswered_publish_times_out(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        hurry(session, timeout=0.05)
        with pytest.raises(laps_sdk.RequestTimeoutError, match=r"no answer from moqt://127.0.0.1"):
            await session.publish("demo/camera", "video")
        await peer.expect(PublishEnded)


async def test_a_cancelled_publish_is_taken_back(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        task = asyncio.create_task(session.publish("demo/camera", "video"))
        await peer.request(Publish)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await peer.expect(PublishEnded)


async def test_forward_state_follows_the_relay(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        track, request_id = await published(session, peer, Parameters(forward=False))
        assert not track.wanted
        await track.write(b"unheard")
        waiting = asyncio.create_task(track.subscribed())
        peer.do(lambda s: s.update(request_id, Parameters(forward=True)))
        await soon(waiting)
        await peer.expect(UpdateAccepted)
        await track.write(b"heard")
        await peer.until(lambda: len(peer.objects) == 1)
        assert peer.objects[0].header.object_id == 1
        assert track.unsent == 1
        peer.do(lambda s: s.cancel(request_id))
        await eventually(lambda: not track.wanted)
        await track.write(b"unheard again")
        assert track.unsent == 2


async def test_an_announced_track_waits_for_its_subscriber(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        track = await announced(session, peer)
        await track.write(b"nobody", end_of_group=True)
        assert track.unsent == 1
        waiting = asyncio.create_task(track.subscribed())
        ids: list[int] = []
        start = SubscriptionFilter(FilterType.LARGEST_OBJECT)
        peer.do(lambda s: ids.append(s.subscribe(VIDEO, Parameters(subscription_filter=start))))
        accepted = await peer.expect(RequestAccepted)
        assert accepted.message.parameters.largest_object == track.largest
        await soon(waiting)
        await track.write(b"hello")
        await peer.until(lambda: len(peer.objects) == 1)
        second = asyncio.create_task(session.publish("demo/camera", "audio", announce=True))
        other = await soon(second)  # the namespace is announced already
        await other.end()
        peer.do(lambda s: s.cancel(ids[0]))
        await track.end()
        await peer.expect(RequestCancelled)  # the namespace is taken back with its last track


async def test_status_and_fetch_of_a_track(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        track = await announced(session, peer)
        await track.write(b"x")
        peer.do(lambda s: s.track_status(VIDEO))
        accepted = await peer.expect(RequestAccepted)
        assert accepted.message.parameters.largest_object == track.largest
        peer.do(lambda s: s.fetch(StandaloneFetch(VIDEO, Location(0, 0), Location(1, 0))))
        rejected = await peer.expect(RequestRejected)
        assert rejected.message.error_code == RequestErrorCode.NOT_SUPPORTED
        peer.do(lambda s: s.track_status(FullTrackName(VIDEO.namespace, b"other")))
        rejected = await peer.expect(RequestRejected)
        assert rejected.message.error_code == RequestErrorCode.DOES_NOT_EXIST
        ids: list[int] = []
        peer.do(lambda s: ids.append(s.subscribe(VIDEO)))
        await peer.expect(RequestAccepted)
        peer.do(lambda s: s.fetch(RelativeJoiningFetch(ids[0], 1)))
        rejected = await peer.expect(RequestRejected)
        assert rejected.message.error_code == RequestErrorCode.NOT_SUPPORTED
        peer.do(lambda s: s.publish_namespace(Namespace.of(b"x")))
        rejected = await peer.expect(RequestRejected)
        assert rejected.message.error_code == RequestErrorCode.NOT_SUPPORTED
        peer.do(lambda s: s.publish(FullTrackName(VIDEO.namespace, b"other"), 9))
        rejected = await peer.expect(RequestRejected)
        assert rejected.message.error_code == RequestErrorCode.UNINTERESTED


async def test_datagrams(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        track, request_id = await published(session, peer, first=7)
        await track.write(b"a", datagram=True)
        await track.write(b"b", datagram=True, end_of_group=True, priority=4, ttl=30.0)
        await peer.until(lambda: len(peer.datagrams) == 2)
        first, second = peer.datagrams
        assert (first.group_id, first.object_id, first.payload) == (7, 0, b"a")
        assert (second.group_id, second.object_id, second.payload) == (7, 1, b"b")
        assert (first.end_of_group, second.end_of_group, second.priority) == (False, True, 4)
        with pytest.raises(DatagramTooLargeError, match="do not fit"):
            await track.write(b"x" * 60_000, datagram=True)
        assert track.largest == Location(7, 1)
        peer.do(lambda s: s.update(request_id, Parameters(forward=False)))
        await peer.expect(UpdateAccepted)
        await track.write(b"c", datagram=True)
        peer.do(lambda s: s.cancel(request_id))
        await eventually(lambda: track.receiver is None)
        await track.write(b"d", datagram=True)
        assert track.unsent == 2


async def test_groups_side_by_side(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        track, _ = await published(session, peer, first=1)
        async with track.group() as one, track.group(priority=9) as two:
            await one.write(b"1")
            await two.write(b"2")
            await one.write(b"3")
        await peer.until(lambda: peer.finished == 2)
        assert sorted((o.header.location, o.payload) for o in peer.objects) == [
            ((1, 0), b"1"), ((1, 1), b"3"), ((2, 0), b"2"),
        ]  # fmt: skip
        assert sorted(h.priority or 0 for h in peer.headers) == [0, 9]
        with pytest.raises(StateError, match="has ended"):
            await one.write(b"late")


async def test_subgroups_share_the_numbers_of_their_group(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        track, _ = await published(session, peer, first=1)
        async with (
            track.subgroup(5, 0, end_of_group=True) as base,
            track.subgroup(5, 1, priority=200) as detail,
        ):
            await base.write(b"a")
            await detail.write(b"b")
            await base.write(b"c")
        await peer.until(lambda: peer.finished == 2)
        assert sorted((o.header.subgroup_id, o.header.object_id) for o in peer.objects) == [
            (0, 0), (0, 2), (1, 1),
        ]  # fmt: skip


async def test_an_error_inside_a_group_abandons_it(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        track, _ = await published(session, peer)

        async def fail() -> None:
            async with track.group() as group:
                await group.write(b"1")
                await peer.until(lambda: len(peer.objects) == 1)
                raise RuntimeError("oops")

        with pytest.raises(RuntimeError, match="oops"):
            await fail()
        await peer.until(lambda: peer.resets != [])
        async with track.group():
            pass  # nothing was written: nothing is sent
        async with track:
            await track.write(b"2")
        await peer.expect(PublishEnded)
        assert len(peer.objects) == 2
        with pytest.raises(StateError, match="has ended"):
            await track.write(b"3")
        with pytest.raises(StateError, match="has ended"):
            track.group()


async def test_a_stream_that_the_relay_stops_ends_its_group_only(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        track, _ = await published(session, peer, first=1)
        await track.write(b"a")
        await peer.until(lambda: len(peer.objects) == 1)
        (stream_id,) = peer.receiving
        peer.peer.stop_data(stream_id, 1)
        await peer.round_trip()
        await track.write(b"b")
        assert track.unsent == 1
        await track.write(b"c", new_group=True)
        await peer.until(lambda: len(peer.objects) == 2)
        assert peer.objects[1].header.location == (2, 0)


async def test_a_congested_connection_makes_writers_wait(draft: str) -> None:
    egress = EgressLimits(high_water=20_000, low_water=1_000)
    async with joined(draft, egress=egress) as (session, peer, _):
        track, _ = await published(session, peer)
        for _ in range(100):
            await soon(track.write(b"x" * 10_000))
        await peer.until(lambda: len(peer.objects) == 100)
        assert track.unsent == 0
        stats = session.stats
        assert stats is not None
        assert stats.dropped_streams == 0


async def test_a_cancelled_write_sends_all_or_nothing(draft: str) -> None:
    egress = EgressLimits(high_water=2_000, low_water=0)
    async with joined(draft, egress=egress) as (session, peer, server):
        track, _ = await published(session, peer, first=1)
        server.network.drop = lambda _: True
        await track.write(b"a" * 500_000)  # more than a first flight
        blocked = asyncio.create_task(track.write(b"b" * 1000))
        late = asyncio.create_task(track.write(b"c", ttl=0.01))
        await soon(late)
        blocked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await blocked
        server.network.drop = None
        await soon(track.write(b"d"))
        await peer.until(lambda: len(peer.objects) == 2)
        assert [o.payload[:1] for o in peer.objects] == [b"a", b"d"]
        assert track.unsent == 1
        assert repr(track) == "<PublishedTrack demo/camera video>"


async def test_a_subgroup_says_whether_its_head_is_there() -> None:
    async with joined("moqt-18") as (session, peer, _):
        track, request_id = await published(session, peer, Parameters(forward=False), first=1)
        await track.write(b"unheard")
        peer.do(lambda s: s.update(request_id, Parameters(forward=True)))
        await soon(track.subscribed())
        await track.write(b"a", end_of_group=True)
        await track.write(b"b", end_of_group=True)
        await peer.until(lambda: peer.finished == 2)
        heads = {header.group_id: header.first_object for header in peer.headers}
        assert heads == {1: False, 2: True}


async def test_a_deadline_is_for_its_object_only(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        track, _ = await published(session, peer, first=1)
        await track.write(b"a", ttl=30.0)
        await track.write(b"b")
        await peer.until(lambda: len(peer.objects) == 2)
        assert peer.resets == []
