"""What objects look like behind a real relay: streams and their ends, datagrams, extensions."""

from __future__ import annotations

import asyncio

import pytest

import laps_sdk
from laps_sdk.edge.server import EdgeServerConfig
from laps_sdk.quic.base import EgressLimits
from laps_sdk.quic.events import DatagramReceived, StreamReset
from laps_wire.moqt.codepoints import STREAM_RESET_CODES
from laps_wire.moqt.data import (
    MoqObject,
    ObjectCollector,
    ObjectDatagram,
    ObjectStatus,
    SubgroupHeader,
    SubgroupParser,
    SubgroupWriter,
    decode_datagram,
    encode_datagram,
)
from laps_wire.moqt.messages import (
    Publish,
    PublishDone,
    PublishOk,
    RequestOk,
    Subscribe,
    SubscribeOk,
)
from laps_wire.moqt.structures import Location
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from testkit.edge_task import client, edge_relay
from testkit.hostile import Hostile, hostile
from testkit.moqt_server import eventually, soon

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

PAIRS = pytest.mark.parametrize(
    ("publishing", "subscribing"),
    [
        (Draft.D16, Draft.D16),
        (Draft.D18, Draft.D18),
        (Draft.D16, Draft.D18),
        (Draft.D18, Draft.D16),
    ],
    ids=lambda draft: draft.alpn,
)
TRACK = FullTrackName(Namespace((b"demo",)), b"video")
ALIAS = 7
ROOMY = EdgeServerConfig(egress=EgressLimits(max_bytes=64 << 20))
"""For tests in which nothing may be dropped, however slow the machine is."""


async def publish(raw: Hostile) -> None:
    """Offer the track with :data:`ALIAS`, and wait until the relay has taken it."""
    raw.setup()
    raw.ask(Publish(0, TRACK, ALIAS))
    await raw.answer(PublishOk if raw.draft is Draft.D16 else RequestOk)


async def subscribe(raw: Hostile) -> SubscribeOk:
    raw.setup()
    raw.ask(Subscribe(0, TRACK))
    return await raw.answer(SubscribeOk)


def objects(raw: Hostile, stream_id: int) -> tuple[SubgroupHeader, list[MoqObject]]:
    """What came on a subgroup stream so far."""
    parser = SubgroupParser(raw.draft)
    found = ObjectCollector(parser).feed(raw.received(stream_id))
    assert parser.header is not None
    return parser.header, [item for item in found if isinstance(item, MoqObject)]


@PAIRS
async def test_bytes_are_forwarded_before_the_object_is_whole(
    publishing: Draft, subscribing: Draft
) -> None:
    """The rest of 5 MB is written only when the subscriber has the beginning."""
    payload = bytes(range(256)) * (5 * 4096)
    async with (
        edge_relay(config=ROOMY) as edge,
        hostile(edge, publishing) as source,
        hostile(edge, subscribing) as sink,
    ):
        await publish(source)
        await subscribe(sink)
        writer = SubgroupWriter(SubgroupHeader(ALIAS, 1, 0, 128), publishing)
        stream = source.uni(writer.start + writer.object_header(0, len(payload)))
        step = 1 << 20
        stream.write(payload[:step])
        arriving = await sink.data_stream()
        await sink.until(lambda: len(sink.received(arriving)) >= step)
        for begin in range(step, len(payload), step):
            stream.write(payload[begin : begin + step], begin + step >= len(payload))
        await sink.until(lambda: sink.ended(arriving))
        header, (got,) = objects(sink, arriving)
        assert (header.group_id, header.subgroup_id, got.payload) == (1, 0, payload)


@PAIRS
async def test_fin_and_reset_are_mirrored(publishing: Draft, subscribing: Draft) -> None:
    """One stream out for each stream in, with the same end; codes in the receiver's draft."""
    async with (
        edge_relay() as edge,
        hostile(edge, publishing) as source,
        hostile(edge, subscribing) as sink,
    ):
        await publish(source)
        await subscribe(sink)
        first = SubgroupWriter(SubgroupHeader(ALIAS, 1, 0, 128), publishing)
        source.uni(first.start + first.object(0, b"whole") + first.object(1, b"too"), True)
        one = await sink.data_stream(0)
        await sink.until(lambda: sink.ended(one))
        assert [item.payload for item in objects(sink, one)[1]] == [b"whole", b"too"]
        second = SubgroupWriter(SubgroupHeader(ALIAS, 2, 0, 128), publishing)
        cut = source.uni(second.start + second.object_header(0, 100) + b"only some")
        two = await sink.data_stream(1)
        await sink.until(lambda: sink.received(two).endswith(b"only some"))
        cut.reset(int(STREAM_RESET_CODES[publishing].DELIVERY_TIMEOUT))
        ended = await sink.refused(two)
        assert isinstance(ended, StreamReset)
        assert ended.code == STREAM_RESET_CODES[subscribing].DELIVERY_TIMEOUT
        assert sink.data_streams() == [one, two]


@PAIRS
async def test_subgroups_keep_their_streams(publishing: Draft, subscribing: Draft) -> None:
    async with (
        edge_relay() as edge,
        client(edge, drafts=(publishing.alpn,)) as alice,
        client(edge, drafts=(subscribing.alpn,)) as bob,
    ):
        track = await soon(alice.publish("demo", "video", first=0))
        async with bob.subscribe("demo", "video") as heard:
            base = track.subgroup(0, 0, priority=10)
            detail = track.subgroup(0, 1, priority=200)
            for index in range(3):
                await soon(base.write(b"base %d" % index))
                await soon(detail.write(b"detail %d" % index))
            base.end_now()
            detail.end_now()
            got = [await soon(anext(heard)) for _ in range(6)]
        found = sorted((obj.object, obj.subgroup, obj.priority) for obj in got)
        assert found == [(n, n % 2, 200 if n % 2 else 10) for n in range(6)]


EXTENSIONS = ((0x3A0, 77), (0x3A1, b"opaque \x00\xff"), (0x7A2, 1 << 40))
"""Types that nobody has registered: an even one is a number, an odd one bytes."""


@PAIRS
async def test_unknown_extensions_are_carried_through(
    publishing: Draft, subscribing: Draft
) -> None:
    """On streams, in datagrams, and out of the cache."""
    async with (
        edge_relay() as edge,
        client(edge, drafts=(publishing.alpn,)) as alice,
        client(edge, drafts=(subscribing.alpn,)) as bob,
    ):
        track = await soon(alice.publish("demo", "video", first=0, timestamps=False))
        async with bob.subscribe("demo", "video") as heard:
            await soon(track.write(b"stream", extensions=EXTENSIONS, end_of_group=True))
            got = await soon(anext(heard))
            assert [(pair.type, pair.value) for pair in got.extensions] == list(EXTENSIONS)
            fetched = await soon(anext(bob.fetch("demo", "video", start=0, end=0)))
            assert fetched.extensions == got.extensions

            waiting = asyncio.create_task(anext(heard))
            while not waiting.done():  # datagrams may be lost
                await track.write(b"datagram", extensions=EXTENSIONS, datagram=True)
                await asyncio.wait([waiting], timeout=0.05)
            assert waiting.result().subgroup is None
            assert waiting.result().extensions == got.extensions


@PAIRS
async def test_datagrams_keep_all_their_fields(publishing: Draft, subscribing: Draft) -> None:
    async with (
        edge_relay() as edge,
        hostile(edge, publishing) as source,
        hostile(edge, subscribing) as sink,
    ):
        await publish(source)
        alias = (await subscribe(sink)).track_alias

        def heard() -> list[ObjectDatagram]:
            arrived = [e.data for e in sink.events if isinstance(e, DatagramReceived)]
            found = [decode_datagram(data, subscribing) for data in arrived]
            return [item for item in found if isinstance(item, ObjectDatagram)]

        sent = ObjectDatagram(ALIAS, 3, 9, b"beat", 17, end_of_group=True)
        for group in range(3, 1000):
            now = sent._replace(group_id=group)
            source.connection.send_datagram(encode_datagram(now, publishing))
            try:
                async with asyncio.timeout(0.2):
                    await sink.until(lambda: bool(heard()))
            except TimeoutError:
                continue  # lost: the next one
            break
        got = heard()[0]
        assert got == sent._replace(track_alias=alias, group_id=got.group_id)


@PAIRS
async def test_the_end_of_a_group_and_of_the_track(publishing: Draft, subscribing: Draft) -> None:
    """END_OF_GROUP and END_OF_TRACK arrive as they are; behind the latter comes PUBLISH_DONE."""
    async with (
        edge_relay() as edge,
        hostile(edge, publishing) as source,
        hostile(edge, subscribing) as sink,
    ):
        await publish(source)
        await subscribe(sink)
        first = SubgroupWriter(SubgroupHeader(ALIAS, 1, 0, 128), publishing)
        source.uni(
            first.start
            + first.object(0, b"one")
            + first.object(1, status=ObjectStatus.END_OF_GROUP),
            True,
        )
        one = await sink.data_stream(0)
        await sink.until(lambda: sink.ended(one))
        got = objects(sink, one)[1]
        assert [item.payload for item in got] == [b"one", b""]
        assert got[1].header.status is ObjectStatus.END_OF_GROUP
        second = SubgroupWriter(SubgroupHeader(ALIAS, 2, 0, 128), publishing)
        last = second.object(0, b"last") + second.object(1, status=ObjectStatus.END_OF_TRACK)
        source.uni(second.start + last, True)
        two = await sink.data_stream(1)
        await sink.until(lambda: sink.ended(two))
        statuses = [item.header.status for item in objects(sink, two)[1]]
        assert statuses == [ObjectStatus.NORMAL, ObjectStatus.END_OF_TRACK]
        done = await sink.answer(PublishDone)
        assert (done.stream_count, done.reason) == (2, "the track has ended")


async def test_a_publisher_that_ends_its_track_ends_it_for_everybody() -> None:
    async with edge_relay() as edge, client(edge) as alice, client(edge, "https") as bob:
        track = await soon(alice.publish("demo", "video"))
        async with bob.subscribe("demo", "video") as heard:
            await soon(track.write(b"last"))
            await track.end()
            assert [obj.payload async for obj in heard] == [b"last"]
        await eventually(lambda: not any(row.live for row in edge.relay.tracks()))


@pytest.mark.parametrize("scheme", ["moqt", "https"])
async def test_five_megabytes_in_one_object(scheme: str) -> None:
    payload = bytes(range(256)) * (5 * 4096)
    async with (
        edge_relay(config=ROOMY) as edge,
        client(edge, scheme) as alice,
        client(edge, scheme) as bob,
    ):
        track = await soon(alice.publish("demo", "video", first=0))
        async with bob.subscribe("demo", "video") as heard:
            await soon(track.write(payload, end_of_group=True))
            got: laps_sdk.Object = await soon(anext(heard))
            assert got.payload == payload
            assert got.location == Location(0, 0)
        (row,) = edge.relay.tracks()
        assert row.counters.dropped_objects == 0
