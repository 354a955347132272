from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.certs import certificates
from testkit.edge_thread import EdgeThread
from testkit.laps_command import LIMIT, laps, laps_process, one_fault


def test_this_machine_alone(tmp_path: Path) -> None:
    ended = laps("doctor", "--offline", LAPS_STATE_DIR=str(tmp_path))
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert "ok  python: 3." in ended.stdout
    assert "ok  laps-sdk: " in ended.stdout
    assert "    development certificate: none\n      `laps-relay serve` makes one" in ended.stdout
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
    assert (
        '    qh3: not installed\n      optional: pip install -e "packages/laps-sdk[turbo]"\n'
        in ended.stdout
    )


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
    assert "`laps-relay serve` starts a relay" in advice


def test_a_name_without_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr("laps_sdk.cli.doctor.socket.getaddrinfo", unknown)
    ended = laps("doctor", "moqt://nowhere.invalid")
    assert ended.exit_code == 1
    *_, fault, advice = ended.stdout.splitlines()
    assert fault.startswith("BAD name: nowhere.invalid: ")
    assert advice == "      is the host name spelled right?"


@pytest.fixture
def silent() -> Iterator[str]:
    """Where packets arrive and nobody answers."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as quiet:
        quiet.bind(("127.0.0.1", 0))
        yield f"moqt://127.0.0.1:{quiet.getsockname()[1]}"


def test_ping_answers_for_people(edge: EdgeThread) -> None:
    ended = laps("ping", edge.url(), "--ca-file", edge.ca_file, "-n", 2, "-i", 0, "--draft", 16)
    assert (ended.exit_code, ended.stderr) == (0, "")
    first, *answers = ended.stdout.splitlines()
    assert first.startswith("connected in ")
    assert first.endswith("moqt-16, laps-relay")
    assert [line.split(":")[0] for line in answers] == ["answer 0", "answer 1"]
    assert all("(DOES_NOT_EXIST)" in line for line in answers)


@pytest.mark.parametrize("scheme", ["moqt", "https"])
def test_ping_answers_for_programs(edge: EdgeThread, scheme: str) -> None:
    ended = laps(
        "ping", edge.url(scheme), "-n", 2, "-i", "0.01", "--json", LAPS_CA_FILE=edge.ca_file
    )
    assert (ended.exit_code, ended.stderr) == (0, "")
    first, *answers = map(json.loads, ended.stdout.splitlines())
    assert first["draft"] == "moqt-18"
    assert first["relay"] == "laps-relay"
    assert [answer["request"] for answer in answers] == [0, 1]
    assert all(answer["answer_ms"] > 0 for answer in answers)


def test_ping_a_pin_in_place_of_an_authority(edge: EdgeThread) -> None:
    pin = certificates().other_sha256.hex()
    assert laps("ping", edge.url(), "--pin", pin, "-n", 1).exit_code == 0


def test_ping_nobody_there(silent: str) -> None:
    ended = laps("ping", silent, "--timeout", "0.3")
    one_fault(ended, 1, f"laps ping: {silent}: ", "laps-relay serve")


def test_ping_a_certificate_that_we_do_not_know(edge: EdgeThread) -> None:
    one_fault(laps("ping", edge.url()), 1, "certificate was refused", "give --ca-file, or --pin")
    one_fault(laps("ping", edge.url(), "--pin", "ab" * 32), 1, "not pinned", "--pin")


def test_ping_one_line_is_all_that_a_shell_sees(edge: EdgeThread) -> None:
    with laps_process("ping", edge.url()) as process:
        out, err = process.communicate(b"", LIMIT)
    assert (process.returncode, out) == (1, b"")
    assert err.count(b"\n") == 1
    assert err.startswith(b"laps ping: moqt://")


def test_ping_an_authority_that_is_none(edge: EdgeThread, tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("hello")
    one_fault(laps("ping", edge.url(), "--ca-file", file), 1, file, "holds no PEM certificate")
