"""A signed plan over real QUIC: posted, followed without a gap, refused, expired, from a file."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from laps_wire.nodeid import NodeId
from testkit.http import http_client
from testkit.logs import restored_logging
from testkit.network_show import Show
from testkit.network_task import network, until
from testkit.signed_plans import Signer, a_plan, an_entry

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    with restored_logging():
        yield


def now_us() -> int:
    return time.time_ns() // 1000


async def test_a_posted_plan_moves_data_to_its_via_and_an_operator_takes_it_back(
    tmp_path: Path,
) -> None:
    signer = Signer()
    plan_settings = {"keys": [str(signer.file(tmp_path))]}
    async with network(tmp_path) as net, asyncio.TaskGroup() as group:
        via = await net.relay("via", network={"region": "eu"})
        origin = await net.relay(
            "edge",
            via,
            network={"region": "us", "via_hold": "0.2s"},
            plan=plan_settings,
            admin={"enabled": True, "port": 0},
        )
        viewer = await net.relay("edge", via, origin, network={"region": "eu"})
        await net.settled()
        show = Show(group)
        show.publish(origin)
        seen = show.listen(viewer)
        await show.more(seen)
        assert origin.sends_to() == {viewer.node}
        entry = an_entry(NodeId.parse(origin.node), NodeId.parse(via.node))
        good = signer.sign(a_plan([entry], now_us=now_us()))
        async with http_client(str(origin.app.admin_url)) as http:
            wrong = await http.post("/v1/plan", content=good.replace(b'"eu"', b'"as"'))
            assert (wrong.status_code, wrong.json()["detail"]) == (409, "its signature is wrong")
            answer = await http.post("/v1/plan", content=good)
            assert answer.status_code == 200, answer.text
            assert answer.json()["entries"] == 1
            await until(lambda: origin.sends_to() == {via.node})
            await show.more(seen)
            gone = await http.delete("/v1/plan")
            assert gone.json()["id"] == ""
            again = await http.post("/v1/plan", content=good)
            assert "was followed already" in again.json()["detail"]
        await show.more(seen)
        await show.whole(seen)
        show.stop()
        outcomes = [line["outcome"] for line in origin.logged("plan")]
        assert outcomes == ["refused", "accepted", "reverted", "refused"]


async def test_a_plan_of_a_file_waits_for_its_via_and_ends_in_time(tmp_path: Path) -> None:
    signer = Signer()
    keys = [str(signer.file(tmp_path))]
    file = tmp_path / "plan.json"
    async with network(tmp_path) as net:
        via = await net.relay("via")
        plan = a_plan([an_entry(NodeId(0x0007_0000_0001), NodeId.parse(via.node))], now_us=now_us())
        file.write_bytes(signer.sign(plan))
        edge = await net.relay(
            "edge",
            via,
            network={"node_id": str(NodeId(0x0007_0000_0001))},
            plan={"file": str(file), "keys": keys},
        )
        await until(lambda: edge.network.plan().id == "world" or edge.network.plan().refusal)
        await net.settled()
        assert edge.app.reload()
        assert edge.network.plan().id == "world"
        short = a_plan(plan.entries, now_us=now_us(), version=2, lifetime_us=400_000)
        file.write_bytes(signer.sign(short))
        assert edge.app.reload()
        assert edge.network.plan().version == 2
        await until(lambda: edge.network.plan().id == "")
        assert edge.logged("plan")[-1]["outcome"] == "expired"
