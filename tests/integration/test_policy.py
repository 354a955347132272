"""Another policy over real QUIC: who is left out is told at once and why; others notice nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import laps_sdk
from laps_wire.errors import LapsError
from testkit.logs import restored_logging
from testkit.network_show import Show
from testkit.network_task import LIMIT, RunningRelay, network, until

pytestmark = pytest.mark.anyio

US_ONLY = """
[regions.us]

[[track]]
name = "town meetings"
namespace = "net"
allow_regions = ["us"]
"""
NOT_BY_THE_VIA = """
[[track]]
name = "town meetings"
namespace = "net"
class = "near"

[classes.near.transit]
deny_nodes = ["9:1"]
"""
DEAF = """
[[import.subscribe.rule]]
name = "no trials abroad"
sources = ["3:1"]
action = "deny"
reason = "the trial is not open there"
"""


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    with restored_logging():
        yield


async def told(relay: RunningRelay) -> str:
    """What somebody who subscribes there is told when it ends."""
    async with (
        relay.connect(reconnect=False) as session,
        session.subscribe("net", "numbers", wait=LIMIT) as numbers,
    ):
        try:
            async for _ in numbers:
                pass
        except LapsError as error:
            return str(error)
    return ""


@pytest.mark.parametrize(
    ("rules", "where", "reason"),
    [
        (US_ONLY, ["left", "via", "right", "near"], "region"),
        (US_ONLY, ["left"], "region"),
        (NOT_BY_THE_VIA, ["left"], "node 0.9:0.1 is denied"),
        (DEAF, ["via"], "the trial is not open there"),
    ],
)
async def test_a_reload_ends_what_it_forbids_and_says_why(
    tmp_path: Path, rules: str, where: list[str], reason: str
) -> None:
    files = {name: tmp_path / f"{name}.toml" for name in ("left", "via", "right", "near")}
    for file in files.values():
        file.touch()

    def options(name: str, region: str = "us") -> dict[str, object]:
        return {"dynamic": False, "region": region, "policy": files[name]}

    async with network(tmp_path) as net, asyncio.TaskGroup() as group:
        via = await net.relay("via", node="9:1", network=options("via"))
        left = await net.relay("edge", via, node="1:1", network=options("left"))
        near = await net.relay("edge", left, node="2:1", network=options("near"))
        right = await net.relay("edge", via, node="3:1", network=options("right", "eu"))
        await net.settled()
        show = Show(group)
        show.publish(left)
        ears = [show.listen(left), show.listen(near)]
        excluded = group.create_task(told(right))
        await until(lambda: left.sends_to() == {near.node, via.node})
        await show.more(*ears)
        assert not excluded.done()
        relays = {"left": left, "via": via, "right": right, "near": near}
        for name in where:
            files[name].write_text(rules, encoding="ascii")
            assert relays[name].app.reload()
        assert reason in await excluded
        await show.more(*ears)
        await show.whole(*ears)
        show.stop()


async def test_the_publishers_own_relay_keeps_a_track_from_its_other_clients(
    tmp_path: Path,
) -> None:
    file = tmp_path / "policy.toml"
    file.touch()
    async with network(tmp_path) as net, asyncio.TaskGroup() as group:
        edge = await net.relay("edge", network={"region": "eu", "policy": file})
        show = Show(group)
        show.publish(edge)
        excluded = group.create_task(told(edge))
        await until(edge.app.view.subscriptions)
        file.write_text(US_ONLY, encoding="ascii")
        assert edge.app.reload()
        assert "region" in await excluded
        async with edge.connect(reconnect=False) as session:
            with pytest.raises(laps_sdk.RequestRefusedError, match="region"):
                async with session.subscribe("net", "numbers", wait=LIMIT):
                    pass
            with pytest.raises(laps_sdk.RequestRefusedError, match="region"):
                await anext(aiter(session.fetch("net", "numbers", start=(0, 0), end=(9, 0))))
        show.stop()
