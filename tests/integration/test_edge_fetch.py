"""The past of a track through a real relay: FETCH, track status, and what there is to find."""

from __future__ import annotations

import pytest

import laps_sdk
from laps_sdk import NamespaceAdded, NamespaceRemoved
from laps_sdk.edge.events import FetchRelayed, FetchServed
from laps_sdk.forwarding.interfaces import CacheLimits
from laps_wire.moqt.codepoints import RequestErrorCode
from laps_wire.moqt.data import FetchParser, MoqObject, ObjectCollector, decode_fetch_header
from laps_wire.moqt.messages import (
    AbsoluteJoiningFetch,
    Fetch,
    FetchOk,
    RelativeJoiningFetch,
    RequestError,
    Subscribe,
    SubscribeOk,
)
from laps_wire.moqt.structures import FetchTarget, Location
from laps_wire.moqt.versions import Draft
from laps_wire.names import FullTrackName, Namespace
from testkit.edge_task import Edge, client, edge_relay
from testkit.hostile import hostile
from testkit.moqt_server import eventually, soon

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

BOTH = pytest.mark.parametrize("draft", list(Draft), ids=lambda draft: draft.alpn)
TRACK = FullTrackName(Namespace((b"demo",)), b"video")


async def fill(
    edge: Edge, session: laps_sdk.Session, groups: range, *, size: int = 0
) -> laps_sdk.PublishedTrack:
    """Two objects in each group; then wait until the relay has them all."""
    track = await soon(session.publish("demo", "video", first=groups.start))
    for group in groups:
        for index in range(2):
            payload = b"%d.%d" % (group, index) + b"." * size
            await soon(track.write(payload, end_of_group=index == 1))
    last = groups.stop - 1
    written = 2 * len(groups)

    def arrived() -> bool:
        (row,) = edge.relay.tracks()
        return row.counters.objects_in == written and row.largest == Location(last, 1)

    await eventually(arrived)
    return track


async def fetched(session: laps_sdk.Session, start: int, end: int) -> list[tuple[int, int]]:
    found = session.fetch("demo", "video", start=start, end=end)
    return [(obj.group, obj.object) for obj in await soon(everything(found))]


async def everything(found: laps_sdk.Fetch) -> list[laps_sdk.Object]:
    return [obj async for obj in found]


@pytest.mark.parametrize("scheme", ["moqt", "https"])
@BOTH
async def test_a_range_from_the_cache(draft: Draft, scheme: str) -> None:
    async with (
        edge_relay() as edge,
        client(edge) as alice,
        client(edge, scheme, drafts=(draft.alpn,)) as bob,
    ):
        await fill(edge, alice, range(4))
        assert await fetched(bob, 1, 2) == [(1, 0), (1, 1), (2, 0), (2, 1)]
        assert [event.complete for event in edge.told(FetchServed)] == [True]
        assert edge.told(FetchRelayed) == []


@BOTH
async def test_a_publisher_without_history_and_a_cache_that_begins_later(draft: Draft) -> None:
    """The publisher says NOT_SUPPORTED; what the relay has is given all the same."""
    async with (
        edge_relay() as edge,
        client(edge) as alice,
        client(edge, drafts=(draft.alpn,)) as bob,
    ):
        await fill(edge, alice, range(5, 8))
        expected = [(group, index) for group in range(5, 8) for index in range(2)]
        assert await fetched(bob, 0, 7) == expected
        assert len(edge.told(FetchRelayed)) == 1
        assert [event.complete for event in edge.told(FetchServed)] == [False]


@BOTH
async def test_groups_that_were_evicted(draft: Draft) -> None:
    async with (
        edge_relay(cache=CacheLimits(max_groups=2)) as edge,
        client(edge) as alice,
        client(edge, drafts=(draft.alpn,)) as bob,
    ):
        await fill(edge, alice, range(6))
        assert await fetched(bob, 0, 5) == [(4, 0), (4, 1), (5, 0), (5, 1)]


@BOTH
async def test_what_a_purge_leaves(draft: Draft) -> None:
    async with (
        edge_relay() as edge,
        client(edge) as alice,
        client(edge, drafts=(draft.alpn,)) as bob,
    ):
        await fill(edge, alice, range(3))
        assert edge.relay.purge(TRACK) > 0
        with pytest.raises(laps_sdk.RequestRefusedError, match="keeps no history"):
            await fetched(bob, 0, 2)


@BOTH
async def test_what_was_never_published(draft: Draft) -> None:
    async with (
        edge_relay() as edge,
        client(edge) as alice,
        client(edge, drafts=(draft.alpn,)) as bob,
    ):
        with pytest.raises(laps_sdk.RequestRefusedError) as caught:
            await fetched(bob, 0, 3)
        assert caught.value.code_name == "DOES_NOT_EXIST"
        await fill(edge, alice, range(2))
        with pytest.raises(laps_sdk.RequestRefusedError) as caught:
            await fetched(bob, 5, 6)
        assert caught.value.code_name == "INVALID_RANGE"


@pytest.mark.parametrize(
    "target",
    [RelativeJoiningFetch(0, 1), AbsoluteJoiningFetch(0, 2)],
    ids=["relative", "absolute"],
)
@BOTH
async def test_joining(draft: Draft, target: FetchTarget) -> None:
    """One group before the present one, which is 3, up to where the subscription begins."""
    async with edge_relay() as edge, client(edge) as alice, hostile(edge, draft) as raw:
        track = await fill(edge, alice, range(4))
        raw.setup()
        raw.ask(Subscribe(0, TRACK))
        assert (await raw.answer(SubscribeOk)).parameters.largest_object == Location(3, 1)
        raw.ask(Fetch(2, target))
        assert (await raw.answer(FetchOk)).end_location in (Location(3, 2), Location(3, 0))
        past = await raw.data_stream(0)
        await raw.until(lambda: raw.ended(past))
        data = raw.received(past)
        header, used = decode_fetch_header(data, draft)
        assert header.request_id == 2
        found = ObjectCollector(FetchParser(draft)).feed(data[used:])
        got = [item.header.location for item in found if isinstance(item, MoqObject)]
        assert got == [(2, 0), (2, 1), (3, 0), (3, 1)]
        await soon(track.write(b"live", end_of_group=True))
        live = await raw.data_stream(1)
        await raw.until(lambda: raw.ended(live))
        assert raw.received(live).endswith(b"live")


@BOTH
async def test_joining_nothing(draft: Draft) -> None:
    async with edge_relay() as edge, hostile(edge, draft) as raw:
        raw.setup()
        raw.ask(Fetch(0, RelativeJoiningFetch(8, 1)))
        error = await raw.answer(RequestError)
        assert error.error_code == RequestErrorCode.INVALID_JOINING_REQUEST_ID


@BOTH
async def test_a_reader_that_leaves_early(draft: Draft) -> None:
    """A fetch that is given up leaves nothing behind."""
    async with (
        edge_relay() as edge,
        client(edge) as alice,
        client(edge, drafts=(draft.alpn,)) as bob,
    ):
        await fill(edge, alice, range(20), size=50_000)
        async with bob.fetch("demo", "video", start=0, end=19, max_objects=1) as found:
            assert (await soon(anext(found))).location == (0, 0)
        await eventually(lambda: all(row.fetches == 0 for row in edge.relay.sessions()))
        assert await fetched(bob, 18, 18) == [(18, 0), (18, 1)]


@BOTH
async def test_status_of_a_track(draft: Draft) -> None:
    async with (
        edge_relay() as edge,
        client(edge) as alice,
        client(edge, drafts=(draft.alpn,)) as bob,
    ):
        await fill(edge, alice, range(3))
        assert (await soon(bob.track_status("demo", "video"))).largest == (2, 1)
        with pytest.raises(laps_sdk.RequestRefusedError) as caught:
            await soon(bob.track_status("demo", "audio"))
        assert caught.value.code_name == "DOES_NOT_EXIST"


@pytest.mark.parametrize(
    ("prefix", "seen"),
    [("", ["a/one", "a/two", "b"]), ("a", ["a/one", "a/two"]), ("a/two", ["a/two"]), ("c", [])],
)
@BOTH
async def test_namespaces_below_a_prefix(draft: Draft, prefix: str, seen: list[str]) -> None:
    """Those that are there already, one that comes, and one that goes with its session."""
    async with edge_relay() as edge, client(edge) as alice:
        await soon(alice.publish("a/one", "t", announce=True))
        await soon(alice.publish("b", "t", announce=True))
        async with client(edge, drafts=(draft.alpn,)) as bob, bob.namespaces(prefix) as news:
            async with client(edge) as carol:
                await soon(carol.publish("a/two", "t", announce=True))
                found = [await soon(anext(news)) for _ in seen]
                assert all(isinstance(event, NamespaceAdded) for event in found)
                assert sorted(event.path for event in found) == seen
                assert len(edge.relay.namespaces()) == 3
            if "a/two" in seen:
                gone = await soon(anext(news))
                assert isinstance(gone, NamespaceRemoved)
                assert gone.path == "a/two"
            await eventually(lambda: len(edge.relay.namespaces()) == 2)
            assert len(news.known) == len([path for path in seen if path != "a/two"])
