from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from laps_relay.cli import systemd


def test_a_message_to_systemd(tmp_path: Path) -> None:
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(path)
        assert systemd.notify("READY=1", {"NOTIFY_SOCKET": path})
        assert sock.recv(100) == b"READY=1"


def test_an_abstract_socket() -> None:
    name = f"laps-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(f"\0{name}")
        assert systemd.notify("STOPPING=1", {"NOTIFY_SOCKET": f"@{name}"})
        assert sock.recv(100) == b"STOPPING=1"


def test_nobody_asked_or_nobody_listens(tmp_path: Path) -> None:
    assert not systemd.notify("READY=1", {})
    assert not systemd.notify("READY=1", {"NOTIFY_SOCKET": str(tmp_path / "none")})


def test_sockets_of_another_process_are_left_alone() -> None:
    assert systemd.take_sockets({}) == systemd.Sockets()
    assert systemd.take_sockets({"LISTEN_PID": "1", "LISTEN_FDS": "2"}) == systemd.Sockets()
    mine = str(os.getpid())
    assert systemd.take_sockets({"LISTEN_PID": mine, "LISTEN_FDS": "many"}) == systemd.Sockets()


def test_sockets_are_told_apart_by_their_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = [socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_DGRAM]
    numbers = [socket.socket(socket.AF_INET, kind).detach() for kind in kinds]
    # Handed over in a row, from 3 on; here they are wherever there was room.
    made = iter(numbers)
    original = socket.socket
    monkeypatch.setattr(
        "laps_relay.cli.systemd.socket.socket", lambda **_: original(fileno=next(made))
    )
    environment = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "3"}
    quic, admin, _ = systemd.take_sockets(environment)
    assert quic is not None
    assert admin is not None
    assert (admin.fileno(), quic.fileno()) == (numbers[0], numbers[1])
    assert not quic.getblocking()
    quic.close()
    admin.close()
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(numbers[2])
