"""The client API through a real relay on loopback: both drafts, raw QUIC and WebTransport."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

import laps_sdk
from laps_sdk import Location, NamespaceAdded, NamespaceRemoved, TrackAdded, TrackRemoved
from laps_sdk.edge.authorization import Action, Decision
from laps_sdk.quic.moqt import DRAFTS
from laps_wire.moqt.codepoints import RequestErrorCode
from laps_wire.moqt.session import AuthToken
from laps_wire.names import Namespace
from testkit.edge_task import Edge, edge_relay
from testkit.moqt_server import FAST, eventually, soon

pytestmark = pytest.mark.anyio

SCHEMES = ["moqt", "https"]


@pytest.fixture(params=list(DRAFTS))
def draft(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def client(edge: Edge, scheme: str = "moqt", **options: object) -> laps_sdk.Session:
    return laps_sdk.connect(edge.url(scheme), ca_file=edge.ca_file, backoff=FAST, **options)  # type: ignore[arg-type] # options are as varied as their names


@pytest.mark.parametrize("announce", [False, True])
@pytest.mark.parametrize("scheme", SCHEMES)
async def test_publish_and_subscribe(draft: str, scheme: str, announce: bool) -> None:
    async with (
        edge_relay(drafts=(draft,)) as edge,
        client(edge, scheme) as alice,
        client(edge, scheme) as bob,
    ):
        assert (alice.draft, bob.draft) == (draft, draft)
        track = await soon(alice.publish("demo/camera", "video", announce=announce))
        async with bob.subscribe("demo/camera", "video") as heard:
            await soon(track.subscribed())
            for index in range(10):
                await soon(track.write(b"%d" % index, end_of_group=index % 4 == 3))
            got = [await soon(anext(heard)) for _ in range(10)]
            await track.end()
            with pytest.raises(StopAsyncIteration):
                await soon(anext(heard))
        assert sorted(int(obj.payload) for obj in got) == list(range(10))
        assert all(obj.latency is not None for obj in got)
        assert list(heard.gaps) == []
        assert alice.rtt is not None


async def test_large_objects(draft: str) -> None:
    payload = bytes(range(256)) * 8000
    async with edge_relay(drafts=(draft,)) as edge, client(edge) as alice, client(edge) as bob:
        track = await soon(alice.publish("demo", "large"))
        async with bob.subscribe("demo", "large") as heard:
            await soon(track.subscribed())
            for _ in range(3):
                await soon(track.write(payload, end_of_group=True))
            for _ in range(3):
                assert (await soon(anext(heard))).payload == payload


async def test_datagrams(draft: str) -> None:
    async with edge_relay(drafts=(draft,)) as edge, client(edge) as alice, client(edge) as bob:
        track = await soon(alice.publish("demo", "pulse"))
        async with bob.subscribe("demo", "pulse") as heard:
            await soon(track.subscribed())
            # Datagrams may be lost: one that arrives is enough.
            waiting = asyncio.create_task(anext(heard))
            while not waiting.done():
                await track.write(b"beat", datagram=True)
                await asyncio.sleep(0.01)
            obj = waiting.result()
            assert (obj.payload, obj.subgroup) == (b"beat", None)


async def test_subscribe_before_the_publisher(draft: str) -> None:
    async with edge_relay(drafts=(draft,)) as edge, client(edge) as alice, client(edge) as bob:
        heard = bob.subscribe("demo", "later", wait=15)
        waiting = asyncio.create_task(anext(heard))
        await eventually(lambda: heard._started)
        track = await soon(alice.publish("demo", "later"))
        await soon(track.subscribed())
        await soon(track.write(b"at last"))
        assert (await soon(waiting)).payload == b"at last"
        await heard.close()


async def test_fetch_and_join_from_the_cache(draft: str) -> None:
    async with edge_relay(drafts=(draft,)) as edge, client(edge) as alice, client(edge) as bob:
        track = await soon(alice.publish("demo", "video", first=1))
        async with bob.subscribe("demo", "video") as heard:
            await soon(track.subscribed())
            for group in range(4):
                for index in range(3):
                    payload = b"%d.%d" % (group, index)
                    await soon(track.write(payload, end_of_group=index == 2))
            for _ in range(12):
                await soon(anext(heard))
        async with asyncio.timeout(20):
            fetched = [o.location async for o in bob.fetch("demo", "video", start=2, end=(3, 1))]
        assert fetched == [(2, 0), (2, 1), (2, 2), (3, 0), (3, 1)]
        async with asyncio.timeout(20):
            back = [
                obj.group
                async for obj in bob.fetch("demo", "video", start=1, end=2, order="descending")
            ]
        assert back == [2, 2, 2, 1, 1, 1]
        async with client(edge) as carol, carol.subscribe("demo", "video", join=1) as late:
            joined = [(await soon(anext(late))).location for _ in range(6)]
            assert joined == [(3, 0), (3, 1), (3, 2), (4, 0), (4, 1), (4, 2)]
            await soon(track.write(b"live"))
            assert (await soon(anext(late))).location == (5, 0)
            assert list(late.gaps) == []


async def test_status(draft: str) -> None:
    async with edge_relay(drafts=(draft,)) as edge, client(edge) as alice, client(edge) as bob:
        track = await soon(alice.publish("demo", "video", first=5))
        async with bob.subscribe("demo", "video") as heard:
            await soon(track.subscribed())
            await soon(track.write(b"x"))
            await soon(anext(heard))
            status = await soon(bob.track_status("demo", "video"))
        assert status.largest == Location(5, 0)
        with pytest.raises(laps_sdk.RequestRefusedError) as caught:
            await soon(bob.track_status("demo", "nothing"))
        assert caught.value.code == RequestErrorCode.DOES_NOT_EXIST


@pytest.mark.parametrize("prefix", ["demo", ""])
async def test_namespaces_come_and_go(draft: str, prefix: str) -> None:
    async with (
        edge_relay(drafts=(draft,)) as edge,
        client(edge) as alice,
        client(edge) as bob,
        bob.namespaces(prefix) as news,
    ):
        track = await soon(alice.publish("demo/camera", "video", announce=True))
        added = await soon(anext(news))
        assert isinstance(added, NamespaceAdded)
        assert added.path == "demo/camera"
        await track.end()
        assert isinstance(await soon(anext(news)), NamespaceRemoved)


async def test_tracks_are_offered_and_taken(draft: str) -> None:
    async with (
        edge_relay(drafts=(draft,)) as edge,
        client(edge) as alice,
        client(edge) as bob,
        bob.tracks("demo") as news,
    ):
        track = await soon(alice.publish("demo/camera", "video"))
        added = await soon(anext(news))
        assert isinstance(added, TrackAdded)
        assert added.path == "demo/camera video"
        async with bob.subscribe(added.track) as heard:
            await soon(track.subscribed())
            await soon(track.write(b"hello"))
            assert (await soon(anext(heard))).payload == b"hello"
        await track.end()
        assert isinstance(await soon(anext(news)), TrackRemoved)


async def test_a_relay_that_restarts_is_found_again(draft: str) -> None:
    async with edge_relay(drafts=(draft,)) as edge, client(edge) as alice, client(edge) as bob:
        track = await soon(alice.publish("demo", "video"))
        async with bob.subscribe("demo", "video") as heard:
            await soon(track.subscribed())
            await soon(track.write(b"before"))
            assert (await soon(anext(heard))).payload == b"before"
            for port in list(edge.server.ports.values()):
                port.peer.session.close(0x1, "restart")
                port.peer.settle()
            await eventually(lambda: alice.reconnects == 1 and bob.reconnects == 1)
            await soon(track.subscribed())
            waiting = asyncio.create_task(anext(heard))
            while not waiting.done():
                await soon(track.write(b"after", new_group=True))
                await asyncio.sleep(0.01)
            assert waiting.result().payload == b"after"


class Closed:
    """Nobody may publish."""

    def authorize(
        self,
        now: float,
        action: Action,
        namespace: Namespace | None,
        name: bytes | None,
        tokens: Sequence[AuthToken],
        session_tokens: Sequence[AuthToken],
    ) -> Decision:
        allowed = bool(session_tokens) and session_tokens[0].value == b"sesame"
        return Decision(allowed=allowed or action is Action.CLIENT_SETUP, reason="no token")


async def test_a_refusal_says_why(draft: str) -> None:
    async with edge_relay(drafts=(draft,), authorizer=Closed()) as edge, client(edge) as alice:
        with pytest.raises(laps_sdk.RequestRefusedError, match="UNAUTHORIZED"):
            await soon(alice.publish("demo", "video"))
        async with client(edge, token=lambda: b"sesame") as bob:
            await soon(bob.publish("demo", "video"))


async def test_nobody_at_home() -> None:
    with pytest.raises(laps_sdk.ConnectError, match=r"127\.0\.0\.1"):
        async with laps_sdk.connect("moqt://127.0.0.1:9", timeout=0.3):
            pytest.fail("there is nobody")
