"""Sessions: how they begin, what they know, and what bad peers do to them."""

from __future__ import annotations

import asyncio

import pytest

import laps_sdk
from laps_sdk import Location
from laps_sdk.tokens.claims import from_text
from laps_wire.moqt.codepoints import AliasType, SessionCode
from laps_wire.moqt.data import SubgroupHeader
from laps_wire.moqt.messages import Subscribe, TrackStatus
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.session import SessionLimits, SetupReceived
from laps_wire.moqt.setup import SetupOptions
from testkit.moqt_server import (
    FAST,
    ServerPeer,
    eventually,
    hurry,
    joined,
    link_of,
    moqt_server,
    soon,
)

pytestmark = pytest.mark.anyio

WORD = "sesame"


async def subscribed(session: laps_sdk.Session, peer: ServerPeer) -> laps_sdk.Subscription:
    subscription = session.subscribe("demo", "x")
    task = asyncio.create_task(subscription.__aenter__())
    asked = await peer.request(Subscribe)
    peer.do(lambda s: s.accept_subscribe(asked.request_id, 7))
    await soon(task)
    return subscription


async def test_what_setup_says(draft: str) -> None:
    async with (
        moqt_server(draft, options=SetupOptions(moqt_implementation="a relay")) as server,
        laps_sdk.connect(f"{server.url}/live?x=1", network=server.network, token=WORD) as session,
    ):
        peer = await server.session()
        setup = await peer.expect(SetupReceived)
        assert setup.options.path == "/live?x=1"
        assert setup.options.authority == f"127.0.0.1:{server.port}"
        assert setup.options.moqt_implementation == "laps-sdk"
        token = setup.options.authorization_tokens[0]
        assert (token.alias_type, token.value) == (AliasType.USE_VALUE, from_text(WORD))
        assert session.relay == "a relay"
        assert session.draft == draft
        assert session.connected
        assert session.reconnects == 0


async def test_a_relay_that_speaks_another_draft() -> None:
    async with moqt_server("moqt-16") as server:
        wants = laps_sdk.connect(
            server.url, network=server.network, drafts=["moqt-18"], timeout=2.0
        )
        with pytest.raises(laps_sdk.ConnectError, match=r"moqt://127\.0\.0\.1"):
            await wants.__aenter__()


async def test_a_relay_that_closes_at_once() -> None:
    # In draft 16 the server speaks second: it can close before it has said anything.
    async with moqt_server("moqt-16") as server:

        async def refuse() -> None:
            peer = await server.session()
            peer.do(lambda s: s.close(SessionCode.INVALID_PATH, "not here"))

        refusing = asyncio.create_task(refuse())
        with pytest.raises(laps_sdk.ConnectError, match="INVALID_PATH: not here"):
            await laps_sdk.connect(server.url, network=server.network).__aenter__()
        await refusing


async def test_a_host_without_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise OSError("no such name")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", refuse)
    with pytest.raises(laps_sdk.ConnectError, match="has no address"):
        await laps_sdk.connect("moqt://nowhere.invalid").__aenter__()


async def test_a_bad_address_is_seen_before_anything_is_done() -> None:
    with pytest.raises(laps_sdk.LapsError, match="a good one is"):
        laps_sdk.connect("quic://x")


async def test_status(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        task = asyncio.create_task(session.track_status("demo", "video"))
        asked = await peer.request(TrackStatus)
        answer = Parameters(largest_object=Location(3, 4), expires=1500)
        peer.do(lambda s: s.accept(asked.request_id, answer))
        status = await soon(task)
        assert status.largest == Location(3, 4)
        assert status.expires == 1.5
        assert str(status.track) == "demo--video"
        assert status.properties.publisher_priority == 128


async def test_requests_wait_until_they_are_allowed() -> None:
    limits = SessionLimits(max_requests=2)
    async with joined("moqt-16", server_limits=limits) as (session, peer, _):
        tasks = [asyncio.create_task(session.track_status("demo", f"{n}")) for n in range(5)]
        for _ in range(5):
            asked = await peer.request(TrackStatus)
            request_id = asked.request_id
            peer.do(lambda s, i=request_id: s.accept(i))  # type: ignore[misc] # bound early on purpose
        for task in tasks:
            await soon(task)


async def test_blocked_requests_end_with_their_link() -> None:
    limits = SessionLimits(max_requests=1)
    async with joined("moqt-16", server_limits=limits, reconnect=False) as (session, peer, _):
        tasks = [asyncio.create_task(session.track_status("demo", f"{n}")) for n in range(2)]
        await peer.request(TrackStatus)
        peer.do(lambda s: s.close(1, "enough"))
        for task in tasks:
            with pytest.raises(laps_sdk.SessionClosedError, match="enough"):
                await soon(task)


# Bad peers


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x16", id="a subgroup id mode that is reserved"),
        pytest.param(b"\x10\x07", id="a header that is cut short"),
    ],
)
async def test_a_bad_stream_header_ends_the_link(draft: str, data: bytes) -> None:
    async with joined(draft, reconnect=False) as (_, peer, _server):
        peer.connection.open_unidirectional().write(data, True)
        await peer.until(lambda: peer.over is not None)
        assert peer.over is not None
        assert peer.over.code != 0


async def test_a_stream_that_ends_inside_an_object_ends_the_link(draft: str) -> None:
    async with joined(draft, reconnect=False) as (session, peer, _):
        await subscribed(session, peer)
        stream, writer = peer.stream(SubgroupHeader(7, 0))
        stream.write(writer.object_header(0, 100) + b"short", True)
        await peer.until(lambda: peer.over is not None)
        assert peer.over is not None
        assert peer.over.code == SessionCode.PROTOCOL_VIOLATION


async def test_a_bad_datagram_ends_the_link(draft: str) -> None:
    async with joined(draft, reconnect=False) as (_, peer, _server):
        peer.connection.send_datagram(b"\x3f")
        await peer.until(lambda: peer.over is not None)


async def test_an_object_that_is_too_large_ends_its_stream_only(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        subscription = await subscribed(session, peer)
        stream, writer = peer.stream(SubgroupHeader(7, 0))
        stream.write(writer.object_header(0, 1 << 40))
        await peer.until(lambda: peer.stopped != [])
        peer.send_group(7, 1, [b"fine"])
        assert (await soon(anext(subscription))).payload == b"fine"


async def test_a_malformed_track_ends_its_subscription_only(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        subscription = await subscribed(session, peer)
        stream, writer = peer.stream(SubgroupHeader(7, 0, has_extensions=True))
        gap = b"\x3c\x09"  # nine groups before group 0
        stream.write(writer.object(0, b"x", extensions=gap))
        with pytest.raises(laps_sdk.RequestError, match="reaches below 0"):
            await soon(anext(subscription))
        assert session.connected


async def test_streams_that_nobody_asked_for_are_refused(
    draft: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laps_sdk.client.link.MAX_EARLY_STREAMS", 2)
    monkeypatch.setattr("laps_sdk.client.link.MAX_EARLY_DATAGRAMS", 1)
    async with joined(draft) as (session, peer, _):
        link = link_of(session)
        first, writer = peer.stream(SubgroupHeader(99, 0))
        await peer.round_trip()
        first.write(writer.object(0, b"more"))
        for group in range(1, 4):
            peer.stream(SubgroupHeader(99, group))
        await peer.until(lambda: len(peer.stopped) == 2)
        assert link.incoming.discarded == 2
        last, _ = peer.stream(SubgroupHeader(99, 9))
        await peer.until(lambda: len(peer.stopped) == 3)
        last.reset(0)
        await peer.round_trip()
        for object_ in range(3):
            peer.send_datagram(99, 0, object_, b"x")
        await eventually(lambda: link.incoming.discarded == 5)


async def test_a_session_that_cannot_drain_ends_all_the_same(draft: str) -> None:
    async with moqt_server(draft) as server:
        session = laps_sdk.connect(server.url, network=server.network, backoff=FAST)
        await session.__aenter__()
        hurry(session, drain_timeout=0.01)
        peer = await server.session()
        publishing = asyncio.create_task(session.publish("demo", "x"))
        await peer.expect(SetupReceived)
        server.network.drop = lambda _: True
        publishing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await publishing
        await soon(session.close())
