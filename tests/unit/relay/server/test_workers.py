from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from laps_relay.config import RelayConfig
from laps_relay.server import StartError
from laps_relay.server.identity import key_ring, node_id_of, worker_node_id
from laps_relay.server.workers import Worker, Workers
from laps_relay.telemetry.logs import configure
from laps_sdk.errors import TransportError
from laps_wire.nodeid import NodeId
from testkit.logs import restored_logging
from testkit.network_task import until

LIMIT = 40.0


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    with restored_logging():
        yield


# A stand-in for a worker: says who it is, does what its words tell it, ends with its parent.
SCRIPT = """
import json, os, signal, sys
told = json.loads(sys.argv[1])
how = sys.argv[2]
done = []
signal.signal(signal.SIGTERM, lambda *_: done.append(1))
signal.signal(signal.SIGHUP, lambda *_: open(sys.argv[3], "a").write(f"{told['index']} reloads\\n"))
if how == "fails":
    sys.exit(7)
for fd in (told["client_fd"], told["peer_fd"]):
    os.fstat(fd)
print(json.dumps({"pid": os.getpid(), "node": told["node_id"], "url": "u", "admin": None}))
sys.stdout.flush()
if how == "dies":
    sys.exit(3)
signal.siginterrupt(signal.SIGTERM, True)
while not done or how == "stays":
    signal.sigtimedwait([], 0.05)
sys.exit(5 if how == "ends badly" and told["index"] == 1 else 0)
"""


def config(state: Path, workers: int = 2, **sections: dict[str, Any]) -> RelayConfig:
    return RelayConfig.model_validate(
        {
            "state_dir": state,
            "listen": {"client_port": 0, "drain_timeout": "0s", **sections.get("listen", {})},
            "network": {"workers": workers, "port": 0, **sections.get("network", {})},
        }
    )


class Rig:
    """Workers that are scripts."""

    def __init__(self, state: Path, how: str = "", *, workers: int = 2, **options: Any) -> None:
        self.out = io.StringIO()
        self.notes = state / "notes"
        self.notes.touch()
        self.how: Callable[[Worker], str] = lambda _: how
        sections = options.pop("sections", {})
        self.started: list[Worker] = []
        self.workers = Workers(
            config(state, workers, **sections),
            configure("json", "debug", self.out),
            self._command,
            shortest=0.01,
            **options,
        )

    def _command(self, worker: Worker) -> list[str]:
        self.started.append(worker)
        return [
            sys.executable,
            "-I",
            "-c",
            SCRIPT,
            worker.dump(),
            self.how(worker),
            str(self.notes),
        ]

    def logged(self, words: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.out.getvalue().splitlines()]
        return [line for line in lines if line["event"] == words]


def in_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(LIMIT):
            await test()

    asyncio.run(limited())


def test_all_are_started_told_to_reload_and_ended(tmp_path: Path) -> None:
    async def test() -> None:
        rig = Rig(tmp_path)
        told = await rig.workers.start()
        assert told["pid"] == os.getpid()
        assert told["url"] == "u"
        first, second = told["workers"]
        assert first["node"] != second["node"]
        one, two = sorted(rig.started, key=lambda worker: worker.index)
        assert one.client_port == two.client_port
        assert one.siblings == []
        (contact,) = two.siblings
        assert contact.startswith("127.0.0.1:")
        running = asyncio.create_task(rig.workers.run())
        rig.workers.reload()
        await until(lambda: rig.notes.read_text().count("reloads") == 2)
        rig.workers.request_stop()
        assert await running == 0
        assert rig.logged("worker ended") == []

    in_loop(test)


def test_the_worst_status_is_the_relays(tmp_path: Path) -> None:
    async def test() -> None:
        rig = Rig(tmp_path, "ends badly")
        await rig.workers.start()
        rig.workers.request_stop()
        assert await rig.workers.run() == 5

    in_loop(test)


def test_one_that_died_is_started_again(tmp_path: Path) -> None:
    async def test() -> None:
        rig = Rig(tmp_path)
        told = await rig.workers.start()
        running = asyncio.create_task(rig.workers.run())
        # First it cannot even start, then it ends at once, then it is well.
        rig.how = lambda _: {3: "fails", 4: "dies"}.get(len(rig.started), "")
        os.kill(told["workers"][1]["pid"], signal.SIGKILL)
        await until(lambda: len(rig.logged("worker started again")) == 2)
        statuses = [(line["worker"], line["status"]) for line in rig.logged("worker ended")]
        assert statuses == [(1, 137), (1, 7), (1, 3)]
        waits = [line["again_in"] for line in rig.logged("worker ended")]
        assert waits == sorted(waits)
        assert rig.started[-1] == rig.started[1]  # the same sockets, the same node id
        rig.workers.request_stop()
        assert await running == 0

    in_loop(test)


def test_nobody_is_started_again_once_all_shall_end(tmp_path: Path) -> None:
    async def test() -> None:
        rig = Rig(tmp_path, workers=1)
        told = await rig.workers.start()
        running = asyncio.create_task(rig.workers.run())
        rig.how = lambda _: "fails"
        os.kill(told["workers"][0]["pid"], signal.SIGKILL)
        await until(lambda: len(rig.logged("worker ended")) > 2)
        rig.workers.request_stop()
        await running
        begun = len(rig.started)
        await asyncio.sleep(0.05)  # longer than it would wait
        assert len(rig.started) == begun

    in_loop(test)


def test_one_that_does_not_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        monkeypatch.setattr("laps_relay.server.workers._GRACE", 0.0)
        rig = Rig(tmp_path, "stays", workers=1)
        await rig.workers.start()
        rig.workers.request_stop()
        assert await rig.workers.run() == 137
        assert rig.logged("worker does not end, it is killed")

    in_loop(test)


def test_if_one_cannot_start_none_does(tmp_path: Path) -> None:
    async def test() -> None:
        rig = Rig(tmp_path)
        rig.how = lambda worker: "fails" if worker.index else ""
        with pytest.raises(StartError, match=r"worker 1 did not start \(status 7\)"):
            await rig.workers.start()

    in_loop(test)


def test_a_port_that_another_relay_has_is_not_shared(tmp_path: Path) -> None:
    async def test() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
            rig = Rig(tmp_path, sections={"listen": {"client_port": port}})
            with pytest.raises(TransportError, match="already in use"):
                await rig.workers.start()

    in_loop(test)


def test_the_first_has_what_there_is_once(tmp_path: Path) -> None:
    async def test() -> None:
        admin = socket.socket()
        rig = Rig(
            tmp_path,
            admin_socket=admin,
            sections={"network": {"enabled": True, "host": "0.0.0.0", "node_id": "7:1"}},  # noqa: S104
        )
        await rig.workers.start()
        one, two = sorted(rig.started, key=lambda worker: worker.index)
        assert (one.admin_fd, two.admin_fd) == (admin.fileno(), None)
        assert (len(one.fds), len(two.fds)) == (3, 2)
        assert not one.local
        assert one.node_id == str(NodeId.parse("7:1"))
        (contact,) = two.siblings
        assert contact.startswith("127.0.0.1:")
        rig.workers.request_stop()
        assert await rig.workers.run() == 0

    in_loop(test)


def worker(index: int, **changes: Any) -> Worker:
    values = {"node_id": "1:2", "client_port": 5, "client_fd": 3, "peer_fd": 4, **changes}
    return Worker(index=index, **values)


def test_what_a_worker_does_otherwise(tmp_path: Path) -> None:
    def flags(told: Worker, **network: Any) -> dict[str, object]:
        given = config(tmp_path, network=network)
        return {key: value for key, (_, value) in told.flags(given).items()}

    alone = flags(worker(0))
    assert alone == {
        "network.enabled": True,
        "network.node_id": "1:2",
        "listen.client_port": 5,
        "network.host": "127.0.0.1",
        "network.port": 0,
        "network.contacts": [],
    }
    member = flags(worker(0), enabled=True)
    assert "network.host" not in member
    second = flags(worker(1, siblings=["127.0.0.1:9"]), enabled=True)
    assert second["network.peers"] == ["127.0.0.1:9"]
    assert second["admin.enabled"] is False
    assert "network.dynamic" not in second
    assert second["network.cpp_peers"] == second["network.cpp_contacts"] == []
    assert "network.cpp_peers" not in member
    assert flags(worker(1, local=False), enabled=True)["network.dynamic"] is False


def test_traces_of_workers_do_not_meet(tmp_path: Path) -> None:
    given = RelayConfig.model_validate({"observe": {"mlog_dir": tmp_path}})
    assert worker(1).flags(given)["observe.mlog_dir"][1] == tmp_path / "worker-1"


def test_what_the_parent_says_is_understood() -> None:
    told = worker(1, siblings=["a:1"], admin_fd=9)
    assert Worker.parse(told.dump()) == told
    for wrong in ("", "[]", "{}", '{"index": 1, "more": 2}'):
        with pytest.raises(StartError, match="--as-worker is for workers"):
            Worker.parse(wrong)


def test_node_ids_of_workers_stay_and_differ(tmp_path: Path) -> None:
    given = RelayConfig.model_validate({"state_dir": tmp_path, "network": {"port": 4711}})
    first = node_id_of(given, key_ring(given))
    ids = [worker_node_id(first, index) for index in range(20)]
    assert ids[0] == first
    assert len(set(ids)) == 20
    assert ids == [worker_node_id(first, index) for index in range(20)]
