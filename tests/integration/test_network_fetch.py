"""The past of a track across a network of real relays: FETCH and joining FETCH at another Edge."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import laps_sdk
from testkit.logs import restored_logging
from testkit.network_task import LIMIT, NetworkTask, RunningRelay, network, until

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    with restored_logging():
        yield


async def two_edges(net: NetworkTask, shape: str) -> tuple[RunningRelay, RunningRelay]:
    """Where a publisher and its readers are."""
    alone = {"dynamic": False}
    others: list[RunningRelay] = []
    if shape != "edge-edge":
        others.append(await net.relay("via", network=alone))
    if shape == "with a control server":
        others.append(await net.relay("control"))
    left = await net.relay("edge", *others, network=alone)
    right = await net.relay("edge", *(others or [left]), network=alone)
    await net.settled()
    await until(lambda: all(row.control for row in right.network.peers()))
    return left, right


async def fill(
    relay: RunningRelay, session: laps_sdk.Session, groups: range, *, size: int = 0
) -> laps_sdk.PublishedTrack:
    """Three objects in each group but the last, which has two and goes on."""
    track = await session.publish("net", "past", first=groups.start)
    for group in groups:
        for index in range(3 if group < groups[-1] else 2):
            await track.write(b"%d.%d" % (group, index) + b"." * size, end_of_group=index == 2)
    written = 3 * len(groups) - 1
    await until(
        lambda: [row.counters.objects_in for row in relay.app.server.relay.tracks()] == [written]
    )
    return track


async def announced(net: NetworkTask) -> None:
    """Whoever can be asked has heard of the track: the last relay, or the control server."""
    last = [each for each in net.relays if each.network.relay_type.name == "CONTROL"]
    await until((last or net.relays)[-1].network.relay.tables.announce_rows)


async def fetched(session: laps_sdk.Session, start: int, end: int) -> list[tuple[int, int]]:
    async with session.fetch("net", "past", start=start, end=end) as found:
        return [(obj.group, obj.object) async for obj in found]


def quiet(*relays: RunningRelay) -> bool:
    """Nothing of any FETCH is left."""
    return all(
        not len(relay.network.relay.fetches.asking) and not len(relay.network.relay.fetches.serving)
        for relay in relays
    )


@pytest.mark.parametrize("shape", ["edge-edge", "edge-via-edge", "with a control server"])
async def test_a_range_from_another_edge(tmp_path: Path, shape: str) -> None:
    async with network(tmp_path) as net:
        left, right = await two_edges(net, shape)
        async with left.connect() as alice, right.connect() as bob:
            await fill(left, alice, range(4))
            await announced(net)
            expected = [(group, index) for group in (1, 2) for index in range(3)]
            assert await fetched(bob, 1, 2) == expected
            await until(lambda: quiet(left, right))
            # The Edge has a group itself now of which it knows the end.
            carried = left.network.relay.plane.counters().streams_out
            assert await fetched(bob, 1, 1) == expected[:3]
            assert left.network.relay.plane.counters().streams_out == carried


@pytest.mark.parametrize("shape", ["edge-edge", "edge-via-edge"])
async def test_joining_in_the_middle_of_a_group(tmp_path: Path, shape: str) -> None:
    """A subscriber at another Edge has the present group from its start, and one before it."""
    async with network(tmp_path) as net:
        left, right = await two_edges(net, shape)
        async with left.connect() as alice, right.connect() as bob:
            track = await fill(left, alice, range(4))
            await announced(net)
            got: list[tuple[int, int]] = []
            async with bob.subscribe("net", "past", join=1, follow=True, wait=LIMIT) as objects:
                async for obj in objects:
                    got.append((obj.group, obj.object))
                    if len(got) == 5:
                        await track.write(b"live", end_of_group=True)
                    if len(got) == 6:
                        break
            assert got == [(2, 0), (2, 1), (2, 2), (3, 0), (3, 1), (3, 2)]
            await until(lambda: quiet(left, right))


async def test_a_track_that_nobody_has(tmp_path: Path) -> None:
    async with network(tmp_path) as net:
        _, right = await two_edges(net, "edge-edge")
        async with right.connect() as bob:
            with pytest.raises(laps_sdk.RequestRefusedError) as caught:
                await fetched(bob, 0, 1)
            assert caught.value.code_name == "DOES_NOT_EXIST"


async def test_a_range_that_nobody_has(tmp_path: Path) -> None:
    async with network(tmp_path) as net:
        left, right = await two_edges(net, "edge-edge")
        async with left.connect() as alice, right.connect() as bob:
            await fill(left, alice, range(2))
            await announced(net)
            with pytest.raises(laps_sdk.RequestRefusedError) as caught:
                await fetched(bob, 7, 8)
            assert caught.value.code_name == "INVALID_RANGE"
            await until(lambda: quiet(left, right))


async def test_a_reader_that_leaves_early(tmp_path: Path) -> None:
    async with network(tmp_path) as net:
        left, right = await two_edges(net, "edge-via-edge")
        async with left.connect() as alice, right.connect() as bob:
            await fill(left, alice, range(20), size=50_000)
            await announced(net)
            async with bob.fetch("net", "past", start=0, end=19, max_objects=1) as found:
                assert (await anext(found)).location == (0, 0)
            await until(lambda: quiet(left, right))
            assert await fetched(bob, 18, 18) == [(18, 0), (18, 1), (18, 2)]


async def test_a_long_answer(tmp_path: Path) -> None:
    """Megabytes, in many pieces."""
    async with network(tmp_path) as net:
        left, right = await two_edges(net, "edge-via-edge")
        async with left.connect() as alice, right.connect() as bob:
            await fill(left, alice, range(25), size=100_000)
            await announced(net)
            expected = [(group, index) for group in range(24) for index in range(3)]
            assert await fetched(bob, 0, 23) == expected
            await until(lambda: quiet(left, right))
