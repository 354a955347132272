"""The peer port in memory: dials, timers, samples, and the end of everything."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from laps_sdk.peering.dialler import Contact
from laps_sdk.peering.events import PeerDown
from laps_sdk.peering.server import PEER_ALPNS, PeerServer, PeerServerConfig
from laps_sdk.quic.endpoint import open_endpoint
from laps_sdk.quic.engine import EngineOptions
from laps_sdk.quic.memory.network import MemoryNetwork
from laps_wire.nodeid import NodeId
from laps_wire.peering.errors import CloseCode
from testkit.fake_connection import Recorder
from testkit.peer_relay import PeeringRelay, PeerTask, eventually

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def two(tmp_path: Path, **more: Any) -> AsyncIterator[tuple[PeerTask, PeerTask]]:
    """Two relays in memory; the first has dialled the second."""
    network = MemoryNetwork()
    tasks = []
    for number in (10, 20):
        state = tmp_path / str(number)
        state.mkdir()
        tasks.append(PeerTask(number, state, backend="memory", network=network, **more))
    async with tasks[0] as a, tasks[1] as b:
        a.dial(b)
        await eventually(lambda: a.nodes() == [20] and b.nodes() == [10])
        yield a, b


def test_both_protocols_are_spoken() -> None:
    assert PEER_ALPNS == ("laps-2", "moqt-16")


async def test_figures_are_taken_again_and_again(tmp_path: Path) -> None:
    async with two(tmp_path) as (a, _):
        await eventually(lambda: a.relay.rtts)
        a.relay.rtts.clear()
        await eventually(lambda: a.relay.rtts)


async def test_observers_are_told_behind_every_turn(tmp_path: Path) -> None:
    async with two(tmp_path) as (a, b):
        turns: list[float] = []
        a.server.on_turn = turns.append
        b.relay.peers.close_all(b.server.now, CloseCode.NO_ERROR, "enough")
        b.server.settle()
        await eventually(lambda: a.relay.of(PeerDown))
        assert turns


async def test_a_call_from_inside_goes_round_once_more(tmp_path: Path) -> None:
    async with two(tmp_path) as (a, _):
        calls = []

        def observer(now: float) -> None:
            calls.append(now)
            if len(calls) < 3:
                a.server.settle()

        a.server.on_turn = observer
        a.server.settle()
        assert len(calls) == 3


async def test_dials_that_lead_nowhere_are_told(tmp_path: Path) -> None:
    async with two(tmp_path) as (a, _):
        a.dial(Contact(address="no contact at all"), Contact(address="127.0.0.1:x"))
        await eventually(lambda: len(a.relay.reports) == 2)
        assert all("is no contact" in report.reason for report in a.relay.reports)


@pytest.mark.parametrize("host", ["a..b", "x" * 70, "\udc80"])
async def test_names_that_nobody_can_have_are_told(tmp_path: Path, host: str) -> None:
    async with two(tmp_path) as (a, _):
        a.dial(Contact(address=f"{host}:1"))
        await eventually(lambda: a.relay.reports)
        assert "is no contact" in a.relay.reports[0].reason


async def test_a_dial_that_breaks_is_told_and_not_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two(tmp_path) as (a, _):
        broken: list[BaseException | None] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: broken.append(context.get("exception")))

        async def connect(*_: object, **__: object) -> None:
            raise RuntimeError("a fault of ours")

        monkeypatch.setattr(a.server._endpoint, "connect", connect)
        a.dial(Contact(address="127.0.0.1:9"))
        await eventually(lambda: a.relay.reports)
        assert a.relay.reports[0].reason == "a fault of ours"
        a.relay.reports.clear()
        await eventually(lambda: (gc.collect(), broken)[1])
        assert str(broken[0]) == "a fault of ours"


async def test_who_does_not_answer_in_time_is_told(tmp_path: Path) -> None:
    state = tmp_path / "a"
    state.mkdir()
    task = PeerTask(10, state, backend="memory", network=MemoryNetwork(), dial_timeout=0.05)
    async with task as a:
        a.dial(Contact(address="127.0.0.1:9"))
        await eventually(lambda: a.relay.reports)
        assert "cannot connect" in a.relay.reports[0].reason


async def test_dials_under_way_are_given_up_at_the_end(tmp_path: Path) -> None:
    state = tmp_path / "a"
    state.mkdir()
    async with PeerTask(10, state, backend="memory", network=MemoryNetwork()) as a:
        a.dial(Contact(address="127.0.0.1:9"))
        await asyncio.sleep(0)
        await a.server.stop()
        assert a.relay.reports == []
        await a.server.stop()


async def test_the_end_is_told_to_peers(tmp_path: Path) -> None:
    async with two(tmp_path) as (a, b):
        await b.server.stop(CloseCode.DRAINED, "off")
        await eventually(lambda: a.relay.of(PeerDown))
        assert a.relay.of(PeerDown)[0].code == CloseCode.DRAINED
        assert b.relay.peers.control_of(NodeId(10)) is None


async def test_other_protocols_are_not_for_this_port(tmp_path: Path) -> None:
    network = MemoryNetwork()
    state = tmp_path / "a"
    state.mkdir()
    async with PeerTask(10, state, backend="memory", network=network) as a:
        recorder = Recorder()
        port = a.server._port
        endpoint = await open_endpoint(
            backend="memory", network=network, options=EngineOptions(alpn=("other",))
        )
        try:
            connection = await endpoint.connect(
                a.server.address, handler=recorder, alpn=("laps-2",), timeout=30.0
            )
            a.server.config = PeerServerConfig(alpns=("moqt-16",))
            port(connection, None).handle_events([])
            assert connection.closed
        finally:
            await endpoint.close()


async def test_certificates_are_read_again(tmp_path: Path) -> None:
    async with two(tmp_path) as (a, _):
        a.server.reload_certificate()


def test_a_port_that_is_not_open_has_no_address(tmp_path: Path) -> None:
    task = PeerTask(10, tmp_path)
    with pytest.raises(RuntimeError, match="not open"):
        _ = task.server.address
    with pytest.raises(RuntimeError, match="not open"):
        _ = task.server.now


async def test_timers_of_the_relay_come_true(tmp_path: Path) -> None:
    """A relay that only wants to be woken is woken."""
    state = tmp_path / "a"
    state.mkdir()
    woken: list[float] = []

    class Sleepy(PeeringRelay):
        def poll_timeout(self) -> float | None:
            return None if woken else begun + 0.01

        def handle_timeout(self, now: float) -> None:
            woken.append(now)

    begun = asyncio.get_running_loop().time()
    helper = PeerTask(10, state)
    relay = Sleepy(10, helper.relay.peers._authenticator)
    server = PeerServer(PeerServerConfig(backend="memory"), relay, network=MemoryNetwork())
    await server.start()
    await eventually(lambda: woken)
    await server.stop()
    assert woken[0] >= begun


async def test_connections_are_sampled_again_and_again(tmp_path: Path) -> None:
    sampled: list[float] = []
    relay = PeerTask(10, tmp_path).relay
    config = PeerServerConfig(backend="memory", sample_interval=0.01)
    server = PeerServer(config, relay, network=MemoryNetwork())
    server.on_sample = sampled.append
    await server.start()
    await eventually(lambda: len(sampled) > 1)
    await server.stop()
    assert sampled[1] > sampled[0]
