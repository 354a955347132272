"""Publishers that come, go and come back, and relays that send their clients away."""

from __future__ import annotations

import asyncio

import pytest

import laps_sdk
from laps_sdk.edge.events import PublisherGone
from laps_sdk.edge.settings import EdgeSettings
from laps_sdk.quic.events import Closed
from laps_wire.moqt.codepoints import SessionCode
from laps_wire.moqt.messages import Goaway
from laps_wire.moqt.versions import Draft
from testkit.edge_task import Edge, client, edge_relay
from testkit.hostile import hostile
from testkit.moqt_server import eventually, soon

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

BOTH = pytest.mark.parametrize("draft", list(Draft), ids=lambda draft: draft.alpn)


def drain(edge: Edge, uri: str = "") -> None:
    edge.relay.drain(edge.server.now, uri)
    edge.server.settle()


async def until_heard(
    heard: laps_sdk.Subscription, track: laps_sdk.PublishedTrack, payload: bytes
) -> None:
    """Write until it arrives: what is written while nobody listens is lost, as it should be."""

    async def search() -> None:
        while (await anext(heard)).payload != payload:
            pass

    found = asyncio.create_task(search())
    async with asyncio.timeout(30):
        while not found.done():
            await track.write(payload, new_group=True)
            await asyncio.wait([found], timeout=0.02)
    found.result()


@BOTH
async def test_two_publishers_of_one_track(draft: Draft) -> None:
    """Each object arrives once, and goes on arriving when one of the two leaves."""
    async with (
        edge_relay() as edge,
        client(edge, drafts=(draft.alpn,)) as alice,
        client(edge) as carol,
        client(edge, drafts=(draft.alpn,)) as bob,
    ):
        one = await soon(alice.publish("demo", "video", first=0, timestamps=False))
        two = await soon(carol.publish("demo", "video", first=0, timestamps=False))
        async with bob.subscribe("demo", "video") as heard:
            for group in range(5):
                for index in range(3):
                    payload = b"%d.%d" % (group, index)
                    await soon(one.write(payload, end_of_group=index == 2))
                    await soon(two.write(payload, end_of_group=index == 2))
            got = [await soon(anext(heard)) for _ in range(15)]
            assert sorted(obj.payload for obj in got) == sorted(
                b"%d.%d" % (group, index) for group in range(5) for index in range(3)
            )
            (row,) = edge.relay.tracks()
            assert len(row.publishers) == 2
            await eventually(lambda: edge.relay.tracks()[0].counters.duplicates == 15)
            await one.end()
            await eventually(lambda: len(edge.relay.tracks()[0].publishers) == 1)
            for index in range(3):
                await soon(two.write(b"5.%d" % index))
            more = [await soon(anext(heard)) for _ in range(3)]
            assert [obj.payload for obj in more] == [b"5.0", b"5.1", b"5.2"]
            assert heard.duplicates == 0


@BOTH
async def test_one_of_two_publishers_breaks_off(draft: Draft) -> None:
    """In the middle of a group: the other one's objects go on from there."""
    async with (
        edge_relay() as edge,
        client(edge, drafts=(draft.alpn,), reconnect=False) as alice,
        client(edge) as carol,
        client(edge) as bob,
    ):
        one = await soon(alice.publish("demo", "video", first=0, timestamps=False))
        two = await soon(carol.publish("demo", "video", first=0, timestamps=False))
        async with bob.subscribe("demo", "video") as heard:
            for index in range(4):
                await soon(one.write(b"%d" % index))
                await soon(two.write(b"%d" % index))
            got = [await soon(anext(heard)) for _ in range(4)]
            await eventually(lambda: not one.unacknowledged)
            port = edge.server.ports[edge.relay.tracks()[0].publishers[0]]
            port.peer.session.close(SessionCode.INTERNAL_ERROR, "cut off")
            port.peer.settle()
            await eventually(lambda: len(edge.told(PublisherGone)) == 1)
            for index in range(4, 8):
                await soon(two.write(b"%d" % index, end_of_group=index == 7))
            got += [await soon(anext(heard)) for _ in range(4)]
            assert sorted(obj.payload for obj in got) == [b"%d" % index for index in range(8)]


@BOTH
async def test_a_publisher_that_reconnects(draft: Draft) -> None:
    """Its subscribers are kept, and go on with what it writes then."""
    async with (
        edge_relay() as edge,
        client(edge, drafts=(draft.alpn,)) as alice,
        client(edge, drafts=(draft.alpn,)) as bob,
    ):
        track = await soon(alice.publish("demo", "video", first=0))
        async with bob.subscribe("demo", "video") as heard:
            await soon(track.write(b"before", end_of_group=True))
            assert (await soon(anext(heard))).payload == b"before"
            port = edge.server.ports[edge.relay.tracks()[0].publishers[0]]
            port.peer.session.close(SessionCode.INTERNAL_ERROR, "cut off")
            port.peer.settle()
            await eventually(lambda: alice.reconnects == 1)
            await soon(track.write(b"after", end_of_group=True))
            assert (await soon(anext(heard))).payload == b"after"
            assert heard.duplicates == 0
        assert bob.reconnects == 0


@BOTH
async def test_a_publisher_that_does_not_come_back(draft: Draft) -> None:
    """Its subscribers are told that it was lost, and not that the track has ended."""
    settings = EdgeSettings(publisher_grace=0.2)
    async with (
        edge_relay(settings=settings) as edge,
        client(edge, drafts=(draft.alpn,)) as bob,
        client(edge, drafts=(draft.alpn,), reconnect=False) as alice,
    ):
        await soon(alice.publish("demo", "video", first=0))
        async with bob.subscribe("demo", "video") as heard:
            port = edge.server.ports[edge.relay.tracks()[0].publishers[0]]
            port.peer.session.close(SessionCode.INTERNAL_ERROR, "cut off")
            port.peer.settle()
            with pytest.raises(laps_sdk.SubscriptionEndedError, match="the publisher is gone"):
                await soon(anext(heard))


@pytest.mark.parametrize("scheme", ["moqt", "https"])
@BOTH
async def test_clients_move_where_a_drain_sends_them(draft: Draft, scheme: str) -> None:
    async with (
        edge_relay(settings=EdgeSettings(goaway_timeout=60.0)) as old,
        edge_relay() as new,
        client(old, scheme, drafts=(draft.alpn,)) as alice,
        client(old, scheme, drafts=(draft.alpn,)) as bob,
    ):
        track = await soon(alice.publish("demo", "video", first=0))
        async with bob.subscribe("demo", "video", wait=20) as heard:
            await soon(track.write(b"before", end_of_group=True))
            assert (await soon(anext(heard))).payload == b"before"
            drain(old, new.url(scheme))
            # Until the new relay has everything, the old one is not left.
            await eventually(lambda: old.relay.sessions() == [])
            await until_heard(heard, track, b"after")
            assert {alice.address.port, bob.address.port} == {new.port}
        assert [row.track.name for row in new.relay.tracks()] == [b"video"]


@BOTH
async def test_who_does_not_leave_is_let_go(draft: Draft) -> None:
    """And nobody new is let in to stay."""
    async with (
        edge_relay(settings=EdgeSettings(goaway_timeout=0.2)) as edge,
        hostile(edge, draft) as raw,
    ):
        raw.setup()
        await eventually(lambda: any(row.ready for row in edge.relay.sessions()))
        drain(edge, "moqt://elsewhere.example:4433")
        closed = await raw.closed()
        assert closed.code == SessionCode.GOAWAY_TIMEOUT
        assert any(b"moqt://elsewhere.example:4433" in raw.received(stream) for stream in range(8))
        async with hostile(edge, draft) as late:
            late.setup()
            await late.until(
                lambda: (
                    any(isinstance(event, Closed) for event in late.events)
                    or any(isinstance(answer, Goaway) for answer in late.answers())
                )
            )
            assert (await late.closed()).application
