"""Subscriptions as applications see them, with a relay that says what a test wants."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

import laps_sdk
from laps_sdk import Gap, GapCause, Location, Session, Subscription
from laps_sdk.client.core.progress import ANY_OBJECT
from laps_sdk.quic.base import ConnectionLimits
from laps_wire.moqt.codepoints import (
    PUBLISH_DONE_CODES,
    FilterType,
    GroupOrder,
    ObjectStatus,
    RequestErrorCode,
)
from laps_wire.moqt.data import RangeEnd, RangeKind, SubgroupHeader, encode_extensions
from laps_wire.moqt.keyvalue import KeyValue
from laps_wire.moqt.messages import (
    STREAM_COUNT_UNKNOWN,
    Fetch,
    RelativeJoiningFetch,
    Subscribe,
    SubscribeNamespace,
    SubscribeTracks,
)
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.session import RequestCancelled
from laps_wire.moqt.structures import SubscriptionFilter
from laps_wire.names import FullTrackName
from testkit.moqt_server import ServerPeer, eventually, hurry, joined, link_of, soon

pytestmark = pytest.mark.anyio

ALIAS = 7


class Asked(NamedTuple):
    subscription: Subscription
    task: asyncio.Task[Subscription]
    """Entering it; ends when it is ready."""
    request_id: int
    message: Subscribe


async def asking(
    session: Session, peer: ServerPeer, answer: Parameters | None = None, **options: object
) -> Asked:
    """A subscription that the relay has just accepted."""
    subscription = session.subscribe("demo/camera", "video", **options)  # type: ignore[arg-type] # options are as varied as their names
    task = asyncio.create_task(subscription.__aenter__())
    asked = await peer.request(Subscribe)
    assert isinstance(asked.message, Subscribe)
    peer.do(lambda s: s.accept_subscribe(asked.request_id, ALIAS, answer or Parameters()))
    return Asked(subscription, task, asked.request_id, asked.message)


async def subscribed(
    session: Session, peer: ServerPeer, answer: Parameters | None = None, **options: object
) -> tuple[Subscription, int, Subscribe]:
    """A subscription that is ready, its request id and what it asked for."""
    asked = await asking(session, peer, answer, **options)
    await soon(asked.task)
    return asked.subscription, asked.request_id, asked.message


def timers_of(monkeypatch: pytest.MonkeyPatch) -> list[tuple[asyncio.TimerHandle, float]]:
    """Return a list that gets every timer from now on, with its delay."""
    loop = asyncio.get_running_loop()
    timers: list[tuple[asyncio.TimerHandle, float]] = []
    call_at = loop.call_at

    def recording(when: float, *what: Any, **context: Any) -> asyncio.TimerHandle:
        timer = call_at(when, *what, **context)
        timers.append((timer, when - loop.time()))
        return timer

    monkeypatch.setattr(loop, "call_at", recording)
    return timers


def done(peer: ServerPeer, request_id: int, streams: int, name: str = "TRACK_ENDED") -> None:
    code = PUBLISH_DONE_CODES[peer.draft][name]
    peer.do(lambda s: s.publish_done(request_id, code, streams, "bye"))


async def take(subscription: Subscription, count: int) -> list[bytes]:
    return [(await soon(anext(subscription))).payload for _ in range(count)]


async def rest(subscription: Subscription) -> list[bytes]:
    async with asyncio.timeout(20):
        return [obj.payload async for obj in subscription]


async def test_objects_come_until_the_track_ends(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        subscription, request_id, asked = await subscribed(session, peer)
        assert asked.parameters.subscription_filter == SubscriptionFilter(FilterType.LARGEST_OBJECT)
        stamp = KeyValue(laps_sdk.CAPTURE_TIMESTAMP, 1_000_000)
        peer.send_group(ALIAS, 0, [b"a", b"b"], extensions=[stamp])
        peer.send_datagram(ALIAS, 1, 0, b"c")
        done(peer, request_id, 1)
        objects = [obj async for obj in subscription]
        assert sorted(obj.payload for obj in objects) == [b"a", b"b", b"c"]
        first = next(obj for obj in objects if obj.payload == b"a")
        assert first.location == (0, 0)
        assert first.captured_at == 1.0
        assert first.latency == first.received_at - 1.0
        assert first.subgroup == 0
        assert next(obj for obj in objects if obj.payload == b"c").latency is None
        assert (subscription.objects, subscription.bytes, subscription.dropped) == (3, 3, 0)
        assert repr(subscription) == "<Subscription demo/camera video>"


async def test_without_async_with(draft: str) -> None:
    async with joined(draft) as (session, peer, _):

        async def listen() -> list[bytes]:
            return [obj.payload async for obj in session.subscribe("demo-camera--video")]

        task = asyncio.create_task(listen())
        asked = await peer.request(Subscribe)
        peer.do(lambda s: s.accept_subscribe(asked.request_id, ALIAS))
        peer.send_group(ALIAS, 0, [b"a"])
        done(peer, asked.request_id, 1)
        assert await soon(task) == [b"a"]


async def test_what_is_asked_for(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        subscription, _, asked = await subscribed(
            session,
            peer,
            Parameters(largest_object=Location(4, 2)),
            start=(3, 1),
            end=9,
            priority=5,
            order="descending",
            delivery_timeout=0.5,
            wait=0,
        )
        assert replace(asked.parameters, subscription_filter=None) == Parameters(
            subscriber_priority=5, group_order=GroupOrder.DESCENDING, object_delivery_timeout=500
        )
        assert asked.parameters.subscription_filter == SubscriptionFilter(
            FilterType.ABSOLUTE_RANGE, Location(3, 1), 9
        )
        assert subscription.largest_at_start == Location(4, 2)
        assert subscription.properties is not None
        await subscription.close()
        await peer.expect(RequestCancelled)


async def test_a_refusal_says_what_the_relay_answered(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        task = asyncio.create_task(anext(session.subscribe("demo", "x", wait=0)))
        asked = await peer.request(Subscribe)
        peer.do(
            lambda s: s.reject(asked.request_id, RequestErrorCode.DOES_NOT_EXIST, "never heard")
        )
        with pytest.raises(
            laps_sdk.RequestRefusedError, match=r"SUBSCRIBE demo--x: .* DOES_NOT_EXIST: never heard"
        ):
            await soon(task)


async def test_a_publisher_may_come_later(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        task = asyncio.create_task(session.subscribe("demo", "x", wait=60).__aenter__())
        asked = await peer.request(Subscribe)
        waits = 60_000 if draft == "moqt-18" else None
        assert asked.message.parameters.rendezvous_timeout == waits
        peer.do(lambda s: s.reject(asked.request_id, RequestErrorCode.DOES_NOT_EXIST))
        again = await peer.request(Subscribe)
        peer.do(lambda s: s.accept_subscribe(again.request_id, ALIAS))
        await soon(task)


async def test_a_bad_end_is_an_error_behind_the_objects(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        subscription, request_id, _ = await subscribed(session, peer)
        peer.send_group(ALIAS, 0, [b"a"])
        done(peer, request_id, 1, "TOO_FAR_BEHIND")
        assert await take(subscription, 1) == [b"a"]
        with pytest.raises(laps_sdk.SubscriptionEndedError, match="TOO_FAR_BEHIND: bye"):
            await soon(anext(subscription))


async def test_a_subscription_that_the_relay_cancels(draft: str) -> None:
    if draft == "moqt-16":
        pytest.skip("draft 16 has no such word")
    async with joined(draft) as (session, peer, _):
        subscription, _, _ = await subscribed(session, peer)
        # The first bidirectional stream of the client is that of its only request.
        peer.connection.reply_stream(0).reset(1)
        with pytest.raises(laps_sdk.RequestError, match="the relay ended it"):
            await soon(anext(subscription))


async def test_the_end_waits_for_streams_under_way(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        subscription, request_id, _ = await subscribed(session, peer)
        done(peer, request_id, 2)
        peer.send_group(ALIAS, 0, [b"a"])
        peer.send_group(ALIAS, 1, [b"b"])
        assert sorted(await rest(subscription)) == [b"a", b"b"]


async def test_the_end_does_not_wait_forever(draft: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laps_sdk.client.subscription._LINGER", 0.01)
    async with joined(draft) as (session, peer, _):
        subscription, request_id, _ = await subscribed(session, peer)
        peer.send_group(ALIAS, 0, [b"a"])
        await eventually(lambda: subscription.objects == 1)
        done(peer, request_id, STREAM_COUNT_UNKNOWN)
        assert await rest(subscription) == [b"a"]


async def test_gaps_are_reported(draft: str) -> None:
    told: list[Gap] = []
    async with joined(draft) as (session, peer, _):
        subscription, request_id, _ = await subscribed(session, peer, on_gap=told.append)
        peer.send_group(ALIAS, 0, [b"a"])
        peer.send_group(ALIAS, 1, [b"c"], first=2)
        peer.send_group(ALIAS, 4, [b"d"], status=ObjectStatus.END_OF_GROUP)
        done(peer, request_id, 3)
        assert len(await rest(subscription)) == 3
        expected = [
            Gap(first=Location(1, 0), last=Location(1, 1)),
            Gap(first=Location(2, 0), last=Location(3, ANY_OBJECT)),
        ]
        assert sorted(subscription.gaps, key=lambda gap: gap.first) == expected
        assert list(subscription.gaps) == told


async def test_what_may_still_come_is_told_when_it_is_late(draft: str) -> None:
    """A gap names what has not come for a while; if it comes after all it is given, and counted."""
    told: list[Gap] = []
    async with joined(draft) as (session, peer, _):
        subscription, request_id, _ = await subscribed(
            session, peer, on_gap=told.append, gap_after=0.01
        )
        peer.send_group(ALIAS, 0, [b"a"])
        peer.send_group(ALIAS, 2, [b"c"])
        peer.send_group(ALIAS, 3, [b"d"])
        assert await take(subscription, 3) == [b"a", b"c", b"d"]
        await eventually(lambda: bool(told))
        assert told == [Gap(first=Location(1, 0), last=Location(1, ANY_OBJECT))]
        assert subscription.late == 0
        peer.send_group(ALIAS, 1, [b"b"])
        assert await take(subscription, 1) == [b"b"]
        assert subscription.late == 1
        done(peer, request_id, 4)
        assert await rest(subscription) == []
        assert len(told) == 1


async def test_what_is_overtaken_and_comes_is_no_gap(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        subscription, request_id, _ = await subscribed(session, peer, gap_after=1000.0)
        for group in (0, 2, 3, 1):
            peer.send_group(ALIAS, group, [b"%d" % group])
        done(peer, request_id, 4)
        assert sorted(await rest(subscription)) == [b"0", b"1", b"2", b"3"]
        assert list(subscription.gaps) == []


async def test_who_leaves_is_told_nothing_more(draft: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Gap] = []
    timers = timers_of(monkeypatch)
    async with joined(draft) as (session, peer, _):
        subscription, _, _ = await subscribed(session, peer, on_gap=told.append, gap_after=1000.0)
        peer.send_group(ALIAS, 0, [b"a"])
        peer.send_group(ALIAS, 2, [b"c"])
        peer.send_group(ALIAS, 3, [b"d"])
        assert len(await take(subscription, 3)) == 3
        (timer,) = [timer for timer, delay in timers if 900 < delay <= 1000]
        await subscription.close()
        assert timer.cancelled()
        assert told == []


async def test_an_object_that_comes_twice_is_given_once(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        subscription, request_id, _ = await subscribed(session, peer)
        peer.send_group(ALIAS, 0, [b"a", b"b"])
        peer.send_group(ALIAS, 0, [b"a", b"b"])
        done(peer, request_id, 2)
        assert await rest(subscription) == [b"a", b"b"]
        assert subscription.duplicates == 2


async def test_a_slow_reader_holds_the_relay_back(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        subscription, request_id, _ = await subscribed(session, peer, max_objects=4)
        for group in range(40):
            peer.send_group(ALIAS, group, [b"x" * 100] * 2)
        done(peer, request_id, 40)
        taken = 0
        async for _ in subscription:
            taken += 1
        assert taken + subscription.dropped == 80
        assert taken > 0
        assert sum(gap.objects or 0 for gap in subscription.gaps) == subscription.dropped


async def test_a_long_stream_waits_for_its_reader(draft: str) -> None:
    limits = ConnectionLimits(max_stream_data=20_000)
    async with joined(draft, limits=limits) as (session, peer, _):
        subscription, request_id, _ = await subscribed(session, peer, max_objects=10)
        peer.send_group(ALIAS, 0, [b"x" * 1000] * 500)
        await eventually(lambda: subscription.queued >= 10)
        taken = [(await soon(anext(subscription))).object for _ in range(500)]
        assert taken == list(range(500))
        assert subscription.dropped == 0
        done(peer, request_id, 1)


@pytest.mark.parametrize(
    ("count", "size"),
    [
        pytest.param(200, 2_000, id="short streams"),
        pytest.param(20, 50_000, id="longer than the window of a stream"),
        pytest.param(1000, 200, id="small"),
    ],
)
async def test_groups_wait_for_their_reader(draft: str, count: int, size: int) -> None:
    limits = ConnectionLimits(max_data=60_000, max_stream_data=20_000)
    async with joined(draft, limits=limits) as (session, peer, _):
        subscription, request_id, _ = await subscribed(
            session, peer, max_objects=10, max_bytes=20_000
        )
        for group in range(count):
            peer.send_group(ALIAS, group, [b"%06d" % group + b"x" * (size - 6)])
        done(peer, request_id, count)
        connection = link_of(session).connection
        # The relay has used up its credit, and gets no more.
        await eventually(lambda: connection.stats().bytes_received > limits.max_data)
        assert subscription.objects < count
        assert peer.connection.stats().queued_bytes > 0
        found = await rest(subscription)
        assert sorted(int(payload[:6]) for payload in found) == list(range(count))
        assert (subscription.dropped, list(subscription.gaps)) == (0, [])


async def test_who_does_not_read_holds_its_session_back_until_it_leaves(draft: str) -> None:
    limits = ConnectionLimits(max_data=60_000, max_stream_data=20_000)
    async with joined(draft, limits=limits) as (session, peer, _):
        idle, _, _ = await subscribed(session, peer, max_objects=4)
        other = session.subscribe("demo/camera", "audio")
        task = asyncio.create_task(other.__aenter__())
        asked = await peer.request(Subscribe)
        peer.do(lambda s: s.accept_subscribe(asked.request_id, ALIAS + 1))
        await soon(task)
        for group in range(100):
            peer.send_group(ALIAS, group, [b"x" * 2_000])
        connection = link_of(session).connection
        await eventually(lambda: connection.stats().bytes_received > limits.max_data)
        peer.send_group(ALIAS + 1, 0, [b"audio"])
        assert other.queued == 0
        assert peer.connection.stats().queued_bytes > 0
        await idle.close()
        assert await take(other, 1) == [b"audio"]


async def test_datagrams_of_a_full_queue_are_bounded(draft: str) -> None:
    """They need no credit."""
    async with joined(draft) as (session, peer, _):
        subscription, _, _ = await subscribed(session, peer, max_objects=2)
        peer.send_group(ALIAS, 0, [b"x"] * 4)
        await eventually(lambda: subscription.objects == 4)
        for number in range(10):
            peer.send_datagram(ALIAS, 1, number, b"d")
        await eventually(lambda: subscription.objects == 14)
        assert subscription.dropped == 6
        peer.send_group(ALIAS, 2, [b"y"] * 4)
        await eventually(lambda: subscription.objects == 18)
        assert subscription.dropped == 6


async def test_a_full_queue_holds_the_next_connection_back(draft: str) -> None:
    limits = ConnectionLimits(max_data=60_000, max_stream_data=20_000)
    async with joined(draft, limits=limits) as (session, first, server):
        subscription, _, _ = await subscribed(session, first, max_objects=4)
        first.send_group(ALIAS, 0, [b"x" * 100] * 4)
        await eventually(lambda: subscription.queued == 4)
        first.connection.close(0)
        peer = await server.session()
        asked = await peer.request(Subscribe)
        peer.do(lambda s: s.accept_subscribe(asked.request_id, ALIAS))
        for group in range(1, 101):
            peer.send_group(ALIAS, group, [b"x" * 2_000])
        await eventually(lambda: subscription.objects > 20)
        assert peer.connection.stats().queued_bytes > 0
        assert await take(subscription, 104) == [b"x" * 100] * 4 + [b"x" * 2_000] * 100
        assert subscription.dropped == 0


async def test_drops_are_counted(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        subscription, request_id, _ = await subscribed(
            session, peer, max_objects=3, overflow="drop"
        )
        peer.send_group(ALIAS, 0, [b"%d" % index for index in range(10)])
        done(peer, request_id, 1)
        await eventually(lambda: subscription.objects == 10)
        assert await rest(subscription) == [b"7", b"8", b"9"]
        assert subscription.dropped == 7
        assert sum(gap.objects or 0 for gap in subscription.gaps) == 7
        assert {gap.cause for gap in subscription.gaps} == {GapCause.DROPPED}


async def test_joining_brings_the_past_first(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        asked = await asking(session, peer, Parameters(largest_object=Location(5, 1)), join=2)
        subscription, request_id = asked.subscription, asked.request_id
        assert asked.message.parameters.subscription_filter == SubscriptionFilter(
            FilterType.LARGEST_OBJECT
        )
        fetch = await peer.request(Fetch)
        assert isinstance(fetch.message, Fetch)
        assert fetch.message.target == RelativeJoiningFetch(request_id, 2)
        peer.send_group(ALIAS, 5, [b"live"], first=2, end_of_group=False)
        await eventually(lambda: subscription.objects == 1)
        peer.do(lambda s: s.accept_fetch(fetch.request_id, Location(5, 2)))
        peer.send_fetch(
            fetch.request_id,
            [(3, 0, b"a"), RangeEnd(RangeKind.NON_EXISTENT, 4, 9), (5, 0, b"b"), (5, 1, b"c")],
        )
        await soon(asked.task)
        peer.send_group(ALIAS, 6, [b"more"])
        done(peer, request_id, 2)
        assert await rest(subscription) == [b"a", b"b", b"c", b"live", b"more"]
        assert list(subscription.gaps) == []


async def test_joining_without_a_past_is_only_subscribing(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        subscription, request_id, _ = await subscribed(session, peer, join=2)
        peer.send_group(ALIAS, 0, [b"a"])
        done(peer, request_id, 1)
        assert await rest(subscription) == [b"a"]


async def test_a_join_that_is_refused_still_gives_what_is_live(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        asked = await asking(session, peer, Parameters(largest_object=Location(5, 1)), join=0)
        subscription, request_id = asked.subscription, asked.request_id
        fetch = await peer.request(Fetch)
        peer.send_group(ALIAS, 6, [b"live"])
        await eventually(lambda: subscription.objects == 1)
        peer.do(lambda s: s.reject(fetch.request_id, RequestErrorCode.NOT_SUPPORTED, "no cache"))
        await soon(asked.task)
        done(peer, request_id, 1)
        assert await rest(subscription) == [b"live"]
        assert list(subscription.gaps) == []


async def test_early_streams_and_datagrams_wait_for_their_alias(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        task = asyncio.create_task(session.subscribe("demo", "x").__aenter__())
        asked = await peer.request(Subscribe)
        peer.send_group(ALIAS, 0, [b"a"])
        peer.send_datagram(ALIAS, 1, 0, b"b")
        await peer.round_trip()
        peer.do(lambda s: s.accept_subscribe(asked.request_id, ALIAS))
        subscription = await soon(task)
        assert sorted(await take(subscription, 2)) == [b"a", b"b"]
        await subscription.close()
        assert await rest(subscription) == []


async def test_a_reset_stream_leaves_a_gap(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        subscription, request_id, _ = await subscribed(session, peer)
        stream, writer = peer.stream(SubgroupHeader(ALIAS, 0))
        stream.write(writer.object(0, b"a"))
        assert await take(subscription, 1) == [b"a"]
        stream.reset(2)
        peer.send_group(ALIAS, 0, [b"d"], first=3)
        peer.send_group(ALIAS, 1, [b"e"])
        done(peer, request_id, 3)
        assert sorted(await rest(subscription)) == [b"d", b"e"]
        assert list(subscription.gaps) == [
            Gap(first=Location(0, 1), last=Location(0, 2), cause=GapCause.MISSING)
        ]


async def test_leaving_while_the_past_is_under_way(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        largest = Parameters(largest_object=Location(5, 1))
        asked = await asking(session, peer, largest, join=1, max_objects=2)
        fetch = await peer.request(Fetch)
        peer.do(lambda s: s.accept_fetch(fetch.request_id, Location(5, 2)))
        items = [(4, index, b"x" * 2000) for index in range(6)]
        peer.send_fetch(fetch.request_id, items, fin=False)
        peer.send_group(ALIAS, 5, [b"live"] * 10, first=2)
        subscription = await soon(asked.task)
        await eventually(lambda: subscription.objects == 16)
        # The queue is full: the live objects that wait came with credit, of which there is no more.
        assert subscription.dropped == 0
        for _ in range(5):
            await soon(anext(subscription))
        await subscription.close()
        await peer.expect(RequestCancelled)
        await peer.expect(RequestCancelled)


async def test_live_objects_that_wait_for_the_past_are_bounded(draft: str) -> None:
    """The past needs the credit that they would be held back with."""
    async with joined(draft) as (session, peer, _):
        largest = Parameters(largest_object=Location(5, 1))
        asked = await asking(session, peer, largest, join=1, max_objects=2)
        fetch = await peer.request(Fetch)
        peer.do(lambda s: s.accept_fetch(fetch.request_id, Location(5, 2)))
        peer.send_group(ALIAS, 5, [b"live"] * 10, first=2)
        subscription = await soon(asked.task)
        await eventually(lambda: subscription.objects == 10)
        assert subscription.dropped == 2
        peer.send_fetch(fetch.request_id, [(4, index, b"past") for index in range(6)])
        assert await take(subscription, 14) == [b"past"] * 6 + [b"live"] * 8


async def test_what_a_publisher_protects_is_seen_as_well(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        subscription, _, _ = await subscribed(session, peer)
        stream, writer = peer.stream(SubgroupHeader(ALIAS, 0, has_extensions=True))
        block = encode_extensions([KeyValue(0x100, 1)], peer.draft, immutable=[KeyValue(0x102, 2)])
        stream.write(writer.object(0, b"x", extensions=block))
        obj = await soon(anext(subscription))
        assert KeyValue(0x100, 1) in obj.extensions
        assert KeyValue(0x102, 2) in obj.extensions


async def test_a_cancelled_subscription_is_taken_back(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        largest = Parameters(largest_object=Location(5, 1))
        asked = await asking(session, peer, largest, join=1)
        await peer.request(Fetch)
        asked.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked.task
        cancelled = {(await peer.expect(RequestCancelled)).request_id for _ in range(2)}
        assert asked.request_id in cancelled


async def test_a_connection_that_is_lost_behind_the_last_word(draft: str) -> None:
    async with joined(draft) as (session, peer, server):
        subscription, request_id, _ = await subscribed(session, peer)
        peer.send_group(ALIAS, 0, [b"a"])
        done(peer, request_id, 2)  # the second stream never comes
        assert await take(subscription, 1) == [b"a"]
        await peer.round_trip()
        peer.do(lambda s: s.close(1, "restart"))
        assert await rest(subscription) == []
        await server.session()


async def test_a_subscription_that_nobody_wakes(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        tracks = session.tracks("demo")
        entering = asyncio.create_task(tracks.__aenter__())
        message = SubscribeTracks if draft == "moqt-18" else SubscribeNamespace
        asked = await peer.request(message)
        peer.do(lambda s: s.accept(asked.request_id))
        await soon(entering)
        peer.do(lambda s: s.publish(FullTrackName.parse("demo--x"), 9))
        await soon(anext(tracks))
        hurry(session, timeout=0.05)
        with pytest.raises(laps_sdk.RequestTimeoutError, match="no answer in"):
            await session.subscribe("demo", "x").__aenter__()


async def test_a_slow_reader_gets_all_of_a_track_that_has_ended(
    draft: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end must not throw away what waits at the relay because the queue is full."""
    monkeypatch.setattr("laps_sdk.client.subscription._LINGER", 0.01)
    limits = ConnectionLimits(max_stream_data=20_000)
    async with joined(draft, limits=limits) as (session, peer, _):
        subscription, request_id, _ = await subscribed(session, peer, max_objects=10)
        hurry(session, timeout=0.01)
        peer.send_group(ALIAS, 0, [b"x" * 1000] * 200)
        done(peer, request_id, 1)
        await peer.round_trip()
        await eventually(lambda: subscription.objects >= 10)
        await asyncio.sleep(0.1)  # nothing must happen, however long it is
        monkeypatch.undo()
        hurry(session, timeout=20)
        assert len(await rest(subscription)) == 200
        assert subscription.dropped == 0


async def test_a_join_that_breaks_off_says_what_is_missing(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        largest = Parameters(largest_object=Location(5, 1))
        asked = await asking(session, peer, largest, join=1)
        fetch = await peer.request(Fetch)
        peer.do(lambda s: s.accept_fetch(fetch.request_id, Location(5, 2)))
        stream = peer.send_fetch(fetch.request_id, [(4, 0, b"a"), (4, 1, b"b")], fin=False)
        subscription = await soon(asked.task)
        assert await take(subscription, 2) == [b"a", b"b"]
        stream.reset(0)
        peer.send_group(ALIAS, 5, [b"live"], first=2)
        assert await take(subscription, 1) == [b"live"]
        assert list(subscription.gaps) == [Gap(first=Location(4, 2), last=Location(5, 1))]


async def test_the_oldest_live_object_goes_if_it_is_to_be_dropped(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        largest = Parameters(largest_object=Location(5, 1))
        asked = await asking(session, peer, largest, join=0, max_objects=2, overflow="drop")
        fetch = await peer.request(Fetch)
        peer.do(lambda s: s.accept_fetch(fetch.request_id, Location(5, 2)))
        peer.send_group(ALIAS, 5, [b"c", b"d", b"e"], first=2)
        subscription = await soon(asked.task)
        await eventually(lambda: subscription.objects == 3)
        peer.send_fetch(fetch.request_id, [])
        assert await take(subscription, 2) == [b"d", b"e"]
        assert subscription.dropped == 1


async def test_the_next_publisher_is_followed(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        subscription, request_id, _ = await subscribed(session, peer, follow=True, wait=0)
        peer.send_group(ALIAS, 3, [b"a"])
        assert await take(subscription, 1) == [b"a"]
        done(peer, request_id, 1, "INTERNAL_ERROR")
        asked = await peer.request(Subscribe)
        code = RequestErrorCode.DOES_NOT_EXIST
        peer.do(lambda s: s.reject(asked.request_id, code, "not yet"))
        asked = await peer.request(Subscribe)
        peer.do(lambda s: s.accept_subscribe(asked.request_id, ALIAS + 1))
        peer.send_group(ALIAS + 1, 9, [b"b"])
        assert await take(subscription, 1) == [b"b"]
        # The alias of the first publisher means nothing any more.
        peer.send_group(ALIAS, 10, [b"late"])
        await peer.round_trip()
        done(peer, asked.request_id, 1)
        assert await rest(subscription) == []


async def test_who_follows_is_told_of_a_refusal_that_stays(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        subscription, request_id, _ = await subscribed(session, peer, follow=True)
        done(peer, request_id, 0, "INTERNAL_ERROR")
        asked = await peer.request(Subscribe)
        code = RequestErrorCode.UNAUTHORIZED
        peer.do(lambda s: s.reject(asked.request_id, code, "not any more"))
        with pytest.raises(laps_sdk.RequestRefusedError, match="not any more"):
            await soon(anext(subscription))
