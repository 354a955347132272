"""Objects of the past."""

from __future__ import annotations

import asyncio

import pytest

import laps_sdk
from laps_sdk import Location, Object
from laps_wire.moqt.codepoints import GroupOrder, RequestErrorCode, SessionCode
from laps_wire.moqt.data import FetchHeader, FetchWriter, ObjectHeader, RangeEnd, RangeKind
from laps_wire.moqt.messages import Fetch, StandaloneFetch
from laps_wire.moqt.session import RequestCancelled, RequestReceived
from laps_wire.names import FullTrackName, Namespace
from testkit.moqt_server import ServerPeer, eventually, hurry, joined, link_of, soon

pytestmark = pytest.mark.anyio

VIDEO = FullTrackName(Namespace.of(b"demo"), b"video")


async def all_of(fetch: laps_sdk.Fetch) -> list[Object]:
    return [obj async for obj in fetch]


def accept(peer: ServerPeer, asked: RequestReceived) -> None:
    peer.do(lambda s: s.accept_fetch(asked.request_id, Location(9, 0)))


async def test_a_range_arrives_in_order(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        task = asyncio.create_task(all_of(session.fetch(VIDEO, start=(1, 2), end=3, priority=9)))
        asked = await peer.request(Fetch)
        assert isinstance(asked.message, Fetch)
        assert asked.message.target == StandaloneFetch(VIDEO, Location(1, 2), Location(3, 0))
        assert asked.message.parameters.subscriber_priority == 9
        accept(peer, asked)
        items = [(1, 2, b"a"), RangeEnd(RangeKind.NON_EXISTENT, 2, 5), (3, 0, b"b")]
        peer.send_fetch(asked.request_id, items)  # type: ignore[arg-type] # a list of both kinds
        got = await soon(task)
        assert [(obj.location, obj.payload) for obj in got] == [((1, 2), b"a"), ((3, 0), b"b")]
        assert not link_of(session).peer.session.open_requests


async def test_objects_may_come_before_the_answer(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        fetch = session.fetch(VIDEO, start=1, end=1, order="descending")
        task = asyncio.create_task(all_of(fetch))
        asked = await peer.request(Fetch)
        order = GroupOrder.DESCENDING
        peer.send_fetch(asked.request_id, [(1, 0, b"a")], order=order)
        accept(peer, asked)
        assert [obj.payload for obj in await soon(task)] == [b"a"]
        assert fetch.answer is not None
        assert fetch.answer.end_location == Location(9, 0)


async def test_a_refusal(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        task = asyncio.create_task(all_of(session.fetch(VIDEO, start=1, end=1)))
        asked = await peer.request(Fetch)
        peer.do(lambda s: s.reject(asked.request_id, RequestErrorCode.INVALID_RANGE, "empty"))
        with pytest.raises(laps_sdk.RequestRefusedError, match="INVALID_RANGE: empty"):
            await soon(task)


async def test_a_reset_stream_is_an_error_behind_the_objects(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        async with asyncio.timeout(20):
            fetch = session.fetch(VIDEO, start=1, end=2)
            entering = asyncio.create_task(fetch.__aenter__())
            asked = await peer.request(Fetch)
            accept(peer, asked)
            await entering
            stream = peer.send_fetch(asked.request_id, [(1, 0, b"a")], fin=False)
            assert (await anext(fetch)).payload == b"a"
            stream.reset(0)
            with pytest.raises(laps_sdk.RequestError, match="reset its stream with 0x0"):
                await anext(fetch)


async def test_leaving_early_cancels(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        fetch = session.fetch(VIDEO, start=1, end=2, max_objects=2)
        entering = asyncio.create_task(fetch.__aenter__())
        asked = await peer.request(Fetch)
        accept(peer, asked)
        await soon(entering)
        items = [(1, index, b"x" * 1000) for index in range(6)]
        peer.send_fetch(asked.request_id, items, fin=False)
        for _ in range(4):
            await soon(anext(fetch))
        await fetch.__aexit__(None, None, None)
        await peer.expect(RequestCancelled)


async def test_a_lost_connection_is_made_good(draft: str) -> None:
    async with joined(draft) as (session, first, server):
        fetch = session.fetch(VIDEO, start=1, end=2)
        entering = asyncio.create_task(fetch.__aenter__())
        asked = await first.request(Fetch)
        accept(first, asked)
        await soon(entering)
        first.send_fetch(asked.request_id, [(1, 0, b"a"), (1, 1, b"b")], fin=False)
        assert [(await soon(anext(fetch))).payload for _ in range(2)] == [b"a", b"b"]
        first.do(lambda s: s.close(SessionCode.INTERNAL_ERROR, "restart"))
        second = await server.session()
        asked = await second.request(Fetch)
        assert isinstance(asked.message, Fetch)
        assert asked.message.target == StandaloneFetch(VIDEO, Location(1, 2), Location(2, 0))
        accept(second, asked)
        second.send_fetch(asked.request_id, [(2, 0, b"c")])
        assert [obj.payload for obj in await soon(all_of(fetch))] == [b"c"]


async def test_a_lost_connection_that_stays_lost(draft: str) -> None:
    async with joined(draft, reconnect=False) as (session, peer, _):
        fetch = session.fetch(VIDEO, start=1, end=2)
        entering = asyncio.create_task(fetch.__aenter__())
        asked = await peer.request(Fetch)
        accept(peer, asked)
        await soon(entering)
        peer.do(lambda s: s.close(SessionCode.INTERNAL_ERROR, "gone"))
        with pytest.raises(laps_sdk.SessionClosedError, match="gone"):
            await soon(anext(fetch))


async def test_the_rest_may_be_refused(draft: str) -> None:
    async with joined(draft) as (session, first, server):
        fetch = session.fetch(VIDEO, start=1, end=2)
        entering = asyncio.create_task(fetch.__aenter__())
        asked = await first.request(Fetch)
        accept(first, asked)
        await soon(entering)
        first.do(lambda s: s.close(SessionCode.INTERNAL_ERROR, "restart"))
        second = await server.session()
        asked = await second.request(Fetch)
        second.do(lambda s: s.reject(asked.request_id, RequestErrorCode.DOES_NOT_EXIST, "empty"))
        with pytest.raises(laps_sdk.RequestRefusedError, match="empty"):
            await soon(anext(fetch))


async def test_a_malformed_object_ends_the_fetch(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        fetch = session.fetch(VIDEO, start=0, end=2)
        entering = asyncio.create_task(fetch.__aenter__())
        asked = await peer.request(Fetch)
        accept(peer, asked)
        await soon(entering)
        writer = FetchWriter(FetchHeader(asked.request_id), peer.draft)
        stream = peer.connection.open_unidirectional()
        # Nine groups before group 0 cannot be.
        header = ObjectHeader(0, 0, 0, 128, 1, extensions=b"\x3c\x09")
        stream.write(writer.start + writer.object(header, b"x"))
        with pytest.raises(laps_sdk.RequestError, match="reaches below 0"):
            await soon(anext(fetch))
        assert session.connected


async def test_a_refusal_is_the_end(draft: str) -> None:
    """Asking again for the next object must not wait for something that never comes."""
    async with joined(draft) as (session, peer, _):
        fetch = session.fetch(VIDEO, start=1, end=1)
        task = asyncio.create_task(anext(fetch))
        asked = await peer.request(Fetch)
        peer.do(lambda s: s.reject(asked.request_id, RequestErrorCode.INVALID_RANGE, "empty"))
        with pytest.raises(laps_sdk.RequestRefusedError):
            await soon(task)
        with pytest.raises(StopAsyncIteration):
            await soon(anext(fetch))


async def test_a_fetch_does_not_wait_forever_for_a_connection(draft: str) -> None:
    async with joined(draft) as (session, _, server):
        hurry(session, timeout=0.2)
        await server.stop()
        await eventually(lambda: not session.connected)
        with pytest.raises(laps_sdk.RequestTimeoutError, match="still being tried"):
            await soon(all_of(session.fetch(VIDEO, start=1, end=1)))
        with pytest.raises(laps_sdk.RequestTimeoutError, match="still being tried"):
            await soon(session.track_status(VIDEO))


async def test_closing_while_the_rest_is_asked_for(draft: str) -> None:
    async with joined(draft) as (session, first, server):
        fetch = session.fetch(VIDEO, start=1, end=2)
        task = asyncio.create_task(anext(fetch))
        asked = await first.request(Fetch)
        accept(first, asked)
        first.send_fetch(asked.request_id, [(1, 0, b"a")], fin=False)
        await soon(task)
        first.do(lambda s: s.close(SessionCode.INTERNAL_ERROR, "restart"))
        second = await server.session()
        again = await second.request(Fetch)
        await fetch.close()
        accept(second, again)
        await second.expect(RequestCancelled)
        link = link_of(session)
        await eventually(lambda: not link.peer.session.open_requests)


async def test_all_has_come_but_the_end_was_lost(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        task = asyncio.create_task(all_of(session.fetch(VIDEO, start=1, end=(1, 0))))
        asked = await peer.request(Fetch)
        accept(peer, asked)
        peer.send_fetch(asked.request_id, [(1, 0, b"a")], fin=False)
        await peer.round_trip()
        peer.do(lambda s: s.close(SessionCode.INTERNAL_ERROR, "restart"))
        assert [obj.payload for obj in await soon(task)] == [b"a"]


async def test_a_fetch_that_is_not_read_ends_with_an_error_and_not_with_a_hole(draft: str) -> None:
    """Where the transport cannot hold the relay back there is an end to what is kept."""
    async with joined(draft) as (session, peer, _):
        fetch = session.fetch(VIDEO, start=1, end=1, max_objects=2)
        entering = asyncio.create_task(fetch.__aenter__())
        asked = await peer.request(Fetch)
        accept(peer, asked)
        await soon(entering)
        peer.send_fetch(asked.request_id, [(1, n, b"a") for n in range(20)])
        with pytest.raises(laps_sdk.RequestError, match="taken fast enough"):
            await soon(all_of(fetch))


async def test_the_stream_may_end_before_the_answer(draft: str) -> None:
    async with joined(draft) as (session, peer, _):
        fetch = session.fetch(VIDEO, start=1, end=1)
        task = asyncio.create_task(all_of(fetch))
        asked = await peer.request(Fetch)
        peer.send_fetch(asked.request_id, [(1, 0, b"a")])
        await peer.round_trip()
        accept(peer, asked)
        assert [obj.payload for obj in await soon(task)] == [b"a"]
        link = link_of(session)
        assert not link.peer.session.open_requests
