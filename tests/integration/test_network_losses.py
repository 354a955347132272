"""Relays that are killed, and a relay that is told to read its policy again, as real processes."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

import laps_sdk
from laps_relay.network.control_server.sharding import rendezvous
from laps_wire.errors import LapsError
from laps_wire.nodeid import NodeId
from testkit.logs import restored_logging
from testkit.network_show import Show
from testkit.network_task import LIMIT, network, until
from testkit.relay_process import RunningRelay, relay_process

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    with restored_logging():
        yield


async def test_a_control_server_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    """One of three: subscribes go on, their next server has them, and newcomers are served."""
    here = ("--peer-port", "0", "--state-dir", str(tmp_path))
    flags = ("--type", "control", "--node-id", "7:1", *here)
    quick = {"hold": "3s", "dynamic": False}
    with relay_process(*flags, LAPS_NETWORK__HOLD="3s") as killed:
        async with network(tmp_path) as net, asyncio.TaskGroup() as group:
            control = [await net.relay("control", killed.peers, network=quick)]
            control.append(await net.relay("control", killed.peers, *control, network=quick))
            left = await net.relay("edge", killed.peers, *control, network=quick)
            right = await net.relay("edge", left, killed.peers, *control, network=quick)
            await net.settled()
            names = {"0.7:0.1", *(each.node for each in control)}

            def has(*wanted: str) -> bool:
                """Whether both Edges have sessions with exactly these control servers."""
                return all(
                    {
                        str(row.node)
                        for row in edge.network.peers()
                        if row.relay_type == "control" and row.control
                    }
                    == set(wanted)
                    for edge in (left, right)
                )

            def held() -> bool:
                """Whether the one that is to be killed holds a subscribe of ours."""
                rows = right.network.relay.tables.subscribe_rows()
                keys = [row.key for row in rows if str(row.source) == right.node]
                nodes = [NodeId.parse(name) for name in names]
                return any(NodeId.parse("7:1") in rendezvous(key, nodes) for key in keys)

            await until(lambda: has(*names))
            shows, ears = [], []
            for number in count():
                show = Show(group, rate=50.0, track=f"track {number}")
                show.publish(left)
                ear = show.listen(right)
                await show.more(ear, numbers=5)
                shows.append(show)
                ears.append(ear)
                if number and held():
                    break
            killed.process.kill()
            # Before anybody has noticed, and afterwards.
            for name in ("at once", "later"):
                late = Show(group, rate=50.0, track=name)
                late.publish(left)
                newcomer = late.listen(right)
                await late.more(newcomer, numbers=5)
                shows.append(late)
                ears.append(newcomer)
                await until(lambda: has(*(each.node for each in control)))
            for show, ear in zip(shows, ears, strict=True):
                await show.more(ear, numbers=10)
                await show.whole(ear)
                show.stop()
            # Each of the two that are left has all of them.
            wanted = {row.key for row in right.network.relay.tables.subscribe_rows()}
            for server in control:
                rows = server.network.relay.tables.subscribe_rows()
                assert {row.key for row in rows} == wanted
            assert len(wanted) == len(shows)


async def test_a_via_that_is_killed_loses_nothing(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """The one in use, under 200 objects/s: what it had not forwarded is sent again."""
    flags = ("--type", "via", "--peer-port", "0", "--state-dir", str(tmp_path))
    quick = {"hold": "1s"}
    with relay_process(*flags, LAPS_NETWORK__HOLD="1s") as via:
        async with network(tmp_path) as net, asyncio.TaskGroup() as group:
            control = await net.relay("control", network=quick)
            left = await net.relay("edge", via.peers, control, network=quick)
            right = await net.relay("edge", via.peers, control, network=quick)
            await net.settled()
            show = Show(group, rate=200.0)
            show.publish(left)
            ear = show.listen(right)
            await show.more(ear, numbers=50)
            assert left.sends_to().isdisjoint({right.node})
            via.process.kill()
            await until(lambda: left.sends_to() == {right.node})
            before = show.sent
            await show.more(ear, numbers=200)
            await until(lambda: not ear.missing(before))
            assert not ear.told()
            assert ear.doubled() == []
            record_property("objects", before)
            show.stop()


US_ONLY = """
[regions.us]

[[track]]
name = "town meetings"
namespace = "net"
allow_regions = ["us"]
"""


def logged(relay: RunningRelay, event: str) -> list[dict[str, object]]:
    lines = relay.log.read_text(encoding="utf-8").splitlines()
    parsed = [json.loads(line) for line in lines if line.startswith("{")]
    return [line for line in parsed if line["event"] == event]


async def test_a_signal_reads_the_policy_again(tmp_path: Path) -> None:
    """Who is excluded is told; a file with a fault changes nothing, and the log says so."""
    file = tmp_path / "policy.toml"
    file.touch()
    flags = ("--type", "edge", "--peer-port", "0", "--state-dir", str(tmp_path))
    with relay_process(*flags, "--policy", str(file), "--region", "eu") as relay:

        def connect() -> laps_sdk.Session:
            pin = relay.certificate_sha256
            return laps_sdk.connect(relay.url, pin=pin, timeout=LIMIT, reconnect=False)

        async def listen(heard: asyncio.Event) -> str:
            """What a subscriber is told when it ends."""
            try:
                async with (
                    connect() as session,
                    session.subscribe("net", "numbers", wait=LIMIT) as numbers,
                ):
                    async for _ in numbers:
                        heard.set()
            except LapsError as error:
                return str(error)
            return ""

        async def publish() -> None:
            async with connect() as session:
                track = await session.publish("net", "numbers")
                while True:
                    await track.write(b"x", end_of_group=True)
                    await asyncio.sleep(0.02)

        async with asyncio.timeout(LIMIT), asyncio.TaskGroup() as group:
            publisher = group.create_task(publish())
            heard = asyncio.Event()
            listener = group.create_task(listen(heard))
            await heard.wait()
            file.write_text(US_ONLY, encoding="ascii")
            relay.signal(signal.SIGHUP)
            assert "region" in await listener
            assert len(logged(relay, "reloaded")) == 1

            file.write_text("[[track]]\nname = 7\n", encoding="ascii")
            relay.signal(signal.SIGHUP)
            refused = "reload refused, the old configuration stays"
            await until(lambda: logged(relay, refused))
            assert str(file) in str(logged(relay, refused)[0]["reason"])
            assert "region" in await listen(asyncio.Event())  # the last good one is in force

            file.write_text("", encoding="ascii")
            relay.signal(signal.SIGHUP)
            await until(lambda: len(logged(relay, "reloaded")) == 2)
            again = asyncio.Event()
            listener = group.create_task(listen(again))
            await again.wait()
            listener.cancel()
            publisher.cancel()
