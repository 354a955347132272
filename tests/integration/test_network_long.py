"""A track that is one stream without an end: it goes on when its way changes, and for newcomers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testkit.logs import restored_logging
from testkit.network_show import Show
from testkit.network_task import network, until
from testkit.relay_process import relay_process

pytestmark = pytest.mark.anyio

ENDLESS = 1 << 40
"""Objects of a group: more than any test sends."""
PATIENT: dict[str, Any] = {"listen": {"drain_timeout": "40s"}}
STATIC: dict[str, Any] = {"dynamic": False}


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    with restored_logging():
        yield


async def test_a_stream_goes_on_when_the_via_in_use_drains(tmp_path: Path) -> None:
    """Nothing is lost, nothing comes twice, and it goes on when the Via is gone."""
    async with network(tmp_path) as net, asyncio.TaskGroup() as group:
        vias = [await net.relay("via", **PATIENT) for _ in range(2)]
        left = await net.relay("edge", *vias, network=STATIC)
        right = await net.relay("edge", *vias, network=STATIC)
        await net.settled()
        show = Show(group)
        show.publish(left, per_group=ENDLESS)
        ears = [show.listen(right), show.listen(right)]
        await show.more(*ears)
        (used,) = left.sends_to()
        (leaving,) = (via for via in vias if via.node == used)
        await net.stop(leaving, drain=True)
        assert left.sends_to().isdisjoint({used})
        await show.more(*ears, numbers=100)
        await show.whole(*ears)
        assert all(len(set(ear.group_of.values())) == 1 for ear in ears)
        show.stop()


async def test_a_newcomer_at_another_edge_gets_the_rest_of_a_stream(tmp_path: Path) -> None:
    async with network(tmp_path) as net, asyncio.TaskGroup() as group:
        via = await net.relay("via")
        edges = [await net.relay("edge", via, network=STATIC) for _ in range(4)]
        await net.settled()
        show = Show(group)
        show.publish(edges[0], per_group=ENDLESS)
        ears = [show.listen(edges[1])]
        await show.more(*ears)
        for edge in edges[2:]:
            ears.append(show.listen(edge))
            await show.more(*ears)
        await show.whole(*ears)
        assert all(len(set(ear.group_of.values())) == 1 for ear in ears)
        show.stop()


async def test_a_stream_resumes_when_the_via_in_use_is_killed(tmp_path: Path) -> None:
    """What was under way is lost; the subscriber is told when the group has ended."""
    quick = {"hold": "2s", **STATIC}
    here = ("--type", "via", "--peer-port", "0", "--state-dir", str(tmp_path))
    with (
        relay_process(*here, "--node-id", "7:1", LAPS_NETWORK__HOLD="2s") as one,
        relay_process(*here, "--node-id", "8:1", LAPS_NETWORK__HOLD="2s") as other,
    ):
        async with network(tmp_path) as net, asyncio.TaskGroup() as group:
            left = await net.relay("edge", one.peers, other.peers, network=quick)
            right = await net.relay("edge", one.peers, other.peers, network=quick)
            await until(lambda: sum(row.sends for row in left.network.peers()) == 2)
            await until(lambda: sum(row.sends for row in right.network.peers()) == 2)
            await net.settled()
            show = Show(group)
            show.publish(left, per_group=ENDLESS)
            ear = show.listen(right)
            await show.more(ear)
            (used,) = left.sends_to()
            (one if used == "0.7:0.1" else other).process.kill()
            await until(lambda: left.sends_to() - {used})
            await show.more(ear, numbers=100)
            assert len(set(ear.group_of.values())) == 1
            show.group_ends = True
            await until(lambda: len(set(ear.group_of.values())) == 2)
            show.group_ends = True
            await until(lambda: len(set(ear.group_of.values())) == 3)
            assert ear.doubled() == []
            first = [
                number for number, at in ear.group_of.items() if at == min(ear.group_of.values())
            ]
            missing = sum(number not in ear.heard for number in range(min(first), max(first)))
            await until(lambda: sum(gap.objects or 0 for gap in ear.gaps) == missing)
            show.stop()


async def test_edges_dial_each_other_before_their_only_via_goes(tmp_path: Path) -> None:
    """A way that goes away is as good as none: another one is there before."""
    async with network(tmp_path) as net, asyncio.TaskGroup() as group:
        via = await net.relay("via", **PATIENT)
        left = await net.relay("edge", via)
        right = await net.relay("edge", via)
        await net.settled()
        show = Show(group)
        show.publish(left, per_group=ENDLESS)
        ear = show.listen(right)
        await show.more(ear)
        assert left.sends_to() == {via.node}
        await net.stop(via, drain=True)
        assert left.sends_to() == {right.node}
        await show.more(ear, numbers=100)
        await show.whole(ear)
        show.stop()


async def test_a_stream_goes_on_when_a_via_behind_another_one_drains(tmp_path: Path) -> None:
    """The o-relay sends to the same peer as before: it is told that something changed there."""
    async with network(tmp_path) as net, asyncio.TaskGroup() as group:
        vias = [await net.relay("via", **PATIENT) for _ in range(2)]
        first = await net.relay("via", *vias, network=STATIC)
        left = await net.relay("edge", first, network=STATIC)
        right = await net.relay("edge", *vias, network=STATIC)
        await net.settled()
        show = Show(group)
        show.publish(left, per_group=ENDLESS)
        ear = show.listen(right)
        await show.more(ear)
        (used,) = first.sends_to()
        (leaving,) = (via for via in vias if via.node == used)
        await net.stop(leaving, drain=True)
        assert first.sends_to().isdisjoint({used})
        await show.more(ear, numbers=100)
        await show.whole(ear)
        show.stop()


async def test_a_stream_of_a_stub_goes_on_when_its_parent_goes(tmp_path: Path) -> None:
    async with network(tmp_path) as net, asyncio.TaskGroup() as group:
        far = await net.relay("edge")
        parents = [await net.relay("edge", far, **PATIENT) for _ in range(2)]
        await net.settled()
        stub = await net.relay("stub", *parents)
        await until(lambda: sum(row.control for row in stub.network.peers()) == 2)
        show = Show(group)
        show.publish(stub, per_group=ENDLESS)
        ear = show.listen(far)
        await show.more(ear)
        (leaving,) = (each for each in parents if each.sends_to())
        await net.stop(leaving, drain=True)
        await show.more(ear, numbers=100)
        await show.whole(ear)
        show.stop()
