"""Subscriptions through a real relay: who publishes how, when, in which draft, and who hears it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

import laps_sdk
from laps_sdk.edge.events import PublisherAdded, TrackRow
from laps_sdk.edge.settings import EdgeSettings
from laps_sdk.quic.endpoint import Backend
from laps_wire.moqt.codepoints import FilterType
from laps_wire.moqt.messages import RequestOk, RequestUpdate, Subscribe, SubscribeOk
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.structures import Location, SubscriptionFilter
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from testkit.edge_task import Edge, client, edge_relay
from testkit.hostile import hostile
from testkit.moqt_server import eventually, soon

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

BOTH = pytest.mark.parametrize("draft", list(Draft), ids=lambda draft: draft.alpn)
TRACK = FullTrackName(Namespace((b"demo",)), b"video")
PATIENT = replace(EdgeSettings(), rendezvous_wait=60.0)


async def payloads(heard: laps_sdk.Subscription, count: int) -> list[bytes]:
    return [(await soon(anext(heard))).payload for _ in range(count)]


def only_track(edge: Edge) -> TrackRow:
    (row,) = edge.relay.tracks()
    return row


@pytest.mark.parametrize("announce", [False, True], ids=["publish", "announce"])
@pytest.mark.parametrize(
    ("scheme", "publishing", "subscribing"),
    [
        ("moqt", "moqt-16", "moqt-18"),
        ("moqt", "moqt-18", "moqt-16"),
        ("https", "moqt-16", "moqt-18"),
        ("https", "moqt-18", "moqt-16"),
    ],
)
async def test_drafts_meet(scheme: str, publishing: str, subscribing: str, announce: bool) -> None:
    async with (
        edge_relay() as edge,
        client(edge, scheme, drafts=(publishing,)) as alice,
        client(edge, scheme, drafts=(subscribing,)) as bob,
    ):
        assert (alice.draft, bob.draft) == (publishing, subscribing)
        track = await soon(alice.publish("demo", "video", announce=announce))
        async with bob.subscribe("demo", "video") as heard:
            await soon(track.subscribed())
            sent = [b"%d" % index for index in range(6)]
            for index, payload in enumerate(sent):
                await soon(track.write(payload, end_of_group=index % 3 == 2))
            got = await payloads(heard, 6)
            await track.end()
            with pytest.raises(StopAsyncIteration):
                await soon(anext(heard))
        assert sorted(got) == sent
        assert list(heard.gaps) == []


@pytest.mark.parametrize("scheme", ["moqt", "https"])
@pytest.mark.parametrize(("server", "other"), [("qh3", "aioquic"), ("aioquic", "qh3")])
async def test_backends_meet(scheme: str, server: Backend, other: Backend) -> None:
    pytest.importorskip("qh3")
    # qh3 takes no leaf for its own authority; how it trusts is tested with the transport.
    how = {"transport": other, "ca_file": None, "insecure": True}
    async with (
        edge_relay(backend=server) as edge,
        client(edge, scheme, **how) as alice,
        client(edge, scheme, **how) as bob,
    ):
        track = await soon(alice.publish("demo", "video"))
        async with bob.subscribe("demo", "video") as heard:
            for index in range(20):
                await soon(track.write(b"%d" % index * 500, end_of_group=True))
            got = await payloads(heard, 20)
        assert sorted(got) == sorted(b"%d" % index * 500 for index in range(20))


@pytest.mark.parametrize("announce", [False, True], ids=["publish", "announce"])
@BOTH
async def test_subscribe_before_the_publisher_arrives(draft: Draft, announce: bool) -> None:
    async with edge_relay(settings=PATIENT) as edge, client(edge, drafts=(draft.alpn,)) as bob:
        heard = bob.subscribe("demo", "video", wait=60)
        first = asyncio.create_task(anext(heard))
        await eventually(lambda: any(not row.established for row in edge.relay.subscriptions()))
        async with client(edge) as alice:
            track = await soon(alice.publish("demo", "video", announce=announce))
            await soon(track.subscribed())
            await eventually(lambda: edge.relay.subscriptions()[0].established)
            await soon(track.write(b"at last"))
            assert (await soon(first)).payload == b"at last"
        await heard.close()


@BOTH
async def test_nobody_publishes(draft: Draft) -> None:
    settings = replace(EdgeSettings(), rendezvous_wait=0.0)
    async with edge_relay(settings=settings) as edge, client(edge, drafts=(draft.alpn,)) as bob:
        with pytest.raises(laps_sdk.RequestRefusedError) as caught:
            await soon(anext(bob.subscribe("demo", "video", wait=0)))
        assert caught.value.code_name == "DOES_NOT_EXIST"


@pytest.mark.parametrize("announce", [False, True], ids=["publish", "announce"])
@BOTH
async def test_one_upstream_subscription_for_all(draft: Draft, announce: bool) -> None:
    """Five subscribers, one of them over WebTransport, cost the publisher one copy."""
    async with (
        edge_relay() as edge,
        client(edge, drafts=(draft.alpn,)) as alice,
        AsyncExitStack() as stack,
    ):
        track = await soon(alice.publish("demo", "video", announce=announce))
        hearing = []
        for scheme in ("moqt", "moqt", "moqt", "moqt", "https"):
            session = await soon(stack.enter_async_context(client(edge, scheme)))
            heard = session.subscribe("demo", "video")
            hearing.append(await soon(stack.enter_async_context(heard)))
        await soon(track.subscribed())
        sent = [b"%d" % index for index in range(10)]
        for payload in sent:
            await soon(track.write(payload))
        for heard in hearing:
            assert await payloads(heard, 10) == sent
        row = only_track(edge)
        assert (len(row.publishers), row.subscribers) == (1, 5)
        assert (row.counters.objects_in, row.counters.objects_out) == (10, 50)
        assert len(edge.told(PublisherAdded)) == 1
        assert track.objects == 10


@BOTH
async def test_a_late_joiner_gets_the_present_group_from_the_cache(draft: Draft) -> None:
    async with (
        edge_relay() as edge,
        client(edge) as alice,
        client(edge, drafts=(draft.alpn,)) as bob,
    ):
        track = await soon(alice.publish("demo", "video", first=3))
        for index in range(5):
            await soon(track.write(b"%d" % index))
        await eventually(lambda: only_track(edge).largest == Location(3, 4))
        async with bob.subscribe("demo", "video", join=0) as heard:
            assert heard.largest_at_start == (3, 4)
            await soon(track.write(b"5"))
            assert await payloads(heard, 6) == [b"%d" % index for index in range(6)]
        assert list(heard.gaps) == []


@BOTH
async def test_filters(draft: Draft) -> None:
    """Groups 0 and 1 are whole, 2 is under way when everybody subscribes."""
    async with edge_relay() as edge, client(edge) as alice, AsyncExitStack() as stack:

        async def subscribe(
            *, start: laps_sdk.Start = "latest", end: int | None = None
        ) -> laps_sdk.Subscription:
            session = await stack.enter_async_context(client(edge, drafts=(draft.alpn,)))
            heard = session.subscribe("demo", "video", start=start, end=end)
            return await soon(stack.enter_async_context(heard))

        track = await soon(alice.publish("demo", "video", first=0))
        for group in range(3):
            for index in range(2):
                done = group < 2 and index == 1
                await soon(track.write(b"%d.%d" % (group, index), end_of_group=done))
        await eventually(lambda: only_track(edge).largest == Location(2, 1))
        latest = await subscribe()
        next_group = await subscribe(start="next-group")
        ahead = await subscribe(start=(3, 1))
        one_group = await subscribe(start=(3, 0), end=3)
        await soon(track.write(b"2.2", end_of_group=True))
        await soon(track.write(b"3.0"))
        await soon(track.write(b"3.1", end_of_group=True))
        await soon(track.write(b"4.0"))
        # Groups travel on streams of their own: only inside a group there is an order.
        assert sorted(await payloads(latest, 4)) == [b"2.2", b"3.0", b"3.1", b"4.0"]
        assert sorted(await payloads(next_group, 3)) == [b"3.0", b"3.1", b"4.0"]
        assert sorted(await payloads(ahead, 2)) == [b"3.1", b"4.0"]
        assert await payloads(one_group, 2) == [b"3.0", b"3.1"]
        with pytest.raises(StopAsyncIteration):
            await soon(anext(one_group))


@BOTH
async def test_updates_pause_resume_and_change_the_priority(draft: Draft) -> None:
    async with edge_relay() as edge, client(edge) as alice, hostile(edge, draft) as raw:
        track = await soon(alice.publish("demo", "video", first=0))
        await soon(track.write(b"before", end_of_group=True))
        await eventually(lambda: only_track(edge).largest == Location(0, 0))
        raw.setup()
        stream = raw.ask(Subscribe(0, TRACK))
        await raw.answer(SubscribeOk)

        async def update(number: int, parameters: Parameters) -> None:
            existing = 0 if draft is Draft.D16 else None
            stream.write(raw.message(RequestUpdate(number * 2, existing, parameters)))
            await raw.until(lambda: sum(isinstance(a, RequestOk) for a in raw.answers()) == number)

        await update(1, Parameters(forward=False, subscriber_priority=7))
        (row,) = edge.relay.subscriptions()
        assert (row.forward, row.priority) == (False, 7)
        await soon(track.write(b"unheard", end_of_group=True))
        await eventually(lambda: only_track(edge).largest == Location(1, 0))
        await update(2, Parameters(forward=True))
        await soon(track.write(b"heard", end_of_group=True))
        heard = await raw.data_stream()
        await raw.until(lambda: raw.ended(heard))
        assert raw.received(heard).endswith(b"heard")
        assert not raw.received(heard).endswith(b"unheard")
        narrowed = SubscriptionFilter(FilterType.ABSOLUTE_RANGE, Location(2, 0), 3)
        await update(3, Parameters(subscription_filter=narrowed))
        for payload in (b"three", b"four"):
            await soon(track.write(payload, end_of_group=True))
        last = await raw.data_stream(1)
        await raw.until(lambda: raw.ended(last))
        assert raw.received(last).endswith(b"three")
        await eventually(lambda: only_track(edge).largest == Location(4, 0))
        assert len(raw.data_streams()) == 2


@BOTH
async def test_a_publisher_sends_only_while_somebody_wants_it(draft: Draft) -> None:
    settings = replace(EdgeSettings(), forward_unwatched=False, linger=0.0)
    async with (
        edge_relay(settings=settings) as edge,
        client(edge, drafts=(draft.alpn,)) as alice,
        client(edge) as bob,
    ):
        track = await soon(alice.publish("demo", "video"))
        await eventually(lambda: track.receiver is not None and not track.wanted)
        await soon(track.write(b"for nobody", end_of_group=True))
        assert track.unsent == 1
        async with bob.subscribe("demo", "video") as heard:
            await soon(track.subscribed())
            await soon(track.write(b"for bob", end_of_group=True))
            assert await payloads(heard, 1) == [b"for bob"]
        await eventually(lambda: not track.wanted)
        assert only_track(edge).counters.objects_in == 1


@BOTH
async def test_priority_and_order_reach_the_relay(draft: Draft) -> None:
    async with edge_relay() as edge, client(edge) as alice:
        await soon(alice.publish("demo", "video", priority=30, delivery_timeout=2.5))
        async with (
            client(edge, drafts=(draft.alpn,)) as bob,
            bob.subscribe("demo", "video", priority=9, order="descending") as heard,
        ):
            (row,) = edge.relay.subscriptions()
            assert row.priority == 9
            assert heard.properties is not None
            assert heard.properties.publisher_priority == 30
