"""The relay in memory that applications test with."""

from __future__ import annotations

import pytest

import laps_sdk
from laps_sdk.quic.moqt import DRAFTS
from laps_sdk.testing import memory_relay
from testkit.moqt_server import soon

pytestmark = pytest.mark.anyio


@pytest.fixture(params=list(DRAFTS))
def draft(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_what_is_published_is_heard(draft: str) -> None:
    async with (
        memory_relay(drafts=(draft,)) as relay,
        relay.connect() as alice,
        relay.connect() as bob,
        relay.connect() as carol,
    ):
        track = await soon(alice.publish("demo", "news"))
        async with bob.subscribe("demo", "news") as one, carol.subscribe("demo", "news") as two:
            await track.write(b"hello")
            await track.write(b"world", end_of_group=True)
            await track.write(b"!", datagram=True)
            for heard in (one, two):
                got = {(await soon(anext(heard))).payload for _ in range(3)}
                assert got == {b"hello", b"world", b"!"}
        async with track.group() as group:
            await group.write(b"nobody listens")


async def test_a_stream_that_is_given_up_is_given_up_for_all(draft: str) -> None:
    async with (
        memory_relay(drafts=(draft,)) as relay,
        relay.connect() as alice,
        relay.connect() as bob,
    ):
        track = await soon(alice.publish("demo", "news"))
        async with bob.subscribe("demo", "news") as heard:
            group = track.group()
            await group.write(b"a")
            assert (await soon(anext(heard))).payload == b"a"
            group.abandon()
            await track.write(b"b")
            assert (await soon(anext(heard))).payload == b"b"


async def test_namespaces_are_told(draft: str) -> None:
    async with (
        memory_relay(drafts=(draft,)) as relay,
        relay.connect() as alice,
        relay.connect() as bob,
        bob.namespaces("demo") as news,
    ):
        track = await soon(alice.publish("demo/a", "x", announce=True))
        assert (await soon(anext(news))).path == "demo/a"
        async with relay.connect() as carol, carol.namespaces() as all_:
            assert isinstance(await soon(anext(all_)), laps_sdk.NamespaceAdded)
        await track.end()
        assert isinstance(await soon(anext(news)), laps_sdk.NamespaceRemoved)


async def test_what_it_does_not_do_is_refused(draft: str) -> None:
    async with memory_relay(drafts=(draft,)) as relay, relay.connect() as alice:
        with pytest.raises(laps_sdk.RequestRefusedError, match="NOT_SUPPORTED"):
            await soon(alice.track_status("demo", "x"))


async def test_the_end_of_a_track_is_told(draft: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        memory_relay(drafts=(draft,)) as relay,
        relay.connect() as alice,
        relay.connect() as bob,
    ):
        track = await soon(alice.publish("demo", "news"))
        async with bob.subscribe("demo", "news") as heard:
            await track.end()
            with pytest.raises(StopAsyncIteration):
                await soon(anext(heard))
