from __future__ import annotations

import gc
import json
import os
import signal
import socket
import subprocess
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from laps_relay.cli import app
from laps_relay.cli.serve import (
    THRESHOLDS,
    Sockets,
    announce,
    notify,
    rare_collections,
    take_sockets,
)
from laps_relay.server.workers import Worker
from testkit.logs import restored_logging

LIMIT = 90.0
COMMAND = (sys.executable, "-c", "from laps_relay.cli import main; main()", "serve")


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    with restored_logging():
        yield


@contextmanager
def serving(state: Path, *flags: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [*COMMAND, "--port", "0", "--admin-port", "0", "--state-dir", str(state), *flags],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_without_a_configuration_it_says_how_to_try_it(tmp_path: Path) -> None:
    with serving(tmp_path) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(5)]
        words = [line.split() for line in lines]
        assert [line[0] for line in words] == ["relay", "certificate", "admin", "try", "with"]
        url, digest = words[0][1], words[1][2]
        assert lines[3] == f"try          laps sub {url} demo clock --pin {digest}\n"
        assert lines[4].startswith(f"with         laps pub {url} demo clock -m hello --wait-")
        # Both work as printed, on a terminal each.
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        sub = subprocess.Popen(
            [*words[3][1:], "--count", "1"],
            env={**os.environ, "PATH": path},
            stdout=subprocess.PIPE,
        )
        try:
            subprocess.run(
                words[4][1:],
                env={**os.environ, "PATH": path},
                timeout=2 * LIMIT,
                check=True,
            )
            said, _ = sub.communicate(timeout=LIMIT)
        finally:
            sub.kill()
            sub.wait()
        assert said == b"hello"
        assert httpx.get(f"{words[2][1]}readyz", timeout=LIMIT).text == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT) == 0


def test_signals_and_systemd(tmp_path: Path) -> None:
    config = tmp_path / "relay.toml"
    config.write_text('[observe]\nlog_level = "info"\n', encoding="ascii")
    place = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(place)
        heard.settimeout(LIMIT)
        flags = ("--json", "--config", str(config))
        with serving(tmp_path / "state", *flags, NOTIFY_SOCKET=place) as process:
            assert process.stdout is not None
            told = json.loads(process.stdout.readline())
            assert told["pid"] == process.pid
            assert heard.recv(100) == b"READY=1"
            for text in ("nonsense = 1\n", '[cache]\nmax_age = "5s"\n'):
                config.write_text(text, encoding="ascii")
                process.send_signal(signal.SIGHUP)
                assert heard.recv(100) == b"RELOADING=1"
                assert heard.recv(100) == b"READY=1"
            rows = httpx.get(f"{told['admin']}/v1/config", timeout=LIMIT).json()
            assert {"key": "cache.max_age", "value": "5s", "source": f"{config}:2"} in rows
            process.send_signal(signal.SIGTERM)
            assert heard.recv(100) == b"STOPPING=1"
            _, errors = process.communicate(timeout=LIMIT)
            assert process.returncode == 0
            events = [json.loads(line)["event"] for line in errors.splitlines()]
            assert events == [
                "relay started",
                "reload refused, the old configuration stays",
                "reloaded",
            ]


def failure(*flags: str | int | Path) -> str:
    ended = CliRunner().invoke(app, ["serve", "--log-level", "error", *map(str, flags)])
    assert ended.exit_code == 2, ended.output
    assert ended.stderr.count("\n") == 1, ended.stderr
    assert ended.stderr.startswith("laps-relay: ")
    return ended.stderr


def test_a_taken_port_is_one_line(tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        words = failure("--port", port, "--admin-port", 0, "--state-dir", tmp_path)
    assert f"port {port}/udp: Address already in use; choose another" in words


def test_what_is_wrong_is_one_line(tmp_path: Path) -> None:
    state = ("--port", 0, "--admin-port", 0, "--state-dir", tmp_path)
    flags = [str(item) for item in state]
    assert "flag --transport: listen.transport" in failure("--transport", "pigeon")
    assert "cannot be read" in failure("--config", tmp_path / "none.toml")
    assert "key file" in failure("--auth-key", tmp_path / "none.json", *flags)
    assert "certificate" in failure("--certificate", tmp_path / "none.pem", *flags)
    assert "is not loopback" in failure("--admin-host", "::", *flags)


def test_a_worker_uses_what_it_inherits_and_ends_with_its_parent(tmp_path: Path) -> None:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as clients,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peers,
    ):
        for each in (clients, peers):
            each.bind(("127.0.0.1", 0))
        port = clients.getsockname()[1]
        told = Worker(
            index=1,
            node_id="7:1",
            client_port=port,
            client_fd=clients.fileno(),
            peer_fd=peers.fileno(),
            local=False,
        )
        process = subprocess.Popen(
            [*COMMAND, "--workers", "2", "--state-dir", str(tmp_path), "--as-worker", told.dump()],
            pass_fds=told.fds,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            assert process.stdin is not None
            said = json.loads(process.stdout.readline())
            assert said["url"] == f"moqt://127.0.0.1:{port}"
            assert said["peers"] == f"127.0.0.1:{peers.getsockname()[1]}"
            assert said["node"] == "0.7:0.1"
            assert said["admin"] is None
            process.stdin.close()
            assert process.wait(LIMIT) == 0
        finally:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()


def test_workers_that_cannot_be_had_are_one_line(tmp_path: Path) -> None:
    assert "is for workers that" in failure("--as-worker", "nonsense")
    assert "workers are Edges" in failure("--workers", 2, "--type", "via")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        words = failure("--workers", 2, "--port", port, "--state-dir", tmp_path)
    assert f"port {port}/udp: Address already in use" in words


def test_workers_take_no_socket_for_clients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as given:
        module = sys.modules["laps_relay.cli.serve"]  # the name is of the command, too
        monkeypatch.setattr(module, "take_sockets", lambda _environment: Sockets(quic=given))
        assert "hand over no UDP socket" in failure("--workers", 2, "--state-dir", tmp_path)


ALONE: dict[str, Any] = {
    "url": "moqt://127.0.0.1:1",
    "certificate_sha256": "aa",
    "admin": "http://127.0.0.1:2",
    "pid": 3,
}
MEMBER = {**ALONE, "node": "0.1:0.1", "type": "edge", "peers": "127.0.0.1:4"}


def said(
    capsys: pytest.CaptureFixture[str],
    told: dict[str, Any],
    *,
    development: bool = True,
    tokens: bool = False,
    as_json: bool = False,
) -> list[str]:
    announce(told, development=development, tokens=tokens, as_json=as_json)
    return capsys.readouterr().out.splitlines()


def test_for_programs_it_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = said(capsys, MEMBER, as_json=True)
    assert json.loads(line) == MEMBER


def test_for_people_it_says_how_to_try_it(capsys: pytest.CaptureFixture[str]) -> None:
    how = "-m hello --wait-subscriber 20 --pin aa"
    assert said(capsys, ALONE) == [
        "relay        moqt://127.0.0.1:1",
        "certificate  sha256 aa",
        "admin        http://127.0.0.1:2/",
        "try          laps sub moqt://127.0.0.1:1 demo clock --pin aa",
        f"with         laps pub moqt://127.0.0.1:1 demo clock {how}",
    ]
    lines = said(capsys, {**ALONE, "admin": None}, development=False, tokens=True)
    assert [line.split()[0] for line in lines] == ["relay", "certificate", "try", "with"]
    assert lines[2].endswith("clock --token-file FILE")


def test_a_member_of_a_network_says_who_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, {**MEMBER, "workers": [{}, {}]})
    assert lines[:3] == [
        "node         0.1:0.1 (edge)",
        "peers        127.0.0.1:4",
        "workers      2",
    ]
    via = said(capsys, {**MEMBER, "type": "via", "url": ""})
    assert [line.split()[0] for line in via] == ["node", "peers", "certificate", "admin"]


def test_a_message_to_systemd(tmp_path: Path) -> None:
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(path)
        assert notify("READY=1", {"NOTIFY_SOCKET": path})
        assert sock.recv(100) == b"READY=1"


def test_an_abstract_socket() -> None:
    name = f"laps-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(f"\0{name}")
        assert notify("STOPPING=1", {"NOTIFY_SOCKET": f"@{name}"})
        assert sock.recv(100) == b"STOPPING=1"


def test_nobody_asked_or_nobody_listens(tmp_path: Path) -> None:
    assert not notify("READY=1", {})
    assert not notify("READY=1", {"NOTIFY_SOCKET": str(tmp_path / "none")})


def test_sockets_of_another_process_are_left_alone() -> None:
    assert take_sockets({}) == Sockets()
    assert take_sockets({"LISTEN_PID": "1", "LISTEN_FDS": "2"}) == Sockets()
    mine = str(os.getpid())
    assert take_sockets({"LISTEN_PID": mine, "LISTEN_FDS": "many"}) == Sockets()


def test_sockets_are_told_apart_by_their_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = [socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_DGRAM]
    numbers = [socket.socket(socket.AF_INET, kind).detach() for kind in kinds]
    # Handed over in a row, from 3 on; here they are wherever there was room.
    made = iter(numbers)
    original = socket.socket
    monkeypatch.setattr(socket, "socket", lambda **_: original(fileno=next(made)))
    environment = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "3"}
    quic, admin, _ = take_sockets(environment)
    assert quic is not None
    assert admin is not None
    assert (admin.fileno(), quic.fileno()) == (numbers[0], numbers[1])
    assert not quic.getblocking()
    quic.close()
    admin.close()
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(numbers[2])


def test_collections_are_rare_inside_and_as_before_behind() -> None:
    before = gc.get_threshold()
    with rare_collections():
        assert gc.get_threshold() == THRESHOLDS
        assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


def test_cycles_that_are_made_inside_can_be_collected() -> None:
    class Node:
        def __init__(self) -> None:
            self.me = self

    with rare_collections():
        gone = weakref.ref(Node())
        gc.collect()
        assert gone() is None
