from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import socket
from pathlib import Path

import pytest

from testkit.edge_thread import EdgeThread
from testkit.laps_command import laps


def test_this_machine_alone(tmp_path: Path) -> None:
    ended = laps("doctor", "--offline", LAPS_STATE_DIR=str(tmp_path))
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert "ok  python: 3." in ended.stdout
    assert "ok  laps-sdk: " in ended.stdout
    assert "    development certificate: none\n      laps-relay serve makes one" in ended.stdout
    assert "relay: " not in ended.stdout
    (tmp_path / "dev-cert.pem").touch()
    ended = laps("doctor", "--offline", LAPS_STATE_DIR=str(tmp_path))
    assert f"    development certificate: {tmp_path / 'dev-cert.pem'}\n" in ended.stdout


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    ended = laps("doctor", "--offline")
    assert ended.exit_code == 1
    assert "BAD aioquic: not installed\n      pip install aioquic\n" in ended.stdout
    assert "    qh3: none\n      optional: pip install 'laps-sdk[turbo]'\n" in ended.stdout


def test_a_relay_that_answers(edge: EdgeThread) -> None:
    ended = laps("doctor", edge.url(), "--json", LAPS_CA_FILE=edge.ca_file)
    assert (ended.exit_code, ended.stderr) == (0, "")
    *_, name, relay = map(json.loads, ended.stdout.splitlines())
    assert (name["check"], name["ok"]) == ("name", True)
    assert (relay["check"], relay["ok"]) == ("relay", True)
    assert "laps-relay, moqt-18" in relay["found"]


def test_a_certificate_that_we_do_not_know(edge: EdgeThread) -> None:
    ended = laps("doctor", edge.url())
    assert ended.exit_code == 1
    *_, fault, advice = ended.stdout.splitlines()
    assert fault.startswith("BAD relay: moqt://127.0.0.1")
    assert advice == "      give --ca-file, or --pin with the SHA-256 that the relay prints"


def test_nobody_answers() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as quiet:
        quiet.bind(("127.0.0.1", 0))
        url = f"moqt://127.0.0.1:{quiet.getsockname()[1]}"
        ended = laps("doctor", url, "--timeout", "0.2")
    assert ended.exit_code == 1
    *_, fault, advice = ended.stdout.splitlines()
    assert fault.startswith(f"BAD relay: {url}: ")
    assert "`laps-relay serve` starts one" in advice


def test_a_name_without_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr("laps_sdk.cli.doctor.socket.getaddrinfo", unknown)
    ended = laps("doctor", "moqt://nowhere.invalid")
    assert ended.exit_code == 1
    *_, fault, advice = ended.stdout.splitlines()
    assert fault.startswith("BAD name: nowhere.invalid: ")
    assert advice == "      is the host spelled right?"
