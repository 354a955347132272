"""Namespaces and tracks below a prefix."""

from __future__ import annotations

import asyncio

import pytest

import laps_sdk
from laps_sdk import Location, NamespaceAdded, NamespaceRemoved, TrackAdded, TrackRemoved
from laps_wire.errors import StateError
from laps_wire.moqt.codepoints import PUBLISH_DONE_CODES, RequestErrorCode, SubscribeOptions
from laps_wire.moqt.keyvalue import KeyValue
from laps_wire.moqt.messages import PublishNamespace, SubscribeNamespace, SubscribeTracks
from laps_wire.moqt.parameters import Parameters
from laps_wire.moqt.session import (
    RequestAccepted,
    RequestCancelled,
    RequestRejected,
    SetupReceived,
    UpdateReceived,
)
from laps_wire.moqt.setup import SetupOptions
from laps_wire.moqt.top_n import TOP_N_OPTION, TOP_N_PARAMETER
from laps_wire.names import FullTrackName, Namespace
from testkit.moqt_server import ServerPeer, eventually, joined, soon

pytestmark = pytest.mark.anyio

VIDEO = FullTrackName(Namespace.of(b"demo", b"x"), b"video")


async def watching(session: laps_sdk.Session, peer: ServerPeer) -> tuple[laps_sdk.Tracks, int]:
    """Tracks below demo, and the request behind it."""
    tracks = session.tracks("demo")
    entering = asyncio.create_task(tracks.__aenter__())
    message = SubscribeTracks if session.draft == "moqt-18" else SubscribeNamespace
    asked = await peer.request(message)
    if isinstance(asked.message, SubscribeNamespace):
        assert asked.message.options is SubscribeOptions.PUBLISH
    peer.do(lambda s: s.accept(asked.request_id))
    await soon(entering)
    return tracks, asked.request_id


async def test_namespaces(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        names = session.namespaces("demo")
        first = asyncio.create_task(anext(names))
        asked = await peer.request(SubscribeNamespace)
        peer.do(lambda s: s.accept(asked.request_id))
        peer.do(lambda s: s.namespace(asked.request_id, Namespace.of(b"x")))
        added = await soon(first)
        assert added == NamespaceAdded(namespace=Namespace.of(b"demo", b"x"), path="demo/x")
        assert list(names.known) == [added.namespace]
        peer.do(lambda s: s.namespace_done(asked.request_id, Namespace.of(b"x")))
        assert isinstance(await soon(anext(names)), NamespaceRemoved)
        await names.close()
        await peer.expect(RequestCancelled)
        with pytest.raises(StopAsyncIteration):
            await anext(names)
        await names.close()


async def test_a_refusal(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        task = asyncio.create_task(anext(session.namespaces()))
        asked = await peer.request(SubscribeNamespace)
        peer.do(lambda s: s.reject(asked.request_id, RequestErrorCode.UNAUTHORIZED, "no"))
        with pytest.raises(laps_sdk.RequestRefusedError, match="UNAUTHORIZED: no"):
            await soon(task)


async def test_a_relay_that_ends_it(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        names = session.namespaces("demo")
        entering = asyncio.create_task(names.__aenter__())
        asked = await peer.request(SubscribeNamespace)
        peer.do(lambda s: s.accept(asked.request_id))
        await soon(entering)
        peer.do(lambda s: s.cancel(asked.request_id))
        with pytest.raises(laps_sdk.RequestError, match="demo: the relay ended the request"):
            await soon(anext(names))


async def test_tracks_come_and_go(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        tracks, _ = await watching(session, peer)
        ids: list[int] = []
        largest = Parameters(largest_object=Location(4, 4))
        peer.do(lambda s: ids.append(s.publish(VIDEO, 9, largest)))
        accepted = await peer.expect(RequestAccepted)
        assert accepted.message.parameters.forward is False
        assert await soon(anext(tracks)) == TrackAdded(
            track=VIDEO, path="demo/x video", largest=Location(4, 4)
        )
        peer.do(lambda s: s.publish(FullTrackName(Namespace.of(b"other"), b"x"), 10))
        await peer.expect(RequestRejected)
        code = PUBLISH_DONE_CODES[peer.draft].TRACK_ENDED
        peer.do(lambda s: s.publish_done(ids[0], code, 0))
        assert await soon(anext(tracks)) == TrackRemoved(track=VIDEO, path="demo/x video")
        await tracks.close()


async def test_a_subscription_wakes_an_offer(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        tracks, _ = await watching(session, peer)
        ids: list[int] = []
        peer.do(lambda s: ids.append(s.publish(VIDEO, 9)))
        await soon(anext(tracks))
        subscription = session.subscribe(VIDEO, priority=3)
        entering = asyncio.create_task(subscription.__aenter__())
        woken = await peer.expect(UpdateReceived)
        assert woken.message.parameters.forward is True
        assert woken.message.parameters.subscriber_priority == 3
        peer.do(lambda s: s.accept(woken.update_id))
        await soon(entering)
        peer.send_group(9, 0, [b"a"])
        assert (await soon(anext(subscription))).payload == b"a"
        await subscription.close()
        asleep = await peer.expect(UpdateReceived)
        assert asleep.message.parameters.forward is False
        peer.do(lambda s: s.accept(asleep.update_id))
        await tracks.close()
        await peer.expect(RequestCancelled)


async def test_an_offer_that_ends_ends_its_subscription(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        tracks, _ = await watching(session, peer)
        ids: list[int] = []
        peer.do(lambda s: ids.append(s.publish(VIDEO, 9)))
        await soon(anext(tracks))
        subscription = session.subscribe(VIDEO)
        entering = asyncio.create_task(subscription.__aenter__())
        woken = await peer.expect(UpdateReceived)
        peer.do(lambda s: s.accept(woken.update_id))
        await soon(entering)
        code = PUBLISH_DONE_CODES[peer.draft].TRACK_ENDED
        peer.do(lambda s: s.publish_done(ids[0], code, 0))
        with pytest.raises(StopAsyncIteration):
            await soon(anext(subscription))
        assert isinstance(await soon(anext(tracks)), TrackRemoved)


async def test_a_track_without_a_stream_is_told_all_the_same() -> None:
    async with joined("moqt-18") as (session, peer, _):
        tracks, request_id = await watching(session, peer)
        suffix = FullTrackName(Namespace.of(b"x"), b"video")
        peer.do(lambda s: s.publish_blocked(request_id, suffix))
        added = await soon(anext(tracks))
        assert added.track == VIDEO
        peer.do(lambda s: s.cancel(request_id))
        with pytest.raises(laps_sdk.RequestError, match="the relay ended the request"):
            await soon(anext(tracks))


async def test_tracks_are_forgotten_with_their_relay(draft: str) -> None:
    async with joined(draft) as (session, peer, server):
        tracks, _ = await watching(session, peer)
        peer.do(lambda s: s.publish(VIDEO, 9))
        await soon(anext(tracks))
        peer.do(lambda s: s.close(1, "restart"))
        assert isinstance(await soon(anext(tracks)), TrackRemoved)
        await server.session()
        await eventually(lambda: session.connected)


async def test_the_highest_tracks_of_a_prefix() -> None:
    knows = SetupOptions(unknown=(KeyValue(TOP_N_OPTION, 0),))
    async with joined("moqt-16", server_options=knows) as (session, peer, _):
        task = asyncio.create_task(session.tracks("demo", top_n=3).__aenter__())
        asked = await peer.request(SubscribeNamespace)
        assert asked.message.parameters.ignored == (KeyValue(TOP_N_PARAMETER, b"\x03"),)
        peer.do(lambda s: s.accept(asked.request_id))
        tracks = await soon(task)
        await tracks.close()


async def test_the_highest_tracks_of_all_prefixes(draft: str) -> None:
    async with joined(draft, top_n=5) as (session, peer, _):
        setup = next(event for event in peer.events if isinstance(event, SetupReceived))
        assert setup.options.unknown == (KeyValue(TOP_N_OPTION, 5),)
        with pytest.raises(StateError):
            await session.tracks("demo", top_n=3).__aenter__()


async def test_a_namespace_that_the_relay_does_not_want_any_more(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        publishing = asyncio.create_task(session.publish(VIDEO, announce=True))
        asked = await peer.request(PublishNamespace)
        peer.do(lambda s: s.accept(asked.request_id))
        track = await soon(publishing)
        peer.do(lambda s: s.cancel(asked.request_id))
        await peer.round_trip()
        await track.end()
        publishing = asyncio.create_task(session.publish(VIDEO, announce=True))
        asked = await peer.request(PublishNamespace)
        peer.do(lambda s: s.accept(asked.request_id))
        await soon(publishing)
